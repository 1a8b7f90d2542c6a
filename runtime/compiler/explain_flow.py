"""Flows in words: a numbered line for each operator."""

from __future__ import annotations

from runtime.compiler.notation import expression
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
    TopNode,
    UnionNode,
)

__all__ = ["flow_lines"]

_AGGREGATES = {"count_rows": "COUNT(*)", "count": "COUNT({})", "sum": "SUM({})", "min": "MIN({})", "max": "MAX({})",
               "count_distinct": "COUNT(DISTINCT {})", "sum_distinct": "SUM(DISTINCT {})"}  # fmt: skip


def flow_lines(program: Program, body: Flow) -> list[str]:
    """Every operator, on the numbers of those that it reads."""
    return ["operators:", *(f"  {number}. {_node(program, node)}" for number, node in enumerate(body.nodes))]


def _node(program: Program, node: Node) -> str:
    match node:
        case ScanNode(map=number):
            keys = ", ".join(key.name for key in program.maps[number].keys)
            return f"rows of map {number}: {keys or 'no column'}"
        case SelectNode():
            return _select(node)
        case JoinNode():
            return f"{node.left} join {node.right}{_on(node.on)}" if node.on else f"{node.left} times {node.right}"
        case SemiNode():
            return f"{node.left} {'without' if node.anti else 'with'} a match in {node.right}{_on(node.on)}"
        case GroupNode():
            return _group(node)
        case DistinctNode():
            return f"{node.input} distinct"
        case UnionNode():
            return " union all ".join(str(number) for number in node.inputs)
        case SetNode():
            return f"{node.left} {node.kind.replace('_', ' ')} {node.right}"
        case TopNode():
            return _top(node)


def _select(node: SelectNode) -> str:
    columns = []
    for column, output in zip(node.columns, node.outputs, strict=True):
        text = expression(output)
        columns.append(text if text == column.name else f"{column.name} := {text}")
    where = f" where {expression(node.where)}" if node.where is not None else ""
    return f"{node.input}{where}: {', '.join(columns)}"


def _on(pairs: tuple[tuple[str, str], ...]) -> str:
    return f" on {' and '.join(f'{left} = {right}' for left, right in pairs)}" if pairs else ""


def _group(node: GroupNode) -> str:
    parts = [f"{one.name} := {_AGGREGATES[one.kind].format(one.column)}" for one in node.aggregates]
    by = f" by {', '.join(node.keys)}" if node.keys else " as one group"
    return f"{node.input} grouped{by}" + (f": {', '.join(parts)}" if parts else "")


def _top(node: TopNode) -> str:
    order = [f"{name}{' DESC' if down else ''}{' NULLS FIRST' if first else ''}" for name, down, first in node.order]
    limit = f", {node.limit} rows" if node.limit is not None else ""
    offset = f" after {node.offset}" if node.offset else ""
    return f"{node.input} ordered by {', '.join(order) or 'its columns'}{limit}{offset}"
