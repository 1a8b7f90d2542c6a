"""NASDAQ TotalView-ITCH 5.0, as files and in SoupBinTCP packets.

```
 run ──ItchRunIndex (chain): candidates for starts among all bytes, the chain of those that are messages──▶ cut
 block ──the same starts──▶ ItchColumns (columns): the messages of each type gathered at once ──▶ one wide relation
```
"""

from runtime.formats.itch.indexer import ITCH_FIELDS, ItchFormat, itch_schema

__all__ = ["ITCH_FIELDS", "ItchFormat", "itch_schema"]
