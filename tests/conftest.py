"""What every test shares: one profile of Hypothesis, and logging begun once, so that no test sees another's events."""

from hypothesis import settings

from deltabook.cli import start_logging

# Deadlines measure the machine, not the code.
settings.register_profile("deltabook", deadline=None, print_blob=True)
settings.load_profile("deltabook")

# Until logging is begun, Twisted keeps events and hands them to whoever begins it.
start_logging()
