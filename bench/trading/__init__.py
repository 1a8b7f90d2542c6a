"""The benchmark of what a user touches: results, strategies, backtests.

```
loop.py         exchange, runtime and strategies as processes, as the demo starts them
ticktotrade.py  ├─ from a feed message to the order that answers it, by lane      probe.py   the strategy that answers
fanout.py       ├─ one view to many subscribers                                  listeners_process.py
paging.py       └─ a view of a million rows, page by page
backtests.py    messages a second beside a peer from PyPI      nautilus_process.py; sweeping.py  one core and two
tuple_queues.py  a copy for each query, or one for all
benchmark.py    all of it
```
"""

__all__: list[str] = []
