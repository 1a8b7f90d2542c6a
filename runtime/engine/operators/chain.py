"""Operators one behind the other, as one operator."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.engine.operators.operator import Batches, Operator

__all__ = ["Chain"]


class Chain(Operator):
    """What the first gives out is the input of the second, and so on; the ports are those of the first.

    A drain goes from the first to the last: each is drained after it has had everything of the one before.
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        super().__init__(operators[-1].schema)
        self._operators = tuple(operators)
        self.ports = operators[0].ports
        self.cannot_drain = next((each.cannot_drain for each in operators if each.cannot_drain), "")
        self.keeps = ", ".join(each.keeps for each in operators if each.keeps)
        self._ended: set[int] = set()  # ports

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        return self._through(1, self._operators[0].add_input(batch, port), may_close=True)

    def drain_input(self, port: int = 0) -> Batches:
        """Operators behind the first are drained only when all of its ports are."""
        return self._through(1, self._operators[0].drain_input(port))

    def start_drain(self) -> Batches:
        for place, operator in enumerate(self._operators):
            yield from self._through(place + 1, operator.start_drain())

    def end_of_input(self, port: int = 0) -> Batches:
        yield from self._through(1, self._operators[0].end_of_input(port))
        self._ended.add(port)
        if len(self._ended) == self.ports:
            for place, operator in enumerate(self._operators[1:], 1):
                yield from self._through(place + 1, operator.end_of_input(0))

    @property
    def has_ended(self) -> bool:
        """Whether all of its inputs have."""
        return len(self._ended) == self.ports

    def drops_input(self, port: int = 0) -> bool:
        first, *others = self._operators
        if first.drops_input(port):
            return True
        before = first
        for each in others:
            if before.keeps:  # it must see every row
                return False
            if each.drops_input(0):
                return True
            before = each
        return False

    def held_rows(self) -> int:
        return sum(each.held_rows() for each in self._operators)

    def _through(self, place: int, batches: Batches, *, may_close: bool = False) -> Batches:
        """What the operators from this place on make of batches."""
        if place == len(self._operators):
            yield from batches
            return
        operator = self._operators[place]
        for batch in batches:
            if operator.drops_input(0):
                if may_close:
                    return
                continue
            yield from self._through(place + 1, operator.add_input(batch, 0), may_close=may_close)
