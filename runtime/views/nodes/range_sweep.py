"""Range sweep: a join of two maps by equality and ranges of one key, recomputed group by group.

Algebra: each map has an index, which groups the map's rows by the keys that the join compares for equality. In a join
that can be swept, these keys are also the keys of the result, so a group of the result needs one group of each index.
The result of a group is a sum over the entries of the first map: each entry is multiplied by sums over ranges of the
second map's entries. A sum over a range is the difference of two running sums over the second map's entries in the
order of their keys. A bound is monotone in the first map's key. So while the first map's entries are read in the order
of their keys, the place of a bound moves in one direction only, as in a merge join (Graefe, *Query Evaluation
Techniques for Large Databases*, ACM Computing Surveys 25, 1993).

A sweep takes 3 to 9 ns for each entry, while the look-ups of a row take 60 to 350 ns; so a sweep is faster for a batch
that is large compared with the maps. The first statement of a step decides whether the step is swept
(`Sweep.put_choice`). If it is, the statements do nothing, and this node recomputes all groups after the indexes have
changed. Both ways have the same result.

State: none of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from functools import reduce

import msgspec
import numpy as np

from runtime.native.library import entries, hashing, sweep
from runtime.native.ordered import Entries
from runtime.native.structures import Structure
from runtime.plan import Col, Expr, Joined, Lit, Range, Statement, Term
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Value, load_fields
from runtime.views.feeds import ColumnBatch
from runtime.views.nodes.indexes import MapOrder, put_group
from runtime.views.nodes.lookups import key_of_bound
from runtime.views.nodes.node import Node
from runtime.views.nodes.totals import Totals, put_locate, put_touch
from runtime.views.strings import Strings

__all__ = ["RangeSweep", "Sweep", "SweepPlan", "sweep_plan"]

_ROW_WORK = 20
"""Number of entries that a sweep passes in the time of one row's look-ups. By measurement, look-ups take 60 ns and an
entry takes 3 ns; with a tree these times are 350 ns and 9 ns.
"""
_KEY_BITS = 61
"""Greatest number of bits of a group's keys for which arithmetic of 64 bits is enough; the other bits are room for a
constant that is added to a key."""
_KNOWN = ("i", "(i + 1)")
"""Generated expressions for the place of an entry's own key among the entries, and for the place after it."""
_NARROW = "2305843009213693952.0"
"""2^61 in generated code: if an upper bound of all sums is below this number, no sum passes 64 bits."""


class SweepPlan(msgspec.Struct, frozen=True):
    """Plan of a join that can be swept: everything that is the same for all groups."""

    own: str
    """Alias of the map whose entries are traversed, the own map."""
    own_ordered: str
    """Ordered key of the own map."""
    pairs: tuple[tuple[str, str], ...]
    """Pairs of a group key of the other map and the equal group key of the own map."""
    keys: tuple[str, ...]
    """Group keys of the own map that are the result's keys, in the result's order."""
    ranges: tuple[Range, ...]
    """Ranges of the other map's key, as expressions over the own ordered key."""
    terms: tuple[tuple[tuple[int, str, str], ...], ...]
    """For the weight and each sum of the result: (factor, column of the own map, column of the other map)."""


def sweep_plan(body: Joined) -> SweepPlan | None:
    """Return the plan of a join's sweep; None if it cannot be swept."""
    if len(body.auxiliaries) != 1 or len(body.occurrences) != 2:
        return None
    (result,) = body.auxiliaries
    if [statement.occurrence for statement in result.statements] != [o.alias for o in body.occurrences]:
        return None
    first, second = result.statements
    if any(statement.where is not None or len(statement.lookups) != 1 for statement in result.statements):
        return None
    (lookup,), (back,) = first.lookups, second.lookups
    if any(side.auxiliary or side.binds or not side.ranges for side in (lookup, back)):
        return None
    own, other = first.occurrence, second.occurrence
    assert back.ordered is not None
    pairs = tuple((key, column.removeprefix(f"{own}.")) for key, column in lookup.on)
    keys = tuple(column.removeprefix(f"{own}.") for column in first.keys)
    groups = [key for _, key in pairs]
    is_grouped = sorted(keys) == sorted(groups) == sorted({key for key, _ in back.on})
    bounds = [bound for part in lookup.ranges for bound in (part.low, part.high) if bound is not None]
    if not is_grouped or len(set(groups)) != len(groups) or back.ordered in groups:
        return None
    if not all(_is_monotone(bound, f"{own}.{back.ordered}") for bound in bounds):
        return None
    terms = _terms(first, own, other)
    if terms is None:
        return None
    return SweepPlan(own, back.ordered, pairs, keys, lookup.ranges, terms)


def _is_monotone(expr: Expr, column: str) -> bool:
    """Return True if an integer expression reads only this column, and is monotone in it."""
    if isinstance(expr, Col):
        return expr.name == column
    if isinstance(expr, Lit):
        return True
    if expr.op not in ("add", "sub", "mul", "neg", "floordiv"):
        return False
    varying = [place for place, arg in enumerate(expr.args) if not isinstance(arg, Lit)]
    if expr.op == "floordiv" and varying not in ([], [0]):
        return False
    return len(varying) <= 1 and all(_is_monotone(arg, column) for arg in expr.args)


def _terms(statement: Statement, own: str, other: str) -> tuple[tuple[tuple[int, str, str], ...], ...] | None:
    """Return the terms as products of one column of each side; None if there are other terms."""
    matrices: list[tuple[tuple[int, str, str], ...]] = []
    for terms in ((statement.weight,), *statement.sums):
        products = []
        for term in terms:
            if term.factor == 0:
                continue
            columns = _columns(term, own, other)
            if columns is None:
                return None
            products.append((term.factor, *columns))
        matrices.append(tuple(products))
    return tuple(matrices)


def _columns(term: Term, own: str, other: str) -> tuple[str, str] | None:
    if len(term.columns) != 2:
        return None
    of_own = [name.removeprefix(f"{own}.") for name in term.columns if name.startswith(f"{own}.")]
    of_other = [name.removeprefix(f"{other}.") for name in term.columns if name.startswith(f"{other}.")]
    return (of_own[0], of_other[0]) if len(of_own) == len(of_other) == 1 else None


class Sweep(msgspec.Struct):
    """Data that the statements of a join and its sweep share."""

    plan: SweepPlan
    """Plan by which groups are recomputed."""
    own: MapOrder
    """Entries of the first occurrence."""
    other: MapOrder
    """Entries of the second occurrence; the same index if both occurrences are of one map."""
    result: Totals
    """Totals whose groups are recomputed."""
    batches: list[ColumnBatch]
    """Batches with the rows of both maps."""
    mode: Structure = msgspec.field(default_factory=lambda: _numbers(1))
    """One number: 1 if the current step is swept."""

    def put_choice(self, k: KernelSource) -> None:
        """Write the lines that decide whether the step is swept."""
        k.use("sweep", "work_of")
        indexes = [self.own] if self.own is self.other else [self.own, self.other]
        rows = k.assign("n", " + ".join(f"{k.cells(batch, 0)}[{batch.ROWS}]" for batch in self.batches))
        most = k.assign("most", f"{_ROW_WORK} * {rows}")
        work = k.assign("work", " + ".join([rows, *(f"work_of({k.table(index)}, {most})" for index in indexes)]))
        k.put(f"{self.chosen(k)} = 1 if {work} <= {most} else 0")

    def chosen(self, k: KernelSource) -> str:
        """Return the source of the number that is 1 if the step is swept."""
        return f"{k.cells(self.mode, 0)}[0]"

    def put_test(self, k: KernelSource, *, is_first: bool) -> None:
        """Write the first lines of a statement's kernel, which return if the step is swept.

        The first statement that has rows decides. This can be the second statement only if it loops over the rows of
        another map.
        """
        if is_first or len(self.batches) > 1:
            is_alone = "" if is_first else f" and {k.cells(self.batches[0], 0)}[{ColumnBatch.ROWS}] == 0"
            with k.block(f"if s[0] == 0{is_alone}:"):
                self.put_choice(k)
        with k.block(f"if {self.chosen(k)}:"):
            k.put("return 0")


def _numbers(count: int) -> Structure:
    structure = Structure(1)
    structure.put(0, np.zeros(count, np.int64))
    return structure


class _Side(msgspec.Struct):
    """One map of the join: its index, and room for the entries of a group."""

    index: MapOrder
    """The index."""
    entries: Entries
    """Room for the entries of a group; both sides share it if they have the same index."""
    columns: tuple[str, ...]
    """Columns that the terms read from this map, in the index's order."""


class RangeSweep(Node):
    """Recomputes the groups of a result from two indexes."""

    def __init__(self, sweep: Sweep, strings: Strings, views: Collection[str]) -> None:
        own, other = sweep.own, sweep.other
        room = Entries(own.entry_words)
        sides = (
            _Side(own, room, _used(sweep.plan, own, 1)),
            _Side(other, room if own is other else Entries(other.entry_words), _used(sweep.plan, other, 2)),
        )
        k = KernelSource("recomputes the groups of a range join", strings)
        for is_wide in (False, True):
            _GroupCode(k, sweep, *sides, is_wide=is_wide).put()
        _put_groups(k, sweep, *sides)
        super().__init__(k, views, sweep.batches)


def _used(plan: SweepPlan, index: MapOrder, place: int) -> tuple[str, ...]:
    read = {term[place] for terms in plan.terms for term in terms}
    return tuple(name for name in ("weight", *index.sum_names) if name in read)


def _place(index: MapOrder, column: str) -> int:
    """Return the place of a column's first word in an entry."""
    return 0 if column == "weight" else 1 + 2 * index.sum_names.index(column)


def _put_groups(k: KernelSource, sweep: Sweep, own: _Side, other: _Side) -> None:
    """Write the kernel, which sets all groups of the result to 0 and then recomputes each group of the first index."""
    k.use("entries", "is_in_use")
    k.use("hashing", "is_zero")
    k.use("ordered", "group_of", "total")
    k.use("sweep", "collect")
    k.begin()
    with k.block(f"if {sweep.chosen(k)} == 0:"):
        k.put("return 0")
    with k.block("if s[0] == 0:"):
        _put_clearing(k, sweep.result)
    directory = k.cells(own.index.groups, hashing.META)
    k.put("g = s[0]")
    with k.block(f"while g < {directory}[{hashing.USED}]:"):
        with k.block(f"if is_in_use({k.table(own.index)}, g):"):
            keys = _put_other_group(k, sweep.plan, own, other)
            with k.block("if h >= 0:"):
                _put_group_call(k, sweep, own, other, keys)
        k.put("g += 1")
    k.put("s[0] = 0", "return -1 if bad else 0")


def _put_clearing(k: KernelSource, result: Totals) -> None:
    t, cells = k.table(result), k.cells(result, hashing.CELLS)
    k.put("i = 0")
    with k.block(f"while i < {k.cells(result, hashing.META)}[{hashing.USED}]:"):
        with k.block(f"if not is_zero({t}, i):"):
            put_touch(k, result, "i")
            with k.block(f"for word in range(i * {result.stride} + {result.key_words}, (i + 1) * {result.stride}):"):
                k.put(f"{cells}[word] = 0")
        k.put("i += 1")


def _put_other_group(k: KernelSource, plan: SweepPlan, own: _Side, other: _Side) -> list[Value]:
    """Write the lines that set ``h`` to the matching group of the other index; return the key of the result."""
    groups = own.index.groups
    place = k.assign("c", f"g * {groups.stride}")
    loaded = load_fields(k, own.index.keys, k.cells(groups, hashing.CELLS), place)
    values = {field.name: value for field, value in zip(own.index.keys, loaded, strict=True)}
    same = dict(plan.pairs)
    matched = [values[same[field.name]] for field in other.index.keys]
    k.put(f"h = {put_group(k, other.index, matched, f'group_of({k.table(other.index)})')}")
    return [values[name] for name in plan.keys]


def _put_group_call(k: KernelSource, sweep: Sweep, own: _Side, other: _Side, keys: Sequence[Value]) -> None:
    """Write the lines that make room for a group and recompute it, in 64 bits if they are enough."""
    for name, group, side in (("n", "g", own), ("m", "h", other)):
        if side is other and own.index is other.index:
            k.put("m = n")
            continue
        k.put(f"{name} = collect({k.table(side.index)}, {group}, {k.table(side.entries)})")
        with k.block(f"if {name} < 0:"):
            _put_stop(k, k.need(side.entries.make_room))
    result = sweep.result
    slot = put_locate(k, result, keys, lambda status: _put_stop(k, status))
    put_touch(k, result, slot)
    with k.block(f"if {_narrow_test(k, sweep.plan, own, other)}:"):
        k.put(f"sweep_64(p, g, h, n, m, {slot})")
    with k.block("else:"):
        k.put(f"bad |= sweep_128(p, g, h, n, m, {slot})")


def _put_stop(k: KernelSource, status: int) -> None:
    k.put("s[0] = g", f"return -1 if bad else {status}")


def _narrow_test(k: KernelSource, plan: SweepPlan, own: _Side, other: _Side) -> str:
    """Return a condition under which no sum and no bound of a group passes 64 bits."""
    tests = []
    limit = 1 << _KEY_BITS
    sums: dict[tuple[int, str], str] = {}
    for place, group, side in ((1, "g", own), (2, "h", other)):
        index = side.index
        meta, prefix = k.cells(index, entries.META), k.cells(index, entries.PREFIX)
        k.put(f"total({k.table(index)}, {group}, {index.sums})")
        for column in side.columns:
            at = _place(index, column)
            text = f"float({prefix}[0])" if column == "weight" else f"wide_float(load_wide({prefix}, {at}))"
            sums[place, column] = k.assign("f", text)
        tests.append(f"{meta}[{entries.NEGATIVE}] == 0")
        count = "n" if side is own else "m"
        keys = k.cells(side.entries, sweep.ENTRY_KEYS)
        low = k.assign("low", f"{meta}[{entries.BASE}]")
        high = k.assign("high", f"{low} + {meta}[{entries.WINDOW}]")
        with k.block(f"if {meta}[{entries.IS_TREE}]:"):
            k.put(f"{low} = {keys}[0] if {count} > 0 else 0", f"{high} = {keys}[{count} - 1] if {count} > 0 else 0")
        tests += [f"{low} > {-limit}", f"{high} < {limit}"]
    for terms in plan.terms:
        parts = [
            f"{float(abs(factor) * len(plan.ranges))} * {sums[1, mine]} * {sums[2, yours]}"
            for factor, mine, yours in terms
        ]
        if parts:
            tests.append(f"{' + '.join(parts)} < {_NARROW}")
    return " and ".join(tests)


class _GroupCode:
    """Writes the function that recomputes one group, in 64 or in 128 bits."""

    def __init__(self, k: KernelSource, sweep: Sweep, own: _Side, other: _Side, *, is_wide: bool) -> None:
        self._k, self._plan, self._own, self._other, self._result = k, sweep.plan, own, other, sweep.result
        self._is_wide = is_wide

    def put(self) -> None:
        """Write ``sweep_64(p, g, h, n, m, slot)`` or ``sweep_128(…)``; it returns True if a sum has passed its limit.

        ``g`` and ``h`` are the groups, which have ``n`` and ``m`` entries.
        """
        k = self._k
        k.begin("sweep_128" if self._is_wide else "sweep_64", "p, g, h, n, m, slot")
        self._put_place("own", self._own, "g")
        self._put_place("other", self._other, "h")
        bounds = self._bounds()
        searched = [place for place in bounds.values() if place not in _KNOWN]
        if searched:
            k.put(f"{' = '.join(searched)} = 0")
        self._put_running()
        totals = [k.assign("a", self._zero()) for _ in self._plan.terms]
        k.put("i = 0", "at = own_at")
        with k.block("while i < n:"):
            mine = {c: self._loaded("own", self._own, c, "at") for c in self._own.columns}
            holds = " or ".join(f"{value.text} != {_zero_of(value)}" for value in mine.values())
            # If no bound is searched, the test takes longer than adding an empty entry.
            with k.block(f"if {holds or 'True'}:") if searched else nullcontext():
                self._put_entry(mine, bounds, totals)
            k.put("i += 1", f"at += {self._own.index.entry_words}")
        self._put_result(totals)
        k.put("return bad")

    def _zero(self) -> str:
        return "wide(0)" if self._is_wide else "0"

    def _put_place(self, name: str, side: _Side, group: str) -> None:
        """Write the lines that set variables to the place of a group's entries: in the index, or for a tree, in their
        copy.
        """
        k, index = self._k, side.index
        meta = k.cells(index, entries.META)
        k.put(f"{name}_is_tree, {name}_base = {meta}[{entries.IS_TREE}] != 0, {meta}[{entries.BASE}]")
        k.put(f"{name}_keys = {k.cells(side.entries, sweep.ENTRY_KEYS)}")
        with k.block(f"if {name}_is_tree:"):
            k.put(f"{name}, {name}_at = {k.cells(side.entries, sweep.ENTRY_VALUES)}, 0")
        with k.block("else:"):
            k.put(f"{name} = {k.cells(index, entries.CELLS)}")
            k.put(f"{name}_at = {group} * {meta}[{entries.WINDOW}] * {index.entry_words}")

    def _loaded(self, name: str, side: _Side, column: str, at: str) -> Value:
        """Return a column of the entry at a place; in 64 bits the low word of a sum is the whole sum."""
        k = self._k
        place = _place(side.index, column)
        if column == "weight" or not self._is_wide:
            return Value(k.assign("x", f"{name}[{at} + {place}]"), "int64")
        return Value(k.assign("x", f"load_wide({name}, {at} + {place})"), "int128", None, 126)

    # --- running sums

    def _word(self, column: str) -> int:
        """Return the number of the word in a running sum at which a column begins."""
        columns = self._other.columns
        if not self._is_wide:
            return columns.index(column)
        return 2 * columns.index(column)

    @property
    def _words(self) -> int:
        return max(1, len(self._other.columns) * (2 if self._is_wide else 1))

    def _put_running(self) -> None:
        """Write the lines that compute running sums over the other map's entries.

        Number j is the sum of the first j entries.
        """
        k, columns = self._k, self._other.columns
        running = k.cells(self._other.entries, sweep.RUNNING)
        totals = {column: k.assign("r", self._zero()) for column in columns}
        k.put("i = 0", "at = other_at")
        with k.block("while i < m:"):
            self._put_running_entry(running, totals)
            for column in columns:
                value = self._loaded("other", self._other, column, "at")
                total = totals[column]
                k.put(f"{total} = {total} + {value.wide_text if self._is_wide else value.text}")
                if self._is_wide:
                    k.put(f"bad |= outside({total})")
            k.put("i += 1", f"at += {self._other.index.entry_words}")
        self._put_running_entry(running, totals)

    def _put_running_entry(self, running: str, totals: dict[str, str]) -> None:
        for column, total in totals.items():
            at = f"{self._words} * i + {self._word(column)}"
            self._k.put(f"store_wide({running}, {at}, {total})" if self._is_wide else f"{running}[{at}] = {total}")

    def _sum_below(self, place: str, column: str) -> str:
        running = self._k.cells(self._other.entries, sweep.RUNNING)
        at = f"{self._words} * {place} + {self._word(column)}"
        return f"load_wide({running}, {at})" if self._is_wide else f"{running}[{at}]"

    # --- bounds

    def _bounds(self) -> dict[tuple[Expr, bool], str]:
        """Return a dict from each bound to the source of its place.

        A bound is a pair of an expression and a flag, which is True if a key that is equal to the bound counts as
        below.

        If a map is joined with itself and the bound is an entry's own key, the place is the entry's own place.
        """
        bounds: dict[tuple[Expr, bool], str] = {}
        own = Col(f"{self._plan.own}.{self._plan.own_ordered}") if self._own.index is self._other.index else None
        for part in self._plan.ranges:
            for bound in ((part.high, not part.high_strict), (part.low, part.low_strict)):
                if bound[0] is not None and bound not in bounds:
                    bounds[bound[0], bound[1]] = _KNOWN[bound[1]] if bound[0] == own else self._k.name("j")
        return bounds

    def _put_bound(self, place: str, bound: Value, *, inclusive: bool) -> None:
        """Write the lines that count the other map's entries below a bound."""
        k = self._k
        key, flag = key_of_bound(k, bound, is_inclusive=inclusive)
        is_plain = flag in ("True", "False")

        def below(at: str) -> str:
            if is_plain:
                return f"other_keys[{at}] {'<=' if inclusive else '<'} {key}"
            return f"(other_keys[{at}] < {key} or ({flag} and other_keys[{at}] == {key}))"

        with k.block("if other_is_tree:"):
            with k.block(f"while {place} < m and {below(place)}:"):
                k.put(f"{place} += 1")
            with k.block(f"while {place} > 0 and not {below(f'{place} - 1')}:"):
                k.put(f"{place} -= 1")
        with k.block("else:"):
            if is_plain and not self._is_wide:
                k.put(f"{place} = {key} - other_base{' + 1' if inclusive else ''}")
                k.put(f"{place} = 0 if {place} < 0 else {place}", f"{place} = m if {place} > m else {place}")
            else:
                with k.block(f"if {key} < other_base:"):
                    k.put(f"{place} = 0")
                with k.block(f"elif {key} > other_base + (m - 1):"):
                    k.put(f"{place} = m")
                with k.block("else:"):
                    k.put(f"{place} = {key} - other_base + (1 if {flag} else 0)")

    # --- entries

    def _put_entry(self, mine: dict[str, Value], bounds: dict[tuple[Expr, bool], str], totals: list[str]) -> None:
        """Write the lines that add an entry's products to the totals."""
        k, plan = self._k, self._plan
        bound: dict[str, Value] = {}
        if any(place not in _KNOWN for place in bounds.values()):
            key = k.assign("key", "own_keys[i] if own_is_tree else own_base + i")
            bound[f"{plan.own}.{plan.own_ordered}"] = Value(key, "int64", None, 63 if self._is_wide else _KEY_BITS)
        for (expr, inclusive), place in bounds.items():
            if place in _KNOWN:
                continue
            self._put_bound(place, Emitter(k).value(expr, bound), inclusive=inclusive)
        yours = {
            column: Value(k.assign("y", self._zero()), "int128" if self._is_wide else "int64", None, 126)
            for column in self._other.columns
        }
        for part in plan.ranges:
            self._put_range(part, bounds, yours)
        for total, terms in zip(totals, plan.terms, strict=True):
            for factor, own, other in terms:
                self._put_term(total, factor, mine[own], yours[other])

    def _put_range(self, part: Range, bounds: dict[tuple[Expr, bool], str], yours: dict[str, Value]) -> None:
        """Write the lines that add the sums of a range to the sums with which an entry is multiplied."""
        k = self._k
        end = "m" if part.high is None else bounds[part.high, not part.high_strict]
        begin = None if part.low is None else bounds[part.low, part.low_strict]
        symbols = ("+", "-") if part.sign > 0 else ("-", "+")
        # A range whose bounds cross is empty. Of the known places, only the end i and the begin i + 1 cross.
        if (end, begin) == _KNOWN:
            return
        with nullcontext() if {end, begin} <= {"m", None, *_KNOWN} else k.block(f"if {end} > {begin or 0}:"):
            for column, value in yours.items():
                text = f"{value.text} {symbols[0]} {self._sum_below(end, column)}"
                if begin is not None:
                    text += f" {symbols[1]} {self._sum_below(begin, column)}"
                k.put(f"{value.text} = {text}")
                if self._is_wide:
                    k.put(f"bad |= outside({value.text})")

    def _put_term(self, total: str, factor: int, mine: Value, yours: Value) -> None:
        k = self._k
        if not self._is_wide:
            product = f"{mine.text} * {yours.text}"
            symbol = "-" if factor < 0 else "+"
            k.put(f"{total} {symbol}= {product if abs(factor) == 1 else f'{abs(factor)} * {product}'}")
            return
        values = [mine, yours]
        if factor != 1:
            values.append(Emitter(k).value(Lit(factor), {}))
        value = reduce(lambda left, right: Emitter(k).arithmetic("mul", left, right), values)
        k.put(f"{total} = {total} + {value.wide_text}", f"bad |= outside({total})")

    def _put_result(self, totals: list[str]) -> None:
        """Write the lines that write the totals to the group's record."""
        k, result = self._k, self._result
        cells = k.cells(result, hashing.CELLS)
        place = k.assign("c", f"slot * {result.stride} + {result.key_words}")
        weight, *sums = totals
        if self._is_wide:
            k.put(f"bad |= not fits({weight})")
        k.put(f"{cells}[{place}] = {f'narrow({weight})' if self._is_wide else weight}")
        for number, total in enumerate(sums):
            text = total if self._is_wide else f"wide({total})"
            k.put(f"store_wide({cells}, {place} + {1 + 2 * number}, {text})")


def _zero_of(value: Value) -> str:
    return "wide(0)" if value.type == "int128" else "0"
