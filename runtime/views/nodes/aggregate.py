"""Aggregate: the group operator of a flow, with COUNT, SUM, MIN, MAX, DISTINCT aggregates and quantiles of one input.

Algebra: the number of rows, the number of values that are not NULL, and the sum of the values are linear: a row of
weight w adds w times its values. A distinct value is present while its count is positive: COUNT and SUM of distinct
values change if a value appears or disappears, and MIN and MAX are the first and the last of the present values (Gupta,
Mumick: *Maintenance of Materialized Views*, 1995). A quantile is the value at a certain place in the order of the
present values, in which each value is repeated as often as it is counted; a cursor follows this place
(`library.quantiles`). The row of a group is a function of these numbers: for each group that a step has touched, the
operator emits the old row (-1) and the new row (+1), if they differ.

State: the table ``groups``. A record has the key's words, the number of rows, and for each aggregated column the words
that its aggregates need (`_Measure`); the table remembers the groups as they were before the step. For each column
whose distinct values are needed, a table ``values NUMBER`` maps the key's words and a value's words to the value's
count; for MIN, MAX and quantiles this table is in order (`SortedTable`). A group without rows of the input has no row
in the result, except that without keys the result always has one row.

Code: one kernel. Its first loop adds up the rows of the input; its second loop emits the rows of the touched groups.
Room for all of these rows is made before the second loop begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from runtime.native.library import hashing, quantiles
from runtime.native.structures import NullablePlace
from runtime.plan import Aggregate, GroupNode, Quantile
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.order_words import OrderKey
from runtime.views.emission.values import Field, Value, load_field, load_fields, may_be_direct, words_of
from runtime.views.errors import ViewError
from runtime.views.feeds import Row, Rows
from runtime.views.nodes.flow import BEGUN, BatchRows, FlowContext, open_touched
from runtime.views.nodes.indexes import SortedTable
from runtime.views.nodes.totals import RecordTable, put_locate, put_touch

__all__ = ["GroupTable", "lower"]

_DISTINCT: Final = frozenset({"count_distinct", "sum_distinct", "min", "max", "quantile"})
_SUMS: Final = frozenset({"sum", "sum_distinct"})
_ROWS: Final = 0
"""Place of the number of rows among the value words of a group."""


class GroupTable(RecordTable):
    """Groups with the values that their aggregates need."""

    def __init__(self, keys: Sequence[Field], words: int, extremes: Sequence[tuple[int, int, Field]]) -> None:
        """Begin an empty table of groups.

        ``words`` is the number of value words. ``extremes`` has for each least or greatest value: its place among the
        value words, the place of the number of distinct values, and its field.
        """
        super().__init__(keys, words, is_result=True, is_direct=may_be_direct(keys))
        for place, count, field in extremes:
            first, number = self.key_words + place, self.key_words + count
            extreme = NullablePlace(first, presence=number, words=field.value_words)
            self.nullable_places = (*self.nullable_places, extreme)
            if field.type == "string":
                self.string_places = (*self.string_places, extreme)


class _Measure:
    """One column's words among the value words of a group, and the table of its values."""

    def __init__(
        self, field: Field, number: int, kinds: AbstractSet[str], place: int, wanted: Sequence[Quantile] = ()
    ) -> None:
        """Assign places to the words of a column.

        ``number`` is the column's number among the aggregated ones, ``place`` the place of its first word, and
        ``wanted`` the quantiles of the column.
        """
        if kinds & _SUMS and field.type not in ("int64", "int128"):
            raise ViewError(f"expected integers to be added up, was {field.name} {field.type}")
        self.field = Field(field.name, field.type)
        """The column as a field without NULLs."""
        self.name = f"values {number}"
        self.has_count = field.nullable
        """True if the values of the column are counted; a column without NULLs has as many values as rows."""
        self.words = place
        self.count = self._take(1) if self.has_count else _ROWS
        """Place of the number of values."""
        self.sum = self._take(2) if "sum" in kinds else -1
        """Place of the sum of the values; this place and those below are -1 if no aggregate needs the words."""
        self.distinct = self._take(1) if kinds & _DISTINCT else -1
        """Place of the number of distinct values."""
        self.sum_distinct = self._take(2) if "sum_distinct" in kinds else -1
        """Place of the sum of distinct values."""
        self.min = self._take(field.value_words) if "min" in kinds else -1
        """Place of the least value, which is 0 if there is none."""
        self.max = self._take(field.value_words) if "max" in kinds else -1
        """Place of the greatest value, which is 0 if there is none."""
        self.quantiles = {each: self._take(quantiles.VALUE + field.value_words) for each in dict.fromkeys(wanted)}
        """Place of the cursor of each quantile."""
        self.values: RecordTable | None = None
        """Table from group key and value to count; None if no aggregate needs distinct values."""

    def _take(self, words: int) -> int:
        place = self.words
        self.words += words
        return place

    @property
    def extremes(self) -> list[tuple[int, int, Field]]:
        """Places of the least and the greatest value, each with the place of the distinct count and the field.

        The values of quantiles are included, each with the place of its flag.
        """
        places = [(place, self.distinct, self.field) for place in (self.min, self.max) if place >= 0]
        cursors = self.quantiles.values()
        return places + [(place + quantiles.VALUE, place + quantiles.THERE, self.field) for place in cursors]

    def place(self, aggregate: Aggregate) -> int:
        """Return the place of the value of an aggregate."""
        if aggregate.quantile is not None:
            return self.quantiles[aggregate.quantile] + quantiles.VALUE
        places = {
            "count": self.count,
            "sum": self.sum,
            "count_distinct": self.distinct,
            "sum_distinct": self.sum_distinct,
            "min": self.min,
            "max": self.max,
        }
        return places[aggregate.kind]


class _Group:
    """A group operator: its structures, and the lines of its kernel."""

    def __init__(self, node: GroupNode, rows: Rows, ctx: FlowContext) -> None:
        self._node = node
        self._rows = rows
        self._zero = ctx.builder.program.mode == "dbtoaster"
        self._keys = tuple(rows.field(name) for name in node.keys)
        self._measures: dict[str, _Measure] = {}
        words = 1
        for number, name in enumerate(dict.fromkeys(a.column for a in node.aggregates if a.column is not None)):
            kinds = {str(a.kind) for a in node.aggregates if a.column == name}
            wanted = [a.quantile for a in node.aggregates if a.column == name and a.quantile is not None]
            measure = self._measures[name] = _Measure(rows.field(name), number, kinds, words, wanted)
            words = measure.words
        extremes = [each for measure in self._measures.values() for each in measure.extremes]
        self._groups = ctx.structure("groups", lambda: GroupTable(self._keys, words, extremes))
        for measure in self._measures.values():
            if measure.distinct >= 0:
                measure.values = ctx.structure(measure.name, partial(self._new_values, measure, ctx))
        fields = [*self._keys, *(Field(a.name, a.type, self._null_place(a) is not None) for a in node.aggregates)]
        self.batch = ctx.batch(fields)
        """Changes of the operator's rows."""

    def _new_values(self, measure: _Measure, ctx: FlowContext) -> RecordTable:
        """Return an empty table for the values of a column."""
        keys = (*self._keys, measure.field)
        if measure.extremes:
            order = OrderKey(measure.field, words_of(self._keys))
            return SortedTable(keys, 1, [order], ctx.strings, group=self._groups)
        return RecordTable(keys, 1)

    def _null_place(self, aggregate: Aggregate) -> int | None:
        """Return the place of a number that is positive unless the aggregate is NULL; None if it never is NULL."""
        if aggregate.column is None or aggregate.kind.startswith("count"):
            return None
        measure = self._measures[aggregate.column]
        if aggregate.quantile is not None:
            return measure.quantiles[aggregate.quantile] + quantiles.THERE
        if self._keys and not measure.has_count:
            return None  # every group that has a row has values
        return measure.count if aggregate.kind == "sum" else measure.distinct

    # --- rows of the input

    def put(self, k: KernelSource) -> None:
        """Write the kernel."""
        k.use("hashing", "touch")
        self._put_row_function(k)
        k.begin()
        for measure in self._measures.values():
            if isinstance(measure.values, SortedTable):
                measure.values.put_refresh(k)
        names = {*self._node.keys, *self._measures}
        with self._rows.open(k, names, stays_at_end=True) as row:
            self._put_row(k, row)
        if not self._keys:
            with k.block(f"if s[{BEGUN}] == 0:"):
                k.put(f"touch({k.table(self._groups)}, 0)")
        self._put_changes(k)
        if not self._keys:
            k.put(f"s[{BEGUN}] = 1")
        k.put("return -1 if bad else 0")

    def _put_row(self, k: KernelSource, row: Row) -> None:
        groups = self._groups
        cells, keys = k.cells(groups, hashing.CELLS), [row.values[key.name] for key in self._keys]
        slot = put_locate(k, groups, keys)
        records = {
            name: self._put_locate(k, measure, keys, row.values[name])
            for name, measure in self._measures.items()
            if measure.values is not None
        }
        put_touch(k, groups, slot)
        group = k.assign("c", f"{slot} * {groups.stride} + {groups.key_words}")
        k.put(f"{cells}[{group} + {_ROWS}] += {row.weight}")
        for name, measure in self._measures.items():
            if not measure.has_count and measure.sum < 0 and measure.values is None:
                continue
            value = row.values[name]
            with k.block("if True:" if value.null is None else f"if not {value.null}:"):
                if measure.has_count:
                    k.put(f"{cells}[{group} + {measure.count}] += {row.weight}")
                if measure.sum >= 0:
                    self._put_sum(k, f"{group} + {measure.sum}", value, row.weight)
                if measure.values is not None:
                    self._put_value(k, measure, value, row.weight, (slot, group, records[name]))

    def _put_locate(self, k: KernelSource, measure: _Measure, keys: Sequence[Value], value: Value) -> str:
        """Write the lines that find or add a value's record, with room in the order; return its slot (NULL: -1)."""
        values = measure.values
        assert values is not None
        name = k.assign("value", "-1")
        with k.block("if True:" if value.null is None else f"if not {value.null}:"):
            if isinstance(values, SortedTable):
                k.put(f"{name} = {values.put_locate(k, (*keys, value))}")
            else:
                k.put(f"{name} = {put_locate(k, values, (*keys, value))}")
        return name

    def _put_sum(self, k: KernelSource, place: str, value: Value, weight: str) -> None:
        cells = k.cells(self._groups, hashing.CELLS)
        if value.type == "int64":
            summand = f"wide({value.text}) * wide({weight})"
        else:
            summand = k.name("x")
            flag = k.name("f")
            k.put(f"{summand}, {flag} = weighted({value.wide_text}, {weight})", f"bad |= {flag}")
        total = k.assign("x", f"load_wide({cells}, {place}) + {summand}")
        k.put(f"bad |= outside({total})", f"store_wide({cells}, {place}, {total})")

    def _put_value(
        self, k: KernelSource, measure: _Measure, value: Value, weight: str, slots: tuple[str, str, str]
    ) -> None:
        """Write the lines that count a value.

        ``slots`` are the group's slot, the place of the group's value words, and the value's slot.
        """
        values, (slot, group, record) = measure.values, slots
        assert values is not None
        cells = k.cells(self._groups, hashing.CELLS)
        k.use("extremes", "count_value")
        k.use("hashing", "drop_if_zero")
        cell = f"{k.cells(values, hashing.CELLS)}[{record} * {values.stride} + {values.key_words}]"
        before = k.assign("n", f"max({cell}, 0)") if measure.quantiles else ""
        moved = k.assign("moved", f"count_value({k.table(values)}, {record}, {weight})")
        with k.block(f"if {moved} != 0:"):
            k.put(f"{cells}[{group} + {measure.distinct}] += {moved}")
            if measure.sum_distinct >= 0:
                self._put_sum(k, f"{group} + {measure.sum_distinct}", value, moved)
            if isinstance(values, SortedTable):
                k.use("sorted_rows", "insert_row", "remove_row")
                with k.block(f"if {moved} > 0:"):
                    values.put_order(k, record, slot)
                    k.put(f"insert_row({k.table(values.rows)}, {record})")
                with k.block("else:"):
                    k.put(f"remove_row({k.table(values.rows)}, {record})")
                for function, place in (("new_first", measure.min), ("new_last", measure.max)):
                    if place >= 0:
                        k.use("extremes", function, "copy_value")
                        value_slot = f"{function}({k.table(values.rows)}, {record}, {moved})"
                        words = measure.field.words
                        k.put(f"copy_value({k.table(values)}, {value_slot}, {words}, {cells}, {group} + {place})")
        if measure.quantiles:
            assert isinstance(values, SortedTable)
            k.use("quantiles", "follow_value")
            self._put_group_key(k, values, cells, f"{slot} * {self._groups.stride}")
            change = k.assign("n", f"max({cell}, 0) - {before}")
            tables = f"{k.table(values)}, {k.table(values.rows)}"
            for place in measure.quantiles.values():
                cursor = f"{cells}, {group} + {place}, {measure.field.words}"
                k.put(f"follow_value({tables}, {record}, {change}, {cursor})")
        k.put(f"drop_if_zero({k.table(values)}, {record})")

    def _put_group_key(self, k: KernelSource, values: RecordTable, cells: str, place: str) -> None:
        """Write the line that begins the scratch key of a table of values with the key of a group."""
        k.put(f"copy_words({k.cells(values, hashing.KEY)}, 0, {cells}, {place}, {self._groups.key_words})")

    def _put_cursors(self, k: KernelSource, cells: str, place: str) -> None:
        """Write the lines that move a group's cursors to their places; the group's key words begin at ``place``."""
        for measure in self._measures.values():
            values = measure.values
            if not measure.quantiles or not isinstance(values, SortedTable):
                continue
            k.use("quantiles", "move_cursor")
            number = k.assign("n", f"{cells}[at + {measure.count}]")
            with k.block(f"if {number} > 0:"):
                self._put_group_key(k, values, cells, place)
                tables = f"{k.table(values)}, {k.table(values.rows)}"
                for each, cursor in measure.quantiles.items():
                    if each.kind == "disc":
                        target = f"max(({number} * {each.part} + {each.whole - 1}) // {each.whole}, 1) - 1"
                    else:
                        rounding = each.whole - 1 if each.kind == "ceil" else 0
                        target = f"(({number} - 1) * {each.part} + {rounding}) // {each.whole}"
                    k.put(f"move_cursor({tables}, {target}, {cells}, at + {cursor}, {measure.field.words})")

    # --- rows of the groups

    def _put_row_function(self, k: KernelSource) -> None:
        """Write ``put(p, keys, place, cells, at, weight)``, which appends the row of a group.

        The key's words begin at ``place`` of ``keys``, the value words at ``at`` of ``cells``. The function returns
        whether a number is too large for its column.
        """
        k.begin("put", "p, keys, place, cells, at, weight")
        values = load_fields(k, self._keys, "keys", "place")
        values += [
            Emitter(k).cast(self._value(k, aggregate, "cells", "at"), aggregate.type)
            for aggregate in self._node.aggregates
        ]
        self.batch.put_append(k, values, "weight")
        k.put("return bad")

    def _value(self, k: KernelSource, aggregate: Aggregate, cells: str, at: str) -> Value:
        """Write the lines that read the value of an aggregate, which is 0 for NULL; return it."""
        if aggregate.column is None:
            return Value(k.assign("v", f"{cells}[{at} + {_ROWS}]"), "int64")
        measure = self._measures[aggregate.column]
        place = f"{at} + {measure.place(aggregate)}"
        if aggregate.kind.startswith("count"):
            return Value(k.assign("v", f"{cells}[{place}]"), "int64")
        field = Field("", "int128") if aggregate.kind in _SUMS else measure.field
        value, null = load_field(k, field, cells, place), self._null_place(aggregate)
        if null is None:
            return value
        is_null = k.assign("n", f"1 if {cells}[{at} + {null}] <= 0 else 0")
        text = k.assign("v", f"wide(0) if {is_null} else {value.text}") if aggregate.kind == "sum" else value.text
        is_zero = self._zero and aggregate.kind in _SUMS
        return Value(text, value.type, None if is_zero else is_null, value.bits, is_word=not is_zero)

    def _put_changes(self, k: KernelSource) -> None:
        """Write the loop over the touched groups."""
        groups = self._groups
        cells, old = k.cells(groups, hashing.CELLS), k.cells(groups, hashing.OLD)
        with open_touched(k, groups, self.batch, 2) as place:
            k.put(f"at = {place} + {groups.key_words}", f"before = i * {groups.value_words}")
            self._put_cursors(k, cells, place)
            if self._keys:
                k.put(f"was, now = {old}[before + {_ROWS}] > 0, {cells}[at + {_ROWS}] > 0")
            else:
                k.put(f"was, now = s[{BEGUN}] != 0, True")
            k.put("differs = was != now")
            with k.block("if was and now:"):
                self._put_difference(k, old, cells)
            with k.block("if differs and was:"):
                k.put(f"bad |= put(p, {cells}, {place}, {old}, before, -1)")
            with k.block("if differs and now:"):
                k.put(f"bad |= put(p, {cells}, {place}, {cells}, at, 1)")

    def _put_difference(self, k: KernelSource, old: str, cells: str) -> None:
        """Write the lines that compare a group's row before the step with its row after it."""
        tests = []
        for aggregate in self._node.aggregates:
            if aggregate.kind in ("min", "max", "quantile"):
                assert aggregate.column is not None
                measure = self._measures[aggregate.column]
                place = measure.place(aggregate)
                tests += [
                    f"{old}[before + {place + n}] != {cells}[at + {place + n}]" for n in range(measure.field.words)
                ]
                null = self._null_place(aggregate)
                if null is not None:
                    tests.append(f"({old}[before + {null}] > 0) != ({cells}[at + {null}] > 0)")
                continue
            was, now = (self._value(k, aggregate, *where) for where in ((old, "before"), (cells, "at")))
            tests.append(f"{was.text} != {now.text}")
            if was.null is not None:
                tests.append(f"{was.null} != {now.null}")
        k.put("differs = " + (" or ".join(tests) or "False"))


def lower(node: GroupNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Add a group operator to the graph; return its rows."""
    group = _Group(node, inputs[0], ctx)
    k = ctx.kernel("emits the rows of groups that changed")
    group.put(k)
    ctx.add(k, inputs[0], runs_first=not node.keys)
    return BatchRows(group.batch, is_distinct=True)
