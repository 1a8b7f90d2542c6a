"""Inner, semi and anti joins by equality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.compiler.program import JoinNode, SemiNode
from runtime.state import KeyedTable
from runtime.state.columnar.arrangement import Arrangement, CountedTable, groups_of
from runtime.views.errors import ViewOverflowError
from runtime.views.flow.batch import Batch, Field, RowCodec, concat, words_per_value
from runtime.views.flow.operators import Context, Operator, no_nulls, place_of, wider

__all__ = ["Join", "Semi"]

Integers = npt.NDArray[np.int64]


class _Side:
    """One input of a join: how its rows are words, and which of these are the key."""

    def __init__(self, fields: Sequence[Field], on: Sequence[str], other: Sequence[Field], context: Context) -> None:
        """``other``: the columns that the ones of ``on`` are compared with."""
        self.places = [place_of(fields, name) for name in on]
        self.codec = RowCodec([type_ for _, type_ in fields], context.pool)
        self.types = [wider(fields[p], theirs)[1] for p, theirs in zip(self.places, other, strict=True)]
        self.key: list[tuple[int, bool]] = []
        """As `Arrangement` takes it."""
        for place, type_ in zip(self.places, self.types, strict=True):
            held = words_per_value(fields[place][1])
            begin = self.codec.places[place]
            self.key += [(begin + offset, False) for offset in range(held)]
            self.key += [(begin, True)] * (words_per_value(type_) - held)

    def split(self, batch: Batch) -> tuple[Batch, Batch | None]:
        """The rows that may match, and those that cannot: whose key has a NULL."""
        valid = no_nulls([batch.vectors[place] for place in self.places])
        return (batch, None) if valid is None else (batch.take(valid), batch.take(~valid))

    def rows(self, batch: Batch | None) -> tuple[Integers, Integers]:
        """Consolidated rows that may match, and their weights."""
        if batch is None:
            return np.zeros((0, self.codec.width), np.int64), np.zeros(0, np.int64)
        return self.codec.consolidate(self.split(batch)[0])

    def keys(self, batch: Batch) -> Integers:
        """The keys of rows that may match."""
        words = [
            word
            for place, type_ in zip(self.places, self.types, strict=True)
            for word in batch.vectors[place].as_type(type_).words
        ]
        return np.stack(words, axis=1) if words else np.zeros((len(batch), 0), np.int64)


def _sides(
    left: Sequence[Field], right: Sequence[Field], on: Sequence[tuple[str, str]], context: Context
) -> tuple[_Side, _Side]:
    lefts, rights = [pair[0] for pair in on], [pair[1] for pair in on]
    left_fields = [left[place_of(left, name)] for name in lefts]
    right_fields = [right[place_of(right, name)] for name in rights]
    return _Side(left, lefts, right_fields, context), _Side(right, rights, left_fields, context)


def _product(left: Integers, right: Integers) -> Integers:
    if len(left) and int(np.abs(left).max()) * int(np.abs(right).max()) >= 2**62:
        raise ViewOverflowError("expected weights of joined rows of at most 62 bits, was a longer one")
    return left * right


class Join(Operator):
    """The change of a join: changes on the left with what was on the right, what is on the left with changes there."""

    def __init__(self, node: JoinNode, left: Sequence[Field], right: Sequence[Field], context: Context) -> None:
        self.fields = (*left, *right)
        self._pool = context.pool
        self._left, self._right = _sides(left, right, node.on, context)
        self._left_rows = Arrangement(self._left.codec.width, self._left.key)
        self._right_rows = Arrangement(self._right.codec.width, self._right.key)

    def tables(self) -> dict[str, KeyedTable]:
        return {"left": self._left_rows, "right": self._right_rows}

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        parts = []
        rows, weight = self._left.rows(changes[0])
        if len(rows):
            numbers, slots = self._right_rows.probe(self._left_rows.key_words(rows))
            joined = _product(weight[numbers], self._right_rows.weights(slots))
            parts.append(self._joined(rows[numbers], self._right_rows.keys_of(slots), joined))
            self._left_rows.change(rows, weight)
        rows, weight = self._right.rows(changes[1])
        if len(rows):
            numbers, slots = self._left_rows.probe(self._right_rows.key_words(rows))
            joined = _product(weight[numbers], self._left_rows.weights(slots))
            parts.append(self._joined(self._left_rows.keys_of(slots), rows[numbers], joined))
            self._right_rows.change(rows, weight)
        parts = [part for part in parts if len(part)]
        return concat(parts, self._pool) if parts else None

    def _joined(self, left: Integers, right: Integers, weight: Integers) -> Batch:
        return Batch([*self._left.codec.unpack(left), *self._right.codec.unpack(right)], weight)


class Semi(Operator):
    """Left rows whose key is (or is not) on the right: a key that comes or goes there takes its left rows with it."""

    def __init__(self, node: SemiNode, left: Sequence[Field], right: Sequence[Field], context: Context) -> None:
        self.fields = tuple(left)
        self._anti = node.anti
        self._pool = context.pool
        self._left, self._right = _sides(left, right, node.on, context)
        self._left_rows = Arrangement(self._left.codec.width, self._left.key)
        self._right_keys = CountedTable(len(self._left.key), ["weight"])

    def tables(self) -> dict[str, KeyedTable]:
        return {"left": self._left_rows, "right": self._right_keys}

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        parts = []
        if changes[1] is not None:
            keys, sign = self._flips(changes[1])
            numbers, slots = self._left_rows.probe(keys)
            weight = self._left_rows.weights(slots) * (-sign[numbers] if self._anti else sign[numbers])
            parts.append(Batch(self._left.codec.unpack(self._left_rows.keys_of(slots)), weight))
        if changes[0] is not None:
            matching, others = self._left.split(changes[0])
            if self._anti and others is not None:
                parts.append(others)
            rows, weight = self._left.codec.consolidate(matching)
            is_there = self._is_there(self._left_rows.key_words(rows))
            passed = ~is_there if self._anti else is_there
            parts.append(Batch(self._left.codec.unpack(rows[passed]), weight[passed]))
            self._left_rows.change(rows, weight)
        parts = [part for part in parts if len(part)]
        return concat(parts, self._pool) if parts else None

    def _flips(self, change: Batch) -> tuple[Integers, Integers]:
        """Keys that come (1) or go (-1) on the right."""
        matching, _ = self._right.split(change)
        keys = self._right.keys(matching)
        order, first = groups_of(keys)
        if not len(first):
            return keys, np.zeros(0, np.int64)
        weight = np.add.reduceat(matching.weight[order], first)
        keys = keys[order[first]][weight != 0]
        _, old, new = self._right_keys.add(keys, weight[weight != 0][None, :])
        sign = (new[0] > 0).astype(np.int64) - (old[0] > 0)
        return keys[sign != 0], sign[sign != 0]

    def _is_there(self, keys: Integers) -> npt.NDArray[np.bool_]:
        slots = self._right_keys.lookup(keys)
        is_there: npt.NDArray[np.bool_] = (slots >= 0) & (self._right_keys.get(np.maximum(slots, 0))[0] > 0)
        return is_there
