"""NASDAQ's protocols: the feed as TotalView-ITCH 5.0 over SoupBinTCP.

```
lines of the feed ──▶ translator.py ──▶ feed.py: feed.itch on disk (derived, numbered) ──one burst for all──┐
   (listing.py: what fits)                  │                                                              ▼
                                            └──gaps from disk──▶ ../tail.py ──▶ soup.py ──▶ SoupBinTCP clients
                                         server.py: who listens    soup.py, ../readers.py: log-ins, heartbeats, limits
```
"""

from exchange_server.nasdaq.feed import ItchFeed
from exchange_server.nasdaq.listing import Listing, list_instruments
from exchange_server.nasdaq.server import ItchServer
from exchange_server.nasdaq.soup import SoupConnection, SoupLimits, SoupServer
from exchange_server.nasdaq.translator import Translator

__all__ = [
    "ItchFeed",
    "ItchServer",
    "Listing",
    "SoupConnection",
    "SoupLimits",
    "SoupServer",
    "Translator",
    "list_instruments",
]
