"""The feed as TotalView-ITCH 5.0.

```
market ──says──▶ encoder.py (packets.py) ──▶ the exchange's stream "itch" ──▶ server.py ──▶ SoupBinTCP listeners
```
"""

from exchange_server.nasdaq.itch.encoder import ItchEncoder
from exchange_server.nasdaq.itch.server import ItchLimits, ItchServer

__all__ = ["ItchEncoder", "ItchLimits", "ItchServer"]
