"""Selected views: the source of their conditions and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runtime.compiler.program import Factor, Map, Nested, Selected, View
from runtime.views.tuplewise.blocked import BlockedSums
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.expressions import columns_of, expression, product
from runtime.views.tuplewise.joined import KEY_TYPES
from runtime.views.tuplewise.rows import RowShape, put_empty, put_row
from runtime.views.tuplewise.selection import FactorState, Probe, Selection
from runtime.views.tuplewise.source import Source, Value, tuple_of
from runtime.views.tuplewise.stores import Part, Store, StoreSet

__all__ = ["SelectedCode"]


class SelectedCode:
    """Writes the functions of one selected view, and makes its state of them."""

    def __init__(
        self,
        view: View,
        body: Selected,
        maps: Mapping[int, Map],
        nullable: Mapping[int, Mapping[str, bool]],
        *,
        zero: bool,
    ) -> None:
        self._view = view
        self._body = body
        self._maps = maps
        self._nullable = nullable
        self._zero = zero
        read = {*body.scalars, *(f.map for f in body.factors), *(n.map for f in body.factors for n in f.nested)}
        self.widths = {Part(None, number): 1 + len(maps[number].sums) for number in read}
        self._probes: list[str] = []
        self._row = ""
        self._empty = ""

    def stores(self) -> Iterator[Store]:
        """The stores that conditions and factors read."""
        for factor in self._body.factors:
            yield self._store(factor)
            for nested in factor.nested:
                if len(self._maps[nested.map].keys) != 1:
                    raise UnsupportedError("a nested aggregate over a map of more than one key")
                yield _nested_store(nested)
        for number in self._body.scalars:
            yield Store(Part(None, number), "sums", ())

    def _store(self, factor: Factor) -> Store:
        types = {key.name: key.type for key in self._maps[factor.map].keys}
        on = tuple(name for name in types if name != factor.ordered)
        if factor.ordered is None:
            return Store(Part(None, factor.map), "sums", on)
        if types[factor.ordered] not in KEY_TYPES:
            raise UnsupportedError(f"conditions on {types[factor.ordered]}")
        return Store(Part(None, factor.map), "ordered", on, (factor.ordered,))

    def factors_of(self, relation: str) -> list[int]:
        """The factors that a delta of a relation may change."""
        found = []
        for place, factor in enumerate(self._body.factors):
            read = {factor.map, *(nested.map for nested in factor.nested)}
            names = set().union(*map(columns_of, factor.conditions))
            read |= {number for number in self._body.scalars if any(n.startswith(f"m{number}.") for n in names)}
            if any(self._maps[number].relation == relation for number in read):
                found.append(place)
        return found

    def put_functions(self, source: Source, stores: StoreSet) -> None:
        """Lines of all functions."""
        self._probes = [self._put_probe(source, stores, factor) for factor in self._body.factors]
        self._row = self._put_row(source)
        shape = RowShape(self._view.columns, (), None, self._body.empty)
        self._empty = put_empty(source, shape)

    def selection(self, namespace: Mapping[str, Any], stores: StoreSet) -> Selection:
        """The view's state, from the functions when they have been compiled."""
        states = []
        for factor, probe in zip(self._body.factors, self._probes, strict=True):
            width = self.widths[Part(None, factor.map)]
            held = stores.held[self._store(factor)]
            states.append(FactorState(held, width, namespace[probe], monotone=factor.monotone))
        empty = None if self._body.empty is None else namespace[self._empty]
        return Selection(self._view.name, states, namespace[self._row], empty)

    def _put_probe(self, source: Source, stores: StoreSet, factor: Factor) -> str:
        """A function that gives the factor's conditions, flips and regularity, scalars looked up once."""
        name, key = source.name("probe"), source.name("k")
        nullable = factor.ordered is None or self._nullable[factor.map][factor.ordered]
        with source.block(f"def {name}():"):
            values = self._put_scalars(source, stores)
            if factor.ordered is not None:
                values[f"{factor.alias}.{factor.ordered}"] = Value(key, nullable)
            codes = [_NestedCode(source, stores, nested, self._maps[nested.map]) for nested in factor.nested]
            conditions = []
            for condition in factor.conditions:
                conditions.append(source.name("c"))
                with source.block(f"def {conditions[-1]}({key}):"):
                    read = columns_of(condition)
                    bound = dict(values)
                    for code in codes:
                        bound |= code.put(values, read, zero=self._zero)
                    source.put(f"return {expression(source, condition, bound).text}")
            read = set().union(*map(columns_of, factor.conditions))
            flips = [code.put_flip(values, key) for code in codes if not self._zero and code.reads_sums(read)]
            regular = " and ".join(f"not {code.held}.irregular" for code in codes) or "True"
            source.put(f"return {source.hold('x', Probe)}({_row(conditions)}, {_row(flips)}, {regular})")
        return name

    def _put_scalars(self, source: Source, stores: StoreSet) -> dict[str, Value]:
        values = {}
        for number in self._body.scalars:
            entry = stores.find(Store(Part(None, number), "sums", ()), "()").text
            nothing = "0" if self._zero else "None"
            weight = source.assign("w", f"0 if {entry} is None else {entry}[0]")
            values[f"m{number}.weight"] = weight
            for place, total in enumerate(self._maps[number].sums, 1):
                text = f"{entry}[{place}] if {weight.text} else {nothing}"
                values[f"m{number}.{total.name}"] = source.assign("s", text, nullable=not self._zero)
        return values

    def _put_row(self, source: Source) -> str:
        """A function of (group, entry) of each factor that gives their row, None where they have none."""
        name = source.name("row")
        values: dict[str, Value] = {}
        weights = []
        with source.block(f"def {name}(combination):"):
            pairs = [(source.name("k"), source.name("e")) for _ in self._body.factors]
            source.put(f"({', '.join(f'({key}, {entry})' for key, entry in pairs)},) = combination")
            for factor, (key, entry) in zip(self._body.factors, pairs, strict=True):
                on = self._store(factor).on
                keys = [Value(source.name("k"), self._nullable[factor.map][each]) for each in on]
                if keys:
                    source.put(f"{tuple_of([value.text for value in keys])} = {key}")
                values |= {f"{factor.alias}.{each}": value for each, value in zip(on, keys, strict=True)}
                names = ["weight", *(total.name for total in self._maps[factor.map].sums)]
                parts = [source.name("s") for _ in names]
                source.put(f"{_row(parts)} = {entry}")
                weights.append(parts[0])
                values |= {f"{factor.alias}.{each}": Value(part) for each, part in zip(names, parts, strict=True)}
            values["weight"] = source.assign("w", " * ".join(weights))
            with source.block(f"if {values['weight'].text} <= 0:"):
                source.put("return None")
            for each, terms in self._body.sums:
                texts = [product(term.factor, [values[column] for column in term.columns]) for term in terms]
                values[each] = source.assign("s", " + ".join(texts) or "0")
            put_row(source, RowShape(self._view.columns, self._body.outputs, self._body.having, None), values)
        return name


class _NestedCode:
    """The lines for one nested aggregate."""

    def __init__(self, source: Source, stores: StoreSet, nested: Nested, map_: Map) -> None:
        self._source = source
        self._nested = nested
        self._sums = [total.name for total in map_.sums]
        held = stores.find(_nested_store(nested), "()").text
        self.held = source.assign(
            "g", f"{source.hold('x', BlockedSums(1 + len(self._sums)))} if {held} is None else {held}"
        ).text

    def reads_sums(self, read: set[str]) -> bool:
        """Whether conditions read more than its weight."""
        return any(f"{self._nested.name}.{each}" in read for each in self._sums)

    def put(self, values: Mapping[str, Value], read: set[str], *, zero: bool) -> dict[str, Value]:
        """Lines that bind its weight and sums, those that are read."""
        name, source, held = self._nested.name, self._source, self.held
        names = {"weight": 0} | {each: place for place, each in enumerate(self._sums, 1)}
        wanted = {each: place for each, place in names.items() if f"{name}.{each}" in read}
        if not wanted:
            return {}
        value = expression(source, self._nested.value, values)
        before = self._nested.compare in ("lt", "le")
        side = "below" if self._nested.compare in ("lt", "ge") else "upto"
        none = "(0, 0)" if before else f"{held}.end"
        given = f"{held}.{side}({value.text})"
        at = source.assign("q", f"{none} if {value.text} is None else {given}" if value.nullable else given).text

        def part(place: int) -> str:
            prefix = f"{held}.prefix({at}, {place})"
            return prefix if before else f"({held}.totals[{place}] - {prefix})"

        bound = {}
        for each, place in wanted.items():
            if place == 0:
                bound[f"{name}.{each}"] = source.assign("s", part(place))
                continue
            # Where all weights are positive there are rows where there are keys; else only the sum of weights says.
            text = f"{0 if zero else None} if {at} == {none} or {held}.irregular and not {part(0)} else {part(place)}"
            bound[f"{name}.{each}"] = source.assign("s", text, nullable=not zero)
        return bound

    def put_flip(self, values: Mapping[str, Value], key: str) -> str:
        """A function of the ordered key: false as long as rows are there or not as for the least key, then true."""
        source, name = self._source, self._source.name("t")
        with source.block(f"def {name}({key}):"):
            value = expression(source, self._nested.value, {k: v._replace(nullable=False) for k, v in values.items()})
            edge, compare = {"lt": ("least", "<"), "le": ("least", "<="), "gt": ("greatest", "<="),
                             "ge": ("greatest", "<")}[self._nested.compare]  # fmt: skip
            source.put(f"return {self.held}.{edge} {compare} {value.text} if {self.held} else False")
        return name


def _nested_store(nested: Nested) -> Store:
    return Store(Part(None, nested.map), "ordered", (), (nested.ordered,))


def _row(texts: list[str]) -> str:
    return f"({', '.join(texts)},)" if texts else "()"
