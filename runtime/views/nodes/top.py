"""Top: ORDER BY … LIMIT … OFFSET of a flow: a window of the sorted rows.

Algebra: the window is a function of the whole multiset. Adding or removing a row at or before a boundary of the window
moves one row across that boundary; so a step costs O(log n) for each change, and O(log n) for each row that enters or
leaves the window as a result. (For the same purpose, Yi, Yu, Yang, Xia, Chen: *Efficient Maintenance of Materialized
Top-k Views*, ICDE 2003, store some more rows than k; here all rows are sorted.)

State: ``rows``, a `SortedTable` that remembers its records as they were before the step. A record is a row's words, its
count, the number of its copies before the window, and the number in the window. The window (`library.window`) is
derived.

Code: one kernel. Its first loop counts the rows of the input; its second loop emits, for each touched row, the change
in the number of its copies in the window. Room for all of these changes is made before the second loop begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from runtime.native.library import hashing, window
from runtime.native.structures import Structure
from runtime.plan import TopNode
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.order_words import OrderKey
from runtime.views.emission.values import Field, load_fields, places_of
from runtime.views.feeds import ColumnBatch, Rows
from runtime.views.nodes.flow import BatchRows, FlowContext, open_touched
from runtime.views.nodes.indexes import SortedTable
from runtime.views.strings import Strings

__all__ = ["WindowTable", "lower"]

_UNLIMITED: Final = 1 << 62
"""Number that represents the limit of a window without a limit."""


class WindowTable(SortedTable):
    """Rows with counts in order, and a window over them."""

    def __init__(
        self, fields: Sequence[Field], order: Sequence[OrderKey], strings: Strings, offset: int, limit: int | None
    ) -> None:
        super().__init__(fields, 3, order, strings, is_result=True)
        self.window = Structure(3)
        """Table of `library.window`."""
        self.window.put(window.NUMBERS, np.zeros(window.LENGTH, np.int64))
        self.window.link(window.ROWS, self)
        self.window.link(window.ORDER, self.rows)
        self._numbers = self.window.views[window.NUMBERS]
        self._numbers[window.LIMIT] = offset
        self._numbers[window.LIMIT + 1] = _UNLIMITED if limit is None else limit
        self._derive()

    def _derive(self) -> None:
        slots = self.rows.slots()
        count, *parts = self.records()[slots, self.key_words :].T
        self._numbers[window.TOTAL] = int(count.sum())
        for part, part_flags in enumerate(parts):
            self._numbers[window.HELD + part] = int(part_flags.sum())
            some = np.flatnonzero(part_flags)
            self._numbers[window.LAST + part] = int(slots[some[-1]]) if len(some) else -1

    def _check(self) -> None:
        """Assert every invariant."""
        super()._check()
        if self._is_stale():
            return
        numbers = self._numbers.tolist()
        self._derive()
        assert self._numbers.tolist() == numbers
        count, passed, shown = self.records()[self.rows.slots(), self.key_words :].T
        offset, limit = numbers[window.LIMIT : window.LIMIT + 2]
        end = np.cumsum(count)
        assert (np.diff(np.minimum(end, offset), prepend=0) == passed).all()
        assert (np.diff(np.clip(end - offset, 0, limit), prepend=0) == shown).all()


def lower(node: TopNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Add an ORDER BY with a limit or an offset to the graph; return its rows."""
    rows = inputs[0]
    if node.limit is None and node.offset == 0:
        return rows
    fields = rows.fields
    places = {field.name: (field, place) for field, place in zip(fields, places_of(fields), strict=True)}
    order = [OrderKey(*places[name], descending, nulls_first) for name, descending, nulls_first in node.order]
    named = {name for name, _, _ in node.order}
    order += [OrderKey(*places[field.name]) for field in fields if field.name not in named]
    table = ctx.structure("rows", lambda: WindowTable(fields, order, ctx.strings, node.offset, node.limit))
    batch = ctx.batch(fields)
    k = ctx.kernel("emits the change of a window of sorted rows")
    _put_kernel(k, rows, table, batch)
    ctx.add(k, rows)
    return BatchRows(batch, is_distinct=True)


def _put_kernel(k: KernelSource, rows: Rows, table: WindowTable, batch: ColumnBatch) -> None:
    k.use("window", "weigh_row")
    k.begin()
    table.put_refresh(k)
    cells, old = k.cells(table, hashing.CELLS), k.cells(table, hashing.OLD)
    with rows.open(k, stays_at_end=True) as row:
        slot = table.put_locate(k, [row.values[field.name] for field in table.keys])
        count = k.assign("n", f"{cells}[{slot} * {table.stride} + {table.key_words}]")
        with k.block(f"if {count} <= 0 and {count} + {row.weight} > 0:"):
            table.put_order(k, slot)
        k.put(f"weigh_row({k.table(table.window)}, {slot}, {row.weight})")
    with open_touched(k, table, batch) as place:
        now = f"{cells}[{place} + {table.key_words + window.WINDOW}]"
        change = k.assign("x", f"{now} - {old}[3 * i + {window.WINDOW}]")
        with k.block(f"if {change} != 0:"):
            batch.put_append(k, load_fields(k, table.keys, cells, place), change)
    k.put("return -1 if bad else 0")
