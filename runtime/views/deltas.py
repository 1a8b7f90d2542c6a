"""Batches of keyed deltas as numpy columns: what is added to indexes and what statements begin with.

A key column is words (as `runtime.state.columnar.columns` has them) and where it is NULL; sums are exact columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import ColumnType, Key, Map
from runtime.state import KeyColumn, StringPool, decode_words, encode_words
from runtime.state.columnar.exactsums import Exact, fit, grouped, largest, of_integers, total_of
from runtime.views.payload import Payload, PlainPayload, payload_sums, payload_weight

__all__ = ["Delta", "KeyVector", "added_up", "aggregated", "delta_of", "nullable_words", "plain_words"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_DENSE: Final = 64
_FEW: Final = 32
_FIRST: Final = np.zeros(1, np.int64)


class KeyVector(msgspec.Struct, frozen=True):
    """A column of keys."""

    type: ColumnType
    """Its type."""
    words: Integers
    """Shape (n, 1), for int128 (n, 2); 0 where it is NULL."""
    nulls: Flags | None
    """Where it is NULL; None for nowhere."""
    span: tuple[int, int] | None = None
    """Bounds of the integers of an int64 column without NULL, if they are known."""

    def take(self, rows: Integers | Flags) -> KeyVector:
        """Some of its rows."""
        return KeyVector(self.type, self.words[rows], None if self.nulls is None else self.nulls[rows], self.span)

    def arrow(self, pool: StringPool) -> pa.Array:
        """As an Arrow column."""
        column = KeyColumn("key", self.type, nullable=True)
        flags = np.zeros(len(self.words), np.int64) if self.nulls is None else self.nulls.astype(np.int64)
        return decode_words([column], np.column_stack([flags, self.words]), pool)[0]


class Delta:
    """Deltas of a map, one row per key unless it says that they repeat."""

    __slots__ = ("_bounds", "keys", "repeats", "sums")

    def __init__(
        self,
        keys: dict[str, KeyVector],
        sums: list[Exact],
        bounds: Sequence[int] | None = None,
        *,
        repeats: bool = False,
    ) -> None:
        """``keys`` by name; ``sums``: the weight first; ``bounds``: none of each is further from 0; ``repeats``: a key
        may have several rows, which count together."""
        self.keys, self.sums, self._bounds, self.repeats = keys, sums, bounds, repeats

    def __len__(self) -> int:
        return len(self.sums[0])

    @property
    def bounds(self) -> Sequence[int]:
        """Per sum, a number that none is further from 0 than."""
        if self._bounds is None:
            self._bounds = [largest(value) for value in self.sums]
        return self._bounds


def delta_of(map_: Map, payload: Payload, pool: StringPool) -> Delta:
    """A payload as a delta."""
    if isinstance(payload, PlainPayload):
        keys = {key.name: _plain_vector(key, payload, place, pool) for place, key in enumerate(map_.keys)}
        return Delta(keys, list(payload.sums), payload.bounds, repeats=payload.repeats)
    keys = {key.name: _vector(key, payload[key.name].combine_chunks(), pool) for key in map_.keys}
    return Delta(keys, [payload_weight(payload), *payload_sums(map_, payload)])


def _plain_vector(key: Key, payload: PlainPayload, place: int, pool: StringPool) -> KeyVector:
    held = payload.keys[place]
    if key.type == "int64" and held.dictionary is None:
        return KeyVector(key.type, held.codes[:, None], None, (held.low, held.high))
    return _vector(key, payload.column(place), pool)


def _vector(key: Key, array: pa.Array, pool: StringPool) -> KeyVector:
    if key.type == "int64" and not array.null_count:
        return KeyVector(key.type, array.to_numpy()[:, None], None)
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    words = encode_words([KeyColumn(key.name, key.type, nullable=True)], [array], pool)[:, 1:]
    return KeyVector(key.type, words, nulls)


def plain_words(vectors: Sequence[KeyVector], rows: int) -> tuple[Integers, Flags | None]:
    """Words of keys that NULL never equals, shape (rows, width), and the rows in which none is NULL (None: all)."""
    nulls = [vector.nulls for vector in vectors if vector.nulls is not None]
    known = ~np.logical_or.reduce(nulls) if nulls else None
    return _stacked([vector.words for vector in vectors], rows), known


def nullable_words(vectors: Sequence[KeyVector], rows: int) -> Integers:
    """Words of keys of which NULL is one like any other, shape (rows, width): as `KeyColumn` of a nullable column."""
    parts: list[Integers] = []
    for vector in vectors:
        nulls = np.zeros(rows, np.int64) if vector.nulls is None else vector.nulls.astype(np.int64)
        parts += [nulls[:, None], vector.words]
    return _stacked(parts, rows)


def _stacked(parts: Sequence[Integers], rows: int) -> Integers:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, axis=1) if parts else np.zeros((rows, 0), np.int64)


def aggregated(words: Integers, sums: Sequence[Exact]) -> tuple[Integers, list[Exact]]:
    """Rows of equal words added up, in the order of the words."""
    rows, added = added_up(list(words.T), len(words), sums)
    return words if rows is None else words[rows], added


def added_up(
    columns: Sequence[Integers], rows: int, sums: Sequence[Exact], bounds: Sequence[int] | None = None
) -> tuple[Integers | None, list[Exact]]:
    """Rows that are equal in all columns added up, in the order of the columns: a row of each, and its sums.

    None in place of rows: all as they are. ``bounds``: per sum, no value is further from 0.
    """
    if rows <= 1 or (rows <= _FEW and columns and _is_ascending(columns)):
        return None, list(sums)
    varying = [column for column in columns if column[0] != column[-1] or (column[1:] != column[0]).any()]
    if not varying:
        return _FIRST, [of_integers([total_of(value)]) for value in sums]
    order: Integers | None = None
    if len(varying) > 1 or not (varying[0][1:] >= varying[0][:-1]).all():
        if len(varying) == 1 and rows >= _DENSE:
            low, high = int(varying[0].min()), int(varying[0].max())
            if high - low < 4 * rows:
                return _scattered(varying[0] - low, high - low + 1, sums, bounds)
        order = np.lexsort(varying[::-1]) if len(varying) > 1 else np.argsort(varying[0], kind="stable")
    changes = np.zeros(rows, np.bool_)
    changes[0] = True
    for column in varying:
        ordered = column if order is None else column[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    starts = changes.nonzero()[0]
    known = [None] * len(sums) if bounds is None else bounds
    added = [
        grouped(value if order is None else value[order], starts, bound)
        for value, bound in zip(sums, known, strict=True)
    ]
    return starts if order is None else order[starts], added


def _is_ascending(columns: Sequence[Integers]) -> bool:
    rows = zip(*[column.tolist() for column in columns], strict=True)
    return all(a < b for a, b in itertools.pairwise(rows))


def _scattered(
    codes: Integers, size: int, sums: Sequence[Exact], bounds: Sequence[int] | None
) -> tuple[Integers, list[Exact]]:
    """Rows of equal codes added up in arrays over all codes, which needs no sorting."""
    example = np.full(size, -1, np.int64)
    example[codes] = np.arange(len(codes))
    present = np.flatnonzero(example >= 0)
    found: list[Exact] = []
    for number, given in enumerate(sums):
        (value,) = fit((largest(given) if bounds is None else bounds[number]) * len(given), given)
        total = np.zeros(size, value.dtype)
        np.add.at(total, codes, value)
        found.append(total[present])
    return example[present], found
