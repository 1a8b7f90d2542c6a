"""Rows on their way from one operator of a flow to the next: columns that are Arrow arrays, words, or both.

Expressions want Arrow arrays, state wants words; a column is brought from one to the other when it is first asked for,
so that what no one reads is never converted, and a string that is not kept never gets a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import ColumnType
from runtime.state import KeyColumn, StringPool, decode_words, encode_words
from runtime.state.columnar.arrangement import groups_of
from runtime.views.errors import ViewError, ViewOverflowError

__all__ = ["Batch", "Field", "RowCodec", "Vector", "concat", "words_per_value"]

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Field = tuple[str, ColumnType]
"""Name and type of a column."""

_BITS: Final = 62
"""NULL flags in a word."""


def words_per_value(type_: ColumnType) -> int:
    """Words that a value of the type takes."""
    return 2 if type_ == "int128" else 1


class Vector:
    """One column of a batch."""

    __slots__ = ("_array", "_nulls", "_pool", "_words", "type")

    def __init__(
        self,
        type_: ColumnType,
        pool: StringPool,
        array: pa.Array | None = None,
        nulls: Booleans | None = None,
        words: tuple[Integers, ...] | None = None,
    ) -> None:
        self.type = type_
        self._pool = pool
        self._array = array
        self._nulls = nulls
        self._words = words

    @property
    def array(self) -> pa.Array:
        """The values as an Arrow array."""
        if self._array is None:
            assert self._words is not None
            parts = self._words if self._nulls is None else (self._nulls, *self._words)
            column = KeyColumn("", self.type, nullable=self._nulls is not None)
            self._array = decode_words([column], np.stack(parts, axis=1).astype(np.int64, copy=False), self._pool)[0]
        return self._array

    @property
    def words(self) -> tuple[Integers, ...]:
        """The values as words, one array per word; where the value is NULL, what `encode_words` gives for it."""
        if self._words is None:
            matrix = encode_words([KeyColumn("", self.type, nullable=True)], [self._array], self._pool)
            self._nulls = matrix[:, 0] != 0
            if not self._nulls.any():
                self._nulls = None
            self._words = tuple(matrix[:, 1:].T)
        return self._words

    @property
    def nulls(self) -> Booleans | None:
        """Where the value is NULL; None where no value is."""
        if self._words is None and self._array is not None and not self._array.null_count:
            return None
        self.words  # noqa: B018 - encodes
        return self._nulls

    def take(self, rows: Integers | Booleans) -> Vector:
        """Some of the rows, by number or by mask."""
        if self._words is not None:
            nulls = None if self._nulls is None else self._nulls[rows]
            return Vector(self.type, self._pool, None, nulls, tuple(w[rows] for w in self._words))
        chosen = pa.array(rows)
        assert self._array is not None
        array = self._array.filter(chosen) if rows.dtype == np.bool_ else self._array.take(chosen)
        return Vector(self.type, self._pool, array)

    def as_type(self, type_: ColumnType) -> Vector:
        """The same integers in another type; raises `ViewOverflowError` where one does not fit."""
        if type_ == self.type:
            return self
        if (self.type, type_) == ("int64", "int128"):
            low = self.words[0]
            return Vector(type_, self._pool, None, self.nulls, (low, low >> 63))
        if (self.type, type_) == ("int128", "int64"):
            low, high = self.words
            if (high != low >> 63).any():
                raise ViewOverflowError("expected values of int64, was a longer one")
            return Vector(type_, self._pool, None, self.nulls, (low,))
        raise ViewError(f"expected a column of type {type_}, was {self.type}")


class Batch:
    """Rows with weights; rows may repeat."""

    __slots__ = ("distinct", "vectors", "weight")

    def __init__(self, vectors: Sequence[Vector], weight: Integers, *, distinct: bool = False) -> None:
        self.vectors = list(vectors)
        self.weight = weight
        self.distinct = distinct
        """Whether it is known that no row repeats and no weight is 0."""

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, rows: Integers | Booleans) -> Batch:
        """Some of the rows, by number (not repeated) or by mask."""
        return Batch([v.take(rows) for v in self.vectors], self.weight[rows], distinct=self.distinct)


def concat(batches: Sequence[Batch], pool: StringPool) -> Batch:
    """The rows of all, which have the types of the first."""
    if len(batches) == 1:
        return batches[0]
    vectors = []
    for column in zip(*(batch.vectors for batch in batches), strict=True):
        parts = [vector.as_type(column[0].type) for vector in column]
        if all(part._words is not None for part in parts):
            nulls = None
            if any(part.nulls is not None for part in parts):
                nulls = np.concatenate([_flags(part) for part in parts])
            words = tuple(np.concatenate(word) for word in zip(*(part.words for part in parts), strict=True))
            vectors.append(Vector(column[0].type, pool, None, nulls, words))
        else:
            vectors.append(Vector(column[0].type, pool, pa.concat_arrays([part.array for part in parts])))
    return Batch(vectors, np.concatenate([batch.weight for batch in batches]))


def _flags(vector: Vector) -> Booleans:
    nulls = vector.nulls
    return np.zeros(len(vector.words[0]), np.bool_) if nulls is None else nulls


class RowCodec:
    """Rows of some columns as keys of a table: words with NULL flags as bits, then the words of each column."""

    def __init__(self, types: Sequence[ColumnType], pool: StringPool) -> None:
        self._types = tuple(types)
        self._pool = pool
        self._flags = -(-len(self._types) // _BITS)
        self.places: list[int] = []
        """Where the words of each column begin."""
        place = self._flags
        for type_ in self._types:
            self.places.append(place)
            place += words_per_value(type_)
        self.width = place
        """Words of a row."""

    def pack(self, vectors: Sequence[Vector], rows: int) -> Integers:
        """Columns as words, shape (rows, width)."""
        words = np.zeros((rows, self.width), np.int64)
        for column, (vector, place) in enumerate(zip(vectors, self.places, strict=True)):
            for offset, word in enumerate(vector.words):
                words[:, place + offset] = word
            if vector.nulls is not None:
                words[:, column // _BITS] |= vector.nulls.astype(np.int64) << (column % _BITS)
        return words

    def consolidate(self, batch: Batch) -> tuple[Integers, Integers]:
        """Rows that do not repeat, as words, and their weights, none of which is 0."""
        rows = self.pack(batch.vectors, len(batch))
        if batch.distinct:
            return rows, batch.weight
        order, first = groups_of(rows)
        weight = np.add.reduceat(batch.weight[order], first) if len(first) else batch.weight
        stays = weight != 0
        return rows[order[first[stays]]], weight[stays]

    def unpack(self, words: Integers) -> list[Vector]:
        """The columns that gave these words."""
        return [self.column(words, number) for number in range(len(self._types))]

    def column(self, words: Integers, number: int) -> Vector:
        """One of the columns that gave these words."""
        type_, place = self._types[number], self.places[number]
        nulls: Booleans | None = (words[:, number // _BITS] >> (number % _BITS)) & 1 != 0
        if nulls is not None and not nulls.any():
            nulls = None
        parts = tuple(words[:, place + offset] for offset in range(words_per_value(type_)))
        return Vector(type_, self._pool, None, nulls, parts)
