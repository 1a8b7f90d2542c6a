"""Recorded files as flow to trade against.

```
file ──▶ dbtoaster.py | bitstamp.py | lobster.py | itch.py ──Record──▶ player.py ──Recorded──▶ Exchange
         depth.py  levels and trades as synthetic orders     prices.py  trades or bars alone, for backtests
         parquet.py  Deltabook's own recordings in columns, read and written
opening.py  loaders by format     loader.py  base classes of loaders and their days
record.py   records, one by one or as numpy arrays     crossing.py  rows after which a recording's book is crossed
player.py   speed, pause, seek, batches       matching/recording.py  what a record does to the market
```
"""

from exchange_server.replay.bitstamp import BitstampLoader
from exchange_server.replay.crossing import CrossedRows
from exchange_server.replay.dbtoaster import DbtoasterLoader
from exchange_server.replay.depth import DepthLoader, QueueModel
from exchange_server.replay.itch import ItchLoader
from exchange_server.replay.loader import ANY_SYMBOL, Loader
from exchange_server.replay.lobster import BookFigures, LobsterLoader
from exchange_server.replay.opening import (
    PRICE_FORMATS,
    SCALES,
    RecordingFormat,
    crossed_rows,
    open_recording,
    outlier_factor,
    scale_of,
    source_format,
)
from exchange_server.replay.player import Player
from exchange_server.replay.prices import PriceLoader
from exchange_server.replay.record import Record, RecordColumns

__all__ = [
    "ANY_SYMBOL",
    "PRICE_FORMATS",
    "SCALES",
    "BitstampLoader",
    "BookFigures",
    "CrossedRows",
    "DbtoasterLoader",
    "DepthLoader",
    "ItchLoader",
    "Loader",
    "LobsterLoader",
    "Player",
    "PriceLoader",
    "QueueModel",
    "Record",
    "RecordColumns",
    "RecordingFormat",
    "crossed_rows",
    "open_recording",
    "outlier_factor",
    "scale_of",
    "source_format",
]
