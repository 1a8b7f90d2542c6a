"""The text protocol's server side.

```
sockets ──lines──▶ connection.py ──logins, requests──▶ server.py ──requests.py: inputs──▶ Exchange
   ▲                                                     │  ▲
   └─ ../tail.py ◀── ../readers.py, ../audience.py: ─────┘  └── lines of encoder.py (the feed) and
                     one burst for all, gaps from               protocol.py (what a broker is told)
                     disk, heartbeats, limits
```
"""

from exchange_server.text.encoder import TextEncoder
from exchange_server.text.protocol import TextProtocol
from exchange_server.text.server import Limits, TextServer

__all__ = ["Limits", "TextEncoder", "TextProtocol", "TextServer"]
