"""The feed as TotalView-ITCH 5.0 over SoupBinTCP.

```
market ──says──▶ encoder.py (packets.py) ──▶ the exchange's stream "itch" ──▶ server.py ──▶ SoupBinTCP listeners
```
"""

from exchange_server.nasdaq.itch.encoder import ItchEncoder

__all__ = ["ItchEncoder"]
