"""Sort-merge join of two inputs on equal times and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import pyarrow as pa

from runtime.engine.operators.columns import concat, matched, take
from runtime.engine.operators.joins.matching import match
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, PlanError, pieces

__all__ = ["JOIN_KINDS", "JoinKind", "MergeJoin", "join_schema"]

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
JOIN_KINDS: Final = ("inner", "left", "right", "full", "semi", "anti")

_KEEPS_LEFT: Final = frozenset(("left", "full", "anti"))
"""Joins that give out left rows without a match."""
_KEEPS_RIGHT: Final = frozenset(("right", "full"))


def join_schema(kind: JoinKind, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """Return the columns of a join: those of both sides, or of the left one; raise `PlanError` for names on both."""
    if kind not in JOIN_KINDS:
        raise PlanError(f"expected a join of {', '.join(JOIN_KINDS)}, was {kind}")
    if kind in ("semi", "anti"):
        return left
    return matched(left, right, left_optional=kind in _KEEPS_RIGHT, right_optional=kind in _KEEPS_LEFT)


class MergeJoin(Operator):
    """Joins port 0, the left input, with port 1, the right one, on equal keys, the first of which is the time.

    Both inputs come sorted by their keys, NULL last, and complete up to the same time, so that rows of different
    barriers never match. A key with a NULL matches nothing, as in SQL. Output is in the order of the keys.

    Rows of an input are dropped as they come once the other input has ended, unless the join gives out rows without a
    match.
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
    ) -> None:
        super().__init__(join_schema(kind, left, right))
        if len(left_keys) != len(right_keys) or not left_keys:
            raise PlanError(f"expected as many keys left as right, were {len(left_keys)} and {len(right_keys)}")
        self.most_rows = most_rows
        self.drops = (kind not in _KEEPS_LEFT, kind not in _KEEPS_RIGHT)
        self._kind = kind
        self._schemas = (left, right)
        self._keys = (tuple(left_keys), tuple(right_keys))
        self._rows: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if batch.num_rows:
            self._rows[port].append(batch)
        return iter(())

    def advance(self, bound: int) -> Batches:
        left, right = (concat(rows, schema) for rows, schema in zip(self._rows, self._schemas, strict=True))
        self._rows = ([], [])
        blocks = ((left, right), (right, left))[self._kind == "right"]
        keys = (self._keys, self._keys[::-1])[self._kind == "right"]
        if not blocks[0].num_rows and (self._kind != "full" or not blocks[1].num_rows):
            return
        if not blocks[1].num_rows and self._kind in ("inner", "semi"):
            return
        sides = [[block.column(key) for key in names] for block, names in zip(blocks, keys, strict=True)]
        matches = match(sides[0], sides[1])
        if self._kind in ("semi", "anti"):
            chosen = (matches.counts > 0) == (self._kind == "semi")
            yield from pieces(left.filter(pa.array(chosen)), self.most_rows)
            return
        optional = self._kind != "inner"
        for rows, others in matches.pairs(self.most_rows, optional=optional, with_others=self._kind == "full"):
            pair = (others, rows) if self._kind == "right" else (rows, others)
            arrays = take(left.columns, pair[0]) + take(right.columns, pair[1])
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def held_rows(self) -> int:
        return sum(int(batch.num_rows) for rows in self._rows for batch in rows)
