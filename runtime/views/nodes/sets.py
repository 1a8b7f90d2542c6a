"""Sets: DISTINCT, EXCEPT and INTERSECT, each with rows as wholes; NULLs are equal here.

Algebra: a row's weight in the result is a function of its weights in the inputs, so that the change is the function of
the new weights less that of the old ones (Griffin, Libkin: *Incremental Maintenance of Views with Duplicates*, SIGMOD
1995). A weight that is not positive counts as 0.

State: `CountedRows`, which remember what they were before the step; a record is a row's words and its weight in each
input. So each row is emitted once a step, whatever happens to it within the step.

Code: one kernel. Its first loop adds up the rows of the inputs, one input after the other (``s[0]``), its second one
emits the rows that were touched, for all of which there is room before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.native.library import hashing
from runtime.native.structures import HashTable
from runtime.plan import Col, Column, DistinctNode, Expr, Lit, SetNode
from runtime.views.emission.values import Field, load_field, places_of, words_of
from runtime.views.nodes.flow import BatchRows, FlowContext, FlowNode, FlowRows, append, reserve, stop
from runtime.views.nodes.join_rows import string_places
from runtime.views.nodes.select import SelectedRows, UnionRows
from runtime.views.nodes.totals import put_key

__all__ = ["CountedRows", "consolidated", "lower_distinct", "lower_set"]

_INPUT: Final = "number of the input"
"""Column that tells the rows of two inputs apart; no name of a plan has spaces."""
_MULTIPLICITY: Final = {
    "distinct": "1 if {0} > 0 else 0",
    "except": "1 if {0} > 0 and {1} <= 0 else 0",
    "except_all": "max(max({0}, 0) - max({1}, 0), 0)",
    "intersect": "1 if {0} > 0 and {1} > 0 else 0",
    "intersect_all": "max(min({0}, {1}), 0)",
    "sum": "{0}",
}
"""A row's weight in the result, by its weights in the inputs."""


class CountedRows(HashTable):
    """Rows with their weights in one or two inputs."""

    def __init__(self, fields: Sequence[Field], inputs: int) -> None:
        super().__init__(words_of(fields), inputs, is_result=True)
        self.string_places = string_places(fields)


def lower_distinct(node: DistinctNode, inputs: Sequence[FlowRows], ctx: FlowContext) -> FlowRows:
    """Put a DISTINCT into the graph."""
    table = ctx.structure("rows", lambda: CountedRows(inputs[0].fields, 1))
    return _lowered("distinct", table, inputs[0], ctx)


def lower_set(node: SetNode, inputs: Sequence[FlowRows], ctx: FlowContext) -> FlowRows:
    """Put an EXCEPT or INTERSECT into the graph."""
    both = []
    for number, rows in enumerate(inputs):
        columns = [*(Column(f.name, f.type, f.nullable) for f in rows.fields), Column(_INPUT, "int64")]
        outputs: list[Expr] = [*(Col(f.name) for f in rows.fields), Lit(number)]
        both.append(SelectedRows(rows, None, columns, outputs, ctx.strings))
    rows = UnionRows(both)
    table = ctx.structure("rows", lambda: CountedRows(rows.fields[:-1], 2))
    return _lowered(node.kind, table, rows, ctx)


def consolidated(rows: FlowRows, ctx: FlowContext) -> FlowRows:
    """Put what adds up equal rows of a step into the graph; it holds nothing between steps."""
    return _lowered("sum", CountedRows(rows.fields, 1), rows, ctx)


def _lowered(kind: str, table: CountedRows, rows: FlowRows, ctx: FlowContext) -> FlowRows:
    """Add the kernel of an operator. A second input is told by a column behind those of the rows."""
    inputs = table.value_words
    fields = rows.fields[: len(rows.fields) - (inputs - 1)]
    batch = ctx.batch(fields)
    k = ctx.kernel("adds up equal rows" if kind == "sum" else f"emits the change of {kind.replace('_', ' ')} rows")
    k.use("hashing", "locate", "settle", "touch")
    k.begin()
    t, cells = k.table(table), k.cells(table, hashing.CELLS)
    status = k.need(table.make_room)
    k.put("bad = False")
    with rows.open(k, stays_at_end=True) as row:
        put_key(k, table, fields, [row.values[field.name] for field in fields])
        slot = k.assign("slot", f"locate({t})")
        with k.block(f"if {slot} < 0:"):
            stop(k, status)
        k.put(f"touch({t}, {slot})")
        place = f"{slot} * {table.stride} + {table.key_words}"
        if inputs > 1:
            place += f" + {row.values[_INPUT].text}"
        k.put(f"{cells}[{place}] += {row.weight}")
    touched, old = k.cells(table, hashing.TOUCHED), k.cells(table, hashing.OLD)
    count = k.assign("count", f"{k.cells(table, hashing.META)}[{hashing.CHANGED}]")
    reserve(k, batch, count)
    k.put("i = 0")
    with k.block(f"while i < {count}:"):
        place = k.assign("c", f"{touched}[i] * {table.stride}")
        now = [k.assign("x", f"{cells}[{place} + {table.key_words + number}]") for number in range(inputs)]
        was = [k.assign("x", f"{old}[{inputs} * i + {number}]") for number in range(inputs)]
        multiplicity = _MULTIPLICITY[kind]
        change = k.assign("x", f"({multiplicity.format(*now)}) - ({multiplicity.format(*was)})")
        with k.block(f"if {change} != 0:"):
            values = [
                load_field(k, field, cells, f"{place} + {offset}")
                for field, offset in zip(fields, places_of(fields), strict=True)
            ]
            append(k, batch, values, change)
        if kind == "sum":
            k.put(f"{cells}[{place} + {table.key_words}] = 0")
        k.put("i += 1")
    k.put("s[0] = 0", f"settle({t})", "return -1 if bad else 0")
    ctx.add(FlowNode(k, [ctx.view.name], rows))
    return BatchRows(batch, is_distinct=True)
