"""Executes the operator graph of a `Flow`: changes go in at its scans and come out as the change of the view.

```
delta of a base map ──▶ Scan ──▶ Select ──▶ Join, Semi ──▶ Group ──▶ Distinct, SetOperation, Union ──▶ Top ──▶ view
                         batches of columns: Arrow arrays for expressions, words for state (batch.py)
  Join, Semi: Arrangement (rows by key)    Top: table of rows, sorted buffer of the best    order.py: SQL's order
  Group: integers per group (measure.py), its values (values.py) with sorted runs for min and max (runs.py)
```

State is in counted tables alone; extents, runs, buffers and the order of strings are built from them on a restart.
"""

from runtime.views.flow.state import FlowState

__all__ = ["FlowState"]
