"""The benchmark of what a user works with: results, strategies, backtests.

```
ticktotrade.py  from a feed message to the order that answers it, by lane       loop.py    the demo's processes
                                                                                probe.py   the strategy that answers
fanout.py       one view to many subscribers, a large one page by page          results_process.py, listeners_process.py
backtests.py    messages per second beside a peer; sweeps on one core and two     recording.py, toucher.py
                                                                                nautilus_process.py, peers.txt
simulations.py  events per second beside a peer, a whole day                    abides_process.py
firstanswer.py  the first version of Spark             democpu.py               processor time of the demo's processes
pgcopy.py       COPY from the PostgreSQL port          pgruntime.py             the same through a runtime, reflection
dashboard.py    pages, some of them stalled            budget.py                the stages of tick to trade
tuple_queues.py a copy for each query, or one for all
benchmark.py    all of it
```
"""

__all__: list[str] = []
