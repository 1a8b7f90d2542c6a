"""Flow: a view as a graph of operators on changes of rows.

Plan record: `Flow`. Its records are lowered in their order, each by the function of its kind; the rows of the last
record are the rows of the view. State, algebra and code are those of the operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from runtime.plan import (
    BoundNode,
    Col,
    Column,
    DistinctNode,
    Flow,
    GroupNode,
    JoinNode,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    TopNode,
    UnionNode,
    View,
    WindowNode,
)
from runtime.views.errors import ViewError
from runtime.views.feeds import ColumnBatch, Rows
from runtime.views.graph import GraphBuilder, ViewOutput
from runtime.views.nodes import aggregate, bound, flow_joins, select, top, window
from runtime.views.nodes.flow import FlowContext, reserve

__all__ = ["OPERATORS", "lower"]

_Lower = Callable[[Any, list[Rows], FlowContext], Rows]

OPERATORS: Final[dict[type, _Lower]] = {
    ScanNode: select.lower_scan,
    SelectNode: select.lower_select,
    UnionNode: select.lower_union,
    JoinNode: flow_joins.lower_inner_join,
    SemiNode: flow_joins.lower_semi_join,
    BoundNode: bound.lower,
    DistinctNode: select.lower_distinct,
    SetNode: select.lower_set,
    GroupNode: aggregate.lower,
    TopNode: top.lower,
    WindowNode: window.lower,
}
"""Type of record → function that lowers it; the function gets the rows of the inputs, and returns the rows of the
record.
"""


def lower(view: View, body: Flow, builder: GraphBuilder) -> None:
    """Add a view that is a flow to the graph."""
    done: list[Rows] = []
    for number, node in enumerate(body.nodes):
        context = FlowContext(builder, view, number)
        done.append(OPERATORS[type(node)](node, [done[place] for place in node.reads()], context))
    _show(view, done[-1], FlowContext(builder, view, len(done)))


def _show(view: View, rows: Rows, ctx: FlowContext) -> None:
    """Add up equal rows, and show the sums as the view's rows."""
    if len(rows.fields) != len(view.columns):
        raise ViewError(f"expected {len(view.columns)} columns of view {view.name}, was {len(rows.fields)}")
    columns = [Column(f"c{place}", column.type, True) for place, column in enumerate(view.columns)]
    rows = select.SelectedRows(rows, None, columns, [Col(field.name) for field in rows.fields], ctx.strings)
    if not rows.is_distinct:
        rows = select.consolidated(rows, ctx)
    batch = rows.stored([field.name for field in rows.fields])
    if batch is None:
        batch = _copied(rows, ctx)
    ctx.builder.transient.append(batch)
    ctx.builder.outputs[view.name] = ViewOutput([batch], True)


def _copied(rows: Rows, ctx: FlowContext) -> ColumnBatch:
    """Add to the graph a kernel that copies rows to a batch; return the batch."""
    batch = ColumnBatch(rows.fields)
    k = ctx.kernel("copies rows to a view")
    k.begin()
    with rows.open(k) as row:
        reserve(k, batch)
        batch.put_append(k, [row.values[field.name] for field in rows.fields], row.weight)
    k.put("return -1 if bad else 0")
    ctx.add(k, rows)
    return batch
