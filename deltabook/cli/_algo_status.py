"""`deltabook algo status` and `kill`: look at strategies that run, and stop them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deltabook.cli._algo_port import StatusPort, status_options
from deltabook.cli._ports import print_json
from deltabook.wire import strategies
from deltabook.wire.strategies import Strategies

__all__ = ["kill", "show", "status"]

_WIDEST: Final = 1 << 20
"""Characters of a line that goes to a file or a pipe."""


@click.command()
@status_options
@click.option("--json", "as_json", is_flag=True, help="JSON, for programs; with --watch a line each time.")
@click.option("--watch", is_flag=True, help="Again and again, until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(0.1), default=1.0, help="Seconds between two looks.")
def status(port: Callable[[], StatusPort], as_json: bool, watch: bool, interval: float) -> None:
    """Show the strategies of a running process: state, orders, positions, profit and fees."""
    asked, console = port(), Console()
    if not console.is_terminal:
        console.width = _WIDEST

    def found() -> Strategies:
        return asked.get(strategies.STATUS_PATH, Strategies)

    if as_json or not watch or not console.is_terminal:
        while True:
            print_json(found()) if as_json else console.print(show(found(), asked.where))
            if not watch:
                return
            time.sleep(interval)
    with Live(show(found(), asked.where), console=console, auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(interval)
            live.update(show(found(), asked.where), refresh=True)


def show(found: Strategies, where: str) -> Group:
    """Two tables, the strategies and what they hold; money in ticks × lots."""
    lines = [
        (
            line.name, str(line.broker_id), line.state if line.is_connected else f"{line.state}, not connected",
            str(line.orders_sent), str(line.orders_open), str(line.orders_rejected), str(line.orders_refused),
            str(line.fills), str(line.profit), str(line.fees), line.reason,
        )
        for line in found.strategies
    ]  # fmt: skip
    columns = ("strategy", "broker", "state", "sent", "open", "rejected", "refused", "fills", "profit", "fees", "why")
    held = [
        (
            line.name, position.symbol, str(position.position_lots),
            "–" if position.mark_ticks is None else str(position.mark_ticks), str(position.realised),
            str(position.unrealised), str(position.fees),
        )
        for line in found.strategies
        for position in line.positions
    ]  # fmt: skip
    positions = ("strategy", "symbol", "lots", "mark", "realised", "unrealised", "fees")
    views = "" if found.views_connected else ", without views"
    parts: list[Text | Table] = [Text(f"strategies at {where}, up {found.up_s:,.0f} s{views}")]
    parts.append(_table(columns, lines, left={"strategy", "state", "why"}))
    if held:
        parts.append(_table(positions, held, left={"strategy", "symbol"}))
    return Group(*parts)


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: set[str]) -> Table:
    table = Table()
    for name in columns:
        table.add_column(Text(name), justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


@click.command()
@click.argument("names", metavar="[STRATEGY]...", nargs=-1)
@status_options
@click.option("--reason", default="by hand", help="Said in the status and in the log.")
@click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
def kill(port: Callable[[], StatusPort], names: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Throw the kill switch: cancel resting orders and refuse new ones, until the process is started again.

    Of all strategies, or of those named.
    """
    done = port().kill(strategies.Kill(names, reason))
    if as_json:
        print_json(done)
        return
    click.echo(f"killed {', '.join(done.strategies)}; {done.orders_open} open orders are being cancelled")
