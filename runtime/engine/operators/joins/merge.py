"""Sort-merge join of two sorted inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import pyarrow as pa

from runtime.engine.operators.columns import matched, take
from runtime.engine.operators.errors import PlanError
from runtime.engine.operators.joins.matching import match
from runtime.engine.operators.joins.sides import Side
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces
from runtime.engine.operators.sorting import MOST_HELD

__all__ = ["JOIN_KINDS", "JoinKind", "MergeJoin", "join_schema"]

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
JOIN_KINDS: Final = ("inner", "left", "right", "full", "semi", "anti")

_LEAST_ROWS: Final = 1 << 15
"""Rows that wait before a block is joined, so that small batches do not pay for a block each."""

_KEEPS_LEFT: Final = frozenset(("left", "full", "anti"))
"""Joins that give out left rows without a match."""
_KEEPS_RIGHT: Final = frozenset(("right", "full"))


def join_schema(kind: JoinKind, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The columns of a join: those of both sides, or of the left one; raises `PlanError` for names on both."""
    if kind not in JOIN_KINDS:
        raise PlanError(f"expected a join of {', '.join(JOIN_KINDS)}, was {kind}")
    if kind in ("semi", "anti"):
        return left
    return matched(left, right, left_optional=kind in _KEEPS_RIGHT, right_optional=kind in _KEEPS_LEFT)


class MergeJoin(Operator):
    """Joins port 0, the left input, with port 1, the right one, both sorted ascending by their keys with NULL last.

    Keys of several columns are equal where all columns are; a key with a NULL matches nothing, as in SQL. Rows with
    equal keys are all paired, a window at a time. Output is in the order of the keys.

    Both inputs are joined up to the lesser of their last keys; what is ahead waits. At a barrier everything is joined
    and both inputs begin anew, with any key. When one input has been drained and the other one is past its last key,
    the other one is dropped, unless the join gives out its rows without a match.
    """

    ports = 2

    def __init__(
        self,
        kind: JoinKind,
        left: pa.Schema,
        right: pa.Schema,
        left_keys: Sequence[str],
        right_keys: Sequence[str],
        *,
        most_rows: int = MOST_ROWS,
        most_held: int = MOST_HELD,
        least_rows: int = _LEAST_ROWS,
    ) -> None:
        super().__init__(join_schema(kind, left, right))
        if len(left_keys) != len(right_keys) or not left_keys:
            raise PlanError(f"expected as many keys left as right, were {len(left_keys)} and {len(right_keys)}")
        self.most_rows = most_rows
        self._kind = kind
        self._least_rows = least_rows
        self._sides = (Side("left", left, left_keys, most_held), Side("right", right, right_keys, most_held))
        self._keeps = (kind in _KEEPS_LEFT, kind in _KEEPS_RIGHT)

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        side = self._sides[port]
        if self.drops_input(port):
            return
        side.push(batch)
        if sum(each.rows for each in self._sides) >= self._least_rows or self._has_passed(port):
            yield from self._advance()
        side.check_room()

    def drain_input(self, port: int = 0) -> Batches:
        self._sides[port].finish()
        return self._advance()

    def start_drain(self) -> Batches:
        for side in self._sides:
            side.finish()
        yield from self._advance()
        for side in self._sides:
            side.restart()

    def end_of_input(self, port: int = 0) -> Batches:
        self._sides[port].has_ended = True
        return self.drain_input(port)

    def drops_input(self, port: int = 0) -> bool:
        side, other = self._sides[port], self._sides[1 - port]
        return other.is_done and not other.rows and not self._keeps[port] and not side.rows

    def held_rows(self) -> int:
        return sum(side.rows for side in self._sides)

    def _has_passed(self, port: int) -> bool:
        """Whether this input is past the last key of the other one, which is done but waits for its matches."""
        side, other = self._sides[port], self._sides[1 - port]
        return bool(other.is_done and other.rows and side.last and other.last and side.last > other.last)

    def _advance(self) -> Batches:
        """Join all rows whose keys neither input can have any more."""
        going = [side for side in self._sides if not side.is_done]
        if any(side.last is None for side in going):
            return
        bound = min((side.last for side in going if side.last is not None), default=None)
        left, right = (side.take_below(bound) for side in self._sides)
        if left.num_rows or right.num_rows:
            yield from self._joined(left, right)
        for side, other, keeps in zip(self._sides, reversed(self._sides), self._keeps, strict=True):
            if other.is_done and not other.rows and not keeps:
                side.drop()  # past the last key of the other one

    def _joined(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Batches:
        """Two blocks that have all rows of their keys."""
        blocks = ((left, right), (right, left))[self._kind == "right"]
        sides = (self._sides, self._sides[::-1])[self._kind == "right"]
        if not blocks[0].num_rows and self._kind != "full":
            return
        if not blocks[1].num_rows and self._kind in ("inner", "semi"):
            return
        found = match(sides[0].key_columns(blocks[0]), sides[1].key_columns(blocks[1]))
        if self._kind in ("semi", "anti"):
            chosen = (found.counts > 0) == (self._kind == "semi")
            yield from pieces(left.filter(pa.array(chosen)), self.most_rows)
            return
        optional = self._kind != "inner"
        for rows, others in found.pairs(self.most_rows, optional=optional, with_others=self._kind == "full"):
            pair = (others, rows) if self._kind == "right" else (rows, others)
            arrays = take(left.columns, pair[0]) + take(right.columns, pair[1])
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
