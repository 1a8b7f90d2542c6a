"""Durations of the stages of an order in this process, from a frame of a view to the exchange's socket."""

from __future__ import annotations

from collections.abc import Callable

from deltabook.wire.durations import Durations

__all__ = ["OrderStages"]


class OrderStages:
    """Durations of the stages of all strategies of a process; a stage costs two reads of the clock.

    ```
    frame read ──frame──▶ strategies called ──journal──▶ requests written down ──wire──▶ requests in the socket
    ```

    Belongs to the reactor's thread.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        """``seconds`` is a monotonic clock."""
        self._seconds = seconds
        self._read_s = 0.0
        self._called_s: float | None = None
        self.frame = Durations()
        """From reading a frame's last bytes until strategies are called with its change."""
        self.journal = Durations()
        """From that call, or from a request that a frame did not cause, until the requests of the turn are written."""
        self.wire = Durations()
        """From there until the socket has taken their bytes, or the transport keeps them for it."""
        self.fsync = Durations()
        """Durations of the journals' fsyncs, before or after the sending."""

    def frame_read(self) -> None:
        """Bytes of frames have arrived."""
        self._read_s = self._seconds()

    def strategies_called(self) -> None:
        """A frame has become a change, which strategies are about to be called with."""
        self._called_s = self._seconds()
        self.frame.add(self._called_s - self._read_s)

    def strategies_returned(self) -> None:
        """End the change: it is not the cause of later requests."""
        self._called_s = None

    def requested(self) -> float:
        """The first request of a turn is made; returns when its cause was there."""
        return self._seconds() if self._called_s is None else self._called_s

    def written(self, requested_s: float) -> float:
        """The requests of a turn are written down; returns the time."""
        now_s = self._seconds()
        self.journal.add(now_s - requested_s)
        return now_s

    def sent(self, written_s: float) -> None:
        """They are sent."""
        self.wire.add(self._seconds() - written_s)
