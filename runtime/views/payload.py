"""What a shard is sent of a map: one row per key that changed, with its weight and its sums.

A sum is one column: int64, or decimal128(38, 0) in a payload that has a value past 64 bits. Within a process a payload
of plain integers stays arrays of numpy, with what is known of their magnitudes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Map
from runtime.state import ARROW_TYPES
from runtime.views import limbs
from runtime.views.relationbatch import KeyCodes

__all__ = [
    "WEIGHT",
    "Payload",
    "PlainPayload",
    "add_up",
    "combine",
    "payload_keys",
    "payload_schema",
    "payload_sums",
    "payload_weight",
    "table_of",
]

Integers = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]

WEIGHT: Final = "weight"
_LIMIT: Final = 2**63 - 1


def payload_schema(map_: Map, wide: Collection[str] = ()) -> pa.Schema:
    """Columns of a map's deltas: its keys, ``weight``, and each sum; those in ``wide`` as decimal128(38, 0)."""
    keys = [(key.name, ARROW_TYPES[key.type]) for key in map_.keys]
    sums = [(s.name, ARROW_TYPES["int128" if s.name in wide else "int64"]) for s in map_.sums]
    return pa.schema([*keys, (WEIGHT, pa.int64()), *sums])


def payload_weight(table: pa.Table) -> Integers:
    """The weight of each row of a payload."""
    return _numbers(table.column(WEIGHT))


def payload_sums(map_: Map, table: pa.Table) -> list[Integers | Objects]:
    """The map's sums in their order: int64, or Python integers where one of them does not fit."""
    return [_integers(table.column(total.name)) for total in map_.sums]


def payload_keys(map_: Map, table: pa.Table) -> list[pa.Array]:
    """The map's key columns in their order."""
    return [_whole(table.column(key.name)) for key in map_.keys]


class PlainPayload:
    """A payload all of int64, not yet a table."""

    __slots__ = ("_schema", "_table", "bounds", "keys", "num_rows", "repeats", "sums")

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[KeyCodes],
        sums: Sequence[Integers],
        bounds: Sequence[int],
        *,
        repeats: bool = False,
    ) -> None:
        """``schema``: see `payload_schema`; ``sums``: the weight first; ``bounds``: none of each is further from 0;
        ``repeats``: a key may have several rows."""
        self._schema, self.keys, self.sums, self.bounds, self.repeats = schema, keys, sums, bounds, repeats
        self.num_rows = len(sums[0])
        self._table: pa.Table | None = None

    def column(self, place: int) -> pa.Array:
        """A key column."""
        key, kind = self.keys[place], self._schema.field(place).type
        if key.dictionary is not None:
            return key.dictionary.take(pa.array(key.codes))
        if pa.types.is_int64(kind):
            return pa.array(key.codes)
        return pa.array(key.codes.astype(np.int32) if pa.types.is_date(kind) else key.codes).view(kind)

    @property
    def table(self) -> pa.Table:
        """The same as a table."""
        if self._table is None:
            arrays = [self.column(place) for place in range(len(self.keys))]
            self._table = pa.Table.from_arrays([*arrays, *map(pa.array, self.sums)], schema=self._schema)
        return self._table


Payload: TypeAlias = PlainPayload | pa.Table


def table_of(payload: Payload) -> pa.Table:
    """A payload as a table."""
    return payload.table if isinstance(payload, PlainPayload) else payload


def combine(map_: Map, payloads: Sequence[Payload]) -> Payload:
    """Several payloads of one map as one; raises `ViewOverflowError`. One alone is given back as it is."""
    if len(payloads) == 1:
        return payloads[0]
    tables = [table_of(payload) for payload in payloads]
    keys = [pa.concat_arrays([_whole(t.column(key.name)) for t in tables]) for key in map_.keys]
    weight = np.concatenate([payload_weight(t) for t in tables])
    sums = []
    for total in map_.sums:
        parts = [limbs.split(_whole(t.column(total.name))) for t in tables]
        sums.append((np.concatenate([high for high, _ in parts]), np.concatenate([low for _, low in parts])))
    return add_up(map_, keys, weight, sums)


def add_up(
    map_: Map, keys: Sequence[pa.Array], weight: Integers, sums: Iterable[tuple[Integers, Integers]]
) -> pa.Table:
    """The payload of rows with these keys and weights, and the high and low parts of their sums' (weighted) summands.

    Exact whatever the sizes are, and slow; raises `ViewOverflowError` for a sum past 94 bits.
    """
    table = pa.Table.from_arrays([*keys, pa.array(weight)], names=[*(f"k{i}" for i in range(len(keys))), "w"])
    places: list[tuple[bool, int]] = []  # per sum: whether its high part stands in two columns
    for place, (high, low) in enumerate(sums):
        is_split = limbs.may_overflow(high)
        places.append((is_split, place))
        parts = dict(zip("th", limbs.split_high(high), strict=True)) if is_split else {"h": high}
        for letter, part in {**parts, "l": low}.items():
            table = table.append_column(f"{letter}{place}", pa.array(part))
    grouped = table.group_by(table.column_names[: len(keys)], use_threads=False)
    summed = grouped.aggregate([(name, "sum") for name in table.column_names[len(keys) :]])
    weights = pc.fill_null(summed["w_sum"], 0)  # NULL is the sum of no rows
    effective = pc.not_equal(weights, 0)
    arrays = []
    for is_split, place in places:
        high, low = (_numbers(pc.fill_null(summed[f"{letter}{place}_sum"], 0)) for letter in "hl")
        if is_split:
            high = limbs.join_high(_numbers(pc.fill_null(summed[f"t{place}_sum"], 0)), high)
        high, low = limbs.normalise(high, low)
        effective = pc.or_(effective, pa.array((high != 0) | (low != 0)))
        arrays.append(limbs.join(high, low))
    wide = {s.name for s, array in zip(map_.sums, arrays, strict=True) if pa.types.is_decimal(array.type)}
    key_columns = [summed[f"k{i}"] for i in range(len(keys))]
    return pa.Table.from_arrays([*key_columns, weights, *arrays], schema=payload_schema(map_, wide)).filter(effective)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numbers(column: pa.Array | pa.ChunkedArray) -> Integers:
    numbers: Integers = _whole(column).to_numpy(zero_copy_only=False)
    return numbers


def _integers(column: pa.ChunkedArray) -> Integers | Objects:
    if not pa.types.is_decimal(column.type):
        return _numbers(column)
    array = _whole(column)
    raw = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    low, high = raw[:, 0], raw[:, 1]
    if (high == low >> 63).all():
        return low.copy()
    whole: Any = (high.astype(object) << 64) + low.view(np.uint64).astype(object)
    return np.asarray(whole, object)
