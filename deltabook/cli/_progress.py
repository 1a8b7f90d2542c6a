"""Progress of long commands, on standard error of a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["progress"]

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
