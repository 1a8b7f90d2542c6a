"""Views that pages have open: rows and changes as the runtime publishes them, followed while a page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pyarrow as pa
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from deltabook.dashboard.history import Series
from deltabook.dashboard.peers import PeerRequests, Rounds, one_line
from deltabook.wire.http.peer import RefusedError
from deltabook.wire.results import WEIGHT, Frame, FrameDecoder, FrameError

__all__ = ["MOST_CHANGES", "MOST_ROWS", "MOST_VIEWS", "Counts", "OpenView", "OpenViews"]

MOST_ROWS: Final = 1_000
"""Greatest number of different rows of a view that are kept for pages."""
MOST_CHANGES: Final = 200
"""Greatest number of newest changes of a view that are kept for pages."""
MOST_VIEWS: Final = 20
"""Greatest number of views that are followed at a time."""
_ROUND_S: Final = 0.5
"""Time in seconds between two rounds; a round begins to follow the views that pages have opened meanwhile."""
_INTEREST_S: Final = 3.0
"""Seconds without a page's request after which a view is not followed any more."""
_LONGEST_TEXT: Final = 100_000
"""Longest explanation of a view in characters; a longer one is cut."""

_Cells = tuple[str | None, ...]


class Counts(msgspec.Struct, frozen=True):
    """Position of a view, and counts since it was opened."""

    epoch: int
    """Epoch of the newest version."""
    step: int
    """Version of a view of the express lane, otherwise 0."""
    total: int
    """Number of rows of the view."""
    shown: int
    """Number of rows that pages are sent."""
    added: int
    """Number of rows added since the view was opened."""
    removed: int
    """Number of rows removed since the view was opened."""
    problem: str
    """Reason why no newer changes arrive; empty while they arrive."""


class OpenView(Protocol):
    """Rows and changes of one view, read from an endless answer of the runtime."""

    def __init__(self, name: str, number: Callable[[], int]) -> None:
        """Make a view; ``number`` returns the number of the pages' next frame."""
        self.name, self.explain, self.problem = name, "", ""
        self.is_followed = False
        self.rows, self.changes = Series(2 * MOST_ROWS), Series(MOST_CHANGES)
        self._number = number
        self._decoder = FrameDecoder()
        self._kept: dict[_Cells, tuple[int, int]] = {}
        """Number and multiplicity of each row, in the order in which the rows came."""
        self._next_row = self._next_change = 1
        self._epoch = self._step = self._total = self._added = self._removed = 0
        self._has_version = False

    def counts(self) -> Counts | None:
        """Return the counts; None before the runtime has sent rows or an error."""
        if not self._has_version and not self.problem:
            return None
        shown = sum(count for _, count in self._kept.values())
        return Counts(self._epoch, self._step, self._total, shown, self._added, self._removed, self.problem)

    def follow(self) -> None:
        """Begin to read a new answer."""
        self.is_followed, self._decoder = True, FrameDecoder()

    def abort(self) -> None:
        """Close the connection that carries the answer; Twisted's interfaces do not declare the method."""
        transport: Any = self.transport
        abort = getattr(transport, "abortConnection", None) or getattr(transport, "loseConnection", None)
        if abort is not None:
            abort()

    def dataReceived(self, data: bytes) -> None:
        """See `Protocol`."""
        try:
            for frame in self._decoder.feed(data):
                self.take(frame)
        except (FrameError, LookupError, ValueError) as error:
            self.problem = str(error)
            self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See `Protocol`."""
        del reason
        self.is_followed = False

    def take(self, frame: Frame) -> None:
        """Enter a frame; heartbeats have no effect."""
        header = frame.header
        if header.kind == "error":
            self.problem = header.reason or "the view has ended"
            self.abort()
        elif frame.rows is not None and header.kind in ("snapshot", "changes"):
            self.problem, self._has_version = "", True
            self._epoch, self._step = header.to_epoch, header.step
            weights = frame.rows.column(WEIGHT).to_pylist()
            if header.kind == "snapshot":
                self._begin(frame.rows, weights)
            else:
                self._change(list(zip(_cells(frame.rows), weights, strict=True)))

    def _begin(self, rows: pa.Table, weights: Sequence[int]) -> None:
        """Replace all rows; of a large view the last rows are kept, since new rows are mostly at the end."""
        self._kept.clear()
        self._total = sum(weights)
        for cells, weight in zip(_cells(rows.slice(max(0, len(rows) - MOST_ROWS))), weights[-MOST_ROWS:], strict=True):
            number, count = self._kept.get(cells, (0, 0))
            self._kept[cells] = (number or self._row_number(), count + weight)
        self._put_all()

    def _change(self, rows: list[tuple[_Cells, int]]) -> None:
        for cells, weight in rows:
            self._total += weight
            self._added += max(weight, 0)
            self._removed += max(-weight, 0)
            self._enter(cells, weight)
        # Sorting puts an old row next to the new one that replaces it.
        for cells, weight in sorted(rows[-MOST_CHANGES:], key=lambda row: ([str(cell) for cell in row[0]], row[1])):
            change = (self._next_change, self._step or self._epoch, weight, cells)
            self.changes.put(self._number(), self._next_change, change)
            self._next_change += 1

    def _enter(self, cells: _Cells, weight: int) -> None:
        number, count = self._kept.get(cells, (0, 0))
        if not number:
            if weight < 0:
                return  # the row is not among those kept
            if len(self._kept) >= MOST_ROWS:
                self._drop(next(iter(self._kept)))
            number = self._row_number()
        if count + weight <= 0:
            self._drop(cells)
        else:
            self._kept[cells] = (number, count + weight)
            self._put(number, (number, count + weight, cells))

    def _put(self, number: int, row: tuple[Any, ...]) -> None:
        self.rows.put(self._number(), number, row)
        if len(self.rows) >= 2 * MOST_ROWS:
            self._put_all()

    def _drop(self, cells: _Cells) -> None:
        number, _ = self._kept.pop(cells)
        self._put(number, (number, 0))

    def _row_number(self) -> int:
        self._next_row += 1
        return self._next_row - 1

    def _put_all(self) -> None:
        """Enter the present rows again, without the entries of removed rows; pages receive all of them."""
        self.rows.clear(self._number())
        for cells, (number, count) in self._kept.items():
            self.rows.put(self._number(), number, (number, count, cells))


class OpenViews:
    """All open views."""

    def __init__(self, asker: PeerRequests, clock: Any, number: Callable[[], int]) -> None:
        self._asker, self._clock, self._number = asker, clock, number
        self._views: dict[str, OpenView] = {}
        self._wanted_s: dict[str, float] = {}
        self._rounds = Rounds(clock, _ROUND_S, self._round, lambda _: None)

    def start(self) -> None:
        """Start to follow views."""
        self._rounds.start()

    def stop(self) -> None:
        """Stop following views."""
        self._rounds.stop()
        for view in self._views.values():
            view.abort()

    def want(self, name: str) -> None:
        """Note that a page has a view open; beyond `MOST_VIEWS` further views wait."""
        if name in self._wanted_s or len(self._wanted_s) < MOST_VIEWS:
            self._wanted_s[name] = self._clock.seconds()

    def get(self, name: str) -> OpenView | None:
        """Return a view that is followed, or None."""
        return self._views.get(name)

    async def _round(self) -> None:
        now_s = self._clock.seconds()
        for name in [name for name, wanted_s in self._wanted_s.items() if now_s - wanted_s > _INTEREST_S]:
            del self._wanted_s[name]
            view = self._views.pop(name, None)
            if view is not None:
                view.abort()
        for name in tuple(self._wanted_s):
            view = self._views.get(name) or OpenView(name, self._number)
            self._views[name] = view
            if not view.is_followed:
                await self._follow(view)

    async def _follow(self, view: OpenView) -> None:
        name = quote(view.name, safe="")
        try:
            if not view.explain:
                text = (await self._asker.ask(f"/v1/views/{name}/explain")).decode("utf-8", "replace")
                view.explain = text[:_LONGEST_TEXT]
            view.follow()
            await self._asker.listen(f"/v1/changes?views={name}", view)
        except RefusedError as error:
            # Old rows stay visible with the reason, so that a page shows why a table does not change.
            view.is_followed, view.problem = False, one_line(error)
        except BaseException:
            view.is_followed = False
            raise


def _cells(rows: pa.Table) -> Iterable[_Cells]:
    """Yield every row without its weight, as texts with all digits."""
    columns = []
    for field in rows.schema:
        if field.name != WEIGHT:
            scale = int((field.metadata or {}).get(b"scale", 0))
            columns.append([_cell(value, scale) for value in rows.column(field.name).to_pylist()])
    return zip(*columns, strict=True)


def _cell(value: Any, scale: int) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if scale:
        digits = tuple(map(int, str(abs(int(value)))))
        return f"{Decimal((int(value < 0), digits, -scale)):f}"
    return str(value)
