"""Integers of 128 bits: as Arrow decimals, as pairs of words, and as Python's integers.

The 16 bytes of a decimal128 are its unscaled integer, low word first. The bytes are reinterpreted and never cast, since
an integer of 128 bits may have more than the 38 digits of the type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["WIDE", "decimals_of_integers", "decimals_of_words", "unscaled_as", "words_of_decimals"]

Words = npt.NDArray[np.int64]

WIDE: Final = pa.decimal128(38, 0)
"""Arrow's type for such integers."""


def words_of_decimals(array: pa.Array) -> Words:
    """Return the low and high words of a decimal128 column, shape (rows, 2), not copied; undefined where NULL."""
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
    """Return Python integers of up to 128 bits as `WIDE`; raise `OverflowError` for larger ones."""
    raw = b"".join([(0 if value is None else int(value)).to_bytes(16, "little", signed=True) for value in values])
    valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1] if None in values else None
    return pa.Array.from_buffers(WIDE, len(values), [valid, pa.py_buffer(raw)])


def unscaled_as(array: pa.Array, kind: pa.DataType = WIDE) -> pa.Array:
    """Return the unscaled integers of decimals as decimals of this type, with its scale."""
    if array.type.equals(kind):
        return array
    return pa.Array.from_buffers(kind, len(array), array.buffers(), offset=array.offset)
