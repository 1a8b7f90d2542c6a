"""Passes raw buffers to a formatter, on one thread or several, and collects its batches in stream order."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock, Semaphore, Thread
from typing import Any

import pyarrow as pa

from runtime.formats import (
    DeadLetter,
    DuplicateSequenceError,
    FormattedBatch,
    InOrder,
    InputFormatter,
    RawBuffer,
)
from tests.conformance.formats.sample import rows_as_text

__all__ = ["COUNTS", "Outcome", "drive"]

COUNTS = ("tuples", "bad", "filtered", "nulled")
"""Names of the counts of a batch."""
_CAPACITY = 1 << 20
_REPEATS = 200
_TWICE = 0.1
"""Share of the groups after which one of their buffers is offered again."""


@dataclass
class Outcome:
    """Output of a formatter for one origin."""

    batches: list[FormattedBatch] = field(default_factory=list)
    """Batches in stream order."""
    counters: Any = None
    """Counters of the origin in the formatter before the origin was finished."""
    repeats: int = 0
    """Number of buffers that were out of range and were repeated."""

    @property
    def rows(self) -> list[str]:
        """All rows as text."""
        batches = [batch.rows for batch in self.batches]
        if not batches:
            return []
        if not batches[0].num_columns:
            return ["()"] * sum(batch.num_rows for batch in batches)
        return rows_as_text(pa.Table.from_batches(batches))

    @property
    def ends(self) -> list[int]:
        """Offset in the stream at which the tuple of each row ends."""
        return [end for batch in self.batches for end in batch.row_ends.tolist()]

    @property
    def numbers(self) -> list[int]:
        """Number of each row's tuple in the stream."""
        return [number for batch in self.batches for number in batch.tuple_numbers.tolist()]

    @property
    def letters(self) -> list[DeadLetter]:
        """All dead letters."""
        return [letter for batch in self.batches for letter in batch.dead]

    @property
    def failure(self) -> DeadLetter | None:
        """First bad tuple if the policy is to fail, otherwise None."""
        return next((batch.failure for batch in self.batches if batch.failure is not None), None)

    def total(self, name: str) -> int:
        """Return the sum of one of the batches' counts."""
        return sum(getattr(batch, name) for batch in self.batches)


class _Collector:
    """Puts the batches of each origin in order."""

    def __init__(self, origins: Sequence[int]) -> None:
        self._lock = Lock()
        self._order = {origin: InOrder(_CAPACITY) for origin in origins}
        self.outcomes = {origin: Outcome() for origin in origins}

    def add(self, batches: Sequence[FormattedBatch], again: Sequence[RawBuffer] = ()) -> None:
        """Add batches of any origins, and count buffers that were out of range."""
        with self._lock:
            for raw in again:
                self.outcomes[raw.origin_id].repeats += 1
            for batch in batches:
                self.outcomes[batch.origin_id].batches += self._order[batch.origin_id].add([batch])

    def check_empty(self) -> None:
        """Check that no batch waits for an earlier one."""
        for origin, order in self._order.items():
            assert order.waiting == 0, f"expected no batch of origin {origin} left waiting, was {order.waiting}"


def drive(
    formatter: InputFormatter,
    raws: Sequence[RawBuffer],
    rng: random.Random,
    *,
    workers: int = 0,
    most: int = 0,
    most_bytes: int = 1 << 20,
    ahead: int = 0,
) -> dict[int, Outcome]:
    """Format the raw buffers in their order and finish their origins; return the outcomes by origin.

    With 0 ``workers`` the buffers are formatted on this thread, in groups of a random size up to ``most``, which is
    random by default. ``most_bytes`` is the largest number of bytes that a worker takes at once. ``ahead`` is the
    largest distance of an offered buffer from the oldest one that is not yet formatted, 0 for any distance. Buffers
    that are out of range are repeated; too many repetitions are an error.
    """
    origins = sorted({raw.origin_id for raw in raws})
    collector = _Collector(origins)
    if workers:
        _with_workers(workers, _Workers(formatter, collector, _Gate(raws, ahead or len(raws)), most_bytes))
    else:
        _alone(formatter, raws, collector, rng, most or rng.choice((1, 1, 2, 8, 64, 1000)), ahead or len(raws))
    for origin in origins:
        collector.outcomes[origin].counters = formatter.counters(origin)
        collector.add(formatter.finish(origin))
    collector.check_empty()
    assert formatter.held_bytes() == 0, f"expected nothing held at the end, was {formatter.held_bytes()} bytes"
    return collector.outcomes


def _alone(
    formatter: InputFormatter,
    raws: Sequence[RawBuffer],
    collector: _Collector,
    rng: random.Random,
    most: int,
    ahead: int,
) -> None:
    gate, todo, repeats = _Gate(raws, ahead), list[RawBuffer](), 0
    held = _Held(formatter, raws)
    while todo := [*todo, *gate.open()]:
        size = rng.randint(1, most)
        group, todo = todo[:size], todo[size:]
        formatted = formatter.format(group)
        collector.add(formatted.batches, formatted.again)
        todo += formatted.again
        gate.accepted(group, formatted.again)
        held.check(group, formatted.again)
        if len(formatted.again) < len(group) and rng.random() < _TWICE:
            _offer_again(formatter, rng.choice([raw for raw in group if raw not in formatted.again]))
        repeats += len(formatted.again)
        assert repeats <= _REPEATS * len(raws) + 1000, f"expected an end to repeating, was {repeats} times"


def _offer_again(formatter: InputFormatter, raw: RawBuffer) -> None:
    """Check that a buffer that was formatted before is refused, and changes nothing."""
    held = formatter.held_bytes()
    try:
        formatter.format([raw])
    except DuplicateSequenceError:
        assert formatter.held_bytes() == held, f"expected {held} bytes held, was {formatter.held_bytes()}"
    else:
        raise AssertionError(f"expected buffer {raw.sequence_number} to be refused the second time, was taken")


class _Gate:
    """Offers buffers as a source does, a number of them ahead of the oldest one that is not formatted.

    Not thread-safe: its callers share a lock.
    """

    def __init__(self, raws: Sequence[RawBuffer], ahead: int) -> None:
        self._raws, self._ahead = raws, ahead
        self._numbers = {id(raw): number for number, raw in enumerate(raws)}
        self._accepted = bytearray(len(raws))
        self._oldest = self._next = 0

    def open(self) -> Sequence[RawBuffer]:
        """Return the buffers that may be offered now."""
        start, self._next = self._next, min(self._oldest + self._ahead, len(self._raws))
        return self._raws[start : self._next]

    def accepted(self, group: Sequence[RawBuffer], again: Sequence[RawBuffer]) -> None:
        """Note that the buffers of a group were formatted, except those to be repeated."""
        for raw in group:
            self._accepted[self._numbers[id(raw)]] = 1
        for raw in again:
            self._accepted[self._numbers[id(raw)]] = 0
        oldest = self._accepted.find(0, self._oldest)
        self._oldest = oldest if oldest >= 0 else len(self._raws)

    @property
    def is_done(self) -> bool:
        """True if all buffers have been formatted."""
        return self._oldest == len(self._raws)


class _Held:
    """Checks that a formatter stores no more than the buffers that came too early and one incomplete tuple.

    Nothing is checked for encoded buffers, whose decoded size is unknown, or if sequence numbers start again.
    """

    def __init__(self, formatter: InputFormatter, raws: Sequence[RawBuffer]) -> None:
        self._formatter = formatter
        self._sizes = {(raw.origin_id, raw.sequence_number): len(raw.data) for raw in raws}
        self._early: dict[tuple[int, int], int] = {}
        self._origins = {raw.origin_id for raw in raws}
        self._is_asked = len(self._sizes) == len(raws) and all(raw.offset >= 0 for raw in raws)
        largest = max(self._sizes.values(), default=0)
        self._room = len(self._origins) * (formatter.schema.limits.tuple_bytes + 2 * largest)

    def check(self, group: Sequence[RawBuffer], again: Sequence[RawBuffer]) -> None:
        """Check the stored bytes after a call; ``group`` are its buffers, ``again`` those to be repeated."""
        if not self._is_asked:
            return
        repeated = {(raw.origin_id, raw.sequence_number) for raw in again}
        for raw in group:
            key = (raw.origin_id, raw.sequence_number)
            if key not in repeated:
                self._early[key] = self._sizes[key]
        for origin in self._origins:
            mark = self._formatter.watermark(origin)
            for key in [key for key in self._early if key[0] == origin and key[1] <= mark]:
                del self._early[key]
        room = self._room + sum(self._early.values())
        held = self._formatter.held_bytes()
        assert held <= room, f"expected at most {room} bytes held, was {held}"


class _Workers:
    """State that the workers of one run share."""

    def __init__(self, formatter: InputFormatter, collector: _Collector, gate: _Gate, most_bytes: int) -> None:
        self.formatter, self.collector, self.gate, self.most_bytes = formatter, collector, gate, most_bytes
        self.pending: deque[RawBuffer] = deque()
        self.tasks = Semaphore(0)
        self.lock = Lock()
        self.repeats_left = 1_000_000
        self.error: BaseException | None = None

    def let_in(self) -> None:
        """Offer as many buffers as are possible now, each with a task."""
        with self.lock:
            coming = self.gate.open()
            self.pending.extend(coming)
        for _ in coming:
            self.tasks.release()

    def work(self) -> None:
        """Take tasks until all buffers are formatted or something failed."""
        try:
            while True:
                self.tasks.acquire()
                if self.gate.is_done or self.error is not None:
                    return
                if taken := self._take():
                    self._format(taken)
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it again
            self.error = error
            self.tasks.release(100)

    def _take(self) -> list[RawBuffer]:
        """Return the buffers that have waited longest, as many as one call may take; at least one if any waits."""
        taken: list[RawBuffer] = []
        room = self.most_bytes
        with self.lock:
            while self.pending and (not taken or len(self.pending[0].data) <= room):
                taken.append(self.pending.popleft())
                room -= len(taken[-1].data)
        return taken

    def _format(self, taken: list[RawBuffer]) -> None:
        formatted = self.formatter.format(taken)
        self.collector.add(formatted.batches, formatted.again)
        again = formatted.again
        with self.lock:
            self.gate.accepted(taken, again)
            self.repeats_left -= len(again)
            assert self.repeats_left > 0, "expected an end to repeating, was without one"
        if again:
            with self.lock:
                self.pending.extend(again)
            self.tasks.release(len(again))
        self.let_in()
        if self.gate.is_done:
            self.tasks.release(100)


def _with_workers(workers: int, shared: _Workers) -> None:
    if shared.gate.is_done:
        return
    threads = [Thread(target=shared.work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    shared.let_in()
    for thread in threads:
        thread.join()
    if shared.error is not None:
        raise shared.error
