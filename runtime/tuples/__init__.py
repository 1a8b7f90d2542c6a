"""Tuple queues: items that wait for the queries that read them, one queue for each source.

```
            add(source, item)                               next_query() → get(query) … done(query)
 readers ─────────────────────▶ TupleQueues ──────────────────────────────────────────────▶ threads that run queries
                                 │ source → TupleQueue
                                 ├── SharedQueue (case B): one copy of the items, a position for each query
                                 └── OwnQueues   (case A): a queue, and so a copy of the items, for each query
```

Both cases give each query the same items in the same order; they differ in memory and time. A `TupleQueue` also stands
alone: the results service keeps the changes of a view in one, and a slow subscriber is a query that is behind.
Every queue has a capacity, and says what happens at it (see `TupleQueue`). Nothing here blocks but
`TupleQueues.next_query` with a timeout, and everything may be called from any thread.
"""

from runtime.tuples.errors import (
    OverrunError,
    QueueEmptyError,
    QueueFullError,
    TupleQueueError,
    UnknownQueryError,
)
from runtime.tuples.own import OwnQueues
from runtime.tuples.queue import AtLimit, TupleQueue
from runtime.tuples.queues import Sourced, TupleQueues
from runtime.tuples.shared import SharedQueue

__all__ = [
    "AtLimit",
    "OverrunError",
    "OwnQueues",
    "QueueEmptyError",
    "QueueFullError",
    "SharedQueue",
    "Sourced",
    "TupleQueue",
    "TupleQueueError",
    "TupleQueues",
    "UnknownQueryError",
]
