"""`deltabook doctor`."""

import click


@click.command("doctor")
def command() -> None:
    """Say what this machine has, what is missing and how to mend it."""
