"""Restoration of stream order: batches are added in the order in which workers finish, and returned in stream order."""

from __future__ import annotations

import msgspec

from runtime.formats.buffers import DeadLetter, FormattedBatch
from runtime.formats.errors import DuplicateSequenceError, OrderCapacityError

__all__ = ["InOrder"]


class InOrder:
    """Buffer of the batches of one origin that came too early; not thread-safe: the caller must hold a lock.

    The place of a returned batch is known: its offset and the number of its first tuple, also in its dead letters. At
    most ``capacity`` batches are pending; one more raises `OrderCapacityError`. No batch is returned after one with a
    failure.
    """

    def __init__(self, capacity: int, *, offset: int = 0) -> None:
        """Begin at the start of the stream.

        ``offset`` is the offset at which the stream starts; it is used for batches of unknown offset.
        """
        if capacity < 1:
            raise ValueError(f"expected a capacity of at least 1, was {capacity}")
        self._capacity = capacity
        self._waiting: dict[int, FormattedBatch] = {}
        self._place = 0
        self._offset = offset
        self._tuples = 0
        self._failed = False
        self.last_sequence = 0
        """Last raw buffer up to whose last delimiter the stream was returned; 0 for none."""

    @property
    def waiting(self) -> int:
        """Number of batches that wait for an earlier one."""
        return len(self._waiting)

    @property
    def tuples(self) -> int:
        """Number of tuples returned."""
        return self._tuples

    @property
    def end_offset(self) -> int:
        """Byte offset in the stream after the tuples returned."""
        return self._offset

    def add(self, batches: list[FormattedBatch]) -> list[FormattedBatch]:
        """Add batches; return, in stream order, the batches that are next in the stream.

        The time is linear in the number of batches added and returned. Raise `DuplicateSequenceError` for a second
        batch at one place, and `OrderCapacityError` for too many pending batches.
        """
        if self._failed:
            return []
        waiting = self._waiting
        for batch in batches:
            place = batch.from_place
            if place in waiting or place < self._place:
                raise DuplicateSequenceError(f"expected one batch at place {place}, was a second")
            waiting[place] = batch
        ready: list[FormattedBatch] = []
        while self._place in waiting:
            batch = waiting.pop(self._place)
            ready.append(self._placed(batch))
            if batch.failure is not None:
                self._failed = True
                waiting.clear()
                return ready
        if len(waiting) > self._capacity:
            raise OrderCapacityError(
                f"expected at most {self._capacity} batches waiting, was {len(waiting)}: the batch after place "
                f"{self._place} (buffer {self.last_sequence}) is missing"
            )
        return ready

    def _placed(self, batch: FormattedBatch) -> FormattedBatch:
        known = batch.offset >= 0
        offset, first = (batch.offset if known else self._offset), self._tuples
        shift = 0 if known else offset
        self._place = batch.to_place
        self._offset = offset + batch.length
        self._tuples = first + batch.tuples
        if not batch.to_place & 1:
            self.last_sequence = batch.last_sequence
        if not batch.dead and batch.failure is None:
            return msgspec.structs.replace(batch, offset=offset, first_tuple=first)
        return msgspec.structs.replace(
            batch,
            offset=offset,
            first_tuple=first,
            dead=tuple([_moved(letter, shift, first) for letter in batch.dead]),
            failure=None if batch.failure is None else _moved(batch.failure, shift, first),
        )

    def _check(self) -> None:
        """Assert every invariant."""
        assert all(batch.from_place == place > self._place for place, batch in self._waiting.items())
        assert all(batch.from_place < batch.to_place for batch in self._waiting.values())
        assert len(self._waiting) <= self._capacity


def _moved(letter: DeadLetter, offset: int, row: int) -> DeadLetter:
    return msgspec.structs.replace(letter, byte_offset=letter.byte_offset + offset, row=letter.row + row)
