"""Threshold: sums over the part of relations that conditions on aggregates select, such as VWAP, MST and PSP.

Plan record: `Selected`. A condition compares a value of an ordered key, or sums over one side of the key, with totals.
Computing the delta of such a view is as much work as recomputing the view: even a row far from the threshold moves the
threshold. So after the indexes of all maps are updated, the node finds which interval of the key each factor's
conditions select, and computes the sums over the interval from prefix sums of the indexes (Koch et al., *DBToaster:
Higher-order Delta Processing for Dynamic, Frequently Fresh Views*, VLDB Journal 23, 2014, also maintain sums by key for
such queries, but loop over the keys).

The interval is narrowed by one test after the other. For each nested sum that may be NULL, a test checks that there are
rows to add up; along the key this test is first false and then true, or the reverse. Within the interval where all such
tests are true, every condition changes its truth at most once (`Factor.monotone`). A test is first evaluated where its
truth changed at the last step. Two evaluations suffice if that place has not moved; otherwise the new place is searched
from there, in steps that double (Bentley and Yao, *An almost optimal algorithm for unbounded searching*, Information
Processing Letters 5, 1976). These places are hints and do not affect the result. Some conditions are evaluated for
every key: those that may change their truth more often, and all conditions while a weight or a sum that they read is
negative for a key.

The result is a table of the groups of the product of all factors. Each step sets the records of this table again, and
`show` reads the table.

State: the result. The sums of indexes are computed in each step. The sums of a factor by group are computed in each
step that changes a map on which they depend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from runtime.native.library import entries, hashing
from runtime.native.structures import HashTable, Structure
from runtime.plan import Factor, Nested, Selected, Term, View, columns_read, sum_of_terms
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value
from runtime.views.feeds import Feed
from runtime.views.graph import GraphBuilder
from runtime.views.nodes.indexes import MapOrder, ordered_index
from runtime.views.nodes.lookups import key_of_bound
from runtime.views.nodes.node import Node
from runtime.views.nodes.show import Shape
from runtime.views.nodes.totals import Totals

__all__ = ["Threshold", "lower"]

_IS_VALID, _BAD, _LOW, _HIGH, _HINTS = 2, 3, 4, 5, 6
"""Places in the kernel's numbers: a flag that the sums of factors are those of the last step; a flag that an expression
passed its limit; the two ends of the interval that is being narrowed; and, from ``_HINTS`` on, the key at which each
test changed its truth.
"""

_RESTRICT: Final = f"""\
low, high, near = s[{_LOW}], s[{_HIGH}], s[{_HINTS} + number]
step, is_open, first = 1, True, 0
if low < near and near <= high:
    there = test(p, number, near)
    if test(p, number, near - 1) != there:
        low, high, first, is_open = near - 1, near, 1 - there, False
    else:
        first = test(p, number, low)
        if first == there:
            low = near
            while is_open and step < {1 << 62} and wide(low) + wide(step) < wide(high):
                if test(p, number, low + step) == first:
                    low += step
                    step *= 2
                else:
                    high, is_open = low + step, False
        else:
            high, is_open = near - 1, False
            is_below = False
            while not is_below and step < {1 << 62} and wide(high) - wide(step) > wide(low):
                if test(p, number, high - step) == first:
                    low, is_below = high - step, True
                else:
                    high -= step
                    step *= 2
else:
    first = test(p, number, low)
if is_open and test(p, number, high) == first:
    s[{_HINTS} + number] = s[{_LOW}]
    return first
while low + 1 < high:
    middle = (low & high) + ((low ^ high) >> 1)
    if test(p, number, middle) == first:
        low = middle
    else:
        high = middle
s[{_HINTS} + number] = high
if first:
    s[{_HIGH}] = high - 1
else:
    s[{_LOW}] = high
return 1"""
"""Body of ``restrict(p, number) -> 0/1``: narrows the interval to the keys for which a test is true, and returns 0
if there are none. The test has the truth ``first`` at ``low``, and the opposite at ``high`` once the interval is
closed.
"""


class _Sums(Structure):
    """Sums that a step computes: of each index, of each factor by group, and of one record of the result."""

    RECORD: Final = 1
    """Place of the record; the places of the factors' sums follow."""

    def __init__(self, factors: int, record: int) -> None:
        """Make room for sums. ``record`` is the number of value words of a record of the result."""
        super().__init__(2 + factors)
        self.put(0, np.zeros(factors, np.int64))
        self.put(self.RECORD, np.zeros(record, np.int64))
        for place in range(2, 2 + factors):
            self.put(place, np.zeros(0, np.int64))

    def reserve(self, words: int) -> int:
        """Make room for this many words of the sums of an index; return their beginning in place 0."""
        begin = len(self.array(0))
        self.extend(0, begin + words)
        return begin

    def grow(self, factor: int, groups: int, words: int) -> None:
        """Make room for this many groups of a factor."""
        self.extend(2 + factor, groups * words)
        self.views[0][factor] = groups


class _FactorPlan(msgspec.Struct, frozen=True):
    """A factor with the structures from which it is read."""

    place: int
    """Number of the factor."""
    factor: Factor
    """Record of the factor."""
    index: MapOrder | None
    """Entries of the factor, if it has an ordered key."""
    totals: Totals | None
    """Groups of the factor, if it has no ordered key."""
    names: tuple[str, ...]
    """Names of the weight and sums in terms."""
    nested: dict[str, MapOrder]
    """Index of each nested aggregate, by name."""
    tests: range
    """Numbers of the factor's tests."""
    exists: tuple[Nested, ...]
    """Nested aggregates whose sums may be NULL; the factor's first tests check that these have rows."""

    @property
    def keys(self) -> tuple[Field, ...]:
        """Group keys of the factor."""
        groups = self.index if self.index is not None else self.totals
        assert groups is not None
        return groups.keys

    @property
    def words(self) -> int:
        """Number of words of the sums of a group."""
        return 2 * len(self.names) - 1


class Threshold(Node):
    """Computes the whole result of a selected view."""

    def __init__(self, source: KernelSource, view: str, feeds: Sequence[Feed]) -> None:
        """Make the node. ``feeds`` are the feeds of the maps that the node reads."""
        super().__init__(source, [view], [feed.batch for feed in feeds])

    def resolve(self) -> None:
        """Update constants after strings, and possibly groups, were renumbered."""
        super().resolve()
        self.numbers[_IS_VALID] = 0


def lower(view: View, body: Selected, builder: GraphBuilder) -> None:
    """Add a selected view to the graph."""
    lowering = _Lowering(view, body, builder)
    builder.ends.append(lowering.node())
    builder.show(view, lowering.result, Shape(view.columns, body.outputs, body.having, body.empty))


class _Lowering:
    """Writes the kernel of one view."""

    def __init__(self, view: View, body: Selected, builder: GraphBuilder) -> None:
        self._view, self._body, self._builder = view, body, builder
        self._maps = builder.program.maps
        self._is_zero = builder.program.mode == "dbtoaster"
        self._plans: list[_FactorPlan] = []
        tests = 0
        for place, factor in enumerate(body.factors):
            self._plans.append(self._plan(place, factor, tests))
            tests = self._plans[-1].tests.stop
        keys = [
            Field(f"{plan.factor.alias}.{key.name}", key.type, key.nullable)
            for plan in self._plans
            for key in plan.keys
        ]
        names = [name for name, _ in body.sums]
        self.result = builder.structure(f"view/{view.name}/result", lambda: Totals(keys, names, is_result=True))
        self._sums = _Sums(len(self._plans), self.result.value_words)
        self._totals: dict[int, int] = {}
        self._k = KernelSource("selects by aggregates", builder.strings, numbers=_HINTS + tests)

    def _plan(self, place: int, factor: Factor, tests: int) -> _FactorPlan:
        map_ = self._maps[factor.map]
        names = tuple(f"{factor.alias}.{name}" for name in ("weight", *(total.name for total in map_.sums)))
        groups = [key.name for key in map_.keys if key.name != factor.ordered]
        if factor.ordered is None:
            assert not factor.conditions
            totals = self._builder.totals(self._view, factor.map, groups)
            return _FactorPlan(place, factor, None, totals, names, {}, range(tests, tests), ())
        index = ordered_index(self._builder, self._view, factor.map, groups, factor.ordered)
        nested = {
            each.name: ordered_index(self._builder, self._view, each.map, (), each.ordered) for each in factor.nested
        }
        read = {name for condition in factor.conditions for name in columns_read(condition)}
        exists = tuple(
            each
            for each in factor.nested
            if not self._is_zero and any(f"{each.name}.{name}" in read for name in nested[each.name].sum_names)
        )
        numbers = range(tests, tests + len(exists) + len(factor.conditions))
        return _FactorPlan(place, factor, index, None, names, nested, numbers, exists)

    # --- the kernel

    def node(self) -> Threshold:
        """Return the node, with its kernel."""
        k = self._k
        k.use("hashing", "locate")
        k.use("ordered", "below", "first_position", "is_negative", "key_at", "next_position")
        k.use("selection", "add_entry", "assign", "drop_unmarked", "put_sums", "put_total", "span")
        k.use("selection", "take_entry")
        if any(plan.tests for plan in self._plans):
            for plan in self._plans:
                for nested in plan.factor.nested:
                    self._put_read(plan, nested)
            self._put_test()
            k.begin("restrict", "p, number")
            k.put(_RESTRICT)
        for plan in self._plans:
            if plan.index is not None:
                self._put_select(plan, plan.index)
        self._put_step()
        return Threshold(k, self._view.name, [self._feed(number) for number in self._maps_read()])

    def _put_read(self, plan: _FactorPlan, nested: Nested) -> None:
        """Write ``read0_0(p, key) -> 0``, which writes the sums of a nested aggregate below a key to ``PREFIX``."""
        k, index = self._k, plan.nested[nested.name]
        k.begin(_reader(plan, nested), "p, key")
        key = {f"{plan.factor.alias}.{plan.factor.ordered}": Value("key", "int64")}
        bound = Emitter(k).value(nested.value, key)
        bound_key, flag = key_of_bound(k, bound, is_inclusive=nested.compare in ("le", "gt"))
        k.put(f"below({k.table(index)}, 0, {bound_key}, {flag}, {index.sums})")
        with k.block("if bad:"):
            k.put(f"s[{_BAD}] = 1")
        k.put("return 0")

    def _put_test(self) -> None:
        """Write ``test(p, number, key) -> 0/1``, which returns the truth of a test for a key."""
        k = self._k
        k.begin("test", "p, number, key")
        k.put("bad, truth = False, 0")
        keyword = "if"
        for plan in self._plans:
            numbers = iter(plan.tests)
            for nested in plan.exists:
                with k.block(f"{keyword} number == {next(numbers)}:"):
                    weight = self._bind(plan, nested, {f"{nested.name}.weight"})[f"{nested.name}.weight"]
                    k.put(f"truth = 1 if {weight.text} != 0 else 0")
                keyword = "elif"
            for condition in plan.factor.conditions:
                with k.block(f"{keyword} number == {next(numbers)}:"):
                    read = set(columns_read(condition))
                    bound = {f"{plan.factor.alias}.{plan.factor.ordered}": Value("key", "int64"), **self._scalars(read)}
                    for nested in plan.factor.nested:
                        bound |= self._bind(plan, nested, read)
                    k.put(f"truth = 1 if {Emitter(k).truth(condition, bound)} else 0")
                keyword = "elif"
        with k.block("if bad:"):
            k.put(f"s[{_BAD}] = 1")
        k.put("return truth")

    def _bind(self, plan: _FactorPlan, nested: Nested, read: set[str]) -> dict[str, Value]:
        """Write the lines that read a nested aggregate at the key; return the weight and sums in ``read`` by name."""
        k, index = self._k, plan.nested[nested.name]
        numbers = {f"{nested.name}.{name}": number for number, name in enumerate(index.sum_names)}
        wanted = [name for name in numbers if name in read]
        if not wanted and f"{nested.name}.weight" not in read:
            return {}
        k.put(f"{_reader(plan, nested)}(p, key)")
        prefix, sums = k.cells(index, entries.PREFIX), k.cells(self._sums, 0)
        is_above = nested.compare in ("gt", "ge")
        total = self._total_of(index) if is_above else 0
        weight = k.assign("w", f"{sums}[{total}] - {prefix}[0]" if is_above else f"{prefix}[0]")
        bound = {f"{nested.name}.weight": Value(weight, "int64")}
        null = k.assign("n", f"1 if {weight} == 0 else 0") if wanted and not self._is_zero else None
        for name in wanted:
            word = 1 + 2 * numbers[name]
            text = f"load_wide({prefix}, {word})"
            value = k.assign("x", f"load_wide({sums}, {total + word}) - {text}" if is_above else text)
            if is_above:
                k.put(f"bad |= outside({value})")
            bound[name] = Value(value, "int128", null, 126)
        return bound

    def _scalars(self, read: set[str]) -> dict[str, Value]:
        """Write the lines that read the totals in ``read``; return them by name."""
        k, bound = self._k, dict[str, Value]()
        for number in self._body.scalars:
            names = {f"m{number}.{total.name}": place for place, total in enumerate(self._maps[number].sums)}
            wanted = [name for name in names if name in read]
            if not wanted and f"m{number}.weight" not in read:
                continue
            cells, begin, places = self._scalar_cells(number)
            weight = k.assign("w", f"{cells}[{begin}]")
            bound[f"m{number}.weight"] = Value(weight, "int64")
            null = k.assign("n", f"1 if {weight} == 0 else 0") if wanted and not self._is_zero else None
            for name in wanted:
                value = k.assign("x", f"load_wide({cells}, {begin + 1 + 2 * places[names[name]]})")
                bound[name] = Value(value, "int128", null, 126)
        return bound

    def _scalar_cells(self, number: int) -> tuple[str, int, list[int]]:
        """Return the location of a keyless map's total: cells, the place in them, and the number of each of its sums.

        If an index over the same rows has these sums, no separate table is needed.
        """
        map_ = self._maps[number]
        for other, index in self._indexes():
            scalar_map = self._maps[other]
            known = {total.expr: place for place, total in enumerate(scalar_map.sums)}
            feed = self._feed(other)
            if (
                not index.keys
                and (scalar_map.relation, scalar_map.where) == (map_.relation, map_.where)
                and not any(key.nullable for key in feed.keys)
                and known.keys() >= {total.expr for total in map_.sums}
            ):
                cells = self._k.cells(self._sums, 0)
                return cells, self._total_of(index), [known[total.expr] for total in map_.sums]
        totals = self._builder.totals(self._view, number, [])
        return self._k.cells(totals, hashing.CELLS), 0, list(range(len(map_.sums)))

    def _indexes(self) -> Iterator[tuple[int, MapOrder]]:
        """Yield the indexes that are read, each with its map."""
        for plan in self._plans:
            for nested in plan.factor.nested:
                yield nested.map, plan.nested[nested.name]
            if plan.index is not None:
                yield plan.factor.map, plan.index

    def _total_of(self, index: MapOrder) -> int:
        """Return the place of the sums of all entries of an index without groups; the step computes them."""
        if id(index) not in self._totals:
            self._totals[id(index)] = self._sums.reserve(index.entry_words)
        return self._totals[id(index)]

    def _feed(self, number: int) -> Feed:
        return self._builder.feed(self._builder.part_of(self._view, number))

    def _put_select(self, plan: _FactorPlan, index: MapOrder) -> None:
        """Write ``select0(p) -> 0``, which adds up the selected entries of a factor by group."""
        k = self._k
        k.begin(f"select{plan.place}", "p")
        t, cells = k.table(index), k.cells(self._sums, 2 + plan.place)
        if plan.factor.monotone:
            with k.block(f"if not ({' or '.join(self._negative_tests(plan)) or False}):"):
                k.put(f"is_some, number = span({t}, s, {_LOW}) != 0, {plan.tests.start}")
                with k.block(f"while is_some and number < {plan.tests.stop}:"):
                    k.put("is_some = restrict(p, number) != 0", "number += 1")
                k.put(f"put_sums({t}, is_some, s[{_LOW}], s[{_HIGH}], {cells}, {index.sums})", "return 0")
        k.put(f"put_sums({t}, False, 0, 0, {cells}, {index.sums})")
        groups = k.cells(index.groups, hashing.META)
        first = plan.tests.start + len(plan.exists)
        with k.block(f"for group in range({groups}[{hashing.USED}]):"):
            k.put(f"position = first_position({t}, group)")
            with k.block("while position >= 0:"):
                with k.block(f"if take_entry({t}, group, position):"):
                    k.put(f"key, number, truth = key_at({t}, group, position), {first}, 1")
                    with k.block(f"while truth and number < {plan.tests.stop}:"):
                        k.put("truth = test(p, number, key)", "number += 1")
                    with k.block("if truth:"):
                        k.put(f"add_entry({t}, group, position, {cells})")
                k.put(f"position = next_position({t}, group, position)")
        k.put("return 0")

    def _negative_tests(self, plan: _FactorPlan) -> list[str]:
        """Return conditions that some entry of a nested index has a negative weight, or a negative sum that is read."""
        read = {name for condition in plan.factor.conditions for name in columns_read(condition)}
        tests: dict[str, None] = {}
        for name, index in plan.nested.items():
            numbers = [0, *(place for place, each in enumerate(index.sum_names, 1) if f"{name}.{each}" in read)]
            tests |= dict.fromkeys(f"is_negative({self._k.table(index)}, {number})" for number in numbers)
        return list(tests)

    def _put_step(self) -> None:
        k = self._k
        k.begin()
        changed = {number: f"{k.cells(self._feed(number).batch, 0)}[0]" for number in self._maps_read()}
        sums = k.cells(self._sums, 0)
        for plan in self._plans:
            if plan.index is not None:
                room = f"{k.cells(plan.index, entries.META)}[{entries.ROOM}]"
                with k.block(f"if {sums}[{plan.place}] < {room}:"):
                    k.put(f"return {k.need(self._room(plan, plan.index))}")
        indexes = {id(index): index for _, index in self._indexes()}
        for number, place in self._totals.items():
            index = indexes[number]
            k.put(f"put_total({k.table(index)}, {sums}, {place}, {index.sums})")
        for plan in self._plans:
            if plan.index is not None:
                rows = dict.fromkeys(changed[number] for number in self._read_by(plan))
                with k.block(f"if not s[{_IS_VALID}] or {' or '.join(f'{each} > 0' for each in rows)}:"):
                    k.put(f"select{plan.place}(p)")
        self._put_result()
        for index in indexes.values():
            k.put(f"bad |= {k.cells(index, entries.META)}[{entries.BAD}] != 0")
        k.put(f"s[{_IS_VALID}] = 1", f"return -1 if bad or s[{_BAD}] else 0")

    def _room(self, plan: _FactorPlan, index: MapOrder) -> Callable[[], None]:
        return lambda: self._sums.grow(plan.place, int(index.views[entries.META][entries.ROOM]), plan.words)

    def _maps_read(self) -> list[int]:
        nested = {each.map for factor in self._body.factors for each in factor.nested}
        return sorted({*self._body.scalars, *(factor.map for factor in self._body.factors), *nested})

    def _read_by(self, plan: _FactorPlan) -> list[int]:
        """Return the maps on which the sums of a factor depend."""
        read = {name for condition in plan.factor.conditions for name in columns_read(condition)}
        scalars = [number for number in self._body.scalars if any(name.startswith(f"m{number}.") for name in read)]
        return sorted({plan.factor.map, *(nested.map for nested in plan.factor.nested), *scalars})

    # --- the result

    def _put_result(self) -> None:
        """Write the lines that set the records of the result.

        If the table has more records than there are groups, some groups have disappeared: then the loops run again and
        mark the records of all present groups, and the other records are dropped.
        """
        k, table = self._k, self._k.table(self.result)
        if not self.result.keys:
            k.put("records = 0")
            self._put_groups(0, {}, [])
            with k.block("if records == 0:"):
                record = k.cells(self._sums, _Sums.RECORD)
                for word in range(self.result.value_words):
                    k.put(f"{record}[{word}] = 0")
                k.put(f"assign({table}, 0, {record}, False)")
            return
        live = f"{k.cells(self.result, hashing.META)}[{hashing.LIVE}]"
        k.put("is_marked, is_done = False, False")
        with k.block("while not is_done:"):
            k.put("records = 0")
            self._put_groups(0, {}, [])
            k.put(f"is_done = is_marked or records == {live}", "is_marked = True")
        with k.block(f"if records < {live}:"):
            k.put(f"drop_unmarked({table})")

    def _put_groups(self, place: int, bound: dict[str, Value], words: list[str]) -> None:
        """Write the loops over the groups of a factor, and within each over the groups of the later factors.

        ``bound`` has the weights and sums of the earlier factors, and ``words`` has the words of their keys.
        """
        if place == len(self._plans):
            self._put_record(bound, words)
            return
        k, plan = self._k, self._plans[place]
        table: HashTable
        if plan.index is not None:
            table, cells, stride, offset = plan.index.groups, k.cells(self._sums, 2 + place), plan.words, 0
        else:
            assert plan.totals is not None
            table = plan.totals
            cells, stride, offset = k.cells(table, hashing.CELLS), table.stride, table.key_words
        group = k.name("group")
        used = f"{k.cells(table, hashing.META)}[{hashing.USED}]" if plan.keys else "1"
        with k.block(f"for {group} in range({used}):"):
            at = k.assign("at", f"{group} * {stride} + {offset}")
            with k.block(f"if {cells}[{at}] > 0:"):
                own = {plan.names[0]: Value(k.assign("w", f"{cells}[{at}]"), "int64")}
                for number, name in enumerate(plan.names[1:]):
                    own[name] = Value(
                        k.assign("x", f"load_wide({cells}, {at} + {1 + 2 * number})"), "int128", None, 126
                    )
                keys = []
                if plan.keys:
                    groups = k.cells(table, hashing.CELLS)
                    keys = [f"{groups}[{group} * {table.stride} + {word}]" for word in range(table.key_words)]
                self._put_groups(place + 1, bound | own, words + keys)

    def _put_record(self, bound: dict[str, Value], words: list[str]) -> None:
        """Write the lines that set the record of one group of the result."""
        k, table, emitter = self._k, self._k.table(self.result), Emitter(self._k)
        record = k.cells(self._sums, _Sums.RECORD)
        weight = emitter.value(sum_of_terms([Term(1, tuple(plan.names[0] for plan in self._plans))]), bound)
        k.put(f"{record}[0] = {emitter.cast(weight, 'int64').text}")
        for number, (_, terms) in enumerate(self._body.sums):
            total = emitter.value(sum_of_terms(terms), bound)
            k.put(f"store_wide({record}, {1 + 2 * number}, {total.wide_text})")
        if not self.result.keys:
            k.put(f"assign({table}, 0, {record}, False)", "records = 1")
            return
        for word, text in enumerate(words):
            k.put(f"{k.cells(self.result, hashing.KEY)}[{word}] = {text}")
        k.put(f"slot = locate({table})")
        with k.block("if slot < 0:"):
            k.put(f"return {k.need(self.result.make_room)}")
        k.put(f"assign({table}, slot, {record}, is_marked)", "records += 1")


def _reader(plan: _FactorPlan, nested: Nested) -> str:
    return f"read{plan.place}_{[each.name for each in plan.factor.nested].index(nested.name)}"
