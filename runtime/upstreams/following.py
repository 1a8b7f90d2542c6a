"""Follower of an upstream's log: a thread that polls for the next epoch, and offers it until it is taken."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

import msgspec

from runtime.epochs import EpochLogError
from runtime.upstreams.log import UpstreamEpoch, UpstreamLog

__all__ = ["Follower", "FollowerFigures", "UpstreamSink"]

_POLL_SECONDS: Final = 0.002
"""Poll interval in seconds while epochs arrive; a look-up of a missing name takes some microseconds."""
_IDLE_SECONDS: Final = 0.02
"""Poll interval in seconds while no epoch arrives."""
_ACTIVE_SECONDS: Final = 1.0
"""Time in seconds after an epoch during which further epochs are expected."""
_NEWEST_SECONDS: Final = 0.2
"""Interval in seconds at which the newest epoch of the log is looked up."""
_SHUT_SECONDS: Final = 1.0
"""Longest wait in seconds while an epoch is refused or offers are paused; `resume` and `shut` end it earlier."""
_JOIN_SECONDS: Final = 10.0
"""Longest wait in seconds for the end of the thread."""


class UpstreamSink(Protocol):
    """Sink of an upstream's epochs. Called on the follower's thread; no call blocks."""

    def offer(self, epoch: UpstreamEpoch) -> bool:
        """Take an epoch and return True, or return False: the epoch is then offered again after `Follower.resume`."""

    def failed(self, reason: str) -> None:
        """Note that the log cannot be read any further."""


class FollowerFigures(msgspec.Struct, frozen=True):
    """Counters of a follower since it was opened; replaced as a whole."""

    newest: int = -1
    """Newest epoch of the log at the last poll."""
    taken: int = -1
    """Newest epoch that was taken."""
    epochs: int = 0
    """Number of epochs taken."""
    taken_ns: int = 0
    """Time at which the newest taken epoch was sealed, in nanoseconds since the UTC epoch."""
    messages: int = 0
    """Number of messages in the epochs taken."""
    rows: int = 0
    """Number of rows of relations in the epochs taken."""
    bytes: int = 0
    """Size of these rows in bytes."""
    busy_s: float = 0.0
    """Processor time in seconds of the thread for polling, reading, checking and offering."""


class Follower:
    """Follower of one upstream. The owner calls `open` and `close`; any thread may call `resume`."""

    def __init__(self, log: UpstreamLog) -> None:
        self.log = log
        """Log that is read; used only by the follower's thread after `open`."""
        self.figures = FollowerFigures()
        """Counters, which any thread may read."""
        self._pending: UpstreamEpoch | None = None  # epoch that the sink refused, to be offered again
        self._wake = threading.Event()
        self._stopped = False
        self._is_shut = False
        self._thread: threading.Thread | None = None

    def open(self, sink: UpstreamSink) -> None:
        """Start the thread, which reads the epochs after the log's position."""
        self._thread = threading.Thread(
            target=self._follow, args=(sink,), name=f"upstream {self.log.name}", daemon=True
        )
        self._thread.start()

    def resume(self) -> None:
        """Offer the refused epoch again, as there is room."""
        self._wake.set()

    def shut(self, is_shut: bool) -> None:
        """Pause the offers, or resume them."""
        self._is_shut = is_shut
        self._wake.set()

    def close(self) -> None:
        """Stop the thread, and wait up to 10 s for its end; an epoch that was not taken is dropped."""
        self._stopped = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_SECONDS)

    def _follow(self, sink: UpstreamSink) -> None:
        try:
            self._read(sink)
        except Exception as error:  # noqa: BLE001 (any failure is reported: it must not look like a quiet market)
            if not self._stopped:
                names_place = isinstance(error, (EpochLogError, OSError))
                sink.failed(str(error) if names_place else f"upstream {self.log.name}: {type(error).__name__}: {error}")

    def _read(self, sink: UpstreamSink) -> None:
        newest_s = taken_s = -1e9  # times of the last look-up of the newest epoch, and of the last taken epoch
        while not self._stopped:
            now_s = time.monotonic()
            if now_s - newest_s >= _NEWEST_SECONDS:
                newest_s = now_s
                self._note(newest=self.log.newest())
            # Cleared before the poll, because there may be room again before an offer has returned.
            self._wake.clear()
            if self.poll(sink):
                taken_s = now_s
            elif self._pending is not None or self._is_shut:
                self._wake.wait(_SHUT_SECONDS)
            else:
                self._wake.wait(_POLL_SECONDS if now_s - taken_s < _ACTIVE_SECONDS else _IDLE_SECONDS)

    def poll(self, sink: UpstreamSink) -> bool:
        """Offer the next or the refused epoch; return True if it was taken. Raise the errors of the log."""
        if self._is_shut:
            return False
        if self._pending is None:
            self._pending = self.log.next()
        epoch = self._pending
        if epoch is None or not sink.offer(epoch):
            return False
        self._pending = None
        figures = self.figures
        self._note(
            newest=max(figures.newest, epoch.position.epoch),
            taken=epoch.position.epoch,
            epochs=figures.epochs + 1,
            taken_ns=epoch.time_ns,
            messages=figures.messages + epoch.messages,
            rows=figures.rows + sum(rows.num_rows for rows in epoch.relations.values()),
            bytes=figures.bytes + epoch.size,
        )
        return True

    def _note(self, **figures: int) -> None:
        self.figures = msgspec.structs.replace(self.figures, busy_s=time.thread_time(), **figures)
