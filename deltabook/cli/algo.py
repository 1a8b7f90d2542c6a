"""`deltabook algo`: run strategies, look at them while they run, stop them, and check what they did."""

from __future__ import annotations

from typing import Final

import click

from deltabook.cli._groups import LazyGroup

__all__ = ["command"]

_PLACES: Final = {
    "run": ("_algo_run:run", "Run strategies on the views of a runtime, trading at an exchange."),
}
"""Command → where it is, and what it does."""


@click.group("algo", cls=LazyGroup, places=_PLACES)
def command() -> None:
    """Run strategies on the views of a runtime, trading at an exchange."""
