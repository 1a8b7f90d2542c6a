"""What a person sees while a command takes long: on a terminal, beside the output; nothing anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["progress"]

Advance = Callable[[int, str], None]
"""Takes how much is done, and what is being done; empty: the same as before."""


@contextmanager
def progress(what: str, total: int | None = None, console: Console | None = None) -> Iterator[Advance]:
    """Show that something runs, for how long already, and how much of ``total`` is done.

    Without a total the count alone is shown, and nothing of it before it is above 0.
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
