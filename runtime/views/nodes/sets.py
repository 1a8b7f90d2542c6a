"""Sets: DISTINCT, EXCEPT and INTERSECT, each with rows as wholes; NULLs are equal here.

Algebra: a row's weight in the result is a function of its weights in the inputs, so that the change is the function of
the new weights less that of the old ones (Griffin, Libkin: *Incremental Maintenance of Views with Duplicates*, SIGMOD
1995). A weight that is not positive counts as 0.

State: a table of rows that remembers what they were before the step; a record is a row's words and its weight in each
input. So each row is emitted once a step, whatever happens to it within the step.

Code: one kernel. Its first loop adds up the rows of the inputs, one input after the other (``s[0]``), its second one
emits the rows that were touched, for all of which there is room before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.native.library import hashing
from runtime.plan import Col, Column, DistinctNode, Expr, Lit, SetNode
from runtime.views.emission.values import load_fields
from runtime.views.feeds import Rows
from runtime.views.nodes.flow import BatchRows, FlowContext, open_touched
from runtime.views.nodes.select import SelectedRows, UnionRows
from runtime.views.nodes.totals import RecordTable, put_locate

__all__ = ["consolidated", "lower_distinct", "lower_set"]

_INPUT: Final = "number of the input"
"""Column with the number of a row's input; no name of a plan has spaces."""
_MULTIPLICITY: Final = {
    "distinct": "1 if {0} > 0 else 0",
    "except": "1 if {0} > 0 and {1} <= 0 else 0",
    "except_all": "max(max({0}, 0) - max({1}, 0), 0)",
    "intersect": "1 if {0} > 0 and {1} > 0 else 0",
    "intersect_all": "max(min({0}, {1}), 0)",
    "sum": "{0}",
}
"""A row's weight in the result, by its weights in the inputs."""


def lower_distinct(node: DistinctNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Put a DISTINCT into the graph."""
    table = ctx.structure("rows", lambda: RecordTable(inputs[0].fields, 1, is_result=True))
    return _lowered("distinct", table, inputs[0], ctx)


def lower_set(node: SetNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Put an EXCEPT or INTERSECT into the graph."""
    both = []
    for number, rows in enumerate(inputs):
        columns = [*(Column(f.name, f.type, f.nullable) for f in rows.fields), Column(_INPUT, "int64")]
        outputs: list[Expr] = [*(Col(f.name) for f in rows.fields), Lit(number)]
        both.append(SelectedRows(rows, None, columns, outputs, ctx.strings))
    rows = UnionRows(both)
    table = ctx.structure("rows", lambda: RecordTable(rows.fields[:-1], 2, is_result=True))
    return _lowered(node.kind, table, rows, ctx)


def consolidated(rows: Rows, ctx: FlowContext) -> Rows:
    """Put what adds up equal rows of a step into the graph; it holds nothing between steps."""
    return _lowered("sum", RecordTable(rows.fields, 1, is_result=True), rows, ctx)


def _lowered(kind: str, table: RecordTable, rows: Rows, ctx: FlowContext) -> Rows:
    """Add the kernel of an operator. A second input is told by a column behind those of the rows."""
    inputs, fields, batch = table.value_words, table.keys, ctx.batch(table.keys)
    k = ctx.kernel("adds up equal rows" if kind == "sum" else f"emits the change of {kind.replace('_', ' ')} rows")
    k.use("hashing", "touch")
    k.begin()
    cells, old = k.cells(table, hashing.CELLS), k.cells(table, hashing.OLD)
    with rows.open(k, stays_at_end=True) as row:
        slot = put_locate(k, table, [row.values[field.name] for field in fields])
        k.put(f"touch({k.table(table)}, {slot})")
        place = f"{slot} * {table.stride} + {table.key_words}"
        if inputs > 1:
            place += f" + {row.values[_INPUT].text}"
        k.put(f"{cells}[{place}] += {row.weight}")
    with open_touched(k, table, batch) as place:
        now = [k.assign("x", f"{cells}[{place} + {table.key_words + number}]") for number in range(inputs)]
        was = [k.assign("x", f"{old}[{inputs} * i + {number}]") for number in range(inputs)]
        multiplicity = _MULTIPLICITY[kind]
        change = k.assign("x", f"({multiplicity.format(*now)}) - ({multiplicity.format(*was)})")
        with k.block(f"if {change} != 0:"):
            batch.put_append(k, load_fields(k, fields, cells, place), change)
        if kind == "sum":
            k.put(f"{cells}[{place} + {table.key_words}] = 0")
    k.put("return -1 if bad else 0")
    ctx.add(k, rows)
    return BatchRows(batch, is_distinct=True)
