"""Orders as OUCH 5.0 and 4.2 over SoupBinTCP.

```
clients ──packets──▶ server.py ──Wire: bytes as they came──▶ exchange: journal, market
                        ▲                                        │ protocol5.py (orders5.py), protocol42.py
                        │                                        ▼
                     private stream of the account ◀── teller5.py, teller42.py: one pack a message
scale.py: units and shares as ticks and lots    reasons.py: the protocols' words for the market's reasons
```
"""

from exchange_server.nasdaq.ouch.protocol5 import Ouch5
from exchange_server.nasdaq.ouch.protocol42 import Ouch42
from exchange_server.nasdaq.ouch.server import OuchLimits, OuchServer

__all__ = ["Ouch5", "Ouch42", "OuchLimits", "OuchServer"]
