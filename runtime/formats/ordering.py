"""Back into stream order: formatted batches come as the workers finish, and leave as the stream had them."""

from __future__ import annotations

from runtime.formats.buffers import LEAD, FormattedBatch
from runtime.formats.errors import DuplicateSequenceError, OrderCapacityError

__all__ = ["InOrder"]


class InOrder:
    """Holds the batches of one origin that came too early; not thread-safe, the caller has a lock.

    In stream order the `LEAD` of a buffer stands before its `BODY`; a body without delimiter has no lead. At most
    ``capacity`` batches wait, more raise `OrderCapacityError`.
    """

    def __init__(self, capacity: int, highest_sequence: int = 2**63 - 1) -> None:
        if capacity < 1:
            raise ValueError(f"expected a capacity of at least 1, was {capacity}")
        self._capacity = capacity
        self._highest_sequence = highest_sequence
        self._leads: dict[int, FormattedBatch] = {}  # by the buffer in which the tuple starts: unique, 0 is the start
        self._bodies: dict[int, FormattedBatch] = {}
        self._start = 0  # the last buffer with a delimiter among those that left
        self._next = 1  # the buffer that leaves next
        self.last_sequence = 0
        """The last raw buffer whose whole tuples have all left; 0 for none."""

    @property
    def waiting(self) -> int:
        """How many batches wait for an earlier one."""
        return len(self._leads) + len(self._bodies)

    def add(self, batches: list[FormattedBatch]) -> list[FormattedBatch]:
        """Take batches, return those that are now next in the stream, in stream order; work linear in both.

        Raises `DuplicateSequenceError` and `OrderCapacityError`.
        """
        for batch in batches:
            waiting, key = (
                (self._leads, batch.first_sequence) if batch.part == LEAD else (self._bodies, batch.last_sequence)
            )
            if key in waiting:
                raise DuplicateSequenceError(f"expected one batch of part {batch.part} at {key}, was a second")
            waiting[key] = batch
        ready = self._ready()
        if self.waiting > self._capacity:
            raise OrderCapacityError(
                f"expected at most {self._capacity} batches waiting, was {self.waiting}: buffer {self._next} is missing"
            )
        return ready

    def _ready(self) -> list[FormattedBatch]:
        ready: list[FormattedBatch] = []
        while True:
            lead, body = self._leads.get(self._start), self._bodies.get(self._next)
            if body is not None and not body.delimited:
                ready.append(self._bodies.pop(self._next))
            elif body is not None and lead is not None and lead.last_sequence == self._next:
                ready += (self._leads.pop(self._start), self._bodies.pop(self._next))
                self._start = self._next
            elif lead is not None and lead.last_sequence == self.last_sequence:
                ready.append(self._leads.pop(self._start))  # the end of the stream: it ends in a buffer that has left
                return ready
            else:
                return ready
            self.last_sequence = self._next
            self._next = self._next + 1 if self._next < self._highest_sequence else 1

    def _check(self) -> None:
        """Assert every invariant."""
        assert all(batch.first_sequence == key for key, batch in self._leads.items())
        assert all(batch.last_sequence == key for key, batch in self._bodies.items())
        assert self.waiting <= self._capacity
