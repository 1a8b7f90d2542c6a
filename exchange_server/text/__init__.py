"""The text protocol's server side.

```
sockets ──lines──▶ server.py ──logins, requests──▶ protocol.py: inputs ──▶ Exchange
   ▲                                                │
   └─ ../readers.py: one burst for all, gaps from ──┘ lines of the feed and of private streams
      disk, heartbeats, limits
```
"""

from exchange_server.text.protocol import TextEncoder, TextProtocol
from exchange_server.text.server import TextLimits, TextServer

__all__ = ["TextEncoder", "TextLimits", "TextProtocol", "TextServer"]
