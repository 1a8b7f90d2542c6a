"""The algorithm engine: strategies trade on views and never lose track of an order.

```
runtime ──HTTP──▶ links.results ──frames──▶ views.mirror ──changes──▶ host ──▶ strategy
                                                └─▶ views.quotes      │ ▲
                                                        │ prices      ▼ │ order events
exchange ◀─text─▶ links.orders ◀────────────────────── desk ◀── buy, sell, replace, cancel, reduce
```

A strategy has a desk, which checks limits of risk, writes down the orders and follows them. engine starts, feeds and
stops the hosts. requested has the requested views and their subscribers, and links.runtime_views sends the requests to
a runtime. status serves the state of strategies and the kill switch over HTTP. app assembles the process on a reactor
by config. loader loads strategies and their parameters; stages measures the times of an order; clocks has the interface
of a reactor's clock. execution has composite orders for strategies, and strategies has the built-in strategies.

A strategy file needs only the names below. See ``docs/strategies.md``.
"""

from algo_engine.desk.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.desk.portfolio import ProfitAndLoss
from algo_engine.errors import AlgoError
from algo_engine.strategy import Context, NoParameters, Strategy
from algo_engine.views.contents import Row, ViewChange, ViewContents
from algo_engine.views.quotes import Quote
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
