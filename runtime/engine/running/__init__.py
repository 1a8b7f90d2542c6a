"""Execution of a plan: the state of the running plan, and the locks that guard that state.

```
RunningQuery ──▶ RunningSource ──Edge──▶ RunningNode ──Edge──▶ RunningNode …      each keeps its successors from ending
  state, barriers    emitter, hold         Inbox: waiting inputs │
  (query)            (source)              Gate: producers that  └▶ Call, RunningContext ──▶ pipeline
                                           passed the barrier       (calls, context: the worker's, without locks)
```

Imports point from the query down to calls. What a lower module uses of a higher one is an interface: nodes and sources
know their query as a `Host`, calls know their node as a `CalledNode`, and tasks know a node as a `TaskNode`.

Locks are taken in the order query, source, node, and last the queue's or the admission's; none is held while the user's
code runs.
"""

from runtime.engine.running.places import barrier_places
from runtime.engine.running.query import QueryCounters, RunningQuery

__all__ = ["QueryCounters", "RunningQuery", "barrier_places"]
