"""Recorded files as flow to trade against.

```
file ──▶ dbtoaster.py | bitstamp.py ──Record──▶ player.py (speed, batches) ──Input──▶ Exchange
record.py  what a record and a loader are            recording.py beside the market: what a record does there
```
"""

from exchange_server.replay.bitstamp import BitstampLoader
from exchange_server.replay.dbtoaster import DbtoasterLoader
from exchange_server.replay.player import Player
from exchange_server.replay.record import Loader, Record

__all__ = ["BitstampLoader", "DbtoasterLoader", "Loader", "Player", "Record"]
