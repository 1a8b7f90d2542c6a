"""The functions of a program: one for each relation, from a row and its weight to the changes of views.

A function first evaluates the conditions, keys and sums of all maps over its relation, so that a row that cannot be
evaluated changes nothing; then map by map runs the statements of the first occurrences, adds to the map, runs those of
the second occurrences; and at last compares the groups it has touched with what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from runtime.compiler.program import Branch, Joined, Linear, Map, Program, Relation, Selected, View
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.expressions import columns_of, converted, expression
from runtime.views.tuplewise.joined import JoinedCode
from runtime.views.tuplewise.rows import RowShape, put_change, put_row_function
from runtime.views.tuplewise.selected import SelectedCode
from runtime.views.tuplewise.selection import Selection
from runtime.views.tuplewise.source import Source, Value
from runtime.views.tuplewise.stores import Part, Store, StoreSet

__all__ = ["Kernel", "build_kernel"]


class Kernel(NamedTuple):
    """A program's functions and what they keep."""

    stores: StoreSet
    """Maps as views read them."""
    apply: dict[str, Callable[..., None]]
    """Relation → function of (row, weight, out) that adds changes to out."""
    rows: dict[str, list[tuple[dict[Any, Any], Callable[..., Any], bool, bool]]]
    """Linear or joined view → entries, function from key and entry to row, whether a row counts weight times, whether
    there is a row of nothing."""
    selections: dict[str, Selection]
    """Selected view → its state."""
    refreshed: dict[str, list[tuple[Selection, list[int]]]]
    """Relation → selections that it may change, and which of their factors."""
    source: str
    """What was compiled, for people."""


class _Delta(NamedTuple):
    """The names of one map's delta within a function."""

    guard: str
    keys: dict[str, Value]
    weight: str
    sums: dict[str, str]

    @property
    def bound(self) -> dict[str, Value]:
        """Keys, weight and sums as values."""
        return {**self.keys, "weight": Value(self.weight), **{name: Value(text) for name, text in self.sums.items()}}


def build_kernel(program: Program, views: Sequence[View]) -> Kernel:
    """The functions for these views of a program; raises `UnsupportedError` if one has no code."""
    return _Builder(program, views).build()


class _Builder:
    def __init__(self, program: Program, views: Sequence[View]) -> None:
        self._program = program
        self._maps = dict(enumerate(program.maps))
        self._relations = {relation.name: relation for relation in program.relations}
        self._source = Source()
        nullable = {number: self._nullable_keys(map_) for number, map_ in self._maps.items()}
        self._nullable = nullable
        self._linear: list[tuple[View, Branch]] = []
        self._joined: dict[str, JoinedCode] = {}
        self._selected: dict[str, SelectedCode] = {}
        for view in views:
            if isinstance(view.body, Linear):
                self._linear += [(view, branch) for branch in view.body.branches]
            elif isinstance(view.body, Joined):
                self._joined[view.name] = JoinedCode(view, view.body, self._maps, nullable)
            elif isinstance(view.body, Selected):
                zero = program.mode == "dbtoaster"
                self._selected[view.name] = SelectedCode(view, view.body, self._maps, nullable, zero=zero)
            else:
                raise UnsupportedError(f"a {type(view.body).__name__.lower()} body")
        self._views = {view.name: self._source.hold("view", view.name) for view in views}
        self._rows: dict[tuple[str, int], str] = {}
        self._stores = self._make_stores()

    def _nullable_keys(self, map_: Map) -> dict[str, bool]:
        """Which keys may be NULL: a scratch run of their expressions says."""
        scratch = Source()
        columns = {c.name: Value(c.name, c.nullable) for c in self._relations[map_.relation].columns}
        try:
            return {key.name: expression(scratch, key.expr, columns).nullable for key in map_.keys}
        except UnsupportedError:
            return {key.name: True for key in map_.keys}  # said again for the views that read the map

    def _make_stores(self) -> StoreSet:
        widths = {Part(None, branch.map): 1 + len(self._maps[branch.map].sums) for _, branch in self._linear}
        wanted = [self._store_of(branch) for _, branch in self._linear]
        codes: list[JoinedCode | SelectedCode] = [*self._joined.values(), *self._selected.values()]
        for code in codes:
            widths |= code.widths
            wanted += code.stores()
        return StoreSet(self._source, widths, wanted)

    def _store_of(self, branch: Branch) -> Store:
        return Store(Part(None, branch.map), "sums", tuple(key.name for key in self._maps[branch.map].keys))

    def build(self) -> Kernel:
        source = self._source
        for place, (view, branch) in enumerate(self._linear):
            shape = RowShape(view.columns, branch.outputs, branch.having, branch.empty)
            sums = [total.name for total in self._maps[branch.map].sums]
            keys = self._nullable[branch.map]
            if branch.bag and not set().union(*map(columns_of, branch.outputs)) <= keys.keys():
                raise UnsupportedError("rows that are counted and summed")
            self._rows["", place] = put_row_function(source, shape, keys, sums)
        for name, joined in self._joined.items():
            self._rows[name, 0] = joined.put_row_function(source)
        for selected in self._selected.values():
            selected.put_functions(source, self._stores)
        functions = {relation.name: self._put_function(relation) for relation in self._program.relations}
        namespace = source.compile()
        selections = {n: code.selection(namespace, self._stores) for n, code in self._selected.items()}
        refreshed = {
            relation: [(selections[n], code.factors_of(relation)) for n, code in self._selected.items()
                       if code.factors_of(relation)]
            for relation in self._relations
        }  # fmt: skip
        apply = {relation: namespace[name] for relation, name in functions.items()}
        return Kernel(self._stores, apply, self._row_functions(namespace), selections, refreshed, source.text())

    def _row_functions(self, namespace: Mapping[str, Any]) -> dict[str, list[tuple[Any, Any, bool, bool]]]:
        rows: dict[str, list[tuple[Any, Any, bool, bool]]] = {}
        for place, (view, branch) in enumerate(self._linear):
            held = self._stores.held[self._store_of(branch)]
            row = namespace[self._rows["", place]]
            rows.setdefault(view.name, []).append((held, row, branch.bag, branch.empty is not None))
        for name, code in self._joined.items():
            has_empty = code.has_empty
            rows[name] = [(self._stores.held[code.result], namespace[self._rows[name, 0]], False, has_empty)]
        return rows

    def _put_function(self, relation: Relation) -> str:
        source = self._source
        name = source.name("apply")
        with source.block(f"def {name}(row, weight, out):"):
            columns = {column.name: Value(source.name("c"), column.nullable) for column in relation.columns}
            source.put(f"({', '.join(value.text for value in columns.values())},) = row")
            used: set[int | str] = {store.part.name for store in self._stores.held}
            used.update(*(code.maps_of(relation.name) for code in self._joined.values()))
            deltas = {
                number: self._put_delta(map_, columns)
                for number, map_ in self._maps.items()
                if map_.relation == relation.name and number in used
            }
            touched = {view: source.assign("t", "{}").text
                       for view, code in self._joined.items() if code.maps_of(relation.name)}  # fmt: skip
            for number, delta in deltas.items():
                self._put_map(Part(None, number), delta, list(touched), touched)
            for view in touched:
                for number in self._joined[view].maps_of(relation.name):
                    part = self._joined[view].part_of(number)
                    if part.owner is not None:
                        self._put_map(part, deltas[number], [view], touched)
            for view, groups in touched.items():
                row = self._rows[view, 0]
                self._joined[view].put_changes(source, self._stores, groups, self._views[view], row)
        return name

    def _put_delta(self, map_: Map, columns: Mapping[str, Value]) -> _Delta:
        """Lines that evaluate a map over the row."""
        source = self._source
        guard = ""
        keys = {key.name: source.name("k") for key in map_.keys}
        sums = {total.name: source.name("s") for total in map_.sums}
        nullable = self._nullable[map_.id]
        with source.branches() as inner:
            if map_.where is not None:
                where = expression(source, map_.where, columns)
                guard = source.assign("b", where.text).text
                inner.open(f"if {guard}:")
            for key in map_.keys:
                value = converted(source, expression(source, key.expr, columns), key.type)
                source.put(f"{keys[key.name]} = {value.text}")
            for total in map_.sums:
                value = expression(source, total.expr, columns)
                text = f"(0 if {value.text} is None else {value.text})" if value.nullable else value.text
                source.put(f"{sums[total.name]} = weight * {text}")
        return _Delta(guard, {name: Value(text, nullable[name]) for name, text in keys.items()}, "weight", sums)

    def _put_map(self, part: Part, delta: _Delta, views: Sequence[str], touched: Mapping[str, str]) -> None:
        """Lines that bring a map and what joins it up to date; they stand under the map's condition."""
        source, stores = self._source, self._stores
        assert isinstance(part.name, int)
        number = part.name
        codes = {view: self._joined[view] for view in views}
        aliases = {v: code.aliases_of(number) for v, code in codes.items() if code.part_of(number) == part}
        aliases = {view: names for view, names in aliases.items() if names}
        with source.branches() as inner:
            if delta.guard:
                inner.open(f"if {delta.guard}:")
            pending = {
                v: codes[v].put_statements(source, stores, names[0], delta.bound) for v, names in aliases.items()
            }
            keys = {name: value.text for name, value in delta.keys.items()}
            changed = stores.add(part, keys, [delta.weight, *delta.sums.values()])
            self._put_linear(changed)
            for view, additions in pending.items():
                codes[view].put_additions(source, stores, additions, touched[view])
            for view, names in aliases.items():
                for alias in names[1:]:
                    additions = codes[view].put_statements(source, stores, alias, delta.bound)
                    codes[view].put_additions(source, stores, additions, touched[view])

    def _put_linear(self, changed: Mapping[Store, tuple[str, str, str]]) -> None:
        """Lines that report how the rows of linear views over a map change."""
        source = self._source
        for place, (view, branch) in enumerate(self._linear):
            names = changed.get(self._store_of(branch))
            if names is None:
                continue
            key, old, new = names
            function = self._rows["", place]
            if not branch.bag:
                put_change(source, self._views[view.name], function, key, (old, new))
                continue
            before, after = (
                source.assign("w", f"{e}[0] if {e} is not None and {e}[0] > 0 else 0").text for e in (old, new)
            )
            with source.block(f"if {before} != {after}:"):
                row = source.assign("r", f"{function}({key}, {new} if {after} else {old})").text
                with source.block(f"if {row} is not None:"):
                    source.put(f"out.append(({self._views[view.name]}, {row}, {after} - {before}))")
