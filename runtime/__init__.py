"""The runtime, which reads the bytes of a feed and keeps the results of SQL views exactly up to date.

```
 sources ──raw buffers──▶ formats ──Arrow batches──▶ relations ──deltas──▶ epochs ──segments──▶ spark
   TCP, files              index, shred, parse        order-book adaptor     the epoch log       │
                                                                                                 ▼
 engine: task queue, workers, barriers (drives all of the above)          views ◀── compiler (SQL → view program)
 state:  the object space that epochs commit                                │
                                                                            ▼
                                             service: lanes, catalogue, results, subscriptions ──▶ client
 tuples: queues of items for many queries      plan: view programs as data      native: kernels as machine code
 upstreams: epoch logs of other runtimes, read as inputs
```

The central idea is the epoch. A barrier closes an epoch, the deltas of the epoch become one immutable segment, and the
number of the epoch is the version of the results. Imports point downwards only: service → engine, spark → relations,
sources, tuples, upstreams, views → client, compiler, epochs, formats, native, state → plan. Nothing here imports
`deltabook`, except the messages in `deltabook.wire`.
"""

__all__: list[str] = []
