"""What a shard holds of a view program: maps, indexes, results and the views' own state; how it is saved and restored.

A program may give way to another: what both have keeps its state. What a failed view alone could read is never read
again, and neither updated nor kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from runtime.compiler import maps_of
from runtime.compiler.catalogue import map_identity
from runtime.compiler.program import Joined, Linear, Program, Reevaluated, Selected, View
from runtime.state import CorruptStateError, StringPool, decode_run, encode_run
from runtime.views.flow import FlowState
from runtime.views.indexes import Index, IndexSpec
from runtime.views.joined import JoinedState
from runtime.views.maps import MapState
from runtime.views.placement import Part, part_of, parts_of_shard, views_of_shard
from runtime.views.reevaluated import LastResult
from runtime.views.selected import SelectedState
from runtime.views.stores import IndexSet, Saved

__all__ = ["Holdings"]

_RUN_FORMAT: Final = 3
_ViewState = JoinedState | SelectedState | FlowState


class _Run(msgspec.Struct, frozen=True, array_like=True):
    """A shard's edits: new strings, a run per table that changed, failed views, views that have begun."""

    format: int
    first_string: int
    strings: list[str]
    tables: dict[str, bytes]
    failed: dict[str, str]
    begun: list[str]


class Holdings:
    """The parts of a program that one shard keeps. Not thread-safe: one owner at a time."""

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

    @property
    def failed(self) -> dict[str, str]:
        """View → why it cannot go on."""
        return dict(self._failed)

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
