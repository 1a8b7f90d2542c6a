"""Window: functions over the ordered rows of each partition of a flow, and limits on the rows of a partition.

Algebra: the results of a row are a function of the state of the row before it, of its own values, and of rows at fixed
distances. Rankings and sums that run from the first row of the partition are chained: the state of a row follows from
the state of the previous row, so that a change is propagated from row to row until a state is unchanged. A sum over a
frame of rows is the sum of the previous row, less the value that leaves the frame, plus the value that enters the
frame. LAG and LEAD read a row at a distance. So an added row becomes *pending*, and so does the row after a removed
row. The rows before these whose functions look far enough ahead become pending as well. Pending rows are evaluated in
order. After each of them, the later rows whose functions look far enough back are evaluated, and then further rows
until a state is unchanged. With a limit, the evaluation ends at the first row beyond the limit; so a step costs O(log
n) for each change, plus the evaluation of the rows between the first change and the limit (Yi, Yu, Yang, Xia, Chen:
*Efficient Maintenance of Materialized Top-k Views*, ICDE 2003). An aggregate without a frame is the same for all peers,
which copy it from the last peer.

State: ``rows``, a `SortedTable` that remembers its records as they were before the step. The order words are those of
the partition, of the criteria, and of all other columns. Each of n equal rows has a record, distinguished by a last key
word, because each has results of its own; with a limit on ROW_NUMBER there are only as many records as may be shown. A
record has a count, a flag that is set if the record is shown, and the state: rankings, then the words of each function.
The first record of equal rows has their number as its count; the count of the other records is 1. A value is preceded
by a word that is 1 if there is a value. Order and pending rows (`library.partitions`) are derived; between steps no row
is pending.

Code: one kernel. Its first loop adds and removes rows, its second loop evaluates pending rows, and its third loop
emits, for each touched record, the row before the step (-1) and the row after it (+1). Room for all of these rows is
made before the third loop begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from runtime.native.indexes import SortedRows
from runtime.native.library import hashing, partitions
from runtime.native.library import sorted_rows as kernel
from runtime.native.structures import NullablePlace, Structure
from runtime.plan import Call, Col, WindowFunction, WindowNode
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.order_words import OrderKey
from runtime.views.emission.values import Field, Value, load_fields, load_value, places_of
from runtime.views.errors import ViewError
from runtime.views.feeds import Row, Rows, stop
from runtime.views.nodes.flow import BatchRows, FlowContext, open_touched
from runtime.views.nodes.indexes import SortedTable
from runtime.views.strings import Strings

__all__ = ["PartitionTable", "lower"]

_COPY: Final = Field("number of the copy", "int64")
"""Last key of a record; no name of a plan has spaces."""
_VALUES: Final = frozenset({"lag", "lead", "first_value", "min", "max"})
"""Functions whose result is a value of a row."""
_RANKINGS: Final = ("row_number", "rank", "dense_rank")


class PendingRows(SortedRows):
    """Order of pending rows, over the order words of another order."""

    def __init__(self, rows: SortedRows, most: int) -> None:
        """Begin with no pending rows.

        ``most`` is the greatest number of rows that one added or removed row makes pending.
        """
        self._rows = rows
        self._most = most
        super().__init__(rows.words)
        self.make_room(0)

    def make_room(self, rows: int) -> None:
        """Refer to the present order words, and make room for the nodes that one added or removed row may need."""
        meta = self.views[kernel.META]
        self.put(kernel.WORDS, self._rows.array(kernel.WORDS))
        meta[kernel.ROOM] = self._rows.views[kernel.META][kernel.ROOM]
        wanted = (self._most, self._most * (int(meta[kernel.HEIGHT]) + 2))
        for kind, count in enumerate(wanted):
            if meta[kernel.SPARE + kind] < count:
                self._add_nodes(kind, count)


class PartitionTable(SortedTable):
    """Rows with their states by partition and in order, with a record for each copy of a row."""

    def __init__(self, layout: _Layout, strings: Strings) -> None:
        self.window = Structure(6)
        """Table of `library.partitions`."""
        self._most_listed = 0 if layout.is_chained else layout.ahead + 3
        super().__init__(layout.keys, partitions.STATE + layout.words, layout.order, strings, is_result=True)
        self.pending = PendingRows(self.rows, layout.ahead + 3)
        """Rows to evaluate."""
        numbers = np.zeros(partitions.LENGTH, np.int64)
        numbers[partitions.PARTITION], numbers[partitions.PEERS] = layout.partition_words, layout.peer_words
        numbers[partitions.AHEAD], numbers[partitions.STATE_WORDS] = layout.ahead, layout.own_words
        numbers[partitions.SPREADS] = int(layout.words > layout.own_words)
        numbers[partitions.CHAINED] = int(layout.is_chained)
        self.window.put(partitions.NUMBERS, numbers)
        self.window.put(partitions.SCRATCH, np.zeros(max(1, layout.own_words), np.int64))
        self.window.put(partitions.LIST, np.zeros(0, np.int64))
        self._make_list_room()
        self.window.link(partitions.ROWS, self)
        self.window.link(partitions.ORDER, self.rows)
        self.window.link(partitions.PENDING_ROWS, self.pending)
        state = self.key_words + partitions.STATE
        for place, field in layout.values:
            value = NullablePlace(state + place + 1, presence=state + place, words=field.value_words)
            self.nullable_places = (*self.nullable_places, value)
            if field.type == "string":
                self.string_places = (*self.string_places, value)

    def make_room(self, records: int = 1) -> None:
        """Make room for the scratch key, for its place in the order, and for the rows that its row makes pending."""
        super().make_room(records)
        self.pending.make_room(0)
        self._make_list_room()

    def _make_list_room(self) -> None:
        """Make room for all rows that one added or removed row makes pending, in addition to the present ones."""
        numbers = self.window.views[partitions.NUMBERS]
        if numbers[partitions.LISTED] + self._most_listed > numbers[partitions.LIST_ROOM]:
            numbers[partitions.LIST_ROOM] = 2 * numbers[partitions.LIST_ROOM] + self._most_listed
            self.window.extend(partitions.LIST, numbers[partitions.LIST_ROOM])

    def refresh(self) -> None:
        """Rebuild the order. No row is pending then, because kernels request this before they process any row."""
        super().refresh()
        self.pending.make_room(0)

    def nbytes(self) -> int:
        """Return the size of the table's arrays and of both orders, in bytes."""
        return super().nbytes() + self.pending.nbytes() - self.rows.array(kernel.WORDS).nbytes

    def _check(self) -> None:
        """Assert every invariant."""
        super()._check()
        assert len(self.pending) == self.window.views[partitions.NUMBERS][partitions.LISTED] == 0
        flags = self.records()[self.slots(), self.key_words + partitions.FLAGS]
        assert ((flags == 0) | (flags == partitions.SHOWN)).all()


class _Layout:
    """Layout of the words of a record and of its order."""

    def __init__(self, node: WindowNode, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        """Columns of the input."""
        self.keys = (*self.fields, _COPY)
        places = {field.name: (field, place) for field, place in zip(self.keys, places_of(self.keys), strict=True)}
        self.places = places
        """Column → its field and its place in a record."""
        partition = [OrderKey(*places[name]) for name in node.partition]
        criteria = [OrderKey(*places[name], descending, first) for name, descending, first in node.order]
        named = {*node.partition, *(name for name, _, _ in node.order)}
        rest = [OrderKey(*places[field.name]) for field in self.keys if field.name not in named]
        self.order = (*partition, *criteria, *rest)
        """Criteria by which rows are ordered."""
        self.partition_words = sum(key.words for key in partition)
        self.peer_words = self.partition_words + sum(key.words for key in criteria[: node.peers])
        self.ahead = max((function.ahead for function in node.functions), default=0)
        """Number of rows before a change that depend on it."""
        self.behind = max((function.behind for function in node.functions), default=0)
        """Number of rows after a change that are always evaluated."""
        kinds = {function.kind for function in node.functions} | ({node.limit[0]} if node.limit is not None else set())
        if "rank" in kinds:
            kinds.add("row_number")
        self.rankings = {kind: place for place, kind in enumerate(kind for kind in _RANKINGS if kind in kinds)}
        """Ranking → place in a state."""
        self.values: list[tuple[int, Field]] = []
        """Places in a state of the flags of values, each with the field of the value after the flag."""
        self.functions: dict[str, int] = {}
        """Function → place of its own words in a state."""
        self.results: dict[str, int] = {}
        """Function → place of its result in a state."""
        self.words = len(self.rankings)
        """Number of words of a state."""
        for function in node.functions:
            self.functions[function.name] = self._place(function)
        self.is_chained = node.limit is not None or any(f.kind not in ("lag", "lead") for f in node.functions)
        """True if the state of a row follows from that of the previous row."""
        self.own_words = self.words
        """Number of words of a state that follow from the previous row; later words come from the last peer."""
        for function in node.functions:
            is_own = not function.has_peers
            self.results[function.name] = self.functions[function.name] if is_own else self._place(function)

    def _place(self, function: WindowFunction) -> int:
        """Assign the next words of a state to a function; return the place of its result."""
        if function.kind in _RANKINGS:
            return self.rankings[function.kind]
        place = self.words
        if function.kind in _VALUES:
            self.values.append((place, self.field(function)))
        self.words += self.width(function)
        return place

    def field(self, function: WindowFunction) -> Field:
        """Return the column of a function as a field without NULLs."""
        assert function.column is not None
        field, _ = self.places[function.column]
        return Field(field.name, field.type)

    def width(self, function: WindowFunction) -> int:
        """Return the number of words of a function in a state."""
        if function.kind in _VALUES:
            return 1 + self.field(function).value_words
        return 3 if function.kind == "sum" else 1


class _Window:
    """A window operator: its structures, and the lines of its kernel."""

    def __init__(self, node: WindowNode, rows: Rows, ctx: FlowContext) -> None:
        self._node = node
        self._rows = rows
        self._zero = ctx.builder.program.mode == "dbtoaster"
        self._layout = _Layout(node, rows.fields)
        self._table = ctx.structure("rows", lambda: PartitionTable(self._layout, ctx.strings))
        fields = [*rows.fields, *(Field(f.name, f.type, self._is_nullable(f)) for f in node.functions)]
        self.batch = ctx.batch(fields)
        """Changes of the operator's rows."""
        for function in node.functions:
            is_number = function.column is None or self._layout.field(function).type in ("int64", "int128")
            if function.kind == "sum" and not is_number:
                raise ViewError(f"expected integers to be added up, was {function.column}")

    def _is_nullable(self, function: WindowFunction) -> bool:
        return function.kind in _VALUES or (function.kind == "sum" and not self._zero)

    def put(self, k: KernelSource) -> None:
        """Write the kernel."""
        k.use("hashing", "touch", "locate")
        k.use("partitions", "enter_row", "has_room", "leave_row", "neighbour", "pending_count", "place_of", "step_by")
        k.use("partitions", "slot_at", "unmark")
        k.use("sorted_rows", "first_row", "has_row_room")
        self._put_row_function(k)
        self._put_evaluation(k)
        k.begin()
        self._table.put_refresh(k)
        with self._rows.open(k, stays_at_end=True) as row:
            self._put_row(k, row)
        self._put_evaluate_pending(k)
        self._put_changes(k)
        k.put("return -1 if bad else 0")

    # --- rows of the input

    def _put_row(self, k: KernelSource, row: Row) -> None:
        table, window = self._table, k.table(self._table.window)
        cells = k.cells(table, hashing.CELLS)
        values = [row.values[field.name] for field in self._layout.fields]
        slot = self._put_locate(k, [*values, Value("0", "int64")])
        record = k.assign("c", f"{slot} * {table.stride} + {table.key_words}")
        before = k.assign("n", f"{cells}[{record}]")
        after = k.assign("n", f"{before} + {row.weight}")
        k.put(f"low, high = max(min({before}, {after}), 1), max({before}, {after})")
        if self._node.limit is not None and self._node.limit[0] == "row_number":
            k.put(f"high = min(high, {self._node.limit[1]})")
        # The counts of a row's copies show what was done for them before the kernel stopped.
        with k.block("while low < high:"):
            copy = self._put_locate(k, [*values, Value("low", "int64")])
            copies = k.assign("n", f"{cells}[{copy} * {table.stride} + {table.key_words}]")
            with k.block(f"if {after} > {before} and {copies} == 0:"):
                table.put_order(k, copy)
                k.put(f"enter_row({window}, {copy}, 1)")
            with k.block(f"elif {after} < {before} and {copies} != 0:"):
                k.put(f"leave_row({window}, {copy}, 0)")
            k.put("low += 1")
        self._put_room(k, slot)  # copies may have taken some of the room
        with k.block(f"if {before} <= 0 and {after} > 0:"):
            table.put_order(k, slot)
            k.put(f"enter_row({window}, {slot}, {after})")
        with k.block(f"elif {before} > 0 and {after} <= 0:"):
            k.put(f"leave_row({window}, {slot}, {after})")
        with k.block("else:"):
            k.put(f"touch({k.table(table)}, {slot})", f"{cells}[{record}] = {after}")

    def _put_locate(self, k: KernelSource, values: Sequence[Value]) -> str:
        """Write the lines that find or add a record, with room to add or remove its row; return its slot."""
        slot = self._table.put_locate(k, values)
        self._put_room(k, slot)
        return slot

    def _put_room(self, k: KernelSource, slot: str) -> None:
        """Write the lines that stop the kernel unless there is room to add or remove a row."""
        status = k.need(self._table.make_room)
        with k.block(
            f"if not has_row_room({k.table(self._table.rows)}, {slot}) or not has_room({k.table(self._table.window)}):"
        ):
            stop(k, status)

    # --- states

    def _put_evaluate_pending(self, k: KernelSource) -> None:
        """Write the loop that evaluates the pending rows, and the rows that depend on them."""
        window, order = k.table(self._table.window), k.table(self._table.rows)
        pending, spreads = k.table(self._table.pending), [f for f in self._node.functions if f.has_peers]
        with k.block(f"while pending_count({window}) > 0:"):
            if self._layout.is_chained:
                k.put(f"slot = first_row({pending})", "left = 1")
            else:
                k.use("partitions", "next_listed")
                k.put(f"slot = next_listed({window})", "left = 1 if slot >= 0 else 0")
            k.put("leaf, place = 0, 0")
            with k.block("if left > 0:"):
                k.put(f"leaf, place = place_of({order}, slot)")
            with k.block("while left > 0:"):
                with k.block(f"if unmark({window}, slot):"):
                    k.put(f"left = {max(1, self._layout.behind) + 1}")
                k.put(
                    "found = evaluate(p, leaf, place, slot)",
                    "bad |= found >= 2",
                    "left = max(left - 1, found & 1)",
                    f"other = neighbour({window}, leaf, place, 1)",
                )
                if spreads:
                    k.use("partitions", "are_peers", "spread")
                    with k.block(f"if other >= 0 and are_peers({window}, slot, other):"):
                        k.put("left = max(left, 1)")
                    with k.block("else:"):
                        for function in spreads:
                            places = f"{self._layout.functions[function.name]}, {self._layout.results[function.name]}"
                            width = self._layout.width(function)
                            k.put(f"spread({window}, leaf, place, {places}, {width})")
                with k.block("if other < 0:"):
                    k.put("left = 0")
                with k.block("else:"):
                    k.put("slot = other", f"leaf, place = step_by({order}, leaf, place, 1)")

    def _put_evaluation(self, k: KernelSource) -> None:
        """Write ``evaluate(p, leaf, place, slot)``.

        It returns 1 if the state has changed, plus 2 if a number is too large.
        """
        table, layout = self._table, self._layout
        k.use("partitions", "are_peers", "clear_scratch", "replace", "take_value")
        k.begin("evaluate", "p, leaf, place, slot")
        window, cells = k.table(table.window), k.cells(table, hashing.CELLS)
        scratch = k.cells(table.window, partitions.SCRATCH)
        k.put(f"clear_scratch({window})", "shown = 1")
        if layout.is_chained:
            k.put(
                f"before = neighbour({window}, leaf, place, -1)",
                f"own = slot * {table.stride}",
                f"last = before * {table.stride} + {table.key_words + partitions.STATE}",
            )
        if self._node.limit is not None:
            flags = f"{cells}[last - {partitions.STATE - partitions.FLAGS}]"
            with k.block("if before >= 0:"):
                k.put(f"shown = {flags} & {partitions.SHOWN}")
        with k.block("if shown == 1:"):
            self._put_rankings(k, window, cells, scratch)
        if self._node.limit is not None:
            kind, limit = self._node.limit
            with k.block(f"if {scratch}[{layout.rankings[kind]}] > {limit}:"):
                k.put("shown = 0")
        with k.block("if shown == 1:"):
            for function in self._node.functions:
                self._put_function(k, function, (window, cells, scratch))
        with k.block("else:"):
            k.put(f"clear_scratch({window})")
        k.put(f"changed = replace({window}, slot, shown)", "return changed + (2 if bad else 0)")

    def _put_rankings(self, k: KernelSource, window: str, cells: str, scratch: str) -> None:
        rankings = self._layout.rankings
        if not rankings:
            return
        with k.block("if before < 0:"):
            k.put(*(f"{scratch}[{place}] = 1" for place in rankings.values()))
        with k.block("else:"):
            k.put(f"is_peer = are_peers({window}, before, slot)")
            for kind, place in rankings.items():
                then = f"{cells}[last + {place}]"
                if kind == "row_number":
                    k.put(f"{scratch}[{place}] = {then} + 1")
                elif kind == "rank":
                    k.put(f"{scratch}[{place}] = {then} if is_peer else {scratch}[{rankings['row_number']}]")
                else:
                    k.put(f"{scratch}[{place}] = {then} if is_peer else {then} + 1")

    def _put_function(self, k: KernelSource, function: WindowFunction, where: tuple[str, str, str]) -> None:
        """Write the lines that compute the words of a function in a row's own state, before peers share a result.

        ``where`` has the window's table, the cells of records, and the cells of the new state.
        """
        window, cells, scratch = where
        place = self._layout.functions[function.name]
        if function.kind in ("lag", "lead"):
            by = -function.offset if function.kind == "lag" else function.offset
            other = k.assign("other", f"neighbour({window}, leaf, place, {by})")
            with k.block(f"if {other} >= 0:"):
                k.put(self._taken(function, cells, scratch, f"{other} * {self._table.stride}"))
        elif function.kind == "first_value":
            with k.block("if before < 0:"):
                k.put(self._taken(function, cells, scratch, "own"))
            with k.block("else:"):
                k.put(f"copy_words({scratch}, {place}, {cells}, last + {place}, {self._layout.width(function)})")
        elif function.kind in ("min", "max"):
            self._put_extreme(k, function, where)
        elif function.kind not in _RANKINGS:
            self._put_total(k, function, where, place)

    def _taken(self, function: WindowFunction, cells: str, scratch: str, record: str) -> str:
        """Return source that copies the value of a record into the new state."""
        field, place = self._place(function)
        at = self._layout.functions[function.name]
        return f"take_value({scratch}, {at}, {cells}, {record} + {place}, {int(field.nullable)}, {field.value_words})"

    def _put_extreme(self, k: KernelSource, function: WindowFunction, where: tuple[str, str, str]) -> None:
        """Write the lines that find the least or greatest value of a frame.

        The whole frame is searched only for the first row of a partition, and if the result of the previous row is
        equal to the value that leaves the frame.
        """
        window, cells, scratch = where
        at, width = self._layout.functions[function.name], self._layout.width(function)
        first, end = function.frame if function.frame is not None else (None, 0)
        looks = k.assign("b", "before < 0")
        if first is not None:
            k.use("partitions", "same_value")
            field, place = self._place(function)
            leaving = k.assign("other", f"neighbour({window}, leaf, place, {-first - 1})")
            with k.block(f"if before >= 0 and {leaving} >= 0:"):
                record = f"{leaving} * {self._table.stride} + {place + field.nullable}"
                k.put(f"{looks} = same_value({cells}, last + {at + 1}, {record}, {field.value_words})")
        with k.block(f"if {looks}:"):
            step = k.assign("i", str(-first if first is not None else 0))
            with k.block(f"while {step} <= {end}:"):
                self._put_better(k, function, f"neighbour({window}, leaf, place, {step})", cells, scratch)
                k.put(f"{step} += 1")
        with k.block("else:"):
            k.put(f"copy_words({scratch}, {at}, {cells}, last + {at}, {width})")
            entering = "slot" if end == 0 else f"neighbour({window}, leaf, place, {end})"
            self._put_better(k, function, entering, cells, scratch)

    def _put_better(self, k: KernelSource, function: WindowFunction, slot: str, cells: str, scratch: str) -> None:
        """Write the lines that set the new state to the value of a row, if the row exists and its value is better."""
        at, (field, place) = self._layout.functions[function.name], self._place(function)
        other = k.assign("other", slot)
        with k.block(f"if {other} >= 0:"):
            record = k.assign("r", f"{other} * {self._table.stride} + {place}")
            with k.block(f"if {cells}[{record}] == 0:" if field.nullable else "if True:"):
                plain = Field(field.name, field.type)
                mine = load_value(k, plain, scratch, f"{at + 1}", None)
                theirs = load_value(k, plain, cells, f"{record} + {int(field.nullable)}", None)
                test = Call("lt" if function.kind == "min" else "gt", (Col("theirs"), Col("mine")))
                is_better = k.assign("b", f"{scratch}[{at}] == 0")
                with k.block(f"if not {is_better}:"):
                    k.put(f"{is_better} = {Emitter(k).truth(test, {'mine': mine, 'theirs': theirs})}")
                with k.block(f"if {is_better}:"):
                    k.put(self._taken(function, cells, scratch, f"{other} * {self._table.stride}"))

    def _place(self, function: WindowFunction) -> tuple[Field, int]:
        """Return the column of a function, and its place in a record."""
        assert function.column is not None
        return self._layout.places[function.column]

    def _put_total(self, k: KernelSource, function: WindowFunction, where: tuple[str, str, str], at: int) -> None:
        """Write the lines that add up the values of a frame, starting from the sum of the previous row."""
        window, cells, scratch = where
        first, end = function.frame if function.frame is not None else (None, 0)
        with k.block("if before >= 0:"):
            k.put(f"copy_words({scratch}, {at}, {cells}, last + {at}, {self._layout.width(function)})")
            if first is not None:
                self._put_summand(k, function, f"neighbour({window}, leaf, place, {-first - 1})", -1)
            entering = "slot" if end == 0 else f"neighbour({window}, leaf, place, {end})"
            self._put_summand(k, function, entering, 1)
        with k.block("else:"):
            step = k.assign("i", str(max(0, -first) if first is not None else 0))
            with k.block(f"while {step} <= {end}:"):
                self._put_summand(k, function, f"neighbour({window}, leaf, place, {step})", 1)
                k.put(f"{step} += 1")

    def _put_summand(self, k: KernelSource, function: WindowFunction, slot: str, sign: int) -> None:
        """Write the lines that add the value of a row to the new state, if the row exists and its value is not NULL."""
        cells = k.cells(self._table, hashing.CELLS)
        scratch = k.cells(self._table.window, partitions.SCRATCH)
        at = self._layout.functions[function.name]
        other = k.assign("other", slot)
        with k.block(f"if {other} >= 0:"):
            if function.column is None:
                k.put(f"{scratch}[{at}] += {sign}")
                return
            field, place = self._place(function)
            record = k.assign("r", f"{other} * {self._table.stride} + {place}")
            with k.block(f"if {cells}[{record}] == 0:" if field.nullable else "if True:"):
                k.put(f"{scratch}[{at}] += {sign}")
                if function.kind == "sum":
                    value = load_value(
                        k, Field(field.name, field.type), cells, f"{record} + {int(field.nullable)}", None
                    )
                    total = k.assign(
                        "x", f"load_wide({scratch}, {at + 1}) {'+' if sign > 0 else '-'} {value.wide_text}"
                    )
                    k.put(f"bad |= outside({total})", f"store_wide({scratch}, {at + 1}, {total})")

    # --- rows of the result

    def _put_row_function(self, k: KernelSource) -> None:
        """Write ``put(p, keys, place, cells, at, weight)``, which appends a row.

        The words of its columns begin at ``place`` of ``keys``, the value words at ``at`` of ``cells``. The function
        returns whether a number is too large for its column.
        """
        k.begin("put", "p, keys, place, cells, at, weight")
        values = load_fields(k, self._layout.fields, "keys", "place")
        for function in self._node.functions:
            values.append(Emitter(k).cast(self._value(k, function), function.type))
        self.batch.put_append(k, values, "weight")
        k.put("return bad")

    def _value(self, k: KernelSource, function: WindowFunction) -> Value:
        """Write the lines that read the result of a function; return it."""
        place = partitions.STATE + self._layout.results[function.name]
        if function.kind in _VALUES:
            is_null = k.assign("n", f"1 - cells[at + {place}]")
            return load_value(k, self._layout.field(function), "cells", f"at + {place + 1}", is_null)
        if function.kind != "sum":
            return Value(k.assign("v", f"cells[at + {place}]"), "int64")
        no_value = None if self._zero else k.assign("n", f"1 if cells[at + {place}] == 0 else 0")
        return load_value(k, Field("", "int128"), "cells", f"at + {place + 1}", no_value)

    def _put_changes(self, k: KernelSource) -> None:
        """Write the loop over the touched rows."""
        table = self._table
        cells, old = k.cells(table, hashing.CELLS), k.cells(table, hashing.OLD)
        with open_touched(k, table, self.batch, 2) as place:
            k.put(f"at = {place} + {table.key_words}", f"then = i * {table.value_words}")
            flags = (f"{old}[then + {partitions.FLAGS}]", f"{cells}[at + {partitions.FLAGS}]")
            k.put(f"was, now = {flags[0]} & {partitions.SHOWN} != 0, {flags[1]} & {partitions.SHOWN} != 0")
            k.put("differs = was != now")
            with k.block("if was and now:"):
                words = sorted({
                    partitions.STATE + self._layout.results[function.name] + word
                    for function in self._node.functions
                    for word in range(self._layout.width(function))
                })  # fmt: skip
                tests = [f"{old}[then + {word}] != {cells}[at + {word}]" for word in words]
                k.put(f"differs = {' or '.join(tests) or 'False'}")
            with k.block("if differs and was:"):
                k.put(f"bad |= put(p, {cells}, {place}, {old}, then, -1)")
            with k.block("if differs and now:"):
                k.put(f"bad |= put(p, {cells}, {place}, {cells}, at, 1)")


def lower(node: WindowNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Add window functions to the graph; return their rows."""
    window = _Window(node, inputs[0], ctx)
    k = ctx.kernel("emits the changes of window functions")
    window.put(k)
    ctx.add(k, inputs[0])
    return BatchRows(window.batch)
