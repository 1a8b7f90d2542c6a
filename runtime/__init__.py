"""The runtime: bytes of a feed in, SQL views kept exactly up to date out.

```
 sources ──raw buffers──▶ formats ──Arrow batches──▶ relations ──deltas──▶ epochs ──segments──▶ spark
   TCP, files              index, shred, parse        order-book adaptor     the epoch log       │
                                                                                                 ▼
 engine: task queue, workers, barriers (drives all of the above)          views ◀── compiler (SQL → view program)
 state:  the object space that epochs commit                                │
                                                                            ▼
                                                       service: control, results, subscriptions ──▶ client
 tuples: queues of items for many queries
```

One idea carries the whole: the epoch. A barrier closes it, its deltas become one immutable segment, and its number is
the version that results carry. Imports point downwards only: service → spark, engine → views → compiler;
engine → formats, relations, state, epochs. Nothing here imports `deltabook`, except the messages in `deltabook.wire`.
"""

__all__: list[str] = []
