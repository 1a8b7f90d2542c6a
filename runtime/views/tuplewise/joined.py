"""Joined views: the statements of each occurrence as straight lines and, where a lookup fans out, loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from runtime.compiler.program import Auxiliary, Joined, Lookup, Map, Range, Statement, Term, View
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.expressions import columns_of, expression, product
from runtime.views.tuplewise.rows import RowShape, put_change, put_row_function
from runtime.views.tuplewise.source import Branches, Source, Value, tuple_of
from runtime.views.tuplewise.stores import Part, Store, StoreSet

__all__ = ["JoinedCode"]

Bound = dict[str, Value]
KEY_TYPES = frozenset({"int64", "int128", "date", "timestamp"})  # those that Python orders as SQL does, all of them


class JoinedCode:
    """Writes the source of one joined view."""

    def __init__(self, view: View, body: Joined, maps: Mapping[int, Map], nullable: Mapping[int, Mapping[str, bool]]):
        self._view = view
        self._body = body
        self._maps = maps
        self._nullable = nullable
        relations = [maps[o.map].relation for o in body.occurrences]
        pairs = set(zip(relations, (o.map for o in body.occurrences), strict=True))
        self._is_private = len(pairs) > len(set(relations))
        self._auxiliaries = {auxiliary.name: auxiliary for auxiliary in body.auxiliaries}
        result = body.auxiliaries[-1]
        self.result = Store(Part(view.name, result.name), "sums", tuple(name for name, _ in result.keys))
        self.has_empty = body.empty is not None
        self.widths = {Part(view.name, a.name): 1 + len(a.sums) for a in body.auxiliaries}
        self.widths |= {self.part_of(o.map): 1 + len(maps[o.map].sums) for o in body.occurrences}

    def part_of(self, map_: int) -> Part:
        """Where a base map is kept: apart if several maps of a relation are joined, for these then change in turn."""
        return Part(self._view.name if self._is_private else None, map_)

    def maps_of(self, relation: str) -> list[int]:
        """The base maps that a delta of a relation changes, in the order of the occurrences."""
        found = [o.map for o in self._body.occurrences if self._maps[o.map].relation == relation]
        return list(dict.fromkeys(found))

    def aliases_of(self, map_: int) -> list[str]:
        """The occurrences of a base map."""
        return [o.alias for o in self._body.occurrences if o.map == map_]

    def stores(self) -> Iterator[Store]:
        """The stores that lookups and the result need."""
        yield self.result
        for auxiliary in self._body.auxiliaries:
            for statement in auxiliary.statements:
                yield from map(self.store_of, statement.lookups)

    def store_of(self, lookup: Lookup) -> Store:
        if lookup.auxiliary:
            auxiliary = self._auxiliary(lookup.source)
            part, types = Part(self._view.name, auxiliary.name), dict(auxiliary.keys)
        else:
            part = self.part_of(lookup.source)
            types = {key.name: key.type for key in self._maps[lookup.source].keys}
        on = tuple(name for name in types if name in dict(lookup.on))
        if lookup.binds:
            return Store(part, "fan", on, tuple(name for name in types if name not in on))
        if lookup.ordered is None or not lookup.ranges:
            return Store(part, "sums", on)
        if types[lookup.ordered] not in KEY_TYPES:
            raise UnsupportedError(f"ranges of {types[lookup.ordered]}")
        return Store(part, "ordered", on, (lookup.ordered,))

    def _auxiliary(self, source: int) -> Auxiliary:
        return self._body.auxiliaries[source]

    def put_statements(
        self, source: Source, stores: StoreSet, alias: str, bound: Mapping[str, Value]
    ) -> list[tuple[Auxiliary, str]]:
        """Lines that run an occurrence's statements; per auxiliary map the name of what they add to it."""
        pending = []
        for auxiliary in self._body.auxiliaries:
            for statement in auxiliary.statements:
                if statement.occurrence != alias:
                    continue
                added = source.name("p")
                fans_out = any(lookup.binds for lookup in statement.lookups)
                source.put(f"{added} = {'[]' if fans_out else '()'}")
                values = {f"{alias}.{name}": value for name, value in bound.items()}
                with source.branches() as inner:
                    _Lines(source, stores, inner, values).put(self, statement, auxiliary, added, fans_out=fans_out)
                pending.append((auxiliary, added))
        return pending

    def put_additions(
        self, source: Source, stores: StoreSet, pending: list[tuple[Auxiliary, str]], touched: str
    ) -> None:
        """Lines that add what statements found to the auxiliary maps; groups of the result are noted as they were."""
        for auxiliary, added in pending:
            keys = {name: source.name("k") for name, _ in auxiliary.keys}
            deltas = [source.name("d") for _ in range(1 + len(auxiliary.sums))]
            part = Part(self._view.name, auxiliary.name)
            with source.block(f"for {', '.join([*keys.values(), *deltas])}, in {added}:"):
                changed = stores.add(part, keys, deltas)
                if self.result in changed:
                    key, old, _ = changed[self.result]
                    with source.block(f"if {key} not in {touched}:"):
                        source.put(f"{touched}[{key}] = {old}")

    def put_row_function(self, source: Source) -> str:
        """The function from a group of the result to its row."""
        body = self._body
        shape = RowShape(self._view.columns, body.outputs, body.having, body.empty)
        result = body.auxiliaries[-1]
        return put_row_function(source, shape, {name: True for name, _ in result.keys}, result.sums)

    def put_changes(self, source: Source, stores: StoreSet, touched: str, view: str, function: str) -> None:
        """Lines that report the groups that were touched."""
        key, old = source.name("k"), source.name("e")
        with source.block(f"for {key}, {old} in {touched}.items():"):
            put_change(source, view, function, key, (old, f"{stores.name(self.result)}.get({key})"))

    def width_columns(self, lookup: Lookup) -> tuple[str, ...]:
        """The integers of an entry by name."""
        if lookup.auxiliary:
            return ("weight", *self._auxiliary(lookup.source).sums)
        return ("weight", *(total.name for total in self._maps[lookup.source].sums))

    def key_nullable(self, lookup: Lookup, key: str) -> bool:
        """Whether a key of what is looked up may be NULL."""
        return lookup.auxiliary or self._nullable[lookup.source][key]


class _Lines:
    """The lines of one statement: a block in a block for each lookup, and in the last one the addition."""

    def __init__(self, source: Source, stores: StoreSet, inner: Branches, values: Bound) -> None:
        self._source = source
        self._stores = stores
        self._inner = inner
        self._values = values

    def put(self, code: JoinedCode, statement: Statement, auxiliary: Auxiliary, added: str, *, fans_out: bool) -> None:
        source, values = self._source, self._values
        used = _used(statement)
        for lookup in statement.lookups:
            self._lookup(code, lookup, used)
        if statement.where is not None:
            where = expression(source, statement.where, values)
            self._inner.open(f"if {where.text}:")
        weight = self._sum((statement.weight,))
        sums = [self._sum(terms) for terms in statement.sums]
        if len(sums) != len(auxiliary.sums) or len(statement.keys) != len(auxiliary.keys):
            raise UnsupportedError("a statement that does not fit its map")
        self._inner.open(f"if {' or '.join([weight, *sums])}:")
        row = f"({', '.join([self._value(key).text for key in statement.keys] + [weight, *sums])},)"
        source.put(f"{added}.append({row})" if fans_out else f"{added} = ({row},)")

    def _value(self, name: str) -> Value:
        if name not in self._values:
            raise UnsupportedError(f"expected one of the bound columns {', '.join(self._values)}, was {name}")
        return self._values[name]

    def _sum(self, terms: tuple[Term, ...]) -> str:
        texts = [product(term.factor, [self._value(name) for name in term.columns]) for term in terms]
        return self._source.assign("d", " + ".join(texts) or "0").text

    def _lookup(self, code: JoinedCode, lookup: Lookup, used: set[str]) -> None:
        store = code.store_of(lookup)
        pairs = [(name, self._value(column)) for name, column in lookup.on]
        by_key = dict(pairs)
        nulls = [f"{value.text} is not None" for _, value in pairs if value.nullable]
        same = [f"{by_key[name].text} == {value.text}" for name, value in pairs if by_key[name] != value]
        if nulls or same:  # a key may be asked to equal two columns
            self._inner.open(f"if {' and '.join([*nulls, *same])}:")
        found = self._stores.find(store, tuple_of([by_key[name].text for name in store.on])).text
        self._inner.open(f"if {found} is not None:")
        columns = [f"{lookup.name}.{name}" for name in code.width_columns(lookup)]
        if store.kind == "ordered":
            self._ranges(lookup.ranges, found, columns, used)
            return
        if store.kind == "fan":
            keys, entry = [self._source.name("k") for _ in store.rest], self._source.name("e")
            self._inner.open(f"for {tuple_of(keys)}, {entry} in {found}.items():")
            for name, key in zip(store.rest, keys, strict=True):
                self._values[f"{lookup.name}.{name}"] = Value(key, code.key_nullable(lookup, name))
            found = entry
        for place, column in enumerate(columns):
            if column in used:
                self._values[column] = self._source.assign("s", f"{found}[{place}]")

    def _ranges(self, ranges: tuple[Range, ...], found: str, columns: list[str], used: set[str]) -> None:
        """The sums over signed intervals: each is a prefix less another, nothing where its bounds cross."""
        source = self._source
        wanted = [place for place, column in enumerate(columns) if column in used]
        totals = {place: source.assign("s", "0").text for place in wanted}
        for part in ranges:
            bounds = [
                None if bound is None else expression(source, bound, self._values) for bound in (part.low, part.high)
            ]
            low, high = bounds
            given = [bound for bound in bounds if bound is not None]
            tests = [f"{bound.text} is not None" for bound in given if bound.nullable]
            if low is not None and high is not None:
                tests.append(f"{low.text} {'<' if part.low_strict or part.high_strict else '<='} {high.text}")
            with source.branches() as inner:
                if tests:
                    inner.open(f"if {' and '.join(tests)}:")
                start = end = ""
                if low is not None:
                    start = source.assign("q", f"{found}.{'upto' if part.low_strict else 'below'}({low.text})").text
                if high is not None:
                    end = source.assign("q", f"{found}.{'below' if part.high_strict else 'upto'}({high.text})").text
                for place, total in totals.items():
                    over = f"{found}.prefix({end}, {place})" if end else f"{found}.totals[{place}]"
                    over += f" - {found}.prefix({start}, {place})" if start else ""
                    source.put(f"{total} {'+' if part.sign > 0 else '-'}= {over}")
        for place, total in totals.items():
            self._values[columns[place]] = Value(total)


def _used(statement: Statement) -> set[str]:
    """The bound columns that a statement reads."""
    terms = chain([statement.weight], *statement.sums)
    used = {*statement.keys, *chain.from_iterable(term.columns for term in terms)}
    exprs = [statement.where]
    for lookup in statement.lookups:
        used |= {column for _, column in lookup.on}
        exprs += [bound for part in lookup.ranges for bound in (part.low, part.high)]
    return used.union(*(columns_of(expr) for expr in exprs if expr is not None))
