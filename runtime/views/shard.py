"""A shard of a view program: its maps, its views' last results, and one step per version.

The same object serves every host: Spark's state workers, a test, and later the in-process engine. It is deterministic:
the same deliveries in any order within a version give the same changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from runtime.compiler import maps_of
from runtime.compiler.catalogue import map_identity
from runtime.compiler.program import Linear, Program, Reevaluated, View
from runtime.state import CorruptStateError, KeyedTable, StringPool, decode_run, encode_run
from runtime.views.errors import ViewError
from runtime.views.linear import branch_changes, change_schema, consolidate, empty_row
from runtime.views.maps import MapChange, MapState
from runtime.views.placement import Part, is_spread, parts_of_shard, views_of_shard
from runtime.views.preaggregate import combine
from runtime.views.reevaluated import LastResult, evaluate_query

__all__ = ["ShardState", "Step"]

_RUN_FORMAT: Final = 2
_Given = Iterable[tuple[Part, pa.Table | str]]


class Step(msgspec.Struct, frozen=True):
    """What one version changed."""

    changes: dict[str, pa.Table]
    """View → rows removed (-) and added (+); views that did not change are left out."""
    failed: dict[str, str]
    """View → why it cannot go on; it emits nothing from now on."""


class _Run(msgspec.Struct, frozen=True, array_like=True):
    """A shard's edits: new strings, a run per table that changed, failed views, views that have begun."""

    format: int
    first_string: int
    strings: list[str]
    tables: dict[str, bytes]
    failed: dict[str, str]
    begun: list[str]


class ShardState:
    """One shard's share of a program. Not thread-safe: one owner at a time."""

    def __init__(self, program: Program, shard: int, shards: int) -> None:
        self._program = program
        self._shard, self._shards = shard, shards
        self._pool = StringPool()
        self._saved_strings = 0
        self._views = views_of_shard(program, shard, shards)
        self._maps = {p: MapState(program.maps[p.map], self._pool) for p in parts_of_shard(program, shard, shards)}
        self._results = {v.name: LastResult(v, self._pool) for v in self._views if isinstance(v.body, Reevaluated)}
        self._failed: dict[str, str] = {}
        self._begun: set[str] = set()
        self._unfilled: set[Part] = set()

    def migrate(self, program: Program) -> None:
        """Change over to another program, before its first version; `save_all` must follow that version.

        What stays keeps its state. A map is kept only if a view that has not failed reads it: a failure may have left
        it without some of its deltas, which does not matter to those that have failed with it.
        """
        held: dict[tuple[bytes, bool], MapState] = {}
        for view in self._views:
            if view.name not in self._failed:
                is_whole = not is_spread(self._program, view)
                for number in maps_of(view.body):
                    identity = map_identity(self._program.maps[number])
                    held[identity, is_whole] = self._maps[Part(number, is_whole)]
        self._program = program
        self._views = views_of_shard(program, self._shard, self._shards)
        parts = parts_of_shard(program, self._shard, self._shards)
        identities = {part: (map_identity(program.maps[part.map]), part.whole) for part in parts}
        self._unfilled = {part for part in parts if identities[part] not in held}
        self._maps = {
            part: MapState(program.maps[part.map], self._pool) if part in self._unfilled else held[identities[part]]
            for part in parts
        }
        names = {view.name for view in self._views}
        self._begun &= names
        self._failed = {name: reason for name, reason in self._failed.items() if name in names}
        self._results = {
            view.name: self._results[view.name] if view.name in self._begun else LastResult(view, self._pool)
            for view in self._views
            if isinstance(view.body, Reevaluated)
        }

    def step(self, delivered: _Given, backfill: Mapping[str, _Given] | None = None) -> Step:
        """Add what was delivered for one version and say what changed; in place of deltas, why there are none.

        ``backfill``, after `migrate`: for each view that is new everything that its maps hold before the version.
        """
        by_part: dict[Part, list[pa.Table]] = {}
        broken: dict[Part, str] = {}
        filled: set[Part] = set()
        for given in (backfill or {}).values():
            new = [(part, deltas) for part, deltas in given if part in self._unfilled and part not in filled]
            filled |= {part for part, _ in new}
            _sort(new, by_part, broken)
        self._unfilled = set()
        _sort(delivered, by_part, broken)
        changed: dict[Part, MapChange] = {}
        for part, tables in sorted(by_part.items()):
            try:
                deltas = combine(self._program.maps[part.map], tables)
                if deltas.num_rows:
                    changed[part] = self._maps[part].merge(deltas)
            except ViewError as error:
                broken[part] = str(error)
        step = Step({}, {})
        for view in self._views:
            if view.name not in self._failed:
                self._update(view, changed, broken, step)
            self._begun.add(view.name)
        return step

    def _update(self, view: View, changed: dict[Part, MapChange], broken: dict[Part, str], step: Step) -> None:
        try:
            if isinstance(view.body, Linear):
                changes = self._linear(view, view.body, changed, broken)
            else:
                assert isinstance(view.body, Reevaluated)
                changes = self._reevaluated(view, view.body, changed, broken)
        except ViewError as error:
            self._failed[view.name] = step.failed[view.name] = str(error)
            return
        if changes is not None and changes.num_rows:
            step.changes[view.name] = changes

    def _linear(
        self, view: View, body: Linear, changed: dict[Part, MapChange], broken: dict[Part, str]
    ) -> pa.Table | None:
        tables: list[pa.Table] = []
        for branch in body.branches:
            part = Part(branch.map, not is_spread(self._program, view))
            _raise_if_broken(broken, part)
            begun = view.name in self._begun
            change = changed.get(part) if begun else _from_nothing(self._maps[part])
            if change is not None:
                tables += branch_changes(branch, view.columns, self._maps[part], change)
            if branch.empty is not None:
                is_empty = self._weight(part) <= 0
                was_empty = is_empty if change is None else bool(change.old[0, 0] <= 0)
                sign = int(is_empty) - int(was_empty and begun)
                if sign:
                    tables.append(empty_row(branch, view.columns, sign))
        return consolidate(pa.concat_tables(tables), change_schema(view.columns)) if tables else None

    def _reevaluated(
        self, view: View, body: Reevaluated, changed: dict[Part, MapChange], broken: dict[Part, str]
    ) -> pa.Table | None:
        parts = {given.map: Part(given.map, True) for given in body.inputs}
        for part in parts.values():
            _raise_if_broken(broken, part)
        if view.name in self._begun and not any(part in changed for part in parts.values()):
            return None
        maps = {number: self._maps[part] for number, part in parts.items()}
        return self._results[view.name].replace(evaluate_query(view, body, maps))

    def _weight(self, part: Part) -> int:
        table = self._maps[part].table
        return int(table.get(table.live_slots())[0].sum())

    def _tables(self) -> dict[str, KeyedTable]:
        tables = {f"map/{part.code}": state.table for part, state in self._maps.items()}
        return tables | {f"result/{name}": result.table for name, result in self._results.items()}

    def save(self) -> bytes:
        """Everything that changed since the last save, as a run; nothing is dirty afterwards."""
        runs = {name: encode_run(table.save()) for name, table in self._tables().items() if table.dirty}
        for table in self._tables().values():
            table.on_saved()
        return self._encode(runs, self._saved_strings)

    def save_all(self) -> bytes:
        """Everything held, as a run that stands alone."""
        for table in self._tables().values():
            table.save()
            table.on_saved()
        return self._encode({name: encode_run(table.save_all()) for name, table in self._tables().items()}, 0)

    def apply_run(self, data: bytes) -> None:
        """Take over a run written by `save` or `save_all`; raises `CorruptStateError`."""
        try:
            run = msgspec.msgpack.decode(data, type=_Run)
        except msgspec.DecodeError as error:
            raise CorruptStateError(f"expected a run of a shard, was {data[:16]!r}…: {error}") from None
        if run.format != _RUN_FORMAT or run.first_string != len(self._pool):
            raise CorruptStateError(
                f"expected a run of format {_RUN_FORMAT} from string {len(self._pool)}, "
                f"was format {run.format} from string {run.first_string}"
            )
        self._pool.extend(run.strings)
        self._saved_strings = len(self._pool)
        tables = self._tables()
        for name, table_run in run.tables.items():
            tables[name].apply_run(decode_run(table_run, name))
        self._failed = run.failed
        self._begun = set(run.begun)

    def _encode(self, runs: dict[str, bytes], first_string: int) -> bytes:
        strings = self._pool.added_since(first_string)
        self._saved_strings = len(self._pool)
        return msgspec.msgpack.encode(_Run(_RUN_FORMAT, first_string, strings, runs, self._failed, sorted(self._begun)))


def _sort(given: _Given, by_part: dict[Part, list[pa.Table]], broken: dict[Part, str]) -> None:
    for part, deltas in given:
        if isinstance(deltas, str):
            broken[part] = deltas
        else:
            by_part.setdefault(part, []).append(deltas)


def _from_nothing(state: MapState) -> MapChange | None:
    """The change that makes an empty map what it is."""
    slots = state.table.live_slots()
    values = state.table.get(slots)
    return MapChange(state.table.keys_of(slots), np.zeros_like(values), values) if len(slots) else None


def _raise_if_broken(broken: dict[Part, str], part: Part) -> None:
    if part in broken:
        raise ViewError(broken[part])
