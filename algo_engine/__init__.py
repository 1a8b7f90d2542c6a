"""The algorithm engine: strategies trade on views and never lose track of an order.

```
runtime ──HTTP──▶ results_link ──frames──▶ mirror (contents) ──changes──▶ host ──▶ strategy
                                                └─▶ quotes ─▶ risk gate     │ ▲
                                                                            ▼ │ order events
exchange ◀─text─▶ orders_link ◀──────────────── desk ◀── buy, sell, cancel, reduce
                                                 └─▶ desk_state
                                                      ├─▶ journal (records)   written before anything is sent, synced
                                                      │                       before or behind (order_sync)
                                                      ├─▶ memories            data that a strategy keeps over restarts
                                                      ├─▶ blotter (order)     every own order through its life
                                                      ├─▶ portfolio (fees)    position, profit and fees in integers
                                                      └─▶ trades              the list of own trades (trade_recovery)
engine starts, feeds and stops the hosts. requested has the requested views and their subscribers, and runtime_views
sends the requests to a runtime. status serves the state of strategies and the kill switch over HTTP. app assembles the
process on a reactor by config. loader loads strategies and their parameters; void_trades reverses trades; stages
measures the times of an order; backoff has the delays of the links; clocks has the interface of a reactor's clock.
execution has composite orders for strategies, and strategies has the built-in strategies.
```

A strategy file needs only the names below. See ``docs/strategies.md``.
"""

from algo_engine.contents import Row, ViewChange, ViewContents
from algo_engine.errors import AlgoError
from algo_engine.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.portfolio import ProfitAndLoss
from algo_engine.quotes import Quote
from algo_engine.strategy import Context, NoParameters, Strategy
from deltabook.wire.text import OrderOptions

__all__ = [
    "AlgoError",
    "Context",
    "EventKind",
    "NoParameters",
    "Order",
    "OrderEvent",
    "OrderOptions",
    "OrderStatus",
    "ProfitAndLoss",
    "Quote",
    "Row",
    "Side",
    "Strategy",
    "ViewChange",
    "ViewContents",
]
