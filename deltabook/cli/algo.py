"""`deltabook algo`: run, monitor, stop and verify strategies."""

from __future__ import annotations

from typing import Final

import click

from deltabook.cli._groups import LazyGroup

__all__ = ["command"]

_PLACES: Final = {
    "kill": ("_algo_status:kill", "Cancel resting orders and refuse new orders."),
    "run": ("_algo_run:run", "Run strategies on the views of a runtime, trading at an exchange."),
    "status": ("_algo_status:status", "Show running strategies: state, orders, positions, profit."),
    "trades": ("_algo_files:trades", "Write the strategies' trades as CSV or Parquet."),
    "verify": ("_algo_files:verify", "Compare orders, fills and money with the exchange's journal."),
}
"""Command → its location and its summary."""


@click.group("algo", cls=LazyGroup, places=_PLACES)
def command() -> None:
    """Run strategies on the views of a runtime; monitor, stop and verify them."""
