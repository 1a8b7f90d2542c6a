"""Raw buffers in shuffled order through one formatter, on a number of worker threads."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

import msgspec

from bench.ingest.plan import WINDOW
from runtime.formats import FormattedBatch, InOrder, InputFormatter, Pushdown, RawBuffer, Schema

__all__ = ["Fed", "WrongCountError", "cut", "feed"]

_AHEAD: Final = 2
"""Number of pending blocks per worker below which more buffers are fed."""
_IN_ORDER: Final = 4096


class WrongCountError(AssertionError):
    """The number of output rows differs from that of the input."""


class Fed(msgspec.Struct, frozen=True):
    """Number of rows processed, and the time."""

    rows: int
    """Number of output rows, in stream order."""
    seconds: float
    """Seconds from the first buffer fed until the last row was in order."""


def cut(data: bytes, size: int, seed: int) -> list[RawBuffer]:
    """Return the bytes as raw buffers of this size, in the order of their arrival: shuffled within windows."""
    raws = [RawBuffer(0, number + 1, data[at : at + size], at) for number, at in enumerate(range(0, len(data), size))]
    rng = random.Random(seed)
    for start in range(0, len(raws), WINDOW):
        window = raws[start : start + WINDOW]
        rng.shuffle(window)
        raws[start : start + WINDOW] = window
    return raws


class _Run:
    """One pass of buffers through a new formatter."""

    def __init__(self, schema: Schema, pushdown: Pushdown, raws: list[RawBuffer], workers: int) -> None:
        self._formatter = InputFormatter(schema, pushdown)
        self._pending: deque[RawBuffer] = deque()
        self._pending_bytes = 0
        self._pending_lock = threading.Lock()
        self._order = InOrder(_IN_ORDER)
        self._arrivals: Iterator[RawBuffer] = iter(raws)
        self._block_bytes = self._formatter.block_bytes
        self._ahead = _AHEAD * self._block_bytes * workers
        self._at_once = max(1, (1 << 20) // len(raws[0].data))
        self._feed_lock = threading.Lock()
        self._order_lock = threading.Lock()
        self._exhausted = False
        self._rows = 0
        self._bad = 0

    def work(self) -> None:
        """Format buffers on a worker until none is left."""
        while (raws := self._next()) is not None:
            formatted = self._formatter.format(raws)
            if formatted.again:
                self._add(formatted.again)
            with self._order_lock:
                self._count(self._order.add(formatted.batches))

    def end(self, buffers: int, size: int) -> int:
        """Flush, and check that nothing is missing; return the number of rows."""
        self._count(self._order.add(self._formatter.finish(0)))
        if self._bad or self._order.waiting or self._order.last_sequence != buffers:
            raise WrongCountError(
                f"expected {buffers} buffers of {size} bytes in order and no bad tuple, was buffer "
                f"{self._order.last_sequence}, {self._order.waiting} batches waiting, {self._bad} bad tuples"
            )
        return self._rows

    def _next(self) -> list[RawBuffer] | None:
        while True:
            self._feed()
            if raws := self._take():
                return raws
            if self._exhausted and not self._pending:
                return None

    def _add(self, raws: Iterable[RawBuffer]) -> bool:
        """Add buffers after the waiting ones; return True if there were any."""
        with self._pending_lock:
            before = len(self._pending)
            self._pending.extend(raws)
            self._pending_bytes += sum([len(self._pending[at].data) for at in range(before, len(self._pending))])
            return len(self._pending) > before

    def _take(self) -> list[RawBuffer]:
        """Take about a block of bytes in the order of their arrival, as a task of the engine does."""
        taken: list[RawBuffer] = []
        size = 0
        with self._pending_lock:
            while self._pending and size < self._block_bytes:
                taken.append(self._pending.popleft())
                size += len(taken[-1].data)
            self._pending_bytes -= size
        return taken

    def _feed(self) -> None:
        while self._pending_bytes < self._ahead and not self._exhausted:
            with self._feed_lock:
                self._exhausted = not self._add(islice(self._arrivals, self._at_once))

    def _count(self, batches: list[FormattedBatch]) -> None:
        for batch in batches:
            self._rows += batch.rows.num_rows
            self._bad += batch.bad


def feed(schema: Schema, raws: list[RawBuffer], workers: int, pushdown: Pushdown | None = None) -> Fed:
    """Process all buffers with a new formatter: format the buffers, then order, count and drop the rows."""
    run = _Run(schema, pushdown or Pushdown(), raws, workers)
    with ThreadPoolExecutor(workers) as pool:
        start = time.perf_counter()
        for working in [pool.submit(run.work) for _ in range(workers)]:
            working.result()
        rows = run.end(len(raws), len(raws[0].data))
        seconds = time.perf_counter() - start
    return Fed(rows, seconds)
