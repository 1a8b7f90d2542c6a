"""Relations and their adaptors, which turn the rows of an origin into deltas of relations.

```
rows of an origin ──▶ Adaptor.prepare (marks epoch ends) ──▶ Adaptor.apply ──▶ deltas by relation
                        FeedAdaptor   the exchange's feed: bids, asks, trades
                        ItchAdaptor   the same relations of NASDAQ's ITCH 5.0
                        TraceAdaptor  DBToaster traces: the streams that a script declares
                        RowAdaptor    plain streams and tables, of any format
                        RecentRows    plain streams whose rows expire
orderbook.py: deltas of a batch of messages   book_kernel.py: effect of messages     live_orders.py: saved orders
touches.py: best bid and ask, by message      book_rows.py: rows of the kernel, in ticks, lots and Arrow columns
retention.py: rows that expire                market.py: common part of the adaptors of market feeds
```
"""

from runtime.relations.adaptor import Adaptor, AdaptorError, FeedGapError, Offsets, Prepared
from runtime.relations.feed import FEED_SCHEMA, FeedAdaptor
from runtime.relations.itch import ItchAdaptor, Scale
from runtime.relations.orderbook import (
    BOOK_SCHEMA,
    DBTOASTER,
    FEED,
    ITCH,
    KERNEL_SOURCE,
    TRADES_SCHEMA,
    Dialect,
    Messages,
    OrderBookAdaptor,
)
from runtime.relations.retention import Retained, Retention
from runtime.relations.rowends import RowEnds
from runtime.relations.table import RecentRows, RowAdaptor, row_schema
from runtime.relations.touches import TOUCHES_SCHEMA
from runtime.relations.trace import TRACE_SCHEMA, BookStream, TraceAdaptor

__all__ = [
    "BOOK_SCHEMA",
    "DBTOASTER",
    "FEED",
    "FEED_SCHEMA",
    "ITCH",
    "KERNEL_SOURCE",
    "TOUCHES_SCHEMA",
    "TRACE_SCHEMA",
    "TRADES_SCHEMA",
    "Adaptor",
    "AdaptorError",
    "BookStream",
    "Dialect",
    "FeedAdaptor",
    "FeedGapError",
    "ItchAdaptor",
    "Messages",
    "Offsets",
    "OrderBookAdaptor",
    "Prepared",
    "RecentRows",
    "Retained",
    "Retention",
    "RowAdaptor",
    "RowEnds",
    "Scale",
    "TraceAdaptor",
    "row_schema",
]
