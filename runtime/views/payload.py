"""What a shard is sent of a map: one row per key that changed, with its weight and its sums.

A sum is one column: int64, or decimal128(38, 0) in a payload that has a value past 64 bits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from runtime.plan import Map
from runtime.state import ARROW_TYPES

__all__ = ["WEIGHT", "payload_schema"]

WEIGHT: Final = "weight"


def payload_schema(map_: Map, wide: Collection[str] = ()) -> pa.Schema:
    """Columns of a map's deltas: its keys, ``weight``, and each sum; those in ``wide`` as decimal128(38, 0)."""
    keys = [(key.name, ARROW_TYPES[key.type]) for key in map_.keys]
    sums = [(s.name, ARROW_TYPES["int128" if s.name in wide else "int64"]) for s in map_.sums]
    return pa.schema([*keys, (WEIGHT, pa.int64()), *sums])
