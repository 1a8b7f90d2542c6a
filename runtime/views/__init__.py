"""Executes a view program, whatever hosts it.

```
segment ──▶ preaggregate ──▶ routing ──deliveries──▶ ShardState.step ──▶ changes per view (rows -/+)
 deltas      per map, key     per shard                 │  MapState (sums in limbs)
                                                        │  linear: changed keys → rows
                                                        └─ reevaluated: DuckDB over maps, difference to LastResult
ShardState.save ──▶ run of edits ──▶ the host's store (Spark's state store)
```
"""

from runtime.views.errors import ViewError, ViewOverflowError
from runtime.views.placement import Part
from runtime.views.routing import Delivery, deliveries, deliveries_of
from runtime.views.shard import ShardState, Step

__all__ = ["Delivery", "Part", "ShardState", "Step", "ViewError", "ViewOverflowError", "deliveries", "deliveries_of"]
