"""Subscription to committed epochs, each delivered exactly once, and the reader of past epochs for resumption."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa

from deltabook.wire.results import FrameHeader
from runtime.engine.express import ANEW
from runtime.epochs import Cut, EpochLogError, EpochLogReader, ResultLog, Segment
from runtime.epochs.consolidating import consolidate
from runtime.plan import Program, View, decode_program, stream_views
from runtime.service.subscriptions.subscription import Listener, Subscription, SubscriptionSource
from runtime.service.subscriptions.viewstream import Message
from runtime.views.rows import change_schema

__all__ = ["EpochSource", "EpochSubscription", "History", "Past", "section_of"]


_MOST_SEGMENTS: Final = 128
"""Greatest number of segments that one read covers."""
_MOST_BYTES: Final = 8 * 1024 * 1024
"""Size in bytes of a view's changes at which a read ends."""


class Past(msgspec.Struct, frozen=True, eq=False):
    """Changes of a view from an epoch on."""

    reached: int
    """Last epoch that is covered: the requested epoch, or an earlier epoch if there are too many changes for one
    read."""
    rows: pa.Table | None = None
    """Changed rows with their columns and ``weight``, added up; None if nothing changed."""
    cuts: Mapping[str, Cut] = {}
    """Cuts of the origins at ``reached``; empty if no epoch was read."""
    gone: str = ""
    """Reason why the changes cannot be read; empty if they were read."""


class _Gone(Exception):
    """The changes are no longer available."""


class History:
    """Reader of the epoch log, for the express lane and streams, and of the result log, for the Spark lane.

    May be called from any thread; calls run one at a time.
    """

    def __init__(self, epochs: Path, results: ResultLog) -> None:
        self._log = EpochLogReader(epochs)
        self._results = results
        self._lock = threading.Lock()

    def read(self, view: View, since: int, begin: int, end: int) -> Past:
        """Return the changes of an existing view in the epochs ``(begin, end]``, or only in the first of these epochs.

        ``since`` is the first epoch of a view of the Spark lane.
        """
        segments = self._versions(view, since, begin, end) if view.lane == "spark" else self._epochs(view, begin, end)
        name = section_of(view)
        with self._lock:
            try:
                return _sum(view, name, segments, begin, end)
            except _Gone as gone:
                return Past(begin, gone=str(gone))
            except (EpochLogError, OSError) as error:  # retired meanwhile, or torn
                return Past(begin, gone=f"epochs after {begin} cannot be read: {error}")

    def _epochs(self, view: View, begin: int, end: int) -> Iterator[Segment]:
        """Yield the epochs after ``begin``; raise `_Gone` if the view is not the same in all epochs in which it
        exists."""
        if (first := self._log.first()) > begin + 1:
            raise _Gone(f"epoch {begin + 1} is retired, the first that is left is {first}")
        before: Program | None = None
        for epoch in range(begin + 1, end + 1):
            segment = self._log.read(epoch)
            if segment.footer.control:
                program = decode_program(segment.footer.control)
                before = before or self._program(epoch - 1)
                # A view that did not exist before has all its changes in the epochs from here on.
                if _identity(before, view.name) not in {None, _identity(program, view.name)}:
                    raise _Gone(
                        f"view {view.name} of epoch {begin} ended with epoch {epoch - 1}, another view has its name"
                    )
                before = program
            if f"{ANEW}{view.name}" in segment.footer.attributes:
                raise _Gone(f"view {view.name} was refilled at epoch {epoch}")
            yield segment

    def _program(self, epoch: int) -> Program:
        control = self._log.control_before(epoch)
        if not control:
            raise _Gone(f"the views of epoch {epoch} are not known any more")
        return decode_program(control)

    def _versions(self, view: View, since: int, begin: int, end: int) -> Iterator[Segment]:
        if begin < since - 1:
            raise _Gone(f"view {view.name} begins at epoch {since}, was asked for from epoch {begin} on")
        spans = self._results.behind(begin)
        if spans is None:
            raise _Gone(f"epoch {begin} is retired, or not the end of one of Spark's batches")
        for span in spans:
            if span[1] <= end:
                yield self._results.read(span)


def _sum(view: View, name: str, segments: Iterator[Segment], begin: int, end: int) -> Past:
    tables: list[pa.Table] = []
    reached, read, total_bytes, cuts = begin, 0, 0, dict[str, Cut]()
    for segment in segments:
        if (table := segment.rows(name)) is not None and table.num_rows:
            tables.append(table)
            total_bytes += table.nbytes
        reached, cuts, read = segment.footer.to_epoch, segment.footer.cuts, read + 1
        if reached >= end or read >= _MOST_SEGMENTS or total_bytes >= _MOST_BYTES:
            break
    rows = consolidate(pa.concat_tables(tables), change_schema(view.columns)) if tables else None
    return Past(reached, rows if rows is not None and rows.num_rows else None, cuts)


def section_of(view: View) -> str:
    """Return the section that has the changes of a view, in the epoch log or in Spark's result log."""
    return f"view/{view.name}" if view.lane == "express" else view.name


def _identity(program: Program, name: str) -> tuple[int, str] | None:
    """Return the home and lane of a view or derived stream, by which views of the same name differ; None if the program
    has no such view."""
    views = (*program.views, *stream_views(program).views)
    match = next((view for view in views if view.name == name), None)
    return (match.home, match.lane) if match else None


class EpochSource(SubscriptionSource, Protocol):
    """Source of committed epochs."""

    def snapshot(self, name: str) -> Message | None:
        """Return a view's full result at the newest epoch; None if the view is not at the end of an epoch, see
        `want`."""

    def delivered(self, name: str) -> int:
        """Return the newest epoch up to which all changes were sent to the subscribers that follow a view."""

    def settle(self, name: str) -> int:
        """Send the progress of a view up to the newest epoch, and return that epoch."""

    def failure(self, name: str) -> str:
        """Return the reason why a view has failed; empty if it has not."""

    def want(self, name: str, subscription: EpochSubscription) -> None:
        """Call `EpochSubscription.began` with a snapshot as soon as there is one."""

    def read(self, name: str, begin: int, end: int, done: Callable[[Past], None]) -> None:
        """Read the changes of a view in ``(begin, end]`` and call ``done`` with them."""

    def header(self, name: str, kind: Any, begin: int, end: int, cuts: Mapping[str, Any]) -> FrameHeader:
        """Return the header of a message about a span of epochs."""


class EpochSubscription(Subscription):
    """Subscription in which each view has a position: the epoch up to which all changes of the view were delivered.

    A view that is not followed catches up from its position. Its changes come from the stream in which the view waits,
    and from the logs if the stream begins after the position. If the logs no longer have these changes, a snapshot is
    sent, with the reason.
    """

    _source: EpochSource

    def __init__(self, names: Sequence[str], listener: Listener, source: EpochSource, start: Mapping[str, int]) -> None:
        super().__init__(names, listener, source)
        self._at = dict(start)
        """View that is not followed → its position; a view without a position begins with a snapshot."""
        self._goal: dict[str, int] = {}
        """Waiting view → the epoch at which its stream begins; changes up to this epoch are read from the logs."""
        self._reasons: dict[str, str] = {}
        """View → reason why it begins with a snapshot."""
        self._pending: dict[str, object] = {}
        """View that waits for the logs or for the end of the open epoch → a token of the request."""
        self._is_reading = False
        """True while the logs are read. Reads for several views follow one another, so that at most one message waits
        for room."""
        self._ready: dict[str, Message] = {}
        """View → message that was read from the logs and waits for room."""

    def began(self, name: str, snapshot: Message) -> None:
        """Send the snapshot that was requested with `EpochSource.want`, and follow the view from there."""
        if self._pending.pop(name, None) is None or self._full:
            return  # the snapshot could wait for an unbounded time; another one is requested when there is room
        self._followed.add(name)
        self._listener.write(self._explained(name, snapshot))
        self._listener.flush()

    def heartbeat(self, message: Message) -> None:
        """Send a heartbeat if every view is followed; a view that still reads the logs is not up to date."""
        if self._followed.issuperset(self._names):
            super().heartbeat(message)

    def begin_again(self, name: str, reason: str) -> None:
        """Discard the position of a view, as later epochs do not continue it; `catch_up` then sends a snapshot."""
        if name in self._names:
            self._forget(name)
            self._reasons[name] = reason

    def _wait(self, name: str) -> None:
        self._at[name] = self._goal[name] = self._source.delivered(name)
        super()._wait(name)

    def _forget(self, name: str) -> None:
        super()._forget(name)
        for kept in (self._at, self._goal, self._reasons, self._pending, self._ready):
            kept.pop(name, None)

    def _due(self, name: str) -> list[Message]:
        """Return the available messages of a view, which afterwards is followed or pending."""
        if name in self._pending:
            return []
        ready = self._ready.pop(name, None)
        messages = [] if ready is None else [ready]
        if reason := self._source.failure(name):
            return [*messages, self._failed(name, reason)]
        return [*messages, *(self._begin(name) if name not in self._at else self._continue(name))]

    def _begin(self, name: str) -> list[Message]:
        snapshot = self._source.snapshot(name)
        if snapshot is None:
            self._pending[name] = object()
            self._source.want(name, self)
            return []
        self._source.settle(name)
        self._followed.add(name)
        return [self._explained(name, snapshot)]

    def _continue(self, name: str) -> list[Message]:
        if name not in self._waiting:  # new changes wait in the stream while the logs are read
            self._source.settle(name)
            position = self._at[name]
            self._wait(name)
            self._at[name] = position
        position, goal = self._at[name], self._goal[name]
        if position > goal:
            self._forget(name)
            self._reasons[name] = f"expected an epoch of this run, the newest is {goal}, was {position}"
            return self._begin(name)
        if position < goal and self._is_reading:
            return []
        if position < goal:
            self._is_reading = True
            token = self._pending[name] = object()
            self._source.read(name, position, goal, lambda past: self._read_done(name, token, past))
            return []
        taken = self._waiting.pop(name).take(self)
        if taken is None:  # the stream has overrun; the logs have the changes
            return self._continue(name)
        self._followed.add(name)
        return self._contiguous(name, position, taken)

    def _contiguous(self, name: str, position: int, messages: list[Message]) -> list[Message]:
        """Return the stream's messages, extended so that they lead from the position to `delivered` without a gap."""
        connected = [message.since(position) if not place else message for place, message in enumerate(messages)]
        reached = connected[-1].header.to_epoch if connected else position
        if reached < (delivered := self._source.delivered(name)):
            connected.append(Message(self._source.header(name, "progress", reached, delivered, {})))
        return connected

    def _read_done(self, name: str, token: object, past: Past) -> None:
        self._is_reading = False
        is_awaited = self._pending.get(name) is token
        if is_awaited:
            del self._pending[name]
        if is_awaited and past.gone:
            self._forget(name)
            self._reasons[name] = past.gone
        elif is_awaited:
            kind = "progress" if past.rows is None else "changes"
            header = self._source.header(name, kind, self._at[name], past.reached, past.cuts)
            self._ready[name] = Message(header, past.rows)
            self._at[name] = past.reached
        if not self._full:
            self.catch_up()

    def _failed(self, name: str, reason: str) -> Message:
        position = self._at.get(name, 0)
        self._forget(name)
        self._followed.add(name)
        header = self._source.header(name, "error", position, self._source.delivered(name), {})
        return Message(msgspec.structs.replace(header, reason=reason))

    def _explained(self, name: str, snapshot: Message) -> Message:
        reason = self._reasons.pop(name, "")
        return Message(msgspec.structs.replace(snapshot.header, reason=reason), snapshot.rows) if reason else snapshot
