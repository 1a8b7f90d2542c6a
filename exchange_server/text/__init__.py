"""The text protocol's server side.

```
sockets ──lines──▶ connection.py ──logins, requests──▶ server.py ──batch──▶ Exchange
   ▲                                                       │
   └─ ../tail.py ◀── ../readers.py: one burst for all, ────┘
                     gaps from disk, heartbeats, limits
```
"""

from exchange_server.text.server import Limits, TextServer

__all__ = ["Limits", "TextServer"]
