"""Output of a running demo: one screen on a terminal, otherwise one line at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import IO, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deltabook.demo.figures import DemoFigures

__all__ = ["LineScreen", "LiveScreen", "Screen", "summary_table"]

_LINE_SPAN_S: Final = 5.0
"""Seconds between two lines of figures without a terminal."""
_RECENT_LINES: Final = 6
_STRATEGY_COLUMNS: Final = {
    "orders_sent": "orders sent",
    "orders_filled": "filled",
    "orders_open": "open",
    "fills": "fills",
    "position_lots": "position",
    "pnl": "P&L",
}


class Screen(ABC):
    """Shows a demo. No method may block for longer than a write to a terminal."""

    @abstractmethod
    def report(self, line: str) -> None:
        """Report a single event."""

    @abstractmethod
    def draw(self, figures: DemoFigures) -> None:
        """Show the present figures; called about once a second."""

    @abstractmethod
    def close(self) -> None:
        """Restore the terminal; nothing is shown after this."""


class LineScreen(Screen):
    """Writes events, and a line of figures every few seconds, for logs and pipes."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._drawn_s = 0.0

    def report(self, line: str) -> None:
        self._write(f"demo: {line}")

    def draw(self, figures: DemoFigures) -> None:
        if figures.age_s - self._drawn_s < _LINE_SPAN_S:
            return
        self._drawn_s = figures.age_s
        at = f"demo: {figures.age_s:4.0f} s"
        if not figures.view_updates:
            self._write(f"{at}  waiting for a first view update")
            return
        self._write(
            f"{at}  {figures.messages_per_s:,.0f} messages/s  epoch {figures.text('runtime', 'epoch')}"
            f"  lag: {figures.lags()}  {figures.text('runtime', 'views')} views, {figures.view_updates:,} updates"
            f"  orders: {figures.orders_sent:,} sent, {figures.orders_filled:,} filled"
            f"  position {figures.position(figures.value('algo', 'position_lots'))}"
            f"  P&L {figures.money(figures.value('algo', 'pnl'))}"
        )

    def close(self) -> None:
        self._stream.flush()

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class LiveScreen(Screen):
    """One screen, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._lines: list[str] = []
        # There is no refresh thread: the supervisor redraws the screen when figures change.
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._body: Table | None = None
        self._live.start()

    def report(self, line: str) -> None:
        self._lines = [*self._lines, line][-_RECENT_LINES:]
        self._show()

    def draw(self, figures: DemoFigures) -> None:
        spark = "  Spark is starting, usually 20 s" if figures.spark == "starting" else ""
        self._body = summary_table(figures, f"Deltabook: {figures.age_s:.0f} s  {figures.page}{spark}".rstrip())
        self._show()

    def close(self) -> None:
        self._live.stop()

    def _show(self) -> None:
        news = Text("\n".join(self._lines), style="dim")
        self._live.update(Group(news) if self._body is None else Group(self._body, news), refresh=True)


def _loop_table(figures: DemoFigures) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    for _ in range(3):
        table.add_column(justify="right")
        table.add_column(style="dim")
    exchange, runtime = "exchange", "runtime"
    sequence = "sequence" if figures.value(exchange, "itch_sequence") is None else "itch_sequence"
    rows: list[tuple[str, list[tuple[str, str]]]] = [
        ("feed", [
            (figures.text(exchange, sequence), "sequence"),
            (figures.text(runtime, "feed_sequence"), "taken in"),
            (f"{figures.messages_per_s:,.0f}", "messages/s"),
        ]),
        ("runtime", [
            (figures.text(runtime, "epoch"), "epoch"),
            (figures.text(runtime, "express_lag_ms"), "ms lag, express"),
            (figures.text(runtime, "lag_ms"), "ms lag, Spark"),
        ]),
        ("views", [
            (figures.text(runtime, "views"), "views"),
            (f"{figures.view_updates:,}", "updates"),
            (figures.text(runtime, "published_epoch"), "published epoch"),
        ]),
        ("orders", [
            (figures.text("algo", "orders_sent"), "sent"),
            (figures.text("algo", "orders_filled"), "filled"),
            (figures.text("algo", "orders_open"), "open"),
        ]),
        ("account", [
            (figures.position(figures.value("algo", "position_lots")), "position"),
            (figures.money(figures.value("algo", "pnl")), "P&L"),
            (figures.text("algo", "fills"), "fills"),
        ]),
    ]  # fmt: skip
    for name, cells in rows:
        table.add_row(name, *[part for cell in cells for part in cell])
    return table


def _strategy_table(figures: DemoFigures) -> Table:
    table = Table(box=None, padding=(0, 2))
    table.add_column("strategy", style="bold")
    for heading in _STRATEGY_COLUMNS.values():
        table.add_column(heading, justify="right")
    read = {"position_lots": figures.position, "pnl": figures.money}
    for strategy, values in sorted(figures.strategies().items()):
        table.add_row(strategy, *[read.get(name, figures.readable)(values.get(name)) for name in _STRATEGY_COLUMNS])
    return table


def summary_table(figures: DemoFigures, title: str) -> Table:
    """Return all figures at a glance; the same while the demo runs and at its end."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_row(_loop_table(figures))
    if figures.strategies():
        table.add_section()
        table.add_row(_strategy_table(figures))
    return table
