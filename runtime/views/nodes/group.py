"""Group: SUM, COUNT and AVG over select-project-group-by of one relation, or a UNION ALL of such.

Plan record: `Linear`. Its totals are one structure a branch; its rows are what `show` makes of them.
"""

from __future__ import annotations

from runtime.plan import Linear, View
from runtime.views.graph import GraphBuilder
from runtime.views.nodes.show import Shape

__all__ = ["lower"]


def lower(view: View, body: Linear, builder: GraphBuilder) -> None:
    """Put a linear view into the graph."""
    for branch in body.branches:
        keys = [key.name for key in builder.program.maps[branch.map].keys]
        table = builder.totals(view, branch.map, keys, is_result=True)
        shape = Shape(view.columns, branch.outputs, branch.having, branch.empty, branch.bag)
        builder.show(view, table, shape)
