"""The market: books, matching, a journal, a sequenced feed, and flow to trade against.

```
 clients ──text/──┐
 agents/ ─────────┼──▶ Input ──▶ exchange.py ──▶ journal/ inputs (the truth)
 replay/ ─────────┘                 │
                                    ▼
                                market.py, recording.py ──▶ book.py
                                    │ feed lines, private lines
                                    ▼
                         journal/ feed.lines, private/ ──▶ text/ ──▶ listeners, clients
                                    │                       (tail.py: one reader of a numbered file, readers.py: all)
                                    └─ the same as ITCH ──▶ nasdaq/ ──▶ SoupBinTCP listeners
 config.py  settings      app.py  the process      clock.py  market time
```
"""

from exchange_server.app import App, run
from exchange_server.book import Book, Order
from exchange_server.clock import MarketClock
from exchange_server.config import DEFAULT_INSTRUMENTS, ExchangeConfig, ReplayConfig
from exchange_server.errors import ExchangeError
from exchange_server.exchange import Exchange
from exchange_server.inputs import Input, MarketRules
from exchange_server.journal import Journal
from exchange_server.market import Market
from exchange_server.nasdaq import ItchFeed, ItchServer, SoupLimits
from exchange_server.text import Limits, TextServer

__all__ = [
    "DEFAULT_INSTRUMENTS",
    "App",
    "Book",
    "Exchange",
    "ExchangeConfig",
    "ExchangeError",
    "Input",
    "ItchFeed",
    "ItchServer",
    "Journal",
    "Limits",
    "Market",
    "MarketClock",
    "MarketRules",
    "Order",
    "ReplayConfig",
    "SoupLimits",
    "TextServer",
    "run",
]
