"""Keys of one or several columns as single integers: equal for equal keys, and in the order of the keys.

The order is that of `ORDER BY` with NULL last. Numbers are ordered by size, with NaN above all and -0.0 equal to 0.0;
strings are ordered by their code points; several columns are compared one after the other. Codes are valid within one
call only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.engine.operators.columns import inward

__all__ = ["float_codes", "group_codes", "null_rows", "order_codes"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_ROOM: Final = 2**62
"""Bound of codes: the codes of several columns are renumbered before they reach it."""
_DENSE_LEAST: Final = 1 << 12
"""Number of codes up to which an array with an element for each code is used, however few rows there are."""
_DENSE_PER_ROW: Final = 4
"""Number of codes per row up to which such an array is used."""


def null_rows(columns: Sequence[pa.Array]) -> Flags | None:
    """Return flags of the rows with a NULL in any of these columns; None if there is no such row."""
    flags: Flags | None = None
    for column in columns:
        if column.null_count:
            nulls: Flags = column.is_null().to_numpy(zero_copy_only=False)
            flags = nulls if flags is None else flags | nulls
    return flags


def order_codes(sides: Sequence[Sequence[pa.Array]]) -> list[Integers]:
    """Return one code per row of each side; each side has the same key columns. Codes are ordered as keys are."""
    lengths = [len(side[0]) for side in sides]
    codes: Integers | None = None
    size = 1
    for parts in zip(*sides, strict=True):
        ranks, most = _ranks([inward(part) for part in parts], alone=len(sides[0]) == 1)
        if codes is None:
            codes, size = ranks, most
            continue
        if size * most >= _ROOM:
            distinct, codes = np.unique(codes, return_inverse=True)
            size = len(distinct)
        if size * most >= _ROOM:
            others, ranks = np.unique(ranks, return_inverse=True)
            most = len(others)
        codes, size = codes * most + ranks, size * most
    assert codes is not None
    ends = np.cumsum(lengths)[:-1]
    return list(np.split(codes, ends))


def _ranks(parts: Sequence[pa.Array], *, alone: bool) -> tuple[Integers, int]:
    """Return one column as integers from 0 on, and a bound that is greater than each of them.

    If the column is ``alone``, the integers may be any int64, and the bound is 0.
    """
    if any(pa.types.is_decimal(part.type) for part in parts):
        parts = [part.cast(pa.decimal128(38, 0)) for part in parts]
    column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    if not column.null_count:
        plain = _plain(column)
        if plain is not None:
            if alone:
                return plain, 0
            low, high = (int(plain.min()), int(plain.max())) if len(plain) else (0, 0)
            if high - low < _ROOM:
                return plain - low, high - low + 1
            distinct, ranks = np.unique(plain, return_inverse=True)
            return ranks.astype(np.int64), len(distinct)
    if pa.types.is_float64(column.type):
        column = float_codes(column)
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    ranks = np.append(ranks, len(order))  # NULL is last
    codes = encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)
    return ranks[codes], len(order) + 1


def _plain(column: pa.Array) -> Integers | None:
    """Return the values of a column without NULL as integers in the same order.

    Return None for strings, and for integers wider than 64 bits.
    """
    kind = column.type
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind):
        values: Integers = column.view(pa.int64()).to_numpy(zero_copy_only=False)
        return values
    if pa.types.is_date32(kind) or pa.types.is_boolean(kind):
        plain = column.view(pa.int32()) if pa.types.is_date32(kind) else column
        widened: Integers = plain.to_numpy(zero_copy_only=False).astype(np.int64)
        return widened
    return _of_floats(column) if pa.types.is_float64(kind) else None


def float_codes(column: pa.Array) -> pa.Array:
    """Return floats as int64 in the same order, NaN equal to itself and above all other numbers; NULL stays NULL."""
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(_of_floats(column), mask=nulls)


def _of_floats(column: pa.Array) -> Integers:
    """Return floats as integers in the same order, NaN above all; NULL becomes the integer of 0.0."""
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def group_codes(columns: Sequence[pa.Array], rows: int) -> tuple[Integers, Integers]:
    """Return the groups of equal keys, where NULL is equal to NULL.

    The result is each row's group, numbered without gaps, and the first row of each group.
    """
    codes, size = np.zeros(rows, np.int64), 1
    for column in columns:
        parts, most = _equality_codes(inward(column), rows)
        if size * most >= _ROOM:
            distinct, codes = np.unique(codes, return_inverse=True)
            size = len(distinct)
        codes, size = (parts, most) if size == 1 else (codes * most + parts, size * most)
    if size > max(_DENSE_LEAST, _DENSE_PER_ROW * rows):
        encoded = pa.array(codes).dictionary_encode()
        codes, size = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    first = np.full(size, -1, np.int64)
    first[codes[::-1]] = np.arange(rows - 1, -1, -1)  # the last assignment remains, that of the first row
    present = first >= 0
    if not bool(present.all()):
        codes = (np.cumsum(present) - 1)[codes]
        first = first[present]
    return codes, first


def _equality_codes(column: pa.Array, rows: int) -> tuple[Integers, int]:
    if not column.null_count and rows:
        plain = _plain(column)
        if plain is not None:
            low, high = int(plain.min()), int(plain.max())
            if high - low < max(_DENSE_LEAST, _DENSE_PER_ROW * rows):
                return plain - low, high - low + 1
            column = pa.array(plain)
    elif pa.types.is_float64(column.type):
        column = float_codes(column)
    encoded = column.dictionary_encode()
    indices = encoded.indices.fill_null(len(encoded.dictionary)) if column.null_count else encoded.indices
    return indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary) + 1
