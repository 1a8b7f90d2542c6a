"""Aggregation: cells, the partial aggregates of groups, and the windows that they are kept for.

```
rows ──▶ cells: a row per group ──▶ windowed: added to the open groups, yielded when their window has ended
            │ exactsums: integers of any size
```
"""

from runtime.engine.operators.aggregation.cells import Aggregate
from runtime.engine.operators.aggregation.windowed import WindowAggregation, WindowSpan

__all__ = ["Aggregate", "WindowAggregation", "WindowSpan"]
