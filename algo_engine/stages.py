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

    Not thread-safe: called only on the reactor's thread.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        """Create the durations; ``seconds`` is a monotonic clock."""
        self._seconds = seconds
        self._read_s = 0.0
        self._called_s: float | None = None
        self.frame = Durations()
        """Durations from reading a frame's last bytes until strategies are called with its change."""
        self.journal = Durations()
        """Durations from that call, or from a request that no frame caused, until the requests of the turn are written.
        """
        self.wire = Durations()
        """Durations from the end of the stage `journal` until the socket or the transport's buffer has the bytes."""
        self.fsync = Durations()
        """Durations of the journals' fsyncs, before or after the sending."""

    def frame_read(self) -> None:
        """Note that bytes of frames have arrived."""
        self._read_s = self._seconds()

    def strategies_called(self) -> None:
        """Note that strategies are about to be called with the change of a frame."""
        self._called_s = self._seconds()
        self.frame.add(self._called_s - self._read_s)

    def strategies_returned(self) -> None:
        """Note that the strategies have returned: the change is not the cause of later requests."""
        self._called_s = None

    def requested(self) -> float:
        """Note the first request of a turn; return the time of its cause."""
        return self._seconds() if self._called_s is None else self._called_s

    def written(self, requested_s: float) -> float:
        """Note that the requests of a turn are written down; return the time."""
        now_s = self._seconds()
        self.journal.add(now_s - requested_s)
        return now_s

    def sent(self, written_s: float) -> None:
        """Note that the requests are sent."""
        self.wire.add(self._seconds() - written_s)
