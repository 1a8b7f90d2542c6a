"""The benchmark of what a user works with: results, strategies, backtests.

```
ticktotrade.py  from a feed message to the order that answers it, by lane       loop.py    the demo's processes
                                                                                probe.py   the strategy that answers
fanout.py       one view to many subscribers, a large one page by page          results_process.py, listeners_process.py
backtests.py    messages per second beside a peer; sweeps on one core and two     recording.py, toucher.py
                                                                                nautilus_process.py, peers.txt
tuple_queues.py a copy for each query, or one for all
benchmark.py    all of it
```
"""

__all__: list[str] = []
