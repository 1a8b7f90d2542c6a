"""A plan that is carried out: what the engine keeps of it, and who may touch that when.

```
RunningQuery ──▶ RunningSource ──Edge──▶ RunningNode ──Edge──▶ RunningNode …      each keeps its successors from ending
  state, barriers    emitter, hold         Inbox: what waits     │
  (query)            (source)              Gate: producers that  └▶ Call, RunningContext ──▶ pipeline
                                           passed the barrier       (calls, context: the worker's, without locks)
```

A node passes a barrier's token on when every node that feeds it has done so and no input from before the token is being
executed; its pipeline is asked to drain first. Output is never joined across the token. A control record travels as the
barrier's payload. The end of the query completes a barrier as aborted; a plan with a pipeline that cannot drain refuses
the barrier and names the pipeline.

Locks are taken in the order query, source, node, queue or admission; none is held while the user's code runs.
"""

from runtime.engine.running.building import barrier_places
from runtime.engine.running.query import QueryCounters, RunningQuery

__all__ = ["QueryCounters", "RunningQuery", "barrier_places"]
