"""A shard of a view program: its maps, its views' last results, and one step per version.

The same object serves every host: Spark's state workers, a test, and later the in-process engine. It is deterministic:
the same deliveries in any order within a version give the same changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from runtime.compiler.program import Linear, Reevaluated, View
from runtime.views.deltas import Delta, delta_of
from runtime.views.errors import ViewError, reason_of
from runtime.views.flow import FlowState
from runtime.views.holdings import Holdings
from runtime.views.joined import JoinedState
from runtime.views.linear import branch_changes, change_schema, consolidate, empty_row
from runtime.views.maps import MapChange, MapState
from runtime.views.payload import Payload, combine, table_of
from runtime.views.placement import Part
from runtime.views.reevaluated import evaluate_query

__all__ = ["ShardState", "Step"]

_Given = Iterable[tuple[Part, Payload | str]]


class Step(msgspec.Struct, frozen=True):
    """What one version changed."""

    changes: dict[str, pa.Table]
    """View → rows removed (-) and added (+); views that did not change are left out."""
    failed: dict[str, str]
    """View → why it cannot go on; it emits nothing from now on."""


class _Version(msgspec.Struct, frozen=True):
    """What a version brings."""

    changed: dict[Part, MapChange]
    payloads: dict[Part, Payload]
    broken: dict[Part, str]
    earlier: dict[str, pa.Table]
    """View that is new → what it would have said before the version."""


class ShardState(Holdings):
    """One shard's share of a program, and one step per version. Not thread-safe: one owner at a time."""

    def step(
        self,
        delivered: _Given,
        backfill: Mapping[str, _Given] | None = None,
        on_first: Callable[[Step, Collection[str]], None] | None = None,
    ) -> Step:
        """Add what was delivered for one version and say what changed; in place of deltas, why there are none.

        ``backfill``, after `migrate`: for each view that is new everything that its maps hold before the version.
        ``on_first`` hears what has changed in the views that joins have nothing to do with, which are named, before the
        joins are gone through.
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
        version = _Version(changed, payloads, broken, earlier)
        for part, delta in sorted(deltas.items()):
            if not self._joined[part]:
                self._add(part, delta, step)
        first = [view for view in self._views if not any(self._joined[p] for p in self._parts[view.name].values())]
        self._update_all(first, version, step)
        if on_first is not None and (step.changes or step.failed):
            on_first(Step(dict(step.changes), dict(step.failed)), [view.name for view in first])
        self._react({part: delta for part, delta in deltas.items() if self._joined[part]}, step)
        self._update_all([view for view in self._views if view not in first], version, step)
        return step

    def _update_all(self, views: Sequence[View], version: _Version, step: Step) -> None:
        for view in views:
            if view.name not in self._failed:
                self._update(view, version, step)
            self._begun.add(view.name)

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

    def _react(self, deltas: Mapping[Part, Delta], step: Step) -> None:
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
            parts = self._parts[view.name]
            return state.step({n: table_of(payloads[p]) for n, p in parts.items() if p in payloads})
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
