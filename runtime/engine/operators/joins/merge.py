"""Sort-merge join of two inputs on equal times and keys, and the matching pairs of two sorted blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import concat, matched, take
from runtime.engine.operators.keys import null_rows, order_codes
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces

__all__ = [
    "JOIN_KINDS",
    "JoinKind",
    "MergeJoin",
    "join_schema",
]

Integers = npt.NDArray[np.int64]


class Matches:
    """Matches of each row of the driving block: ``counts`` adjacent rows of the other block from ``starts`` on."""

    def __init__(self, codes: Integers, others: Integers, starts: Integers, counts: Integers) -> None:
        self._codes = codes
        self._others = others
        self.starts = starts
        self.counts = counts

    def pairs(self, most: int, *, optional: bool, with_others: bool) -> Iterator[tuple[Integers, Integers]]:
        """Yield pairs of rows in the order of the driving block, at most ``most`` at a time.

        If ``optional``, a driving row without a match is paired with -1. If ``with_others``, every row of the other
        block without a match is paired with -1, too, in the order of the keys.
        """
        rows = np.arange(len(self.counts))
        starts = np.where(self.counts > 0, self.starts, -1)
        counts = np.maximum(self.counts, 1) if optional else self.counts
        if with_others:
            alone = np.flatnonzero(~self._matched())
            places = np.searchsorted(self._codes, self._others[alone])
            rows = np.insert(rows, places, -1)
            starts = np.insert(starts, places, alone)
            counts = np.insert(counts, places, 1)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        if total == len(counts) and (len(counts) == 0 or int(counts.max()) == 1):
            for begin in range(0, total, most):  # each row is in one pair, as with unique keys
                yield rows[begin : begin + most], starts[begin : begin + most]
            return
        for begin in range(0, total, most):
            places = np.arange(begin, min(begin + most, total))
            driver = np.searchsorted(ends, places, side="right")
            offset = places - (ends - counts)[driver]
            yield rows[driver], np.where(starts[driver] < 0, -1, starts[driver] + offset)

    def _matched(self) -> npt.NDArray[np.bool_]:
        """Return a flag for each row of the other block: true if it matches a driving row."""
        edges = np.zeros(len(self._others) + 1, np.int64)
        has_match = self.counts > 0
        np.add.at(edges, self.starts[has_match], 1)
        np.add.at(edges, self.starts[has_match] + self.counts[has_match], -1)
        return np.cumsum(edges[:-1]) > 0


def match(driving: Sequence[pa.Array], other: Sequence[pa.Array]) -> Matches:
    """Return the matches of two sorted blocks by their key columns; a key with a NULL in it matches nothing."""
    codes, others = order_codes([driving, other])
    starts = np.searchsorted(others, codes)
    ends = _run_ends(others)
    inside = np.minimum(starts, max(len(others) - 1, 0))
    if not len(others):
        return Matches(codes, others, starts, np.zeros(len(codes), np.int64))
    counts = np.where((starts < len(others)) & (others[inside] == codes), ends[inside] - starts, 0)
    nulls = null_rows(driving)
    if nulls is not None:
        counts[nulls] = 0
    return Matches(codes, others, starts, counts)


def _run_ends(codes: Integers) -> Integers:
    """Return, for each row of a sorted block, the end of the run of its key."""
    if not len(codes):
        return codes
    last = np.append(np.flatnonzero(codes[1:] != codes[:-1]) + 1, len(codes))
    lengths = np.diff(last, prepend=0)
    ends: Integers = np.repeat(last, lengths)
    return ends


JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
JOIN_KINDS: Final = ("inner", "left", "right", "full", "semi", "anti")

_KEEPS_LEFT: Final = frozenset(("left", "full", "anti"))
"""Kinds of joins that yield left rows without a match."""
_KEEPS_RIGHT: Final = frozenset(("right", "full"))


def join_schema(kind: JoinKind, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """Return the columns of a join: those of both sides, or of the left side alone.

    Raise `PlanError` if both sides share a name.
    """
    if kind not in JOIN_KINDS:
        raise PlanError(f"expected a join of {', '.join(JOIN_KINDS)}, was {kind}")
    if kind in ("semi", "anti"):
        return left
    return matched(left, right, left_optional=kind in _KEEPS_RIGHT, right_optional=kind in _KEEPS_LEFT)


class MergeJoin(Operator):
    """Operator that joins port 0, the left input, with port 1, the right one, on equal keys; the first key is the time.

    Both inputs are sorted by their keys, NULL last, and complete up to the same time, so that rows of different
    barriers never match. A key with a NULL matches nothing, as in SQL. Output is in the order of the keys.

    Once one input has ended, new rows of the other are dropped, unless the join yields these rows without a match.
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
