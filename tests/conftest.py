"""What every test shares: one profile of Hypothesis, so that a failure seen here is seen everywhere."""

from hypothesis import settings

# Deadlines measure the machine, not the code.
settings.register_profile("deltabook", deadline=None, print_blob=True)
settings.load_profile("deltabook")
