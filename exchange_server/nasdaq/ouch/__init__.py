"""Orders as OUCH 5.0 and 4.2 over SoupBinTCP.

```
clients ──packets──▶ server.py ──Wire: bytes as received──▶ exchange: journal, market
                        ▲                                        │ protocol5.py (orders5.py), protocol42.py
                        │                                        ▼
                     private stream of the account ◀── Teller5, Teller42: one pack for each message
protocol.py: the common part of both: units and shares as ticks and lots, words for the market's reasons
```
"""

from exchange_server.nasdaq.ouch.protocol5 import Ouch5
from exchange_server.nasdaq.ouch.protocol42 import Ouch42
from exchange_server.nasdaq.ouch.server import OuchLimits, OuchServer

__all__ = ["Ouch5", "Ouch42", "OuchLimits", "OuchServer"]
