"""The sequence shredder: assigns each spanning tuple to the thread that formats it.

Raw buffers of one origin are processed by several threads in any order. A tuple that starts in one buffer and ends in
another is formatted by exactly one thread: the one that adds the last missing buffer of the span. Two bits per buffer
suffice. *Delimiter* means that the buffer contains a delimiter. *Used* means that no further span can start in the
buffer: it has no delimiter, or the tuple after its last delimiter has been found::

    sequence      1 2 3 4 5 6 7
    delimiter     1 0 0 0 0 0 1
    used          0 1 1 1 1 1 0   → the thread that sets the last of these bits has found the span (1, 7)

The bits are stored in slots of 64, in a ring. A bitmap is a Python int. A search is bit arithmetic on a snapshot of the
bits, which is taken in the same critical section in which the buffer's bit is set. The snapshot contains every bit that
was set before and no bit that is set later. So two threads never find the same span, and no span is missed.
Neighbouring buffers that arrive together are entered as one buffer: if any of them has a delimiter, the delimiter bit
of the last one is set. The others count as buffers without a delimiter.

The published description of this structure differs in one point. Here the tail also moves over a slot in which only
the last delimiter is unused, and the position of that delimiter is *carried*. So for a tuple that spans more buffers
than the ring has bits, only one number is stored, and the ring can move on to the buffer that ends the tuple.
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
    """Spanning tuple: it starts after the last delimiter of one buffer and ends at the first of another.

    A buffer's position is its sequence number, except that positions continue where sequence numbers restart at 1.
    """

    first: int
    """Position of the buffer in which it starts; 0 is the start of the stream."""
    last: int
    """Position of the buffer in which it ends."""


class Found(msgspec.Struct, frozen=True):
    """Spans that one buffer, or several neighbours entered as one, completed."""

    ending: Span | None = None
    """Span that ends in this buffer, if this call completed it."""
    others: tuple[Span, ...] = ()
    """Other spans that this call completed: they start in this buffer or pass through it."""
    open_first: int | None = None
    """Start of the tuple that is still open after this buffer, if known."""
    open_last: int = 0
    """Last buffer up to which that tuple is known to continue."""


_NOTHING: Final = Found()


class SequenceShredder:
    """Search that finds each spanning tuple of one origin exactly once; thread-safe, with two bits per pending buffer.

    ``slots`` is the ring's initial size and ``max_slots`` its greatest size; both are powers of two. The ring doubles
    after ``growth_after`` buffers were out of range. Sequence numbers run from 1 to ``highest_sequence`` and then start
    at 1 again.
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
        self._tail = 0  # number of the oldest slot in the ring; slot s is at index s % slots
        self._carried: int | None = None  # start of the open tuple that enters the tail slot from before it
        self._highest = 0
        self._out_of_range = 0
        self._delimiters[0] = 1  # the start of the stream is a delimiter at position 0

    @property
    def slots(self) -> int:
        """Present size of the ring, in slots of 64 buffers."""
        return len(self._used)

    @property
    def limit(self) -> int:
        """First position that is out of range; it never falls."""
        return (self._tail + len(self._used)) * SLOT_BITS

    def position(self, sequence_number: int) -> int:
        """Return the position of a sequence number: the first position from the tail on that has this number.

        A position is returned unchanged. Raise `DuplicateSequenceError` for a number that was entered before.
        """
        base = self._tail * SLOT_BITS or 1
        position = base + (sequence_number - base) % self._period
        if position - base > self._period >> 1:
            raise DuplicateSequenceError(
                f"expected a sequence number from {self.number(base)} on, was {sequence_number} again"
            )
        return position

    def number(self, position: int) -> int:
        """Return the sequence number at a position."""
        return (position - 1) % self._period + 1 if position else 0

    def process(self, first: int, last: int, has_delimiter: bool) -> Found | None:
        """Enter the buffers from ``first`` to ``last``, numbers or positions, and return the spans completed.

        Return None if the buffers are out of range; the call must then be repeated later. Raise
        `DuplicateSequenceError`, and change nothing, for a repeated number. The work is constant if spans do not leave
        the slots of the buffers, and otherwise linear in the number of slots.
        """
        if not 1 <= first <= last:
            raise ValueError(f"expected sequence numbers from 1 on, in order, was {first} and {last}")
        with self._lock:
            start = self.position(first)
            stop = start + last - first
            if stop >= (self._tail + len(self._used)) * SLOT_BITS:
                self._refuse(1)
                return None
            self._enter(start, stop, has_delimiter)
            self._highest = max(self._highest, stop)
            below, above, carried = self._below(start), self._above(stop), self._carried
            self._advance()
        before = below.nearest(carried)
        after, reach = above.nearest_above(stop)
        if has_delimiter:
            ending = None if before is None else Span(before, stop)
            if after is None:
                completed = Found(ending, (), stop, reach) if reach > stop else Found(ending)
            else:
                completed = Found(ending, (Span(stop, after),))
        elif before is None:
            return _NOTHING
        elif after is None:
            return Found(None, (), before, reach)
        else:
            completed = Found(None, (Span(before, after),))
        if before is not None or after is not None:
            with self._lock:
                if before is not None:
                    self._use(before)
                if has_delimiter and after is not None:
                    self._use(stop)
                self._advance()
        return completed

    def holds(self, start: int, stop: int) -> bool:
        """Return True if a buffer at one of these positions was entered.

        Raise `DuplicateSequenceError` if ``start`` has left the ring, as it was entered before.
        """
        with self._lock:
            start = self.position(start)
            size = len(self._used)
            for slot, mask in _masks(start, min(stop, self.limit - 1)):
                if (self._delimiters[slot % size] | self._used[slot % size]) & mask:
                    return True
            return False

    def refuse(self, count: int) -> None:
        """Count buffers beyond `limit` that their owner did not enter."""
        with self._lock:
            self._refuse(count)

    def watermark(self) -> int:
        """Return the position up to which every buffer has been entered."""
        with self._lock:
            size = len(self._used)
            for slot in range(self._tail, self._tail + size):
                seen = self._delimiters[slot % size] | self._used[slot % size]
                if seen != _FULL:
                    return slot * SLOT_BITS + (~seen & (seen + 1)).bit_length() - 2
            return (self._tail + size) * SLOT_BITS - 1

    def open_span(self) -> Span | None:
        """Return the span from the last delimiter to the last buffer at the end of a stream; None without buffers.

        Raise `SequenceGapError` if a buffer before the last one never came.
        """
        mark = self.watermark()
        if mark < self._highest:
            raise SequenceGapError(
                f"expected every buffer up to {self.number(self._highest)} at the end of the stream, "
                f"was without {self.number(mark + 1)}"
            )
        with self._lock:
            if self._highest == 0:
                return None
            start = self._below(self._highest + 1).nearest(self._carried)
            assert start is not None
            return Span(start, self._highest)

    def _use(self, start: int) -> None:
        """Mark the span that starts there as found."""
        slot = start // SLOT_BITS
        if slot >= self._tail:
            self._used[slot % len(self._used)] |= 1 << start % SLOT_BITS
        elif self._carried == start:
            self._carried = None
        else:
            raise AssertionError(f"span start {start} left the ring at tail {self._tail} unused")

    def _refuse(self, count: int) -> None:
        self._out_of_range += count
        if self._out_of_range < self._growth_after or 2 * len(self._used) > self._max_slots:
            return
        self._out_of_range = 0
        old, size = len(self._used), 2 * len(self._used)
        delimiters, used = [0] * size, [0] * size
        for slot in range(self._tail, self._tail + old):
            delimiters[slot % size] = self._delimiters[slot % old]
            used[slot % size] = self._used[slot % old]
        self._delimiters, self._used = delimiters, used

    def _enter(self, start: int, stop: int, has_delimiter: bool) -> None:
        delimiters, used, size = self._delimiters, self._used, len(self._used)
        if start == stop:
            index, bit = start // SLOT_BITS % size, 1 << start % SLOT_BITS
            if not (delimiters[index] | used[index]) & bit:
                if has_delimiter:
                    delimiters[index] |= bit
                else:
                    used[index] |= bit
                return
        masks = _masks(start, stop)
        for slot, mask in masks:
            if again := (delimiters[slot % size] | used[slot % size]) & mask:
                number = self.number(slot * SLOT_BITS + (again & -again).bit_length() - 1)
                raise DuplicateSequenceError(f"expected each sequence number once, was {number} again")
        for slot, mask in masks:
            used[slot % size] |= mask
        if has_delimiter:
            index, bit = stop // SLOT_BITS % size, 1 << stop % SLOT_BITS
            delimiters[index] |= bit
            used[index] ^= bit

    def _below(self, start: int) -> _Snapshot:
        """Return the bits below a position, down to a slot in which the search must end."""
        delimiters, used, size = self._delimiters, self._used, len(self._used)
        slot, bit = divmod(start, SLOT_BITS)
        mask = (1 << bit) - 1
        index = slot % size
        if ~(used[index] & ~delimiters[index]) & mask or slot == self._tail:
            return _Snapshot(slot * SLOT_BITS, bit, delimiters[index] & mask, used[index] & mask)
        low = slot - 1
        while low > self._tail and used[low % size] & ~delimiters[low % size] == _FULL:
            low -= 1
        return self._joined(low, slot, 0, (slot - low) * SLOT_BITS + bit)

    def _above(self, stop: int) -> _Snapshot:
        """Return the bits above a position, up to a slot in which the search must end."""
        delimiters, used, size = self._delimiters, self._used, len(self._used)
        slot, bit = divmod(stop + 1, SLOT_BITS)
        highest = self._tail + size - 1
        if slot > highest:
            return _Snapshot(stop + 1, 0, 0, 0)
        index = slot % size
        if ~(used[index] & ~delimiters[index]) >> bit & _FULL >> bit or slot == highest:
            return _Snapshot(stop + 1, SLOT_BITS - bit, delimiters[index] >> bit, used[index] >> bit)
        high = slot + 1
        while high < highest and used[high % size] & ~delimiters[high % size] == _FULL:
            high += 1
        return self._joined(slot, high, bit, (high - slot + 1) * SLOT_BITS - bit)

    def _joined(self, low: int, high: int, shift: int, bits: int) -> _Snapshot:
        """Return several slots as two long ints."""
        size, mask = len(self._used), (1 << bits) - 1
        slots = [slot % size for slot in range(low, high + 1)]
        delimiters, used = _long([self._delimiters[i] for i in slots]), _long([self._used[i] for i in slots])
        return _Snapshot(low * SLOT_BITS + shift, bits, delimiters >> shift & mask, used >> shift & mask)

    def _advance(self) -> None:
        """Move the tail over every slot in which no span can start or end any more, except for one carried start."""
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


class _Snapshot:
    """Bits of the positions on one side of a buffer when it was entered; ``base`` is the lowest position."""

    __slots__ = ("base", "bits", "delimiters", "used")

    def __init__(self, base: int, bits: int, delimiters: int, used: int) -> None:
        self.base = base
        self.bits = bits
        self.delimiters = delimiters
        self.used = used

    def nearest(self, carried: int | None) -> int | None:
        """Return the highest delimiter, if every buffer above it was seen."""
        delimiters = self.delimiters
        stops = ~(self.used & ~delimiters) & ((1 << self.bits) - 1)  # a search ends at delimiters and at unseen buffers
        if not stops:
            return carried
        bit = stops.bit_length() - 1
        return self.base + bit if delimiters >> bit & 1 else None

    def nearest_above(self, stop: int) -> tuple[int | None, int]:
        """Return the lowest delimiter, if every buffer below it was seen; and the last of those buffers."""
        delimiters = self.delimiters
        stops = ~(self.used & ~delimiters) & ((1 << self.bits) - 1)
        if not stops:
            return None, stop + self.bits
        bit = (stops & -stops).bit_length() - 1
        return (self.base + bit if delimiters >> bit & 1 else None), self.base + bit - 1


def _masks(start: int, stop: int) -> list[tuple[int, int]]:
    """Return the slots of the positions from ``start`` to ``stop``, each with ones at their bits."""
    low, first = divmod(start, SLOT_BITS)
    high, last = divmod(stop, SLOT_BITS)
    if low == high:
        return [(low, (2 << last) - (1 << first))]
    return [
        (low, _FULL & ~((1 << first) - 1)),
        *[(slot, _FULL) for slot in range(low + 1, high)],
        (high, (2 << last) - 1),
    ]


def _long(slots: list[int]) -> int:
    """Return one long int of all slots, the first one lowest."""
    return int.from_bytes(b"".join([slot.to_bytes(SLOT_BITS // 8, "little") for slot in slots]), "little")
