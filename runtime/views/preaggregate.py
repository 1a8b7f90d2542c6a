"""Adds up a version's deltas per map and key before anything else sees them.

This is where the volume is taken out: what leaves is one row per key that changed, whatever the number of events. Where
the bounds of the columns prove that nothing passes 64 bits, which is nearly always, numpy does it in plain int64, and
maps share what they have in common; otherwise the map's own kernel does (`maptotals`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.plan import Call, Expr, Lit, Map, Relation
from runtime.views.grouping import Grouping, grouping, is_dense
from runtime.views.kernels import Kernels
from runtime.views.maptotals import MapTotals
from runtime.views.memo import Memo
from runtime.views.payload import payload_schema
from runtime.views.relationbatch import KeyCodes, RelationBatch
from runtime.views.vectors import NotPlainError

__all__ = ["Preaggregation", "has_dense_keys", "is_plain", "shard_of"]

Integers = npt.NDArray[np.int64]

_MOST: Final = 2**63 - 1


class _Product:
    """A sum as ``constant × Π keys × SUM(weight × base)``: what is the same in a group is multiplied once a group."""

    def __init__(self, map_: Map, expr: Expr) -> None:
        numbered = {key.expr: place for place, key in enumerate(map_.keys) if key.type == "int64"}
        self.constant = 1
        self.keys: list[int] = []
        rest: list[Expr] = []
        for factor in _factors(expr):
            if isinstance(factor, Lit) and isinstance(factor.value, int) and abs(factor.value) < _MOST:
                self.constant *= factor.value
            elif factor in numbered:
                self.keys.append(numbered[factor])
            else:
                rest.append(factor)
        rest.sort(key=repr)  # equal products of several maps are computed once
        self.base = None if not rest else rest[0] if len(rest) == 1 else Call("mul", tuple(rest))

    def bound(self, keys: Sequence[KeyCodes], base: int) -> int:
        """No magnitude, nor one on the way to it, is greater if the sum of the base is at most ``base``."""
        for place in self.keys:
            base *= max(-keys[place].low, keys[place].high)
        return max(base * abs(self.constant), abs(self.constant))

    def may_vanish(self, keys: Sequence[KeyCodes]) -> bool:
        """Whether it may be 0 where the sum of the base is not."""
        return self.constant == 0 or any(keys[place].low <= 0 <= keys[place].high for place in self.keys)

    def of(self, base: Integers, codes: Sequence[Integers]) -> Integers:
        """The groups' sums."""
        for place in self.keys:
            base = base * codes[place]
        return base * self.constant if self.constant != 1 else base


class _Plan:
    """What can be said of a map before there are rows."""

    def __init__(self, map_: Map) -> None:
        self.map = map_
        self.schema = payload_schema(map_)
        self.products = [_Product(map_, total.expr) for total in map_.sums]
        self.bases = list(dict.fromkeys([None, *(product.base for product in self.products)]))
        self.base_of = [self.bases.index(product.base) for product in self.products]
        keys = " ".join(repr((key.expr, key.type)) for key in map_.keys)
        # Strings, because theirs is the only hash that is computed once.
        self.grouping = f"groups by {keys}"
        self.totals = [f"{base!r} by {keys}" for base in self.bases]


_plan = Memo(_Plan)


class Preaggregation:
    """Adds up the deltas of one map. Not thread-safe."""

    def __init__(self, map_: Map, relation: Relation) -> None:
        self._map, self._relation = map_, relation
        self._totals: MapTotals | None = None

    @property
    def totals(self) -> MapTotals:
        """The map's kernel, for what is not plain."""
        if self._totals is None:
            self._totals = MapTotals(self._map, self._relation)
        return self._totals

    def payload(self, batch: RelationBatch, kernels: Kernels | None = None) -> pa.Table:
        """The deltas of the map, from those of its relation (columns and ``weight``): see `payload.payload_schema`.

        One row per key, none without effect. Raises `ViewError` for a value that does not fit its column.
        """
        try:
            chosen, plan = batch.where(self._map.where), _plan(self._map)
            return _plain(plan, chosen) if chosen.rows else plan.schema.empty_table()
        except NotPlainError:
            return self.totals.payload(batch.table(), kernels)


def has_dense_keys(map_: Map, batch: RelationBatch) -> bool:
    """Whether the rows of these deltas need not be sorted; what is computed for the answer is kept."""
    part = batch.where(map_.where)
    return is_dense([part.key(key) for key in map_.keys], part.rows)


def is_plain(map_: Map, batch: RelationBatch) -> bool:
    """Whether the sums of these deltas are plain int64; what is computed for the answer is kept."""
    part = batch.where(map_.where)
    try:
        _require_plain(_plan(map_), [part.key(key) for key in map_.keys], part)
    except NotPlainError:
        return False
    return True


def _require_plain(plan: _Plan, keys: Sequence[KeyCodes], batch: RelationBatch) -> None:
    """Raise `NotPlainError` if the magnitude of a sum may pass 64 bits."""
    bases = [batch.rows * (batch.heaviest() if base is None else batch.weighted(base).high) for base in plan.bases]
    for product, place in zip(plan.products, plan.base_of, strict=True):
        if any(keys[number].dictionary is not None for number in product.keys):
            raise NotPlainError  # the codes number the values and cannot be multiplied
        if product.bound(keys, bases[place]) > _MOST:
            raise NotPlainError


def _plain(plan: _Plan, batch: RelationBatch) -> pa.Table:
    """All in int64; raises `NotPlainError` where that may not be enough."""
    keys = [batch.key(key) for key in plan.map.keys]
    _require_plain(plan, keys, batch)
    groups: Grouping = batch.kept(plan.grouping) or batch.keep(plan.grouping, grouping(keys, batch.rows))
    bases = [_total(plan, place, groups, batch) for place in range(len(plan.bases))]
    chosen = _effective(bases)
    if chosen is not None:
        bases = [total.take(chosen) for total in bases]
    codes = groups.codes(chosen) if keys else []
    totals = [bases[0]]
    for product, place in zip(plan.products, plan.base_of, strict=True):
        totals.append(product.of(bases[place], codes))
    if any([product.may_vanish(keys) for product in plan.products]):  # noqa: C419 (a list is quicker)
        chosen = _effective(totals)
        if chosen is not None:
            codes, totals = [part[chosen] for part in codes], [total[chosen] for total in totals]
    columns = [
        _key_column(code, key.dictionary, plan.schema.field(place).type)
        for place, (key, code) in enumerate(zip(keys, codes, strict=True))
    ]
    return pa.Table.from_arrays([*columns, *map(pa.array, totals)], schema=plan.schema)


def _key_column(codes: Integers, dictionary: pa.Array | None, kind: pa.DataType) -> pa.Array:
    if dictionary is not None:
        return dictionary.take(pa.array(codes))
    if pa.types.is_int64(kind):
        return pa.array(codes)
    return pa.array(codes.astype(np.int32) if pa.types.is_date(kind) else codes).view(kind)


def _total(plan: _Plan, place: int, groups: Grouping, batch: RelationBatch) -> Integers:
    """The groups' sums of the base at this place; maps of other sums with the same keys may have asked before."""
    name = plan.totals[place]
    found: Integers | None = batch.kept(name)
    if found is None:
        base = plan.bases[place]
        found = groups.total(batch.weight if base is None else batch.weighted(base).values)
        batch.keep(name, found)
    return found


def _effective(totals: Sequence[Integers]) -> Integers | None:
    """The groups for which one of the totals is not 0; None for all."""
    mask = totals[0] != 0
    for total in totals[1:]:
        mask |= total != 0
    chosen = mask.nonzero()[0]
    return None if len(chosen) == len(mask) else chosen


def _factors(expr: Expr) -> list[Expr]:
    if isinstance(expr, Call) and expr.op == "mul":
        return [factor for argument in expr.args for factor in _factors(argument)]
    if isinstance(expr, Call) and expr.op == "neg":
        return [Lit(-1), *_factors(expr.args[0])]
    return [expr]


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
    if pa.types.is_int64(array.type) and not array.null_count:
        return np.asarray(array.to_numpy())
    plain = array.cast(pa.int32()) if pa.types.is_date(array.type) else array
    return np.asarray(plain.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))


def _mixed_halves(array: pa.Array) -> npt.NDArray[np.int64]:
    raw = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    mixed = raw[:, 0] ^ (raw[:, 1] << 1)
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), mixed, -1)
