"""A view kept by a graph of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from runtime.compiler.program import (
    DistinctNode,
    Flow,
    GroupNode,
    JoinNode,
    Node,
    Program,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    UnionNode,
    View,
)
from runtime.state import KeyedTable, StringPool
from runtime.views.errors import ViewError
from runtime.views.flow.batch import Batch, Field
from runtime.views.flow.group import Group
from runtime.views.flow.join import Join, Semi
from runtime.views.flow.operators import Context, Operator, Scan, Select, Union
from runtime.views.flow.order import StringOrder
from runtime.views.flow.sets import Distinct, SetOperation
from runtime.views.flow.top import Top
from runtime.views.linear import as_column, change_schema, consolidate

__all__ = ["FlowState"]


class FlowState:
    """The operators of a flow and their state. Not thread-safe: one owner at a time."""

    def __init__(self, view: View, body: Flow, program: Program, pool: StringPool) -> None:
        context = Context(program, pool, StringOrder(pool))
        self._view = view
        self._nodes = body.nodes
        self._schema = change_schema(view.columns)
        self._inputs = [_inputs_of(node) for node in body.nodes]
        self._operators: list[Operator] = []
        for node, inputs in zip(body.nodes, self._inputs, strict=True):
            self._operators.append(_operator(node, [self._operators[place].fields for place in inputs], context))
        self._last_use = [0] * len(body.nodes)
        for place, inputs in enumerate(self._inputs):
            for given in inputs:
                self._last_use[given] = place
        self._first = True
        self.maps = frozenset(node.map for node in body.nodes if isinstance(node, ScanNode))
        """Base maps that it reads."""
        if len(self._operators[-1].fields) != len(view.columns):
            width = len(self._operators[-1].fields)
            raise ViewError(f"expected {len(view.columns)} columns of view {view.name}, was {width}")

    def step(self, deltas: Mapping[int, pa.Table]) -> pa.Table | None:
        """The view's change (its columns and ``weight``, consolidated) from the changes of base maps.

        A map that is left out did not change. The first step gives what stands over nothing besides. Raises
        `ViewError`; the view cannot go on then.
        """
        if not self._first and all(number not in deltas for number in self.maps):
            return None
        changes: list[Batch | None] = []
        for place, (operator, inputs) in enumerate(zip(self._operators, self._inputs, strict=True)):
            if isinstance(operator, Scan):
                delta = deltas.get(self._map_of(place))
                change = operator.rows(delta) if delta is not None and delta.num_rows else None
            else:
                given = [changes[number] for number in inputs]
                run = self._first or any(batch is not None for batch in given)
                change = operator.step(given, first=self._first) if run else None
            changes.append(change if change is not None and len(change) else None)
            for number in inputs:
                if self._last_use[number] == place:
                    changes[number] = None  # what no one reads any more need not be kept until the end
        self._first = False
        return None if changes[-1] is None else self._changed(changes[-1])

    def _map_of(self, place: int) -> int:
        node = self._nodes[place]
        assert isinstance(node, ScanNode)
        return node.map

    def _changed(self, batch: Batch) -> pa.Table | None:
        arrays = [as_column(v.array, column) for v, column in zip(batch.vectors, self._view.columns, strict=True)]
        table = pa.Table.from_arrays([*arrays, pa.array(batch.weight)], schema=self._schema)
        if not batch.distinct:
            table = consolidate(table, self._schema)
        return table if table.num_rows else None

    def tables(self) -> dict[str, KeyedTable]:
        """All state by name, the same in every process: the number of the node and what it is there."""
        return {
            f"{place}/{name}": table
            for place, operator in enumerate(self._operators)
            for name, table in operator.tables().items()
        }

    def resume(self) -> None:
        """Say, once runs were applied, that the first step was made before they were saved."""
        self._first = False


def _inputs_of(node: Node) -> tuple[int, ...]:
    if isinstance(node, ScanNode):
        return ()
    if isinstance(node, (JoinNode, SemiNode, SetNode)):
        return (node.left, node.right)
    return node.inputs if isinstance(node, UnionNode) else (node.input,)


def _operator(node: Node, inputs: Sequence[Sequence[Field]], context: Context) -> Operator:
    if isinstance(node, ScanNode):
        return Scan(context.program.maps[node.map], context)
    if isinstance(node, SelectNode):
        return Select(node, inputs[0], context)
    if isinstance(node, JoinNode):
        return Join(node, inputs[0], inputs[1], context)
    if isinstance(node, SemiNode):
        return Semi(node, inputs[0], inputs[1], context)
    if isinstance(node, GroupNode):
        return Group(node, inputs[0], context)
    if isinstance(node, DistinctNode):
        return Distinct(inputs[0], context)
    if isinstance(node, UnionNode):
        return Union(inputs, context)
    if isinstance(node, SetNode):
        return SetOperation(node, inputs[0], inputs[1], context)
    return Top(node, inputs[0], context)
