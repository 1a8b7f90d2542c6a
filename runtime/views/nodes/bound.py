"""Bound: rows whose value is on one side of a bound that moves, such as the temporal filter ``t > now() - …``.

Algebra: the filter is linear in its rows L. For the condition value > b, the change of the result is ΔL where value >
b. If b moves up from b1 to b2, the rows of L + ΔL with b1 < value <= b2 are removed; if b moves down from b2 to b1,
these rows are added. (In McSherry et al.: *Temporal filters*, materialize.com, 2021, the only bound is `now()`, and it
rises; here the bound is the row of any input and moves both ways.) Both inputs are read as they are at the end of the
step, so that a bound that does not move costs nothing. A move costs O(log n) plus the number of rows that the bound
passes. A NULL value never passes; without a bound, or with NULL as the bound, no row passes.

If a bound never falls, like `now()`, the outcome for the values that the bound has passed is final: below a lower bound
rows are removed permanently, and below an upper bound rows pass as they arrive. So only rows above the bound are
stored.

State: ``rows``, a `SortedTable` of the left rows with their weights, of any sign, in the order of the value. It has all
left rows, because the bound may move back; if the bound only rises, the table has only the rows above the bound.
``bound`` has the weights of the right input's rows, from which the range of values that pass is derived
(`library.bounded`).

Code: one kernel per input. The kernel of the left input compares rows with the bound as it was before the step. The
kernel of the right input has two loops: over its rows (``s[0]``), and over the records between the old and the new
bound (``s[2]``: 0 before the bound has moved, then the leaf + 1; ``s[3]``: the place in the leaf); for a bound that
only rises a third loop drops records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.native.library import bounded, hashing, sorted_rows
from runtime.native.structures import Structure
from runtime.plan import BoundNode
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.order_words import OrderKey
from runtime.views.emission.values import Field, Value, load_fields, places_of
from runtime.views.errors import ViewError
from runtime.views.feeds import Rows
from runtime.views.nodes.flow import BatchRows, FlowBatch, FlowContext, reserve
from runtime.views.nodes.indexes import SortedTable
from runtime.views.nodes.totals import Totals, put_locate

__all__ = ["BoundTotals", "lower"]

Words = npt.NDArray[np.int64]

_STEPS = {"gt": 1, "ge": 0, "le": 0, "lt": -1}
"""Distance from the bound to the first value that passes."""
_TYPES = frozenset({"int64", "date", "timestamp"})


class BoundRows(SortedTable):
    """Rows with their weights, in the order of a value; every row whose weight is not 0 is in the order."""

    def _is_ordered(self, counts: Words) -> npt.NDArray[np.bool_]:
        return np.not_equal(counts, 0)


class BoundTotals(Totals):
    """Rows of the right input with their weights; the one row that is present is the bound, and determines `range`."""

    def __init__(self, field: Field, op: str) -> None:
        """Begin without a bound. ``op`` is the comparison of a value with the bound."""
        super().__init__([field], [])
        self.op = op
        self.range = Structure(1)
        """Numbers of `library.bounded`."""
        self.range.put(0, np.zeros(bounded.LENGTH, np.int64))
        self._numbers = self.range.views[0]
        self._derive()

    @property
    def is_lower(self) -> bool:
        """True if values above the bound pass."""
        return self.op in ("gt", "ge")

    def limits(self, bound: int) -> tuple[int, int]:
        """Return the least and the greatest value that pass a bound; the first is above the second if none does."""
        low, high = bounded.LEAST, bounded.GREATEST
        if self.is_lower:
            low = max(low, bound + _STEPS[self.op])
        else:
            high = min(high, bound + _STEPS[self.op])
        return (low, high) if low <= high else (bounded.GREATEST, bounded.LEAST)

    def load(self, records: Words) -> None:
        """Replace the records."""
        super().load(records)
        self._derive()

    def _derive(self) -> None:
        (field,) = self.keys
        records = self.dump()
        records = records[records[:, self.key_words] > 0]
        low, high = bounded.GREATEST, bounded.LEAST
        if len(records) and not (field.nullable and records[0, 0]):
            words = records[0, int(field.nullable) : self.key_words].tolist()
            low, high = self.limits(words[0] if len(words) == 1 else words[0] % 2**64 + words[1] * 2**64)
        self._numbers[bounded.LOW], self._numbers[bounded.HIGH] = low, high

    def _check(self) -> None:
        """Assert every invariant."""
        super()._check()
        passing = self._numbers[bounded.LOW], self._numbers[bounded.HIGH]
        self._derive()
        assert passing == (self._numbers[bounded.LOW], self._numbers[bounded.HIGH])


def lower(node: BoundNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Add a filter by a moving bound to the graph; return its rows."""
    rows, bounds = inputs
    value, bound = rows.field(node.value), bounds.field(node.bound)
    if value.type not in _TYPES or bound.type not in {value.type, value.type.replace("int64", "int128")}:
        raise ViewError(
            f"expected integers of 64 bits, dates or timestamps to be compared with a bound of their type, was "
            f"{value.name} {value.type} with {bound.name} {bound.type}"
        )
    # Rows whose value is NULL never pass and are not stored.
    kept = [Field(field.name, field.type, field.nullable and field is not value) for field in rows.fields]
    place = dict(zip([field.name for field in kept], places_of(kept), strict=True))[value.name]
    key = OrderKey(next(field for field in kept if field.name == value.name), place)
    table = ctx.structure("rows", lambda: BoundRows(kept, 1, [key], ctx.strings))
    totals = ctx.structure("bound", lambda: BoundTotals(bound, node.op))
    batch = ctx.batch(rows.fields)
    _add_rows_kernel(ctx, rows, (table, totals), batch, rises=node.rises)
    _add_bound_kernel(ctx, bounds, (table, totals), batch, rises=node.rises)
    return BatchRows(batch)


def _add_rows_kernel(
    ctx: FlowContext, rows: Rows, records: tuple[BoundRows, BoundTotals], batch: FlowBatch, *, rises: bool
) -> None:
    """Add the kernel that keeps rows in the order of their value, and passes on the rows that pass the bound."""
    table, totals = records
    k = ctx.kernel("keeps rows in the order of a value, and passes on those on one side of a bound")
    k.use("bounded", "passes")
    k.begin()
    table.put_refresh(k)
    with rows.open(k) as row:
        value, s = row.values[table.order[0].field.name], k.cells(totals.range, 0)
        with k.block(f"if not {value.null}:" if value.null is not None else "if True:"):
            reserve(k, batch)
            passing = k.assign("b", f"passes({s}, {value.text})")
            is_settled = f"{s}[{bounded.LOW}] <= {s}[{bounded.HIGH}] and "
            is_settled += f"not {passing}" if totals.is_lower else passing
            with k.block(f"if not ({is_settled}):" if rises else "if True:"):
                _put_weigh(k, table, [row.values[field.name] for field in table.keys], row.weight)
            with k.block(f"if {passing}:"):
                batch.put_append(k, [row.values[field.name] for field in rows.fields], row.weight)
    k.put("return -1 if bad else 0")
    ctx.add(k, rows)


def _put_weigh(k: KernelSource, table: BoundRows, values: Sequence[Value], weight: str) -> None:
    """Write the lines that add to the weight of a row, which is in the order while its weight is not 0."""
    k.use("hashing", "drop_if_zero")
    k.use("sorted_rows", "insert_row", "remove_row")
    cells, order = k.cells(table, hashing.CELLS), k.table(table.rows)
    slot = table.put_locate(k, values)
    place = k.assign("c", f"{slot} * {table.stride} + {table.key_words}")
    before = k.assign("n", f"{cells}[{place}]")
    k.put(f"{cells}[{place}] = {before} + {weight}")
    with k.block(f"if {before} == 0 and {weight} != 0:"):
        table.put_order(k, slot)
        k.put(f"insert_row({order}, {slot})")
    with k.block(f"elif {before} != 0 and {before} + {weight} == 0:"):
        k.put(f"remove_row({order}, {slot})")
    k.put(f"drop_if_zero({k.table(table)}, {slot})")


def _add_bound_kernel(
    ctx: FlowContext, bounds: Rows, records: tuple[BoundRows, BoundTotals], batch: FlowBatch, *, rises: bool
) -> None:
    """Add the kernel that moves the bound, and emits the rows that then pass or no longer pass."""
    table, totals = records
    k = ctx.kernel("moves a bound, and emits the rows that it passes")
    k.use("bounded", "leaf_of", "move_bound", "place_of")
    k.use("hashing", "drop_if_zero")
    k.begin()
    table.put_refresh(k)
    with bounds.open(k, [totals.keys[0].name], stays_at_end=True) as row:
        bound = Emitter(k).cast(row.values[totals.keys[0].name], totals.keys[0].type)
        slot = put_locate(k, totals, [bound])
        k.put(f"{k.cells(totals, hashing.CELLS)}[{slot} * {totals.stride} + {totals.key_words}] += {row.weight}")
        k.put(f"drop_if_zero({k.table(totals)}, {slot})")
    s, order = k.cells(totals.range, 0), k.table(table.rows)
    with k.block("if s[2] == 0:"):
        _put_move(k, totals, s)
        k.put(f"s[2] = leaf_of({order}, {s}[{bounded.FROM}]) + 1")
        k.put(f"s[3] = place_of({order}, s[2] - 1, {s}[{bounded.FROM}])")
    leaves, cells = k.cells(table.rows, sorted_rows.LEAVES), k.cells(table, hashing.CELLS)
    k.put("leaf = s[2] - 1", "place = s[3]")
    with k.block("while leaf >= 0:"):
        k.put(f"at = leaf * {sorted_rows.LEAF}", f"size = {leaves}[at + {sorted_rows.SIZE}]")
        with k.block(f"while place < size and {leaves}[at + {sorted_rows.FIRST} + place] <= {s}[{bounded.TO}]:"):
            reserve(k, batch, saves=["s[2] = leaf + 1", "s[3] = place"])
            record = k.assign("c", f"{leaves}[at + {sorted_rows.SLOTS} + place] * {table.stride}")
            values = load_fields(k, table.keys, cells, record)
            weight = k.assign("x", f"{cells}[{record} + {table.key_words}] * {s}[{bounded.SIGN}]")
            batch.put_append(k, values, weight)
            k.put("place += 1")
        k.put(f"leaf = {leaves}[at + {sorted_rows.NEXT}] - 1 if place == size else -1", "place = 0")
    if rises:
        _put_forget(k, table, totals)
    k.put("s[0] = 0", "s[2] = 0", "return -1 if bad else 0")
    ctx.add(k, bounds)


def _put_forget(k: KernelSource, table: BoundRows, totals: BoundTotals) -> None:
    """Write the lines that remove the records that the bound has passed permanently."""
    k.use("sorted_rows", "first_row", "remove_row")
    s, order, words = k.cells(totals.range, 0), k.table(table.rows), k.cells(table.rows, sorted_rows.WORDS)
    first = f"{words}[slot * {table.rows.width}]"
    passed = f"{first} < {s}[{bounded.LOW}]" if totals.is_lower else f"{first} <= {s}[{bounded.HIGH}]"
    there = f"{s}[{bounded.LOW}] <= {s}[{bounded.HIGH}]"
    k.put(f"slot = first_row({order}) if {there} else -1")
    with k.block("while slot >= 0:"):
        with k.block(f"if {passed}:"):
            k.put(f"remove_row({order}, slot)")
            k.put(f"{k.cells(table, hashing.CELLS)}[slot * {table.stride} + {table.key_words}] = 0")
            k.put(f"drop_if_zero({k.table(table)}, slot)", f"slot = first_row({order})")
        with k.block("else:"):
            k.put("slot = -1")


def _put_move(k: KernelSource, totals: BoundTotals, s: str) -> None:
    """Write the lines that find the present row of the right input and make its value the bound."""
    (field,), cells = totals.keys, k.cells(totals, hashing.CELLS)
    k.put("i = 0", "bound = wide(0)", "there = False", f"used = {k.cells(totals, hashing.META)}[{hashing.USED}]")
    with k.block("while i < used:"):
        record = k.assign("c", f"i * {totals.stride}")
        with k.block(f"if {cells}[{record} + {totals.key_words}] > 0:"):
            k.put(f"there = {f'{cells}[{record}] == 0' if field.nullable else 'True'}")
            place = f"{record} + {int(field.nullable)}"
            k.put(f"bound = {f'load_wide({cells}, {place})' if field.type == 'int128' else f'wide({cells}[{place}])'}")
        k.put("i += 1")
    k.put(f"move_bound({s}, {totals.is_lower}, there, {_STEPS[totals.op]}, bound)")
