"""`deltabook algo`: run strategies, look at them while they run, stop them, and check what they did."""

from __future__ import annotations

from typing import Final

import click

from deltabook.cli._groups import LazyGroup

__all__ = ["command"]

_PLACES: Final = {
    "kill": ("_algo_status:kill", "Cancel resting orders and refuse new ones."),
    "run": ("_algo_run:run", "Run strategies on the views of a runtime, trading at an exchange."),
    "status": ("_algo_status:status", "Show strategies that run: state, orders, positions, profit."),
    "trades": ("_algo_files:trades", "Write the list of own trades as CSV or Parquet."),
    "verify": ("_algo_files:verify", "Compare orders, fills and money with the exchange's journal."),
}
"""Command → where it is, and what it does."""


@click.group("algo", cls=LazyGroup, places=_PLACES)
def command() -> None:
    """Run strategies on the views of a runtime, look at them, stop them, and check what they did."""
