"""How much may be on its way between the sources and the epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from runtime.formats import RawBuffer

__all__ = ["Admission"]


class _Window:
    """What is on its way of one origin: the buffers behind `done`."""

    __slots__ = ("bytes", "done", "is_refused", "on_drained", "resume", "sizes", "weight")

    def __init__(self, resume: Callable[[], None], weight: int) -> None:
        self.resume = resume
        self.weight = weight
        self.done = 0  # all buffers up to this number have left
        self.sizes: dict[int, int] = {}  # by number; of one that has left before an earlier one: the complement
        self.bytes = 0
        self.is_refused = False
        self.on_drained: Callable[[], None] | None = None


class Admission:
    """Admits raw buffers while there is room, and tells sources that were refused when there is again.

    A buffer is on its way until it and all earlier ones of its origin have left: whatever its tuples wait for in a
    formatter, or its batches in front of the epoch, is then over. So a worker that is stuck holds its origin back after
    a bounded number of buffers and bytes, and a tuple over any number of buffers without a delimiter does not. One
    buffer is always admitted, however large. While origins wait for room in the total, others queue behind them, so
    that many small buffers never keep a large one out. Thread-safe; sources offer in order, so that what others wait
    for is on its way.
    """

    def __init__(self, total_bytes: int, origin_bytes: int, origin_buffers: int) -> None:
        """Bounds: bytes over all origins, bytes of one, buffers of one."""
        self._total_bytes = total_bytes
        self._origin_bytes = origin_bytes
        self._origin_buffers = origin_buffers
        self._lock = threading.Lock()
        self._windows: dict[int, _Window] = {}
        self._bytes = 0
        self._refused: dict[int, int] = {}  # origins that the total held back, in order, and how much each wants
        self._granted: set[int] = set()  # of those the ones that were told to offer again and have not yet
        self._closed = False

    def open(self, origin_id: int, resume: Callable[[], None], weight: int = 1) -> None:
        """An origin begins, or begins anew, with buffer 1; each byte of it counts as ``weight``."""
        with self._lock:
            self._windows[origin_id] = _Window(resume, weight)
            self._refused.pop(origin_id, None)
            self._granted.discard(origin_id)

    def close(self) -> None:
        """Nothing is admitted any more."""
        with self._lock:
            self._closed = True

    @property
    def bytes(self) -> int:
        """How much is on its way."""
        return self._bytes

    def enter(self, raw: RawBuffer) -> bool:
        """Whether the buffer is admitted; if not, its source is told when to offer it again."""
        number = raw.sequence_number
        with self._lock:
            window = self._windows.get(raw.origin_id)
            if self._closed or window is None:
                return False
            size = len(raw.data) * window.weight
            if window.sizes and (
                number > window.done + self._origin_buffers or window.bytes + size > self._origin_bytes
            ):
                window.is_refused = True
                return False
            if self._bytes and (self._is_behind(raw.origin_id) or self._bytes + size > self._total_bytes):
                self._granted.discard(raw.origin_id)
                self._refused[raw.origin_id] = size
                return False
            self._granted.discard(raw.origin_id)
            self._refused.pop(raw.origin_id, None)
            window.sizes[number] = size
            window.bytes += size
            self._bytes += size
            return True

    def leave(self, raws: Sequence[RawBuffer]) -> None:
        """These have been formatted and accepted; their sources may be resumed by this call."""
        calls: list[Callable[[], None]] = []
        with self._lock:
            touched = set()
            for raw in raws:
                window = self._windows[raw.origin_id]
                window.sizes[raw.sequence_number] = ~window.sizes[raw.sequence_number]
                touched.add(raw.origin_id)
            for origin_id in touched:
                self._advance(self._windows[origin_id], calls)
            wanted = self._bytes
            while self._refused:
                origin_id = next(iter(self._refused))
                wanted += self._refused[origin_id]
                if wanted > self._total_bytes and wanted > self._refused[origin_id]:  # one always finds room
                    break
                del self._refused[origin_id]
                self._granted.add(origin_id)
                calls.append(self._windows[origin_id].resume)
        for call in calls:
            call()

    def when_drained(self, origin_id: int, call: Callable[[], None]) -> None:
        """Call this once nothing of the origin is on its way any more."""
        with self._lock:
            window = self._windows.get(origin_id)
            if window is not None and window.sizes:
                window.on_drained = call
                return
        call()

    def _is_behind(self, origin_id: int) -> bool:
        """Whether another origin has waited for longer, and this one was not told to come."""
        return bool(self._refused) and origin_id not in self._granted and next(iter(self._refused)) != origin_id

    def _advance(self, window: _Window, calls: list[Callable[[], None]]) -> None:
        sizes = window.sizes
        before = window.done
        while (left := sizes.get(window.done + 1, 0)) < 0:
            window.done += 1
            del sizes[window.done]
            window.bytes -= ~left
            self._bytes -= ~left
        if window.is_refused and window.done > before:
            window.is_refused = False
            calls.append(window.resume)
        if window.on_drained is not None and not sizes:
            calls.append(window.on_drained)
            window.on_drained = None
