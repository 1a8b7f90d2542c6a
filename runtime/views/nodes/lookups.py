"""Look-ups of a join's statement: the values that a row of one relation reads from the other maps.

=========  ==============================  ==========================================================================
kind       structure                       what a row reads
=========  ==============================  ==========================================================================
totals     `nodes.totals.Totals`           the weight and sums of all records whose keys match
range      `nodes.indexes.MapOrder`        the same, of those records whose ordered key is also in the ranges
members    `nodes.indexes.MemberIndex`     each record whose keys match, one after the other: its other keys and values
=========  ==============================  ==========================================================================

NULL equals nothing: a row with NULL in a compared column has no match. A row without a match is skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, ClassVar, Final

import msgspec

from runtime.native.library import entries, hashing
from runtime.plan import Expr, Lookup, Range, Statement, Term, View, columns_read, sum_of_terms
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value, load_field, places_of
from runtime.views.errors import ViewError
from runtime.views.feeds import Feed
from runtime.views.graph import GraphBuilder
from runtime.views.nodes.indexes import (
    MapOrder,
    MemberIndex,
    members_node,
    members_of,
    order_of,
    ordered_index,
    ordered_node,
    put_group,
)
from runtime.views.nodes.node import Node
from runtime.views.nodes.totals import Totals, put_key, put_slot, totals_node
from runtime.views.strings import Strings

__all__ = ["LookupKind", "Scope", "columns_of_statement", "key_of_bound", "kind_of", "put_below", "total_of"]


class Scope:
    """Columns that a statement has bound for a row, and the blocks that are open."""

    def __init__(self, k: KernelSource, values: Mapping[str, Value], used: Collection[str], blocks: ExitStack) -> None:
        """Begin with these columns.

        ``used`` are the bound columns that the statement reads; others need not be loaded.
        """
        self.k = k
        self.values = dict(values)
        self.used = frozenset(used)
        self._blocks = blocks

    def open(self, header: str) -> None:
        """Open a block that ends with the statement."""
        self._blocks.enter_context(self.k.block(header))

    def end_with(self, line: str) -> None:
        """Write a line after all later lines of the present block."""
        self._blocks.enter_context(_ending(self.k, line))

    def value(self, name: str) -> Value:
        """Return the value of a bound column."""
        if name not in self.values:
            raise ViewError(f"expected one of the bound columns {', '.join(self.values)}, was {name}")
        return self.values[name]

    def matched(self, lookup: Lookup, keys: Sequence[Field]) -> list[Value]:
        """Return the values that keys have to equal; write the lines that skip the row if one of them is NULL."""
        pairs = [(key, self.value(column)) for key, column in lookup.on]
        by_key = dict(pairs)
        tests = [f"not {value.null}" for _, value in pairs if value.null is not None]
        tests += [f"{by_key[key].text} == {value.text}" for key, value in pairs if by_key[key] != value]
        if tests:  # one key may have to be equal to two columns
            self.open(f"if {' and '.join(dict.fromkeys(tests))}:")
        for _, column in lookup.on:
            self.values[column] = msgspec.structs.replace(self.values[column], null=None)
        return [msgspec.structs.replace(by_key[key.name], null=None) for key in keys]

    def bind_record(self, name: str, sums: Sequence[str], cells: str, place: str) -> None:
        """Bind the weight and the sums of a record in cells at a place."""
        if f"{name}.weight" in self.used:
            self.values[f"{name}.weight"] = Value(self.k.assign("w", f"{cells}[{place}]"), "int64")
        for number, column in enumerate(sums):
            if f"{name}.{column}" in self.used:
                text = f"load_wide({cells}, {place} + {1 + 2 * number})"
                self.values[f"{name}.{column}"] = Value(self.k.assign("v", text), "int128", None, 126)


@contextmanager
def _ending(k: KernelSource, line: str) -> Iterator[None]:
    yield
    k.put(line)


class LookupKind(ABC):
    """One kind of look-up."""

    repeats: ClassVar[bool] = False
    """True if a row may match several times."""

    def shared(self, builder: GraphBuilder, view: View, lookup: Lookup) -> Any:
        """Return the structure over a base map that is kept up to date and shared by all views."""
        return builder.indexed(
            view,
            lookup.source,
            self.spec(lookup),
            lambda feed: self.made(feed, lookup),
            lambda feed, structure: self.node(feed, structure, builder.strings, [view.name]),
        )

    @abstractmethod
    def spec(self, lookup: Lookup) -> str:
        """Return the identity of the structure among those over the same map."""

    @abstractmethod
    def made(self, feed: Feed, lookup: Lookup) -> Any:
        """Return an empty structure over a map."""

    @abstractmethod
    def node(self, feed: Feed, structure: Any, strings: Strings, views: Collection[str]) -> Node:
        """Return the node that adds a feed's rows to a structure of `made`."""

    def put_functions(self, k: KernelSource, structure: Any) -> None:  # noqa: B027 (most kinds need none)
        """Write the functions of the kernel that the lines of `put` call."""

    @abstractmethod
    def put(self, scope: Scope, lookup: Lookup, structure: Any) -> None:
        """Write the lines that look up and bind values, in blocks that a row without a match does not enter."""


def _names(lookup: Lookup) -> set[str]:
    return {key for key, _ in lookup.on}


class _TotalsLookup(LookupKind):
    def shared(self, builder: GraphBuilder, view: View, lookup: Lookup) -> Totals:
        wanted = _names(lookup)
        on = [key.name for key in builder.program.maps[lookup.source].keys if key.name in wanted]
        return builder.totals(view, lookup.source, on)

    def spec(self, lookup: Lookup) -> str:
        return f"totals {','.join(sorted(_names(lookup)))}"

    def made(self, feed: Feed, lookup: Lookup) -> Totals:
        wanted = _names(lookup)
        keys = [msgspec.structs.replace(key, nullable=False) for key in feed.keys if key.name in wanted]
        return Totals(keys, feed.sums)

    def node(self, feed: Feed, structure: Totals, strings: Strings, views: Collection[str]) -> Node:
        return totals_node(feed, structure, [key.name for key in structure.keys], strings, views)

    def put(self, scope: Scope, lookup: Lookup, structure: Totals) -> None:
        k = scope.k
        values = scope.matched(lookup, structure.keys)
        slot = "0"
        if structure.keys:
            k.use("hashing", "find")
            slot = put_slot(k, structure, structure.keys, values, f"find({k.table(structure)})")
            scope.open(f"if {slot} >= 0:")
        place = k.assign("c", f"{slot} * {structure.stride} + {structure.key_words}")
        scope.bind_record(lookup.name, structure.sums, k.cells(structure, hashing.CELLS), place)


class _MemberLookup(LookupKind):
    repeats = True

    def spec(self, lookup: Lookup) -> str:
        return f"members {','.join(sorted(_names(lookup)))}"

    def made(self, feed: Feed, lookup: Lookup) -> MemberIndex:
        return members_of(feed, _names(lookup))

    def node(self, feed: Feed, structure: MemberIndex, strings: Strings, views: Collection[str]) -> Node:
        return members_node(feed, structure, strings, views)

    def put(self, scope: Scope, lookup: Lookup, structure: MemberIndex) -> None:
        k = scope.k
        k.use("members", "first_member", "next_member")
        values = scope.matched(lookup, structure.given)
        put_key(k, structure.heads, structure.given, values)
        t = k.table(structure)
        slot = k.assign("slot", f"first_member({t})")
        scope.open(f"while {slot} >= 0:")
        scope.end_with(f"{slot} = next_member({t}, {slot})")
        records = structure.records
        cells = k.cells(records, hashing.CELLS)
        place = k.assign("c", f"{slot} * {records.stride}")
        for field, offset in zip(structure.keys, places_of(structure.keys), strict=True):
            name = f"{lookup.name}.{field.name}"
            if name in scope.used:
                scope.values[name] = load_field(k, field, cells, f"{place} + {offset}")
        place = k.assign("c", f"{place} + {records.key_words}")
        scope.bind_record(lookup.name, structure.sums, cells, place)


class _RangeLookup(LookupKind):
    def shared(self, builder: GraphBuilder, view: View, lookup: Lookup) -> MapOrder:
        assert lookup.ordered is not None
        return ordered_index(builder, view, lookup.source, _names(lookup), lookup.ordered)

    def spec(self, lookup: Lookup) -> str:
        return f"ordered {','.join(sorted(_names(lookup)))};{lookup.ordered}"

    def made(self, feed: Feed, lookup: Lookup) -> MapOrder:
        assert lookup.ordered is not None
        return order_of(feed, _names(lookup), lookup.ordered)

    def node(self, feed: Feed, structure: MapOrder, strings: Strings, views: Collection[str]) -> Node:
        return ordered_node(feed, structure, strings, views)

    def put_functions(self, k: KernelSource, structure: MapOrder) -> None:
        # All bounds share one copy of the search: it is long, and LLVM would compile each copy.
        k.use("ordered", "below", "total")
        k.begin(f"below_{structure.sums}", "p, t, group, key, inclusive")
        k.put(f"below(t, group, key, inclusive, {structure.sums})")
        k.begin(f"total_{structure.sums}", "p, t, group")
        k.put(f"total(t, group, {structure.sums})")

    def put(self, scope: Scope, lookup: Lookup, structure: MapOrder) -> None:
        k = scope.k
        k.use("ordered", "group_of")
        group = put_group(k, structure, scope.matched(lookup, structure.keys), f"group_of({k.table(structure)})")
        scope.open(f"if {group} >= 0:")
        columns: list[tuple[int, Value]] = []
        for number, column in enumerate(("weight", *structure.sum_names)):
            name = f"{lookup.name}.{column}"
            if name in scope.used:
                value = Value(k.assign("w", "0"), "int64")
                if number:
                    value = Value(k.assign("v", "wide(0)"), "int128", None, 126)
                scope.values[name] = value
                columns.append((number, value))
        for part in lookup.ranges:
            _put_range(scope, structure, group, part, columns)
        k.put(f"bad |= {k.cells(structure, entries.META)}[{entries.BAD}] != 0")


def _put_range(scope: Scope, index: MapOrder, group: str, part: Range, columns: Sequence[tuple[int, Value]]) -> None:
    """Write the lines that add the sums of a range: those below its end less those below its beginning."""
    k = scope.k

    def bound(expr: Expr | None) -> Value | None:
        return None if expr is None else Emitter(k).value(expr, scope.values)

    low, high = bound(part.low), bound(part.high)
    tests = [f"not {value.null}" for value in (low, high) if value is not None and value.null is not None]
    if low is not None and high is not None:
        # A range whose bounds cross is empty.
        symbol = "<" if part.low_strict or part.high_strict else "<="
        is_wide = "int128" in (low.type, high.type)
        a, b = (low.wide_text, high.wide_text) if is_wide else (low.text, high.text)
        tests.append(f"{a} {symbol} {b}")
    with k.block(f"if {' and '.join(tests)}:" if tests else "if True:"):
        if high is None:
            k.put(f"total_{index.sums}(p, {k.table(index)}, {group})")
        else:
            put_below(k, index, group, high, inclusive=not part.high_strict)
        _put_prefix(k, index, columns, part.sign)
        if low is not None:
            put_below(k, index, group, low, inclusive=part.low_strict)
            _put_prefix(k, index, columns, -part.sign)


def key_of_bound(k: KernelSource, bound: Value, *, is_inclusive: bool) -> tuple[str, str]:
    """Return the index key nearest to a bound, and whether this key counts among the keys below the bound.

    Writes lines if the bound has 128 bits.
    """
    if bound.type != "int128":
        return bound.text, str(is_inclusive)
    k.use("ordered", "bound_inclusive", "bound_key")
    key = k.assign("q", f"bound_key({bound.text})")
    return key, k.assign("b", f"bound_inclusive({bound.text}, {is_inclusive})")


def put_below(k: KernelSource, index: MapOrder, group: str, bound: Value, *, inclusive: bool) -> None:
    """Write the lines that compute the sums of a group's entries below a bound, or up to it if ``inclusive``."""
    key, flag = key_of_bound(k, bound, is_inclusive=inclusive)
    k.put(f"below_{index.sums}(p, {k.table(index)}, {group}, {key}, {flag})")


def _put_prefix(k: KernelSource, index: MapOrder, columns: Sequence[tuple[int, Value]], sign: int) -> None:
    prefix = k.cells(index, entries.PREFIX)
    symbol = "+" if sign > 0 else "-"
    for number, value in columns:
        if number:
            k.put(f"{value.text} = {value.text} {symbol} load_wide({prefix}, {2 * number - 1})")
            k.put(f"bad |= outside({value.text})")
        else:
            k.put(f"{value.text} {symbol}= {prefix}[0]")


_KINDS: Final[dict[tuple[bool, bool], LookupKind]] = {
    (False, False): _TotalsLookup(),
    (True, False): _MemberLookup(),
    (False, True): _RangeLookup(),
}
"""Kinds of look-ups, by whether a look-up finds keys and whether it has ranges."""


def kind_of(lookup: Lookup) -> LookupKind:
    """Return the kind of a look-up; raise `ViewError` for one with both keys and ranges."""
    key = bool(lookup.binds), lookup.ordered is not None and bool(lookup.ranges)
    if key not in _KINDS:
        raise ViewError(f"expected a look-up that finds keys or has ranges, was that of {lookup.name} with both")
    return _KINDS[key]


def total_of(scope: Scope, terms: Sequence[Term]) -> Value:
    """Return a sum of terms, in which NULL counts as 0."""
    names = {name for term in terms for name in term.columns}
    bound = {name: msgspec.structs.replace(scope.value(name), null=None) for name in names}
    return Emitter(scope.k).value(sum_of_terms(terms), bound)


def columns_of_statement(statement: Statement) -> set[str]:
    """Return the bound columns that a statement reads."""
    terms = chain([statement.weight], *statement.sums)
    used = {*statement.keys, *chain.from_iterable(term.columns for term in terms)}
    exprs = [statement.where]
    for lookup in statement.lookups:
        used |= {column for _, column in lookup.on}
        exprs += [bound for part in lookup.ranges for bound in (part.low, part.high)]
    return used.union(*(columns_read(expr) for expr in exprs if expr is not None))
