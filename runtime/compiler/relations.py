"""Relations of a live market. Prices are in ticks, volumes in lots, and times in nanoseconds since 1970."""

from __future__ import annotations

from typing import Final

from runtime.plan import Column, Relation

__all__ = ["ASKS", "BIDS", "MARKET_RELATIONS", "MARKET_TIMES", "TOUCHES", "TRADES"]

_BOOK: Final = (
    Column("t", "int64"),
    Column("id", "int64"),
    Column("broker_id", "int64"),
    Column("volume", "int64"),
    Column("price", "int64"),
    Column("symbol", "string"),
)

BIDS: Final = Relation("bids", _BOOK)
"""Resting buy orders, one row each; ``t`` is the time from which the order rests."""
ASKS: Final = Relation("asks", _BOOK)
"""Resting sell orders."""
TRADES: Final = Relation(
    "trades",
    (
        Column("t", "int64"),
        Column("match_id", "int64"),
        Column("symbol", "string"),
        Column("price", "int64"),
        Column("volume", "int64"),
        Column("side", "string", nullable=True),
        Column("resting_id", "int64", nullable=True),
        Column("aggressor_id", "int64", nullable=True),
        Column("broker_id", "int64", nullable=True),
    ),
)
"""Matches, one row each, with NULL for values that the feed does not have; retention removes old rows."""

TOUCHES: Final = Relation(
    "touches",
    (
        Column("t", "int64"),
        Column("symbol", "string"),
        Column("bid_price", "int64", nullable=True),
        Column("bid_volume", "int64", nullable=True),
        Column("ask_price", "int64", nullable=True),
        Column("ask_volume", "int64", nullable=True),
    ),
)
"""Changes of the touch, in the order of the feed. There is a row for each message that changes the best bid or ask of a
symbol: the price, or the total volume at the price. Price and volume are NULL if the side is empty. A volume that does
not fit into 64 bits is NULL too. Only derived streams can read the relation, and its rows are not stored.
"""

MARKET_RELATIONS: Final[tuple[Relation, ...]] = (BIDS, ASKS, TRADES)
"""Relations that every epoch has, for views and derived streams."""

MARKET_TIMES: Final = {"touches": "t", "trades": "t"}
"""Relation of a market that derived streams can read as a stream → time column of the relation."""
