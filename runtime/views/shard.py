"""A shard of a view program: its maps, its views' last results, and one step per version.

The same object serves every host: Spark's state workers, a test, and later the in-process engine. It is deterministic:
the same deliveries in any order within a version give the same changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from runtime.compiler import maps_of
from runtime.compiler.catalogue import map_identity
from runtime.compiler.program import Joined, Linear, Program, Reevaluated, Selected, View
from runtime.state import CorruptStateError, StringPool, decode_run, encode_run
from runtime.views.deltas import Delta, delta_of
from runtime.views.errors import ViewError, reason_of
from runtime.views.flow import FlowState
from runtime.views.indexes import Index, IndexSpec
from runtime.views.joined import JoinedState
from runtime.views.linear import branch_changes, change_schema, consolidate, empty_row
from runtime.views.maps import MapChange, MapState
from runtime.views.payload import Payload, combine, table_of
from runtime.views.placement import Part, part_of, parts_of_shard, views_of_shard
from runtime.views.reevaluated import LastResult, evaluate_query
from runtime.views.selected import SelectedState
from runtime.views.stores import IndexSet, Saved

__all__ = ["ShardState", "Step"]

_RUN_FORMAT: Final = 3
_ViewState = JoinedState | SelectedState | FlowState
_Given = Iterable[tuple[Part, Payload | str]]


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


class _Version(msgspec.Struct, frozen=True):
    """What a version brings."""

    changed: dict[Part, MapChange]
    payloads: dict[Part, Payload]
    broken: dict[Part, str]
    earlier: dict[str, pa.Table]
    """View that is new → what it would have said before the version."""


class ShardState:
    """One shard's share of a program. Not thread-safe: one owner at a time."""

    def __init__(self, program: Program, shard: int, shards: int) -> None:
        self._shard, self._shards = shard, shards
        self._pool = StringPool()
        self._saved_strings = 0
        self._maps: dict[Part, MapState] = {}
        self._sets: dict[Part, IndexSet] = {}
        self._results: dict[str, LastResult] = {}
        self._states: dict[str, _ViewState] = {}
        self._failed: dict[str, str] = {}
        self._begun: set[str] = set()
        self._unfilled: set[Part] = set()
        self._assemble(program, {}, {})

    def _assemble(
        self, program: Program, maps: Mapping[Part, MapState], indexes: Mapping[Part, Mapping[IndexSpec, Index]]
    ) -> None:
        """Make the parts of a program, of what there is already and else empty."""
        self._program = program
        self._views = views_of_shard(program, self._shard, self._shards)
        self._maps, self._sets, self._results, self._states = {}, {}, {}, {}
        self._parts = {v.name: {n: part_of(program, v, n) for n in maps_of(v.body)} for v in self._views}
        for part in parts_of_shard(program, self._shard, self._shards):
            map_ = program.maps[part.map]
            types, sums = {key.name: key.type for key in map_.keys}, [total.name for total in map_.sums]
            self._sets[part] = IndexSet(types, sums, indexes.get(part))
        for view in self._views:
            body, parts = view.body, self._parts[view.name]
            if isinstance(body, (Linear, Reevaluated)):
                for part in parts.values():
                    if part not in self._maps:
                        self._maps[part] = maps.get(part) or MapState(program.maps[part.map], self._pool)
                if isinstance(body, Reevaluated):
                    self._results[view.name] = LastResult(view, self._pool)
            elif isinstance(body, Joined):
                self._states[view.name] = JoinedState(view, body, program, self._set_of(view), self._pool)
            elif isinstance(body, Selected):
                self._states[view.name] = SelectedState(view, body, program, self._set_of(view), self._pool)
            else:
                self._states[view.name] = FlowState(view, body, program, self._pool)
        for indexes_of_part in self._sets.values():
            indexes_of_part.forget_inherited()
        self._unfilled = {part for part in self._maps if part not in maps}
        self._joined = {
            part: [
                (name, state)
                for name, state in self._states.items()
                if isinstance(state, JoinedState) and self._parts[name].get(part.map) == part
            ]
            for part in self._sets
        }

    def _set_of(self, view: View) -> Callable[[int], IndexSet]:
        return lambda number: self._sets[self._parts[view.name][number]]

    def migrate(self, program: Program) -> None:
        """Change over to another program, before its first version; `save_all` must follow that version.

        What stays keeps its state. A map is kept only if a view that has not failed reads it: a failure may have left
        it without some of its deltas, which does not matter to those that have failed with it.
        """
        sound: dict[tuple[bytes, bool, int], Part] = {}
        for view in self._views:
            if view.name not in self._failed:
                for part in self._parts[view.name].values():
                    sound[self._identity(self._program, part)] = part
        maps, sets, results, states = self._maps, self._sets, self._results, self._states
        old = {
            part: sound[identity]
            for part in parts_of_shard(program, self._shard, self._shards)
            if (identity := self._identity(program, part)) in sound
        }
        self._assemble(
            program,
            {part: maps[before] for part, before in old.items() if before in maps},
            {part: sets[before].indexes for part, before in old.items()},
        )
        names = {view.name for view in self._views}
        self._begun &= names
        self._failed = {name: reason for name, reason in self._failed.items() if name in names}
        for name in self._begun - self._failed.keys():
            if name in results:
                self._results[name] = results[name]
            elif name in states:
                self._inherit(self._states[name], states[name])

    @staticmethod
    def _identity(program: Program, part: Part) -> tuple[bytes, bool, int]:
        return map_identity(program.maps[part.map]), part.whole, part.column

    @staticmethod
    def _inherit(state: _ViewState, before: _ViewState) -> None:
        held = before.tables()
        for name, table in state.tables().items():
            table.apply_run(held[name].save_all())
        state.resume()

    def step(self, delivered: _Given, backfill: Mapping[str, _Given] | None = None) -> Step:
        """Add what was delivered for one version and say what changed; in place of deltas, why there are none.

        ``backfill``, after `migrate`: for each view that is new everything that its maps hold before the version.
        """
        step = Step({}, {})
        earlier = self._fill(backfill or {}, step)
        by_part: dict[Part, list[Payload]] = {}
        broken: dict[Part, str] = {}
        _sort(delivered, by_part, broken)
        changed: dict[Part, MapChange] = {}
        deltas: dict[Part, Delta] = {}
        payloads: dict[Part, Payload] = {}
        for part, tables in sorted(by_part.items()):
            if not self._is_read(part):
                continue
            try:
                payloads[part] = payload = combine(self._program.maps[part.map], tables)
                if payload.num_rows and part in self._maps:
                    changed[part] = self._maps[part].merge(table_of(payload))
                if part in self._sets and self._sets[part].indexes:
                    deltas[part] = delta_of(self._program.maps[part.map], payload, self._pool)
            except Exception as error:  # noqa: BLE001 (see reason_of)
                broken[part] = reason_of(error)
        self._react(deltas, broken, step)
        for view in self._views:
            if view.name not in self._failed:
                self._update(view, _Version(changed, payloads, broken, earlier), step)
            self._begun.add(view.name)
        return step

    def _fill(self, backfill: Mapping[str, _Given], step: Step) -> dict[str, pa.Table]:
        """Bring new views to where they would be before the version; gives what they would have said by then.

        Standing views see nothing of it, whatever they share with the new ones.
        """
        earlier: dict[str, pa.Table] = {}
        for name, given in backfill.items():
            view = next(view for view in self._views if view.name == name)
            held: dict[Part, list[Payload]] = {}
            broken: dict[Part, str] = {}
            _sort(given, held, broken)
            try:
                for part in broken:
                    _raise_if_broken(broken, part)
                if isinstance(view.body, (Linear, Reevaluated)):
                    self._fill_maps(held)
                elif (changes := self._begin(view, held)) is not None:
                    earlier[name] = changes
            except Exception as error:  # noqa: BLE001 (see reason_of)
                self._failed[name] = step.failed[name] = reason_of(error)
        self._unfilled = set()
        return earlier

    def _fill_maps(self, held: Mapping[Part, list[Payload]]) -> None:
        for part, tables in held.items():
            if part in self._unfilled:
                self._maps[part].merge(table_of(combine(self._program.maps[part.map], tables)))
                self._unfilled.discard(part)

    def _begin(self, view: View, held: Mapping[Part, list[Payload]]) -> pa.Table | None:
        """Take a new view through all that its maps hold, as if it were one version, with indexes of its own."""
        payloads = {part: combine(self._program.maps[part.map], tables) for part, tables in held.items()}
        state = self._states[view.name]
        self._begun.add(view.name)
        if isinstance(state, FlowState):
            return state.step({part.map: table_of(payload) for part, payload in payloads.items()})
        deltas = {part: delta_of(self._program.maps[part.map], p, self._pool) for part, p in payloads.items()}
        if isinstance(state, JoinedState):
            state.build({part.map: delta for part, delta in deltas.items()})
        for part, delta in deltas.items():
            self._sets[part].fill(delta)
        return state.changes(begun=False)

    def _react(self, deltas: Mapping[Part, Delta], broken: Mapping[Part, str], step: Step) -> None:
        """Let joins take in the deltas, map by map, and add each to its indexes in between."""
        for part, delta in sorted(deltas.items()):
            for turn in (0, 1):
                for name, state in self._joined[part]:
                    if name not in self._failed and turn < state.turns(part.map):
                        try:
                            state.react(part.map, turn, delta)
                        except Exception as error:  # noqa: BLE001 (see reason_of)
                            self._failed[name] = step.failed[name] = reason_of(error)
                if turn == 0:
                    self._add(part, delta, step)

    def _add(self, part: Part, delta: Delta, step: Step) -> None:
        try:
            self._sets[part].add(delta)
        except Exception as error:  # noqa: BLE001 (see reason_of)
            for view in self._views:
                if self._parts[view.name].get(part.map) == part:
                    self._failed[view.name] = step.failed[view.name] = reason_of(error)

    def _update(self, view: View, version: _Version, step: Step) -> None:
        try:
            if version.broken:
                for part in self._parts[view.name].values():
                    _raise_if_broken(version.broken, part)
            if isinstance(view.body, Linear):
                changes = self._linear(view, view.body, version.changed)
            elif isinstance(view.body, Reevaluated):
                changes = self._reevaluated(view, view.body, version.changed)
            else:
                changes = self._changes(view, version.payloads)
                earlier = version.earlier.get(view.name)
                if earlier is not None:
                    both = [earlier] if changes is None else [earlier, changes]
                    changes = consolidate(pa.concat_tables(both), change_schema(view.columns))
        except Exception as error:  # noqa: BLE001 (see reason_of)
            self._failed[view.name] = step.failed[view.name] = reason_of(error)
            return
        if changes is not None and changes.num_rows:
            step.changes[view.name] = changes

    def _changes(self, view: View, payloads: Mapping[Part, Payload]) -> pa.Table | None:
        state = self._states[view.name]
        if isinstance(state, FlowState):
            return state.step({n: table_of(payloads[p]) for n in state.maps if (p := Part(n, True)) in payloads})
        return state.changes(begun=view.name in self._begun)

    def _linear(self, view: View, body: Linear, changed: dict[Part, MapChange]) -> pa.Table | None:
        tables: list[pa.Table] = []
        for branch in body.branches:
            part = self._parts[view.name][branch.map]
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

    def _reevaluated(self, view: View, body: Reevaluated, changed: dict[Part, MapChange]) -> pa.Table | None:
        parts = {given.map: Part(given.map, True) for given in body.inputs}
        if view.name in self._begun and not any(part in changed for part in parts.values()):
            return None
        maps = {number: self._maps[part] for number, part in parts.items()}
        return self._results[view.name].replace(evaluate_query(view, body, maps))

    def _weight(self, part: Part) -> int:
        table = self._maps[part].table
        return int(table.get(table.live_slots())[0].sum())

    def _tables(self) -> dict[str, Saved]:
        tables: dict[str, Saved] = {f"map/{part.code}": state.table for part, state in self._maps.items()}
        tables |= {f"result/{name}": result.table for name, result in self._results.items()}
        for part, indexes in self._sets.items():
            tables |= {f"index/{part.code}/{spec.code}": index.table for spec, index in indexes.indexes.items()}
        for name, state in self._states.items():
            tables |= {f"view/{name}/{inner}": table for inner, table in state.tables().items()}
        return tables

    def _needed(self) -> dict[str, Saved]:
        """The tables that some view can still use: what a failure left behind is never read again, so not kept."""
        if not self._failed:
            return self._tables()
        unread = {part.code for part in self._sets if not self._is_read(part)}
        found = {}
        for name, table in self._tables().items():
            kind, owner = name.split("/")[:2]
            if (int(owner) not in unread) if kind in ("map", "index") else (owner not in self._failed):
                found[name] = table
        return found

    def _is_read(self, part: Part) -> bool:
        """Whether a view that has not failed reads it."""
        return not self._failed or any(
            own.get(part.map) == part for name, own in self._parts.items() if name not in self._failed
        )

    def save(self) -> bytes:
        """Everything that changed since the last save, as a run; nothing is dirty afterwards."""
        tables = self._needed()
        runs = {name: encode_run(table.save()) for name, table in tables.items() if table.dirty}
        for table in tables.values():
            table.on_saved()
        return self._encode(runs, self._saved_strings)

    def save_all(self) -> bytes:
        """Everything held, as a run that stands alone."""
        tables = self._needed()
        for table in tables.values():
            table.save()
            table.on_saved()
        return self._encode({name: encode_run(table.save_all()) for name, table in tables.items()}, 0)

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
        for name in self._begun & self._states.keys():
            self._states[name].resume()

    def _encode(self, runs: dict[str, bytes], first_string: int) -> bytes:
        strings = self._pool.added_since(first_string)
        self._saved_strings = len(self._pool)
        return msgspec.msgpack.encode(_Run(_RUN_FORMAT, first_string, strings, runs, self._failed, sorted(self._begun)))


def _sort(given: _Given, by_part: dict[Part, list[Payload]], broken: dict[Part, str]) -> None:
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
