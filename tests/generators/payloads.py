"""Preaggregated deltas of a relation for a map, and payloads as plain Python values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from runtime.plan import Map, Relation
from runtime.views.errors import ViewError
from runtime.views.preaggregate import Preaggregation
from runtime.views.rows import WEIGHT

__all__ = ["groups_of", "payload_of", "preaggregated"]

Groups = dict[tuple[Any, ...], tuple[int, ...]]


def preaggregated(map_: Map, relation: Relation, deltas: pa.Table) -> pa.Table:
    """Return the payload of these deltas; raise `ViewError` with the reason if there is none."""
    return payload_of(Preaggregation(relation, [map_]).payloads(deltas)[map_.id])


def payload_of(found: pa.Table | str) -> pa.Table:
    """Return a payload; raise `ViewError` with the reason if there is none."""
    if isinstance(found, str):
        raise ViewError(found)
    return found


def groups_of(map_: Map, *payloads: pa.Table) -> Groups:
    """Return the weight and sums of all payloads together, by key, without keys whose values are all 0.

    Assert that each payload has a key once.
    """
    found: Groups = {}
    for payload in payloads:
        keys, numbers = ([column.to_pylist() for column in payload.columns[part]] for part in _parts(map_))
        names = list(zip(*keys, strict=True)) or [()] * payload.num_rows
        assert len(set(names)) == len(names)
        assert payload.column_names[len(map_.keys)] == WEIGHT
        for name, values in zip(names, zip(*numbers, strict=True), strict=True):
            key = tuple(map(_plain, name))
            held = found.get(key, (0,) * len(values))
            found[key] = tuple(before + int(value) for before, value in zip(held, values, strict=True))
    return {key: held for key, held in found.items() if any(held)}


def _parts(map_: Map) -> tuple[slice, slice]:
    return slice(0, len(map_.keys)), slice(len(map_.keys), None)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value
