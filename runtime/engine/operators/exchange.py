"""Exchange: rows spread over instances by the hash of their key, so that equal keys meet."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.columns import decimal_words

__all__ = ["Exchange"]

Words = npt.NDArray[np.uint64]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))


class Exchange:
    """Splits batches among ``instances``; the same key always goes to the same one, in every process."""

    def __init__(self, keys: Sequence[str], instances: int) -> None:
        if instances < 1:
            raise ValueError(f"expected at least one instance, was {instances}")
        self.keys = tuple(keys)
        self.instances = instances

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each instance that gets any, in their order."""
        if self.instances == 1:
            yield 0, batch
            return
        mixed = np.full(batch.num_rows, _GOLDEN)
        for key in self.keys:
            mixed = _mixed(mixed ^ _words(batch.column(key)))
        owner = (mixed % np.uint64(self.instances)).astype(np.int64)
        for instance in range(self.instances):
            rows = np.flatnonzero(owner == instance)
            if len(rows) == batch.num_rows:
                yield instance, batch
            elif len(rows):
                yield instance, batch.take(pa.array(rows))


def _mixed(words: Words) -> Words:
    """The finaliser of splitmix64."""
    for shift, factor in _MIX:
        words = (words ^ (words >> shift)) * factor
    return words ^ (words >> np.uint64(31))


def _words(column: pa.Array) -> Words:
    """A word for each value, the same for equal ones; NULL is a value."""
    kind = column.type
    words: Words
    if pa.types.is_decimal(kind):
        pairs = decimal_words(column.fill_null(0)).view(np.uint64)
        low, high = pairs[:, 0], pairs[:, 1]
        is_small = high.view(np.int64) == low.view(np.int64) >> 63
        return np.where(is_small, low, low ^ _mixed(high))  # as an int64 of the same value
    if pa.types.is_string(kind):
        encoded = column.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        hashes = np.array([*(zlib.crc32(text.encode()) for text in texts), 0], np.uint64)  # distinct values only
        words = hashes[encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]
        return words
    if pa.types.is_float64(kind):
        values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        words = np.where(np.isnan(values), np.nan, values).view(np.uint64)
        return words
    plain = column.view(pa.int32()) if pa.types.is_date32(kind) else column
    plain = plain.view(pa.int64()) if pa.types.is_timestamp(kind) else plain
    words = plain.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    return words
