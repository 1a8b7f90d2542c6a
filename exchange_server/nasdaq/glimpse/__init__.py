"""GLIMPSE: a snapshot of all books over SoupBinTCP, and the number at which to join the feed.

```
market's books ──captured at once──▶ snapshot.py ──in slices──▶ server.py ──▶ SoupBinTCP clients, then ITCH
```
"""

from exchange_server.nasdaq.glimpse.server import GlimpseLimits, GlimpseServer
from exchange_server.nasdaq.glimpse.snapshot import Snapshot

__all__ = ["GlimpseLimits", "GlimpseServer", "Snapshot"]
