"""Placement of the parts of a view program in shards, and routing of segments of deltas to the shards that need them.

A view is spread over all shards if each of its maps has a key by which matching rows are in the same shard. For a
linear view, this key is all keys of its map together. For a join, it is a key that the join compares for equality. For
a graph of operators, it is a key that all operators preserve. Any other view is in one shard, together with all maps
that the view reads. A new view is filled with the rows that its relations had before (`fill_of`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.epochs import Segment
from runtime.native.tiers import Kernels
from runtime.plan import Map, Program, View, columns_of, only_view
from runtime.state import words_of_decimals
from runtime.views.preaggregate import Preaggregation

__all__ = [
    "Delivery",
    "Part",
    "columns_to_fill",
    "deliveries",
    "deliveries_of",
    "fill_of",
    "is_spread",
    "part_of",
    "parts_of_map",
    "payload_sources",
    "shard_of",
    "views_of_shard",
]

_COLUMNS: Final = 1 << 6
"""Number of values that `Part.column` can have in the code of a part: -1, and the numbers of 63 keys."""
T = TypeVar("T")
R = TypeVar("R")


class Memo(Generic[T, R]):
    """Cache of the results of a function of an immutable object; it keeps the objects alive.

    Objects are looked up by identity, because hashing a map or a program takes longer.
    """

    _MOST: Final = 16
    """Number of results at which all are dropped: programs are large, and each change of the catalogue makes new
    ones."""

    def __init__(self, function: Callable[[T], R]) -> None:
        self._function = function
        self._results: dict[int, tuple[T, R]] = {}

    def __call__(self, argument: T) -> R:
        entry = self._results.get(id(argument))
        if entry is None:
            if len(self._results) >= self._MOST:
                self._results.clear()
            entry = self._results[id(argument)] = argument, self._function(argument)
        return entry[1]


class Part(msgspec.Struct, frozen=True, order=True):
    """A map, or the share of it that a shard keeps."""

    map: int
    """Map id."""
    whole: bool
    """True if the shard keeps all keys of the map; False if it keeps only the keys that are assigned to it."""
    column: int = -1
    """Number of the key that determines the shard of a row; -1 if all keys together do."""

    @property
    def code(self) -> int:
        """The part encoded as one integer."""
        return (2 * self.map + self.whole) * _COLUMNS + self.column + 1

    @classmethod
    def of_code(cls, code: int) -> Part:
        """Return the part that has this `code`."""
        number, column = divmod(code, _COLUMNS)
        return cls(number // 2, bool(number % 2), column - 1)


def _all_shard_keys(program: Program) -> dict[str, Mapping[int, int | None] | None]:
    return {view.name: view.body.shard_keys(program.maps) for view in program.views}


_shard_keys = Memo(_all_shard_keys)


def part_of(program: Program, view: View, number: int) -> Part:
    """Return the part of a map that a view reads."""
    keys = _keys(program, view)
    place = None if keys is None else keys[number]
    return Part(number, True) if place is None else Part(number, False, place)


def is_spread(program: Program, view: View) -> bool:
    """Return True if a view is spread over all shards, each of which keeps the rows of its keys."""
    return _keys(program, view) is not None


def _keys(program: Program, view: View) -> Mapping[int, int | None] | None:
    """Return map → number of the key that determines a row's shard (see `Body.shard_keys`), or None for one shard."""
    keys = _shard_keys(program)[view.name]
    if keys is None:
        return None
    places = [place for place in keys.values() if place is not None]
    return None if max(places, default=0) >= _COLUMNS - 1 else keys


def views_of_shard(program: Program, shard: int, shards: int) -> list[View]:
    """Return the views that a shard keeps: a part of each spread view, and the views that are in this shard alone."""
    return [view for view in program.views if is_spread(program, view) or view.home % shards == shard]


def parts_of_map(program: Program, shards: int) -> dict[int, list[tuple[Part, tuple[int, ...]]]]:
    """Return the parts of each map, each part with the shards that keep it.

    If a part is not whole, each of these shards keeps the keys that are assigned to it.
    """
    homes_of: dict[Part, set[int]] = {}
    for view in program.views:
        homes = range(shards) if is_spread(program, view) else (view.home % shards,)
        for number in view.body.maps():
            homes_of.setdefault(part_of(program, view, number), set()).update(homes)
    parts: dict[int, list[tuple[Part, tuple[int, ...]]]] = {}
    for part, keepers in sorted(homes_of.items()):
        parts.setdefault(part.map, []).append((part, tuple(sorted(keepers))))
    return parts


class Delivery(msgspec.Struct, frozen=True):
    """Deltas of one map for one shard."""

    shard: int
    """Number of the shard."""
    part: Part
    """The map, and whether the shard keeps all of it."""
    deltas: pa.Table | str
    """One row per key, see `rows.payload_schema`; or the reason why the views over the part fail."""
    view: str | None = None
    """Name of the new view that the deltas fill with the rows before the version; None for deltas of the version."""


def deliveries(
    program: Program, segments: Sequence[Segment], shards: int, kernels: Kernels | None = None
) -> Iterator[Delivery]:
    """Return the deliveries to each shard for the sum of these segments' deltas; unchanged maps are left out."""
    tables: dict[str, pa.Table] = {}
    for relation in program.relations:
        parts = [rows for s in segments if (rows := s.rows(relation.name)) is not None]
        if parts:
            tables[relation.name] = pa.concat_tables(parts)  # the table has chunks: nothing is copied
    return iter(deliveries_of(program, tables, shards, kernels))


def deliveries_of(
    program: Program, tables: Mapping[str, pa.Table], shards: int, kernels: Kernels | None = None
) -> list[Delivery]:
    """Return the deliveries to each shard for these deltas, given by relation; unchanged maps are left out.

    Without ``kernels`` the kernels of maps are interpreted.
    """
    routes = _routes(program)
    parts = routes.parts(shards)
    deliveries: list[Delivery] = []
    for name, table in tables.items():
        preaggregation = routes.preaggregations.get(name)
        if preaggregation is not None and table.num_rows:
            for number, payload in sorted(preaggregation.payloads(table, kernels).items()):
                deliveries += _of_map(program.maps[number], parts.get(number, ()), shards, payload)
    return deliveries


def columns_to_fill(program: Program, views: Collection[str]) -> dict[str, set[str]]:
    """Return a dict from each relation to its columns that these views' maps read."""
    columns: dict[str, set[str]] = {}
    for number in set().union(*(view.body.maps() for view in program.views if view.name in views)):
        map_ = program.maps[number]
        columns.setdefault(map_.relation, set()).update(columns_of(map_))
    return columns


def fill_of(
    program: Program,
    views: Collection[str],
    tables: Mapping[str, pa.Table],
    shards: int,
    kernels: Kernels | None = None,
) -> Iterator[Delivery]:
    """Yield the deliveries, to each shard, that fill these views, which are new in the program.

    ``tables`` maps relations to all of their rows before the view's first version: columns, then ``weight``. Equal rows
    must have been added up, so that a row that was removed before the view was added cannot make the view fail.
    """
    for name in views:
        alone, numbers = only_view(program, name)
        for delivery in deliveries_of(alone, tables, shards, kernels):
            part = msgspec.structs.replace(delivery.part, map=numbers[delivery.part.map])
            yield msgspec.structs.replace(delivery, part=part, view=name)


def payload_sources(program: Program) -> list[str]:
    """Return the sources of the kernels that add up the deltas of a program's maps.

    They include the kernels for each view alone: the rows that fill a new view (`fill_of`) are added up only for the
    maps of this view, by kernels with fewer sums.
    """
    routes = [_routes(program)]
    if len(program.views) > 1:
        routes += [_Routes(only_view(program, view.name)[0]) for view in program.views]
    sources = (source for route in routes for each in route.preaggregations.values() for source in each.sources())
    return list(dict.fromkeys(sources))


class _Routes:
    """Routes of a program, the same for all of its versions."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._parts: dict[int, dict[int, list[tuple[Part, tuple[int, ...]]]]] = {}
        maps: dict[str, list[Map]] = {}
        for map_ in program.maps:
            maps.setdefault(map_.relation, []).append(map_)
        relations = {relation.name: relation for relation in program.relations}
        self.preaggregations = {name: Preaggregation(relations[name], each) for name, each in maps.items()}
        """Relation → preaggregation of its deltas for its maps."""

    def parts(self, shards: int) -> dict[int, list[tuple[Part, tuple[int, ...]]]]:
        """Return the parts of each map and the shards that keep them."""
        if shards not in self._parts:
            self._parts[shards] = parts_of_map(self._program, shards)
        return self._parts[shards]


_routes = Memo(_Routes)


def _of_map(
    map_: Map, homes: Sequence[tuple[Part, tuple[int, ...]]], shards: int, payload: pa.Table | str
) -> Iterator[Delivery]:
    if not isinstance(payload, str) and not payload.num_rows:
        return
    for part, keepers in homes:
        if isinstance(payload, str) or part.whole or shards == 1:
            yield from (Delivery(shard, part, payload) for shard in keepers)
        else:
            yield from _spread(map_, part, payload, shards)


def _spread(map_: Map, part: Part, deltas: pa.Table, shards: int) -> Iterator[Delivery]:
    of_row = shard_of(map_, deltas, shards, None if part.column < 0 else [map_.keys[part.column].name])
    # The rows are sorted once and cut: searching all rows for each shard would cost rows × shards.
    order = np.argsort(of_row, kind="stable")
    of_row, together = of_row[order], deltas.take(pa.array(order))
    begins = np.flatnonzero(np.diff(of_row, prepend=-1))
    for begin, end in pairwise([*begins.tolist(), len(of_row)]):
        yield Delivery(int(of_row[begin]), part, together.slice(begin, end - begin))


def shard_of(map_: Map, deltas: pa.Table, shards: int, keys: Sequence[str] | None = None) -> npt.NDArray[np.int64]:
    """Return the shard of each row by all keys of the map, or by ``keys``.

    The result is the same in every process, at every time. Checkpoints depend on this function: if it changes, the
    format in `runtime.spark.beginning` must change as well.
    """
    mixed = np.full(deltas.num_rows, 0x9E3779B97F4A7C15, np.uint64)
    for name in [key.name for key in map_.keys] if keys is None else keys:
        mixed ^= _stable_words(deltas[name].combine_chunks()).view(np.uint64)
        mixed ^= mixed >> np.uint64(32)  # floats with few digits differ in their high bits alone
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
    raw = words_of_decimals(array)
    mixed = raw[:, 0] ^ (raw[:, 1] << 1)
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), mixed, -1)
