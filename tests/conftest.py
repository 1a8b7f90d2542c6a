"""What every test shares: one profile of Hypothesis, and logging begun once, so that no test sees another's events."""

import os

from hypothesis import settings

from deltabook.cli import start_logging

# Deadlines measure the machine, not the code.
settings.register_profile("deltabook", deadline=None, print_blob=True)
settings.load_profile("deltabook")

# Kernels are interpreted unless a test asks for compiled ones: a test must not start a compiler that outlives it.
os.environ.setdefault("DELTABOOK_NATIVE", "off")

# Until logging is begun, Twisted keeps events and hands them to whoever begins it.
start_logging()
