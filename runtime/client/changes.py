"""Client's side of a subscription: an iterator over the changes of views, which reconnects and resumes by itself."""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Literal
from urllib.parse import quote

import msgspec
import pyarrow as pa

from deltabook.wire.http.blocking import BlockingPort
from deltabook.wire.http.peer import ConnectionFailedError, ProtocolError, RefusedError
from deltabook.wire.results import Frame, FrameDecoder, FrameError

__all__ = ["By", "Change", "ChangeStream", "Patience"]

By = Literal["epoch", "version"]
_READ_BYTES: Final = 1 << 16
_MOST_DOUBLED: Final = 30
"""Number of empty connections after which the delay is not doubled any more."""
_TRY_LATER: Final = frozenset({429, 502, 503, 504})
"""HTTP statuses after which another attempt may succeed."""


class Change(msgspec.Struct, frozen=True, eq=False):
    """Change of one view over the epochs ``(from_epoch, to_epoch]``."""

    view: str
    """Name of the view."""
    kind: Literal["snapshot", "changes", "ended"]
    """``snapshot``: all rows, to replace earlier ones. ``changes``: rows to add. ``ended``: no more changes follow."""
    from_epoch: int
    """Epoch at which the previous change ended; with ``by="epoch"``, 0 for a snapshot."""
    to_epoch: int
    """Newest epoch that the change covers."""
    rows: pa.Table
    """The view's columns and ``weight``: +n for rows that are added, -n for rows that are removed. Empty when ended."""
    reason: str = ""
    """Reason why the view ended, or why a snapshot replaces the requested changes."""
    feed: Mapping[str, tuple[str, int]] = {}
    """Origin → session and number of the last message that the change covers."""
    time_ns: int = 0
    """Time of sending by the runtime's clock, in nanoseconds since the UTC epoch."""
    step: int = 0
    """Version of a view of the express lane, with ``by="version"``; otherwise 0."""


class Patience(msgspec.Struct, frozen=True):
    """Timeouts and delays of a change stream."""

    silence_s: float = 30.0
    """Time without any data, not even a heartbeat, after which a connection is closed and opened again."""
    reconnect_s: float = 120.0
    """Time without any connection after which the stream fails; it is counted separately for each call of `next`."""
    first_s: float = 0.1
    """Delay between the first two attempts; it doubles with each attempt. Each delay is reduced at random, by up to
    half.
    """
    most_s: float = 5.0
    """Longest delay between two attempts."""


class ChangeStream:
    """Iterator over the changes of views; used by one thread at a time.

    With ``by="epoch"`` each committed epoch arrives exactly once, across lost connections and restarts of the runtime,
    even after the runtime was killed: every change begins where the previous one ended. If the runtime no longer has
    the changes in between, a snapshot with a reason arrives.
    """

    def __init__(
        self,
        port: BlockingPort,
        views: Sequence[str],
        start: int | Mapping[str, int] | None,
        by: By,
        *,
        run: str = "",
        patience: Patience = Patience(),  # noqa: B008 (frozen)
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare the stream; nothing is sent yet. For the arguments see `Client.changes`.

        Raises `ValueError` if there is no view, if ``by`` is "version" and there is a start, and if the start names
        a view that is not among ``views``.
        """
        self._names = tuple(dict.fromkeys(views))
        if not self._names:
            raise ValueError("expected at least one view, was none")
        if by == "version" and start is not None:
            raise ValueError("expected by='epoch' with a start, as versions cannot be resumed")
        self._port, self._by, self._patience = port, by, patience
        self._now_s, self._sleep = now_s, sleep
        at = {} if start is None else dict.fromkeys(self._names, start) if isinstance(start, int) else dict(start)
        if unknown := [name for name in at if name not in self._names]:
            raise ValueError(f"expected a start of the views {', '.join(self._names)}, was one of {unknown[0]!r}")
        self._received = at
        self._delivered = dict(at)
        self.run = run
        """Identity of the run to which the stream's epochs belong; known after the first connection."""
        self.connected = 0
        """Number of connections made so far."""
        self._left = set(self._names)
        self._connection: http.client.HTTPConnection | None = None
        self._answer: http.client.HTTPResponse | None = None
        self._frames: Iterator[Frame] = iter(())
        self._decoder = FrameDecoder()
        self._is_closed = False
        self._has_received = False
        """True if data arrived on this connection."""
        self._empty_connections = 0
        """Number of consecutive connections without data."""

    @property
    def positions(self) -> dict[str, int]:
        """Newest epoch whose changes were returned, by view; a later stream takes it as ``start``, with `run`."""
        return dict(self._delivered)

    def close(self) -> None:
        """End the connection and the iteration. A call from another thread may block until the next heartbeat."""
        self._is_closed = True
        self._disconnect()

    def __enter__(self) -> ChangeStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> ChangeStream:
        return self

    def __next__(self) -> Change:
        """Wait for the next change; raises `ClientError` when `Patience` is exhausted."""
        while not self._is_closed and self._left:
            for frame in self._frames:
                if (change := self._change(frame)) is not None:
                    return change
            self._read()
        self._disconnect()
        raise StopIteration

    def next(self, timeout_s: float) -> Change | None:
        """Return the next change, or None if none arrives within ``timeout_s`` seconds or the stream has ended.

        The clock is read whenever a frame arrives, which is every second while the runtime is healthy. So the call may
        take a second longer than ``timeout_s``; without frames, it may take as long as `Patience` allows.
        """
        end_s = self._now_s() + timeout_s
        while not self._is_closed and self._left:
            for frame in self._frames:
                if (change := self._change(frame)) is not None:
                    return change
            if self._now_s() >= end_s:
                return None
            self._read(end_s)
        self._disconnect()
        return None

    def _read(self, end_s: float | None = None) -> None:
        """Wait for more frames until ``end_s`` at most, connecting first if necessary."""
        if self._answer is None:
            self._connect(end_s)
        answer = self._answer
        if answer is None:
            return
        try:
            data = answer.read1(_READ_BYTES)
        except (OSError, ValueError, http.client.HTTPException):  # also after a timeout, or when it is closed
            data = b""
        except AttributeError:  # raised by the standard library for an answer that another thread closes meanwhile
            if not self._is_closed:
                raise
            data = b""
        if not data:
            self._disconnect()
            if not self._has_received:
                self._delay(end_s)
            return
        self._has_received, self._empty_connections = True, 0
        self._frames = self._decoded(data)

    def _delay(self, end_s: float | None) -> None:
        """Delay the next attempt, longer each time, because the runtime has accepted a connection and sent nothing."""
        patience, self._empty_connections = self._patience, self._empty_connections + 1
        wait_s = min(patience.first_s * 2.0 ** min(self._empty_connections - 1, _MOST_DOUBLED), patience.most_s)
        if end_s is not None:
            wait_s = max(0.0, min(wait_s, end_s - self._now_s()))
        if not self._is_closed:
            self._sleep(wait_s * random.uniform(0.5, 1.0))

    def _decoded(self, data: bytes) -> Iterator[Frame]:
        try:
            yield from self._decoder.feed(data)
        except FrameError as error:
            raise ProtocolError(str(error)) from None

    def _connect(self, end_s: float | None) -> None:
        """Connect, with retries; return without a connection at ``end_s``, and once the stream is closed.

        Raises `ClientError` once `Patience` is exhausted, and at once for a refusal that a retry cannot change.
        """
        begun_s, wait_s = self._now_s(), self._patience.first_s
        while not self._is_closed:
            try:
                self._connection, answer = self._port.begin(self._path(), self._patience.silence_s)
            except (ConnectionFailedError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.status not in _TRY_LATER:
                    raise
                now_s = self._now_s()
                if end_s is not None and now_s + wait_s >= end_s:
                    self._sleep(max(0.0, end_s - now_s))
                    return
                if now_s + wait_s - begun_s > self._patience.reconnect_s:
                    raise
                self._sleep(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(2 * wait_s, self._patience.most_s)
                continue
            self._answer = answer
            self.connected += 1
            self._has_received = False
            self.run = answer.headers.get("deltabook-run", "") or self.run
            self._decoder, self._frames = FrameDecoder(), iter(())
            return

    def _path(self) -> str:
        names = [name for name in self._names if name in self._left]
        path = f"/v1/changes?views={','.join(quote(name, safe='') for name in names)}"
        if self._by == "version":
            return path
        start = ",".join(f"{quote(name, safe='')}:{self._received[name]}" for name in names if name in self._received)
        return f"{path}&by=epoch" + (f"&from={start}&run={quote(self.run, safe='')}" if start else "")

    def _disconnect(self) -> None:
        connection, self._connection, self._answer = self._connection, None, None
        self._frames = iter(())
        if connection is not None:
            connection.close()

    def _change(self, frame: Frame) -> Change | None:
        """Return the change of a frame; None if nothing changed."""
        head, name = frame.header, frame.header.view
        if head.kind == "heartbeat" or name not in self._left:
            return None
        if self._by == "epoch" and head.kind in {"changes", "progress"}:
            if head.from_epoch != self._received.get(name):
                raise ProtocolError(
                    f"expected changes of {name} from epoch {self._received.get(name)} on, was {head.from_epoch}"
                )
            self._received[name] = head.to_epoch
            if head.kind == "progress":
                return None
        begin = head.from_epoch
        if head.kind == "error":
            self._left.discard(name)
        elif self._by == "epoch":
            begin = 0 if head.kind == "snapshot" else self._delivered.get(name, head.from_epoch)
            self._received[name] = self._delivered[name] = head.to_epoch
        return Change(
            name,
            "ended" if head.kind == "error" else "snapshot" if head.kind == "snapshot" else "changes",
            begin,
            head.to_epoch,
            _exact(frame.rows) if frame.rows is not None else pa.table({"weight": pa.array([], pa.int64())}),
            head.reason,
            head.feed,
            head.time_ns,
            head.step,
        )


def _exact(table: pa.Table) -> pa.Table:
    """Replace integers that have a scale by decimals with the same digits."""
    for place, field in enumerate(table.schema):
        scale = int((field.metadata or {}).get(b"scale", 0))
        if scale:
            whole = table.column(place).combine_chunks().cast(pa.decimal128(38, 0))
            exact = pa.Array.from_buffers(pa.decimal128(38, scale), len(whole), whole.buffers(), offset=whole.offset)
            table = table.set_column(place, pa.field(field.name, exact.type, field.nullable), exact)
    return table
