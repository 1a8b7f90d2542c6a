"""Tuple queues: items of one source that wait for the queries that read them.

```
          add(item)                get(query)
 source ────────────▶ TupleQueue ────────────▶ queries
                       ├── SharedQueue (case B): one copy of the items, a position for each query
                       └── OwnQueues   (case A): a queue, and so a copy of the items, for each query
```

Both cases give each query the same items in the same order; they differ in memory and time. The results service keeps
the changes of a view in one, and a slow subscriber is a query that lags. Every queue has a capacity and a policy for
items beyond it (see `TupleQueue`). No call blocks, and all may be made from any thread.
"""

from runtime.tuples.queues import (
    AtLimit,
    OverrunError,
    OwnQueues,
    QueueEmptyError,
    QueueFullError,
    SharedQueue,
    TupleQueue,
    TupleQueueError,
    UnknownQueryError,
)

__all__ = [
    "AtLimit",
    "OverrunError",
    "OwnQueues",
    "QueueEmptyError",
    "QueueFullError",
    "SharedQueue",
    "TupleQueue",
    "TupleQueueError",
    "UnknownQueryError",
]
