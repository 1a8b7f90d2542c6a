"""One origin inside the formatter: its buffers become units, units become parts of whole tuples.

A run whose cut depends on the bytes before it is held until these are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter, sub
from threading import Lock

from runtime.formats.assembly.shredder import SequenceShredder
from runtime.formats.assembly.spanning import SpanningTuples, TuplePart, Unit
from runtime.formats.buffers import FormatCounters, RawBuffer
from runtime.formats.codecs import Codec
from runtime.formats.errors import DuplicateSequenceError, FormatError, SequenceGapError
from runtime.formats.format import InputFormatIndexer, Run

__all__ = ["OriginStream", "Settling"]


class Settling:
    """Propagation of the state at the end of a run to its right neighbour; the caller has the origin's lock.

    The worker that adds a missing neighbour continues with all runs whose state is then known. Memory is bounded by the
    pending runs, and by one state for each place where a run has ended and none has started yet.
    """

    def __init__(self, initial_state: int) -> None:
        self._initial_state = initial_state
        self._waiting: dict[int, Unit] = {}  # by first position
        self._positions: set[int] = set()  # positions of all pending raw buffers
        self._states: dict[int, int] = {1: initial_state}  # by position of a raw buffer: the state at its start
        self._started: set[int] = set()  # positions whose state is not needed any more

    def holds(self, first: int, last: int) -> bool:
        """Return True if one of these positions is pending."""
        return bool(self._positions) and not self._positions.isdisjoint(range(first, last + 1))

    def settle(self, units: Sequence[Unit]) -> list[Unit]:
        """Return the units whose cut is known now, including pending units that waited for one of ``units``."""
        settled: list[Unit] = []
        for unit in units:
            index = unit.index
            assert index is not None
            if (state := self._states.pop(unit.first, None)) is not None:
                self._hand_on(unit.last + 1, self._settle(unit, state, settled), settled)
            elif (cut := index.settled) is not None:
                unit.cut = cut
                settled.append(unit)
                self._started.add(unit.first)
                self._hand_on(unit.last + 1, cut.end_state, settled)
            else:
                self._waiting[unit.first] = unit
                self._positions.update(range(unit.first, unit.last + 1))
                if (end := index.end_state) is not None:
                    self._hand_on(unit.last + 1, end, settled)
        return settled

    def end_state(self, position: int) -> int:
        """Return the state at the end of a stream whose last raw buffer has this position."""
        return self._states.get(position + 1, self._initial_state)

    def check_empty(self) -> None:
        """Raise `SequenceGapError` if a run is pending at the end of a stream."""
        if self._waiting:
            raise SequenceGapError(
                f"expected every buffer at the end of the stream, was without the buffer before {min(self._waiting)}"
            )

    def held_bytes(self) -> int:
        """Return the size of the pending runs in bytes."""
        return sum(unit.run.length for unit in self._waiting.values())

    def _settle(self, unit: Unit, state: int, settled: list[Unit]) -> int:
        """Settle a unit; return the state at the run's end."""
        assert unit.index is not None
        unit.state, unit.cut = state, unit.index.cut(state)
        settled.append(unit)
        return unit.cut.end_state

    def _hand_on(self, position: int, state: int, settled: list[Unit]) -> None:
        """Settle the run that is pending at a position whose state is known, and the runs after it."""
        while (unit := self._waiting.pop(position, None)) is not None:
            self._positions.difference_update(range(unit.first, unit.last + 1))
            state = self._settle(unit, state, settled)
            if unit.index is None or unit.index.end_state is not None:
                return  # the next run got its state when this run arrived
            position = unit.last + 1
        if position in self._started:
            self._started.remove(position)
        else:
            self._states[position] = state


_by_number = attrgetter("sequence_number")
_data_of = attrgetter("data")


class OriginStream:
    """Stream of one origin. Any thread may call `units`; `check`, `admit` and `last` need the lock, and are fast.

    If one codec compresses the whole stream or the format is ordered, buffers must be processed in stream order. Even
    then no worker waits for its turn: it leaves its buffers to the worker that has the turn, which processes them too.
    """

    def __init__(
        self,
        origin_id: int,
        indexer: InputFormatIndexer,
        shredder: SequenceShredder,
        *,
        tuple_bytes: int,
        offset: int,
        codec: Codec | None,
    ) -> None:
        self.origin_id = origin_id
        self.shredder = shredder
        self.lock = Lock()
        self._indexer = indexer
        self._spanning = SpanningTuples(tuple_bytes)
        self._settling = Settling(indexer.initial_state)
        self._offset = offset
        self._codec = codec
        self._decoder = codec.decoder() if codec is not None and codec.mode == "sequential" else None
        self._in_turn = indexer.ordered or self._decoder is not None
        self._turn = Lock()
        self._arrived: dict[int, RawBuffer] = {}
        self._next = 1
        self._ready: list[Unit] = []
        self._broken: FormatError | None = None

    def units(self, raws: Sequence[RawBuffer], again: list[RawBuffer]) -> list[Unit]:
        """Return neighbouring buffers as units; append buffers beyond the shredder's range to ``again``.

        The caller does not hold the lock, which is taken here only if buffers are processed in stream order. Raise
        `DuplicateSequenceError` for a number that was given twice, and `CodecError` for a buffer that cannot be
        decoded.
        """
        neighbours = [raws]
        if len(raws) > 1:
            raws = sorted(raws, key=_by_number)
            numbers = list(map(_by_number, raws))
            steps = list(map(sub, numbers[1:], numbers))
            if steps.count(1) != len(steps):
                if 0 in steps:
                    raise DuplicateSequenceError(
                        f"expected each sequence number once, was {numbers[steps.index(0)]} twice in one call"
                    )
                borders = [0, *[i for i, step in enumerate(steps, 1) if step != 1], len(raws)]
                neighbours = [raws[start:stop] for start, stop in pairwise(borders)]
            else:
                neighbours = [raws]
        limit = self.shredder.limit
        runs: list[tuple[int, Sequence[RawBuffer]]] = []
        for run in neighbours:
            first = self.shredder.position(run[0].sequence_number)
            room = limit - first
            if len(run) <= room:
                runs.append((first, run))
                continue
            room = max(0, room)
            again += run[room:]
            self.shredder.refuse(len(run) - room)
            if room:
                runs.append((first, run[:room]))
        return self._queue_for_turn(runs) if self._in_turn else [self._unit(first, run) for first, run in runs]

    def _unit(self, first: int, raws: Sequence[RawBuffer]) -> Unit:
        pieces = list(map(_data_of, raws))
        if self._codec is not None:
            pieces = list(map(self._codec.decode_buffer, pieces))
        return Unit(first, first + len(raws) - 1, Run(pieces, raws[0].offset))

    def check(self, units: Sequence[Unit]) -> None:
        """Raise `DuplicateSequenceError` if a buffer was entered already; the caller has the lock."""
        try:
            for unit in units:
                if self.shredder.holds(unit.first, unit.last) or self._settling.holds(unit.first, unit.last):
                    raise DuplicateSequenceError(
                        f"expected each sequence number once, was one of {self.shredder.number(unit.first)} to "
                        f"{self.shredder.number(unit.last)} again"
                    )
        except DuplicateSequenceError as error:
            error.origin_id = self.origin_id
            raise

    def admit(self, units: Sequence[Unit]) -> list[TuplePart]:
        """Return the whole tuples that these units complete; the caller has the lock and has checked them."""
        parts: list[TuplePart] = []
        spanning = self._spanning
        for unit in self._settling.settle(units):
            cut = unit.cut
            assert cut is not None
            completed = self.shredder.process(unit.first, unit.last, cut.first >= 0)
            assert completed is not None  # nothing leaves the range any more
            if unit.first == 1:
                spanning.start_at(unit.run.offset if unit.run.offset >= 0 else self._offset)
            body = spanning.enter(unit, cut)
            if body is not None:
                parts.append(body)
            spanning.put_together(completed, parts)
        return parts

    def last(self) -> tuple[TuplePart | None, int]:
        """Return the tuple without a delimiter at the end of the stream, and the state there; the caller has the lock.

        Raise `SequenceGapError` if a buffer is missing.
        """
        if self._arrived:
            raise SequenceGapError(
                f"expected every buffer at the end of the stream, was without {self.shredder.number(self._next)}"
            )
        self._settling.check_empty()
        span = self.shredder.open_span()
        if span is None:
            return None, 0
        return self._spanning.last(span), self._settling.end_state(span.last)

    def rest(self) -> list[Unit]:
        """At the end of the stream, return the units that were put back; raise `CodecError` if a frame is cut short."""
        self._check_sound()
        with self.lock:
            units, self._ready = self._ready, []
        if self._decoder is not None:
            self._decoder.finish()
        return units

    def put_back(self, units: Sequence[Unit]) -> None:
        """Take back units that could not be admitted because another unit failed; the next turn returns them first."""
        if self._in_turn:
            with self.lock:
                self._ready += units

    def counters(self) -> FormatCounters:
        """Return the present counters of the stream."""
        return FormatCounters(self.shredder.slots, self.held_bytes())

    def held_bytes(self) -> int:
        """Return the number of bytes that wait for a neighbouring buffer or for their turn."""
        with self.lock:
            waiting = sum([len(raw.data) for raw in self._arrived.values()])
            return waiting + self._spanning.held_bytes() + self._settling.held_bytes()

    def _queue_for_turn(self, runs: Sequence[tuple[int, Sequence[RawBuffer]]]) -> list[Unit]:
        """Queue buffers for their turn; unless another worker has the turn, take it and return its units."""
        with self.lock:
            self._check_sound()
            arrived = {first + i: raw for first, raws in runs for i, raw in enumerate(raws)}
            if arrived and (min(arrived) < self._next or not self._arrived.keys().isdisjoint(arrived)):
                number = min(position for position in arrived if position < self._next or position in self._arrived)
                raise DuplicateSequenceError(
                    f"expected each sequence number once, was {self.shredder.number(number)} again"
                )
            self._arrived.update(arrived)
        units: list[Unit] = []
        while self._is_next_here() and self._turn.acquire(blocking=False):
            try:
                self._take_turn(units)
            finally:
                self._turn.release()
        if not units:
            self._check_sound()
        return units

    def _is_next_here(self) -> bool:
        return self._broken is None and self._next in self._arrived

    def _check_sound(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _take_turn(self, units: list[Unit]) -> None:
        """Decode and index the next buffers of the stream; the caller has the turn.

        Bytes before an error are still returned; the next call raises the error, and so do all later ones.
        """
        raws: list[RawBuffer] = []
        with self.lock:
            units += self._ready
            self._ready = []
            first = self._next
            while (raw := self._arrived.pop(first + len(raws), None)) is not None:
                raws.append(raw)
            self._next = first + len(raws)
        pieces: list[bytes] = []
        try:
            for raw in raws:
                pieces.append(self._decoded(raw.data))  # noqa: PERF401 (pieces before an error stay)
        except FormatError as error:
            self._broken = error
        if pieces:
            units.append(self._in_order(first, pieces, raws[0].offset))

    def _decoded(self, data: bytes) -> bytes:
        if self._decoder is not None:
            return self._decoder.decode(data)
        return data if self._codec is None else self._codec.decode_buffer(data)

    def _in_order(self, first: int, pieces: Sequence[bytes], offset: int = -1) -> Unit:
        run = Run(pieces, self._offset if self._decoder is not None else offset)
        if self._decoder is not None:
            self._offset += run.length
        unit = Unit(first, first + len(pieces) - 1, run)
        if self._indexer.ordered:
            try:
                unit.index = self._indexer.index(run)
            except Exception as error:
                self._broken = FormatError(f"expected an index of buffers {first} to {unit.last}, was {error!r}")
                raise
        return unit
