"""Executor of view programs: turns the deltas of relations into the changes of views.

The host of the executor (the express lane, Spark, a script's run, a backtest) passes deltas to the executor and stores
its state.

```
segment ──▶ preaggregate ──▶ routing ──payloads──▶ ShardState.step ──▶ changes per view (rows -/+)
 deltas      per map, key     per shard                │
deltas of relations ──────────────────────────────────▶ ShardState.step_tables, step_rows
                                                                        ▼
        shard.LOWERING ──▶ nodes: lower a plan record to kernels and structures ──▶ graph: runs them in order
                       emission: writes kernels      feeds: rows in      rows, tuples: changes out
ShardState.save ──▶ rows of the input ──▶ the host's store        save_all ──▶ the whole state
```
"""

from runtime.views.errors import ViewError, ViewOverflowError
from runtime.views.routing import Delivery, Part, deliveries
from runtime.views.shard import ShardState, Step

__all__ = ["Delivery", "Part", "ShardState", "Step", "ViewError", "ViewOverflowError", "deliveries"]
