"""Views of a running runtime on a terminal: their rows as they are now, redrawn in place as changes come."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from algo_engine.contents import ViewChange
from algo_engine.mirror import ViewMirror
from deltabook.wire.results import Frame

__all__ = ["WatchScreen", "shown"]

_FRESH_S: Final = 1.0
"""Rows that are new are marked for so long."""
_SILENT_S: Final = 3.0
"""The service sends a heartbeat every second."""
_MOST_FRESH: Final = 10_000
"""Rows of a view that may be marked at once."""
_RATE_SPAN_S: Final = 5.0
_LEAST_ROWS: Final = 3
"""Minimum number of rows of a view, for any number of views."""
_LINES_AROUND: Final = 5
"""Lines of a table besides its rows: title, heading with a rule, number of omitted rows, and a blank line."""


def shown(value: Any, scale: int = 0) -> str:
    """A value of a row as a person reads it; an integer that has a scale is an exact decimal."""
    if value is None:
        return "NULL"
    if scale and isinstance(value, int):
        digits = tuple(int(digit) for digit in str(abs(value)))
        return f"{Decimal((int(value < 0), digits, -scale)):f}"  # scaleb would round at 28 digits
    return str(value)


class _Watched:
    """What the screen knows of one view beside its rows."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.state = "waiting for its rows"
        self.time_ns = 0
        self.changes: deque[float] = deque(maxlen=10_000)
        """When its newest changes came."""
        self.last = ""
        """What the newest of them was."""
        self.fresh: dict[tuple[Any, ...], float] = {}
        """Rows that are new, and since when."""
        self.order: list[tuple[Any, ...]] | None = None
        """Its rows as they are shown; None when they have changed."""


class WatchScreen:
    """Something that rich draws again and again, on a thread of its own, while frames are entered on another."""

    def __init__(
        self,
        views: Sequence[dict[str, Any]],
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """``views`` are described as the service describes them."""
        self._clock = clock
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._mirror = ViewMirror()
        self._watched = {view["name"]: _Watched(view) for view in views}
        self._heard_at = clock()

    def enter(self, frame: Frame) -> None:
        """Take in a frame of the change stream."""
        with self._lock:
            self._heard_at = self._clock()
            watched = self._watched.get(frame.header.view)
            if watched is None:
                return
            if frame.header.kind == "error":
                watched.state = frame.header.reason
                return
            change = self._mirror.apply(frame)
            if change is not None:
                self._note(watched, change)

    def _note(self, watched: _Watched, change: ViewChange) -> None:
        now, columns = self._clock(), self._mirror.contents(change.view).columns
        watched.state = ""
        watched.time_ns = change.time_ns
        watched.order = None
        if change.is_snapshot:
            watched.last = "snapshot"
            watched.fresh.clear()
            return
        watched.changes.append(now)
        watched.last = f"+{len(change.added)} −{len(change.removed)}"
        for row in change.removed:
            watched.fresh.pop(tuple(row[name] for name in columns), None)
        for row in change.added[:_MOST_FRESH]:
            watched.fresh[tuple(row[name] for name in columns)] = now
        if len(watched.fresh) > _MOST_FRESH:
            watched.fresh.clear()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            height = options.height or console.size.height
            lines = max(_LEAST_ROWS, (height - 1) // max(1, len(self._watched)) - _LINES_AROUND)
            silent_s = self._clock() - self._heard_at
            parts = [part for name, watched in self._watched.items() for part in self._view(name, watched, lines)]
            if silent_s > _SILENT_S:
                parts.append(Text(f"no message for {silent_s:.0f} s: the rows may be stale", style="bold"))
        yield Group(*parts)

    def _view(self, name: str, watched: _Watched, lines: int) -> Iterator[Text | Table]:
        """Yield a view's title, its table, and the number of rows that are omitted."""
        about = watched.about
        title, kind = Text(name, style="bold"), f"{about['class']}, lane {about['lane']}"
        if name not in self._mirror:
            yield Text.assemble(title, f"  {kind}  {watched.state}")
            return
        contents, now = self._mirror.contents(name), self._clock()
        while watched.changes and watched.changes[0] <= now - _RATE_SPAN_S:
            watched.changes.popleft()
        step = f" step {contents.step}" if contents.step else ""
        rows = len(contents)
        age = watched.state or f"{max(0, self._now_ns() - watched.time_ns) / 1e6:,.0f} ms ago"
        rate = f"{len(watched.changes) / _RATE_SPAN_S:.1f} changes/s  {watched.last}"
        version = f"epoch {contents.epoch}{step}  {rows:,} row{'s' * (rows != 1)}"
        # What does not fit goes from the end, and in one line: a second one would push the last table out of sight.
        details = f"  {version}  {age}" + ("" if watched.state else f"  {rate}  {kind}")
        yield Text.assemble(title, details, no_wrap=not watched.state, overflow="fold" if watched.state else "ellipsis")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("", width=1)
        texts = {column["name"] for column in about["columns"] if column["type"] == "string"}
        for column in contents.columns:
            table.add_column(Text(column), justify="left" if column in texts else "right", no_wrap=True)
        if watched.order is None:
            watched.order = sorted((tuple(row.values()) for row in contents.rows()), key=_order)
        watched.fresh = {row: since for row, since in watched.fresh.items() if since > now - _FRESH_S}
        scales = [contents.scales.get(column, 0) for column in contents.columns]
        for row in watched.order[:lines]:
            cells = [Text(shown(value, scale)) for value, scale in zip(row, scales, strict=True)]
            is_fresh = row in watched.fresh
            table.add_row("+" if is_fresh else "", *cells, style="bold green" if is_fresh else None)
        yield table
        if rows > lines:
            yield Text(f"… and {rows - lines:,} more", style="dim")


def _order(row: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    """By the columns from the left, NULL first."""
    return tuple((value is not None, value if value is not None else 0) for value in row)
