"""Composite orders, carried out by a strategy's own logic: pairs that exclude each other, brackets, trailing
stops, pegs, schedules.

```
strategy ──buys, sells──▶ CompositeOrders ──▶ Composite (exits, pegs, schedules) ──one child order each──▶ Context
    └── order events, quotes, timers ──▶ ┘ composite.py: what all have in common, and the rule that none over-fills
```

A composite order is a plan of the strategy, not an order of the exchange. It has at most one child order in the market
at a time, and the child order has at most the lots that remain to be traded. So, whatever the latencies, a composite
order never trades more lots than it was made for, and two exits that exclude each other never both trade the same lots.
"""

from algo_engine.execution.composite import ChildOrder, Composite, CompositeOrders, CompositeState
from algo_engine.execution.exits import Bracket, Entry, OneCancelsOther, TrailingStop
from algo_engine.execution.pegs import Peg, PeggedOrder
from algo_engine.execution.schedules import ParticipationOrder, ScheduledOrder, Urgency

__all__ = [
    "Bracket",
    "ChildOrder",
    "Composite",
    "CompositeOrders",
    "CompositeState",
    "Entry",
    "OneCancelsOther",
    "ParticipationOrder",
    "Peg",
    "PeggedOrder",
    "ScheduledOrder",
    "TrailingStop",
    "Urgency",
]
