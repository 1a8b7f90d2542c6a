"""The sequence shredder: which thread formats which spanning tuple.

Raw buffers of one origin are looked at by several threads in any order. A tuple that starts in one buffer and ends in
another belongs to exactly one of them: to the thread that adds the last missing buffer of the span. Two bits per buffer
are enough to know: *delimiter* (the buffer holds one) and *used* (nothing can start in it any more: it holds no
delimiter, or the tuple behind its last delimiter has been found)::

    sequence      1 2 3 4 5 6 7
    delimiter     1 0 0 0 0 0 1
    used          0 1 1 1 1 1 0   → whoever sets the last of these bits has found the span (1, 7)

The bits stand in slots of 64 in a ring; a bitmap is a Python int and the search is bit arithmetic on a snapshot that
was taken in the same critical section in which the bit was set. Everything set before is in the snapshot, everything
set later is not, so two threads never find the same span and none is missed.

Different from the description in the literature of this structure: the tail also moves over a slot in which only the
last delimiter is unused. The sequence number of that start is *carried*, so a tuple that spans more buffers than the
ring has bits keeps a single number alive instead of a ring, and can never block the ring for the buffer that ends it.
"""

from __future__ import annotations

from threading import Lock
from typing import Final

import msgspec

from runtime.formats.errors import DuplicateSequenceError, SequenceGapError

__all__ = ["Found", "SequenceShredder", "Span"]

SLOT_BITS: Final = 64
_FULL: Final = (1 << SLOT_BITS) - 1
_HIGHEST_SEQUENCE: Final = 2**63 - 1


class Span(msgspec.Struct, frozen=True):
    """A spanning tuple: it starts behind the last delimiter of one buffer and ends at the first of another."""

    first: int
    """Sequence number of the buffer in which it starts; 0 is the start of the stream."""
    last: int
    """Sequence number of the buffer in which it ends."""


class Found(msgspec.Struct, frozen=True):
    """What one buffer completed."""

    ending: Span | None = None
    """The span that ends in this buffer, if this call completed it."""
    others: tuple[Span, ...] = ()
    """Any other span that this call completed: it starts in this buffer or passes through it."""
    open_first: int | None = None
    """For a buffer without delimiter that completed nothing: where its still open tuple starts, if that is known."""
    open_last: int = 0
    """Then also: the last buffer up to which that tuple is known to go on."""


class SequenceShredder:
    """Finds every spanning tuple of one origin exactly once; thread-safe, in memory of two bits per buffer in flight.

    ``slots`` is the ring's first size, ``max_slots`` the size beyond which it does not grow; both powers of two. The
    ring doubles after ``growth_after`` buffers were out of range. Sequence numbers run from 1 to ``highest_sequence``
    and then start at 1 again.
    """

    def __init__(
        self,
        *,
        slots: int = 8,
        max_slots: int = 1024,
        growth_after: int = 32,
        highest_sequence: int = _HIGHEST_SEQUENCE,
    ) -> None:
        if slots < 2 or slots & (slots - 1) or max_slots < slots or max_slots & (max_slots - 1):
            raise ValueError(f"expected powers of two with 2 <= slots <= max_slots, was {slots} and {max_slots}")
        if highest_sequence < 2 * max_slots * SLOT_BITS:
            raise ValueError(
                f"expected a highest sequence of at least twice the ring ({2 * max_slots * SLOT_BITS}), "
                f"was {highest_sequence}"
            )
        self._lock = Lock()
        self._delimiters = [0] * slots
        self._used = [0] * slots
        self._max_slots = max_slots
        self._growth_after = growth_after
        self._period = highest_sequence
        self._tail = 0  # number of the oldest slot in the ring; slot s stands at index s % slots
        self._carried: int | None = None  # start of the open tuple that enters the tail slot from before it
        self._highest = 0
        self._out_of_range = 0
        self.repeats = 0
        """How many calls came out of range, since the start."""
        self._delimiters[0] = 1  # the start of the stream is a delimiter with the number 0

    @property
    def slots(self) -> int:
        """Size of the ring now, in slots of 64 buffers."""
        return len(self._used)

    def process(self, sequence_number: int, has_delimiter: bool) -> Found | None:
        """Enter a buffer and learn which spans that completed; None: out of range, to be repeated later.

        Constant work, unless the span leaves the buffer's slot: then linear in the slots. Raises
        `DuplicateSequenceError`.
        """
        with self._lock:
            position = self._position(sequence_number)
            slot, bit = divmod(position, SLOT_BITS)
            if slot >= self._tail + len(self._used):
                self._note_out_of_range()
                return None
            index, mask = slot % len(self._used), 1 << bit
            if (self._delimiters[index] | self._used[index]) & mask:
                raise DuplicateSequenceError(f"expected each sequence number once, was {sequence_number} again")
            if has_delimiter:
                self._delimiters[index] |= mask
            else:
                self._used[index] |= mask
            self._highest = max(self._highest, position)
            snapshot = self._snapshot(slot, bit)
        found, starts = self._search(snapshot, position, has_delimiter)
        with self._lock:
            for start in starts:
                self._use(start)
            self._advance()
        return found

    def open_span(self) -> Span | None:
        """At the end of a stream: from the last delimiter to the last buffer; None if there was no buffer at all.

        Raises `SequenceGapError` when a buffer before the last one never came.
        """
        with self._lock:
            self._advance()
            if self._highest == 0:
                return None
            start = self._carried
            for position in range(self._tail * SLOT_BITS, self._highest + 1):
                slot, bit = divmod(position, SLOT_BITS)
                index = slot % len(self._used)
                if self._delimiters[index] >> bit & 1:
                    start = position
                elif not self._used[index] >> bit & 1:
                    raise SequenceGapError(
                        f"expected every buffer up to {self._number(self._highest)} at the end of the stream, "
                        f"was without {self._number(position)}"
                    )
            assert start is not None
            return Span(self._number(start), self._number(self._highest))

    def _position(self, sequence_number: int) -> int:
        """The number without wrap: the one that is not before the tail and at most a period away."""
        if not 1 <= sequence_number <= self._period:
            raise ValueError(f"expected a sequence number from 1 to {self._period}, was {sequence_number}")
        base = max(self._tail * SLOT_BITS, 1)
        position = base + (sequence_number - base) % self._period
        if position - base > self._period // 2:
            raise DuplicateSequenceError(
                f"expected a sequence number from {self._number(base)} on, was {sequence_number}"
            )
        return position

    def _number(self, position: int) -> int:
        return (position - 1) % self._period + 1 if position else 0

    def _note_out_of_range(self) -> None:
        self.repeats += 1
        self._out_of_range += 1
        if self._out_of_range < self._growth_after or 2 * len(self._used) > self._max_slots:
            return
        self._out_of_range = 0
        old, size = len(self._used), 2 * len(self._used)
        delimiters, used = [0] * size, [0] * size
        for slot in range(self._tail, self._tail + old):
            delimiters[slot % size] = self._delimiters[slot % old]
            used[slot % size] = self._used[slot % old]
        self._delimiters, self._used = delimiters, used

    def _snapshot(self, slot: int, bit: int) -> _Snapshot:
        """The buffer's own slot if both ends lie in it, else the whole ring joined into two long ints."""
        index = slot % len(self._used)
        delimiters, used = self._delimiters[index], self._used[index]
        stops = ~(used & ~delimiters) & _FULL
        if stops & ((1 << bit) - 1) and stops >> (bit + 1):
            return _Snapshot(slot * SLOT_BITS, SLOT_BITS, delimiters, used, None)
        size = len(self._used)
        turn = self._tail % size
        return _Snapshot(
            self._tail * SLOT_BITS,
            size * SLOT_BITS,
            _joined(self._delimiters[turn:] + self._delimiters[:turn]),
            _joined(self._used[turn:] + self._used[:turn]),
            self._carried,
        )

    def _search(self, snapshot: _Snapshot, position: int, has_delimiter: bool) -> tuple[Found, tuple[int, ...]]:
        """The spans that the buffer completed, and the positions of their starts."""
        before = snapshot.delimiter_before(position)
        after, reach = snapshot.delimiter_after(position)
        if not has_delimiter:
            if before is None:
                return Found(), ()
            if after is None:
                return Found(open_first=self._number(before), open_last=self._number(reach)), ()
            return Found(others=(Span(self._number(before), self._number(after)),)), (before,)
        ending: Span | None = None
        others: tuple[Span, ...] = ()
        starts: tuple[int, ...] = ()
        if before is not None:
            ending, starts = Span(self._number(before), self._number(position)), (before,)
        if after is not None:
            others, starts = (Span(self._number(position), self._number(after)),), (*starts, position)
        return Found(ending, others), starts

    def _use(self, start: int) -> None:
        """Mark that the span that starts at this position was found."""
        slot, bit = divmod(start, SLOT_BITS)
        if slot >= self._tail:
            self._used[slot % len(self._used)] |= 1 << bit
        elif self._carried == start:
            self._carried = None
        else:
            raise AssertionError(f"span start {start} left the ring at tail {self._tail} unused")

    def _advance(self) -> None:
        """Move the tail over every slot in which no span can start or end any more, but for one carried start."""
        while True:
            index = self._tail % len(self._used)
            delimiters, used = self._delimiters[index], self._used[index]
            if delimiters | used != _FULL or (self._carried is not None and delimiters):
                return
            unused = delimiters & ~used
            if unused:
                bit = delimiters.bit_length() - 1
                if unused != 1 << bit:
                    return
                self._carried = self._tail * SLOT_BITS + bit
            self._delimiters[index] = self._used[index] = 0
            self._tail += 1

    def _check(self) -> None:
        """Assert every invariant."""
        with self._lock:
            size = len(self._used)
            assert len(self._delimiters) == size
            assert size & (size - 1) == 0
            assert size <= self._max_slots
            assert all(0 <= bits <= _FULL for bits in (*self._delimiters, *self._used))
            assert self._carried is None or self._carried < self._tail * SLOT_BITS
            assert self._highest < (self._tail + size) * SLOT_BITS


class _Snapshot(msgspec.Struct, frozen=True):
    """The bits as they were when one buffer was entered."""

    base: int
    bits: int
    delimiters: int
    used: int
    carried: int | None

    def _stops(self) -> int:
        """Ones where a search ends: at delimiters and at buffers that nobody has seen."""
        return ~(self.used & ~self.delimiters) & ((1 << self.bits) - 1)

    def delimiter_before(self, position: int) -> int | None:
        """The nearest delimiter below, if every buffer between was seen."""
        stops = self._stops() & ((1 << (position - self.base)) - 1)
        if not stops:
            return self.carried
        bit = stops.bit_length() - 1
        return self.base + bit if self.delimiters >> bit & 1 else None

    def delimiter_after(self, position: int) -> tuple[int | None, int]:
        """The nearest delimiter above, if every buffer between was seen; and the last of the buffers between."""
        stops = self._stops() >> (position - self.base + 1)
        if not stops:
            return None, self.base + self.bits - 1
        stop = position + (stops & -stops).bit_length()
        return (stop if self.delimiters >> (stop - self.base) & 1 else None), stop - 1


def _joined(slots: list[int]) -> int:
    """One long int of all slots, the first one lowest."""
    return int.from_bytes(b"".join([slot.to_bytes(SLOT_BITS // 8, "little") for slot in slots]), "little")
