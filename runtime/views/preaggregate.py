"""Adds up a segment's deltas per map and key before anything else sees them.

This is where the volume is taken out: what leaves is one row per key that changed, whatever the number of events.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Map
from runtime.state import ARROW_TYPES
from runtime.views import limbs
from runtime.views.errors import ViewError
from runtime.views.evaluate import evaluate, mask
from runtime.views.payload import WEIGHT, add_up, combine, payload_schema, payload_sums, payload_weight

__all__ = [
    "WEIGHT",
    "combine",
    "payload_schema",
    "payload_sums",
    "payload_weight",
    "preaggregate",
    "shard_of",
]


def preaggregate(map_: Map, deltas: pa.Table) -> pa.Table:
    """The deltas of a map, from those of its relation (columns and ``weight``); one row per key, none without effect.

    Raises `ViewError` for a value that does not fit its column.
    """
    chosen = mask(map_.where, _columns(deltas), deltas.num_rows)
    rows = deltas if chosen is None else deltas.filter(chosen)
    columns = _columns(rows)
    weight = rows.column(rows.num_columns - 1).combine_chunks()
    arrays = [_as_type(evaluate(k.expr, columns, rows.num_rows), k.type, k.name) for k in map_.keys]
    number = weight.to_numpy(zero_copy_only=False)
    parts = (limbs.split(evaluate(total.expr, columns, rows.num_rows)) for total in map_.sums)
    return add_up(map_, arrays, number, [limbs.times(high, low, number) for high, low in parts])


def shard_of(map_: Map, deltas: pa.Table, shards: int, keys: Sequence[str] | None = None) -> npt.NDArray[np.int64]:
    """The shard of each row by its key, or by these of its columns: the same in every process and at every time."""
    mixed = np.full(deltas.num_rows, 0x9E3779B97F4A7C15, np.uint64)
    for name in [key.name for key in map_.keys] if keys is None else keys:
        mixed ^= _stable_words(deltas[name].combine_chunks()).view(np.uint64)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(shards)).astype(np.int64)


def _stable_words(array: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_string(array.type):
        encoded = array.dictionary_encode()
        hashes = [zlib.crc32(text.encode()) for text in encoded.dictionary.to_pylist()]
        codes = encoded.indices.fill_null(len(hashes)).to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*hashes, -1], np.int64)[codes])
    if pa.types.is_floating(array.type):
        return np.asarray(array.fill_null(0.0).to_numpy(zero_copy_only=False).view(np.int64))
    if pa.types.is_decimal(array.type):
        return _mixed_halves(array)
    plain = array.cast(pa.int32()) if pa.types.is_date(array.type) else array
    return np.asarray(plain.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))


def _mixed_halves(array: pa.Array) -> npt.NDArray[np.int64]:
    raw = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    mixed = raw[:, 0] ^ (raw[:, 1] << 1)
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), mixed, -1)


def _columns(table: pa.Table) -> dict[str, pa.Array]:
    """The relation's columns: all but the last, the weight, whose name one of them may have too."""
    return {n: c.combine_chunks() for n, c in zip(table.column_names[:-1], table.columns[:-1], strict=True)}


def _as_type(array: pa.Array, type_: str, name: str) -> pa.Array:
    """Values as keys; equal floats become equal bits."""
    wanted = ARROW_TYPES[type_]
    try:
        if pa.types.is_floating(wanted):
            plain = pc.add(array.cast(wanted), pa.scalar(0.0))  # -0.0 becomes 0.0
            return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan")), plain)
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise ViewError(f"expected {type_} for key {name}, was {error}") from None
