"""The feed as MoldUDP64: datagrams to a group or an address, and a port that sends again what was lost.

```
the exchange's stream "itch" ──▶ sender.py ──▶ group:port          lost datagrams ──▶ requests.py ──▶ who asked
          └──────────────────────────────── packing.py: packets of the stream as datagrams ──┘
```
"""

from exchange_server.nasdaq.mold.requests import MoldRequestServer, RequestLimits
from exchange_server.nasdaq.mold.sender import MoldSender

__all__ = ["MoldRequestServer", "MoldSender", "RequestLimits"]
