"""`deltabook algo status` and `kill`: look at strategies that run, and stop them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import click
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deltabook.cli._algo_port import StatusPort, status_options
from deltabook.cli._ports import print_json
from deltabook.cli._tables import fit
from deltabook.wire import strategies
from deltabook.wire.strategies import Strategies

__all__ = ["kill", "show", "status"]

_WIDEST: Final = 1 << 20
"""Characters of a line that goes to a file or a pipe."""
_STRATEGIES: Final = (
    "strategy", "broker", "state", "sent", "open", "rejected", "refused", "fills", "void", "profit", "fees",
)  # fmt: skip
_POSITIONS: Final = ("strategy", "symbol", "lots", "mark", "realised", "unrealised", "fees")
_LEFT: Final = frozenset({"strategy", "state", "symbol"})
_RARE: Final = frozenset({"rejected", "refused", "void"})
"""Columns that are there when one of their rows is not empty."""


@click.command()
@status_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --watch, one object per line.")
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(0.1), default=1.0, help="Seconds between outputs of --watch.")
def status(port: Callable[[], StatusPort], as_json: bool, watch: bool, interval: float) -> None:
    """Show the strategies of a running process: state, orders, positions, profit and fees."""
    asked, console = port(), Console()
    if not console.is_terminal:
        console.width = _WIDEST

    def strategies_now() -> Strategies:
        return asked.get(strategies.STATUS_PATH, Strategies)

    if as_json or not watch or not console.is_terminal:
        while True:
            print_json(strategies_now()) if as_json else console.print(show(strategies_now(), asked.where))
            if not watch:
                return
            time.sleep(interval)
    with Live(show(strategies_now(), asked.where), console=console, auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(interval)
            live.update(show(strategies_now(), asked.where), refresh=True)


def show(report: Strategies, where: str) -> Group:
    """Two tables, the strategies and what they hold. Columns in which there is nothing to see are left out."""
    lines = [
        (
            line.name, str(line.broker_id), line.state if line.is_connected else f"{line.state}, not connected",
            f"{line.orders_sent:,}", f"{line.orders_open:,}", _some(line.orders_rejected), _some(line.orders_refused),
            f"{line.fills:,}", _some(line.void_trades), f"{line.profit:,}", f"{line.fees:,}",
        )
        for line in report.strategies
    ]  # fmt: skip
    positions = [
        (
            line.name, position.symbol, f"{position.position_lots:,}",
            "–" if position.mark_ticks is None else f"{position.mark_ticks:,}", f"{position.realised:,}",
            f"{position.unrealised:,}", f"{position.fees:,}",
        )
        for line in report.strategies
        for position in line.positions
    ]  # fmt: skip
    views = "" if report.views_connected else ", without views"
    parts: list[Text | _Fitting] = [
        Text(f"strategies at {where}, up {report.up_s:,.0f} s{views}; prices in ticks, money in ticks × lots")
    ]
    parts.append(_Fitting(_STRATEGIES, lines))
    parts += [Text(f"{line.name} is {line.state}: {line.reason}") for line in report.strategies if line.reason]
    if positions:
        parts.append(_Fitting(_POSITIONS, positions))
    return Group(*parts)


def _some(count: int) -> str:
    return f"{count:,}" if count else ""


class _Fitting:
    """A table that is framed where there is room."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        seen = [place for place, name in enumerate(columns) if name not in _RARE or any(row[place] for row in rows)]
        self._columns = [columns[place] for place in seen]
        self._rows = [[row[place] for place in seen] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table()
        for name in self._columns:
            table.add_column(Text(name), justify="left" if name in _LEFT else "right", overflow="fold")
        for row in self._rows:
            table.add_row(*map(Text, row))
        fit(table, console, options)
        yield table


@click.command()
@click.argument("names", metavar="[STRATEGY]...", nargs=-1)
@status_options
@click.option("--reason", default="by hand", help="Reason, shown in the status and in the log.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def kill(port: Callable[[], StatusPort], names: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Cancel all resting orders and refuse new ones until the process is restarted (kill switch).

    Without a STRATEGY, this applies to all strategies of the process.
    """
    done = port().kill(strategies.Kill(names, reason))
    if as_json:
        print_json(done)
        return
    click.echo(f"killed {', '.join(done.strategies)}; {done.orders_open} open orders are being cancelled")
