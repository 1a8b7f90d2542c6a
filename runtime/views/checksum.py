"""Checksum of a view's rows, by which two lanes find out if their states of the view are equal.

The checksum of a multiset of rows is the sum of the rows' hashes, each multiplied by the row's weight, modulo 2^64. It
does not depend on the order of the rows. The checksum of a view at a version is its checksum at the previous version
plus the checksum of the changes, so that unchanged rows need not be read. Two different multisets have the same
checksum with a probability of about 2^-64; the hash does not protect against deliberate collisions.

A hash depends on the values of a row, and not on how they are stored: a nullable column hashes like a non-nullable
column, a dictionary column like a plain string column, -0.0 like 0.0, and every NaN like any other NaN.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.plan import View
from runtime.state import ARROW_TYPES

__all__ = ["MODULUS", "changes_checksum"]

MODULUS: Final = 1 << 64
"""Modulus of checksums."""

_Hashes = npt.NDArray[np.uint64]
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_NULL: Final = np.uint64(0x6A09E667F3BCC909)
_RADIX: Final = 0x100000001B3
_NAN: Final = np.uint64(0x7FF8000000000000)


def changes_checksum(view: View, changes: pa.Table) -> int:
    """Return the checksum of rows of a view; the weights are the last column.

    If DuckDB computes a double, the hash depends only on whether the double is NULL. The reason is that a sum of
    doubles depends on the order of its terms, so two correct lanes may differ in the last bit.
    """
    if not changes.num_rows:
        return 0
    hashes = np.full(changes.num_rows, len(view.columns), np.uint64)
    with np.errstate(over="ignore"):
        for column, values in zip(view.columns, changes.columns, strict=False):
            ignores_value = column.type == "float64" and view.view_class == "reevaluated"
            hashes = _mixed(hashes + _STEP + _column_hashes(column.type, values, ignores_value=ignores_value))
        weights = changes.column(changes.num_columns - 1).to_numpy().view(np.uint64)
        return int((hashes * weights).sum(dtype=np.uint64))


def _mixed(words: _Hashes) -> _Hashes:
    """Return SplitMix64's finaliser of each word: every bit of a result depends on all bits of its word."""
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    mixed: _Hashes = words ^ (words >> np.uint64(31))
    return mixed


def _column_hashes(kind: str, column: pa.ChunkedArray, *, ignores_value: bool) -> _Hashes:
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # The array has no chunks, or more bytes than one array can hold.
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    is_null = None if not values.null_count else pc.is_null(values).to_numpy(zero_copy_only=False)
    if ignores_value:
        hashes = np.zeros(len(values), np.uint64)
    elif pa.types.is_dictionary(values.type):
        places = pc.fill_null(values.indices, 0).to_numpy(zero_copy_only=False)
        known = _value_hashes(kind, values.dictionary)
        hashes = known[places] if len(known) else np.zeros(len(values), np.uint64)
    else:
        hashes = _value_hashes(kind, values)
    return hashes if is_null is None else np.where(is_null, _NULL, hashes)


def _value_hashes(kind: str, values: pa.Array) -> _Hashes:
    """Return the hashes of values; those of NULLs are arbitrary."""
    if kind == "string":
        return _string_hashes(values.cast(pa.string()))
    if kind == "int128":
        words = _words(values.cast(ARROW_TYPES["int128"]), 2)
        return _mixed(_mixed(words[0::2]) + words[1::2])
    if kind == "float64":
        numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        return _mixed(np.where(np.isnan(numbers), _NAN, numbers.view(np.uint64)))
    if kind == "date":
        values = values.cast(pa.date32()).cast(pa.int32())
    plain = values.cast(pa.int64())
    return _mixed(pc.fill_null(plain, 0).to_numpy(zero_copy_only=False).view(np.uint64))


def _words(values: pa.Array, of_each: int) -> _Hashes:
    buffer = values.buffers()[1]
    whole = np.frombuffer(buffer, np.uint64)
    return whole[of_each * values.offset : of_each * (values.offset + len(values))]


def _string_hashes(values: pa.Array) -> _Hashes:
    """Return a polynomial hash of each string's bytes, computed in one pass over the bytes of all strings."""
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    begin, end = int(offsets[0]), int(offsets[-1])
    lengths = np.diff(offsets)
    if end == begin:
        return _mixed(lengths.astype(np.uint64))
    characters = np.frombuffer(data, np.uint8)[begin:end].astype(np.uint64) + np.uint64(1)
    places = np.arange(end - begin) - np.repeat(offsets[:-1] - begin, lengths)
    terms = characters * _powers(int(lengths.max()))[places]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return _mixed(sums[offsets[1:] - begin] - sums[offsets[:-1] - begin] + lengths.astype(np.uint64))


def _powers(count: int) -> _Hashes:
    powers = np.full(count, _RADIX, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint64)
