"""Executes a view program, whatever hosts it.

```
segment ──▶ cancellation ──▶ preaggregate ──▶ routing ──deliveries──▶ ShardState.step ──▶ changes per view (rows -/+)
 deltas                       per map, key     per shard    │
                                                            ├─ linear       changed keys of MapState → rows
                                                            ├─ joined       look up in shared IndexSets, GroupResult
                                                            ├─ selected     ranges of ordered indexes, GroupResult
                                                            ├─ flow         a graph of operators
                                                            └─ reevaluated  DuckDB over MapState, LastResult
ShardState.save ──▶ run of edits ──▶ the host's store (Spark's state store)
```
"""

from runtime.views.errors import ViewError, ViewOverflowError
from runtime.views.placement import Part
from runtime.views.routing import Delivery, deliveries, deliveries_of
from runtime.views.shard import ShardState, Step

__all__ = ["Delivery", "Part", "ShardState", "Step", "ViewError", "ViewOverflowError", "deliveries", "deliveries_of"]
