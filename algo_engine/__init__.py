"""The algorithm engine: strategies trade on views and never lose track of an order.

```
runtime ──HTTP──▶ results_link ──frames──▶ mirror (contents) ──changes──▶ host ──▶ strategy
                                                └─▶ quotes ─▶ risk gate     │ ▲
                                                                            ▼ │ order events
exchange ◀─text─▶ orders_link ◀──────────────── desk ◀── buy, sell, cancel, reduce
                                                 ├─▶ journal (records)     written before anything is sent, synced
                                                 │                         before or behind (order_sync)
                                                 ├─▶ memories              what a strategy remembers over restarts
                                                 ├─▶ blotter (order)       every own order through its life
                                                 ├─▶ portfolio (fees)      position, profit and fees in integers
                                                 └─▶ trades                the list of own trades (trade_recovery)
engine starts, feeds and stops the hosts; requested keeps who asked for which view, view_link is how one is asked for,
and runtime_views asks a runtime. status/ says over HTTP how strategies do and takes the kill switch. app puts all of
it on a reactor, as config says; loader finds strategies and reads their parameters; void_trades takes trades back;
stages times the way of an order; backoff holds how patient the links are; timers are a host's; clocks types what it
needs of a reactor.
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
