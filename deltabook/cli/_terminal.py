"""Output for people: tables as wide as the terminal, and the progress of long commands, which only a terminal shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

__all__ = ["WIDEST", "fit", "print_table", "progress"]

WIDEST: Final = 1 << 20
"""Width, in characters, of a line that goes to a file or a pipe."""


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: Sequence[str]) -> None:
    """Print rows under a title; columns named in ``left`` are left-aligned, the others right-aligned. A cell for None
    is empty.

    If the terminal is too narrow, the frames of the columns are left out, so that fewer cells are wrapped.
    """
    console = Console()
    if not console.is_terminal:
        console.width = WIDEST
    table = Table()
    for name in columns:
        table.add_column(Text(name), justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    fit(table, console, console.options)
    console.print(Text(title))
    console.print(table)


def fit(table: Table, console: Console, options: ConsoleOptions) -> None:
    """Remove the frames from a table that is too wide with them."""
    if table.__rich_measure__(console, options.update(max_width=WIDEST)).maximum > options.max_width:
        table.box, table.show_edge, table.pad_edge, table.padding = box.SIMPLE_HEAD, False, False, 0


Advance = Callable[[int, str], None]
"""Sets the number of finished steps and the description; an empty description keeps the previous one."""


@contextmanager
def progress(what: str, total: int | None = None, console: Console | None = None) -> Iterator[Advance]:
    """Show a spinner with a description, the elapsed time, and a bar for ``total`` steps.

    Without a total, only the count is shown, once it is above 0.
    """
    console = console or Console(stderr=True)
    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    if total is not None:
        columns[2:2] = [BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=total)

        def advance(done: int, now: str = "") -> None:
            text = now or what
            if total is None and done:
                text = f"{text}, {done:,}"
            shown.update(task, completed=done, description=text)

        yield advance
