"""Aggregations: of sorted input, group by group, and of any input by a hash of its key.

```
batch ──▶ aggregations: which rows are of which group ──▶ cells: a value per group and aggregate ──▶ rows at a barrier
                                                          keptcells: those that stay, in the object space
                                                          exactsums: int64 or wider
```
"""

from runtime.engine.operators.aggregation.aggregations import HashAggregation, StreamingAggregation
from runtime.engine.operators.aggregation.cells import Aggregate

__all__ = ["Aggregate", "HashAggregation", "StreamingAggregation"]
