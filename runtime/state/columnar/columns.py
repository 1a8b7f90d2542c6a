"""Conversion of Arrow columns to int64 words and back, so that keys of any type can be indexed.

An integer, date, time or boolean becomes one word. A float becomes the word of its bits; -0.0 is first replaced by 0.0,
and each NaN by the same NaN, so that equal values have equal words. The word of a string is its number in a pool. An
integer of 128 bits becomes two words. A nullable column has one more word, which is 1 for NULL.

In Arrow, an integer of 128 bits is the unscaled integer of a decimal128, which has 16 bytes, low word first. The bytes
are reinterpreted and never cast, because the integer may have more than the 38 digits of the type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "ARROW_TYPES",
    "WIDE",
    "KeyColumn",
    "StringPool",
    "decimals_of_integers",
    "decimals_of_words",
    "decode_words",
    "encode_words",
    "unscaled_as",
    "width_of",
    "words_of_decimals",
]

Words = npt.NDArray[np.int64]

WIDE: Final = pa.decimal128(38, 0)
"""Arrow's type for integers of 128 bits."""
ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "int64": pa.int64(),
    "int128": WIDE,
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
"""Types of key columns by name."""
_FEW: Final = 64
"""Up to this many strings are converted one by one, because calls of Arrow may release the interpreter lock."""


def words_of_decimals(array: pa.Array) -> Words:
    """Return the low and high words of a decimal128 column, shape (rows, 2), not copied; undefined for NULL."""
    if not len(array):
        return np.zeros((0, 2), np.int64)
    words: Words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


def decimals_of_words(words: Words, valid: pa.Buffer | None = None) -> pa.Array:
    """Return low and high words, shape (rows, 2), as `WIDE`; ``valid`` is Arrow's validity bitmap.

    Contiguous words are not copied.
    """
    return pa.Array.from_buffers(WIDE, len(words), [valid, pa.py_buffer(np.ascontiguousarray(words))])


def decimals_of_integers(values: Sequence[int | None]) -> pa.Array:
    """Return Python integers of up to 128 bits as `WIDE`; raise `OverflowError` for larger integers."""
    raw = b"".join([(0 if value is None else int(value)).to_bytes(16, "little", signed=True) for value in values])
    valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1] if None in values else None
    return pa.Array.from_buffers(WIDE, len(values), [valid, pa.py_buffer(raw)])


def unscaled_as(array: pa.Array, kind: pa.DataType = WIDE) -> pa.Array:
    """Return decimals of the type ``kind`` that have the same unscaled integers as the given decimals."""
    if array.type.equals(kind):
        return array
    return pa.Array.from_buffers(kind, len(array), array.buffers(), offset=array.offset)


class KeyColumn(msgspec.Struct, frozen=True):
    """One column of a key."""

    name: str
    """Name of the column in Arrow tables."""
    type: str
    """Type of the column, one of `ARROW_TYPES`."""
    nullable: bool = False
    """True if the column may be NULL."""


class StringPool:
    """Bijection of strings and numbers, counted from 0 in the order of first use; a number is never reused.

    A pool is saved separately from the tables that contain its numbers: `added_since` returns the strings that a
    checkpoint has to write.
    """

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._strings = list(strings)
        self._array = pa.array([], pa.string())
        self._numbers = {text: number for number, text in enumerate(self._strings)}

    def __len__(self) -> int:
        return len(self._strings)

    def encode(self, column: pa.Array, *, adds: bool = True) -> npt.NDArray[np.int64]:
        """Return the numbers of a string column's values, -1 for NULL.

        A new string is added if ``adds`` is True; otherwise its number is -2. The loop in Python is over the distinct
        values, or over all values of a short column.
        """
        number = self._number if adds else self._known_number
        if len(column) <= _FEW:
            return np.array([-1 if text is None else number(text) for text in column.to_pylist()], np.int64)
        encoded = column.dictionary_encode()
        numbers = np.empty(len(encoded.dictionary) + 1, np.int64)
        numbers[:-1] = [number(text) for text in encoded.dictionary.to_pylist()]
        numbers[-1] = -1
        codes = encoded.indices.fill_null(-1) if column.null_count else encoded.indices
        values: npt.NDArray[np.int64] = numbers.take(codes.to_numpy())
        return values

    def _number(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._strings)
            self._strings.append(text)
        return number

    def _known_number(self, text: str) -> int:
        return self._numbers.get(text, -2)

    def decode(self, numbers: npt.NDArray[np.int64]) -> pa.Array:
        """Return the strings of these numbers, and NULL for negative numbers."""
        if len(numbers) <= _FEW:
            known = self._strings
            return pa.array([known[place] if place >= 0 else None for place in numbers.tolist()], pa.string())
        if len(self._array) != len(self._strings):
            # Only the new strings are added to the array: the pool of a shard may be large, and every batch is decoded
            # with the array.
            self._array = pa.concat_arrays([self._array, pa.array(self._strings[len(self._array) :], pa.string())])
        unknown = numbers < 0
        return self._array.take(pa.array(numbers, mask=unknown) if unknown.any() else pa.array(numbers))

    def added_since(self, count: int) -> list[str]:
        """Return the strings that were added after the first ``count`` strings."""
        return self._strings[count:]

    def extend(self, strings: Iterable[str]) -> None:
        """Add strings, in the order in which another copy of this pool added them."""
        for text in strings:
            self._numbers[text] = len(self._strings)
            self._strings.append(text)


def width_of(columns: Sequence[KeyColumn]) -> int:
    """Return the number of words of a key with these columns."""
    return sum((2 if c.type == "int128" else 1) + c.nullable for c in columns)


def encode_words(
    columns: Sequence[KeyColumn], arrays: Sequence[pa.Array], pool: StringPool, *, adds: bool = True
) -> Words:
    """Return Arrow columns as words, shape (rows, width); with ``adds``, missing strings are added to the pool.

    Raise `ValueError` for NULL in a column that is not nullable.
    """
    rows = len(arrays[0]) if arrays else 0
    words = np.zeros((rows, width_of(columns)), np.int64)
    place = 0
    for column, given in zip(columns, arrays, strict=True):
        array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        if column.nullable:
            if array.null_count:
                words[:, place] = array.is_null().to_numpy(zero_copy_only=False)
            place += 1
        elif array.null_count:
            raise ValueError(f"expected no NULL in column {column.name}, was {array.null_count} of {len(array)}")
        if column.type == "string":
            words[:, place] = pool.encode(array, adds=adds)
            place += 1
        else:
            place = _encode_column(column, array, words, place)
    return words


def _encode_column(column: KeyColumn, array: pa.Array, words: Words, place: int) -> int:
    if column.type == "int128":
        wide = words_of_decimals(array.cast(WIDE))
        words[:, place : place + 2] = np.where(array.is_valid().to_numpy(zero_copy_only=False)[:, None], wide, 0)
        return place + 2
    if column.type == "float64":
        values = array.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        words[:, place] = np.where(np.isnan(values), np.nan, values).view(np.int64)
        return place + 1
    plain = array.cast(pa.int32()) if column.type == "date" else array
    plain = plain if plain.type == pa.int64() else plain.cast(pa.int64())
    words[:, place] = (pc.fill_null(plain, 0) if plain.null_count else plain).to_numpy(zero_copy_only=False)
    return place + 1


def decode_words(columns: Sequence[KeyColumn], words: Words, pool: StringPool) -> list[pa.Array]:
    """Return the Arrow columns of these words."""
    arrays: list[pa.Array] = []
    place = 0
    for column in columns:
        nulls: npt.NDArray[np.bool_] | None = None
        if column.nullable:
            nulls = words[:, place] != 0
            place += 1
        array = _decode_column(column, words, pool, place)
        place += 2 if column.type == "int128" else 1
        if nulls is not None and nulls.any():
            array = pc.if_else(pa.array(nulls), pa.scalar(None, array.type), array)
        arrays.append(array)
    return arrays


def _decode_column(column: KeyColumn, words: Words, pool: StringPool, place: int) -> pa.Array:
    if column.type == "int128":
        return decimals_of_words(words[:, place : place + 2])
    plain = np.ascontiguousarray(words[:, place])
    if column.type == "string":
        return pool.decode(plain)
    if column.type == "float64":
        return pa.array(plain.view(np.float64))
    if column.type == "bool":
        return pa.array(plain != 0)
    array = pa.array(plain)
    return array.cast(pa.int32()).cast(pa.date32()) if column.type == "date" else array.cast(ARROW_TYPES[column.type])
