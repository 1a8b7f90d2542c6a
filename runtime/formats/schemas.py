"""Schemas of the files and feeds that Deltabook knows."""

from __future__ import annotations

from typing import Final

from runtime.formats.csv.dialect import CsvFormat
from runtime.formats.schema import Field, Schema

__all__ = ["BITSTAMP_SCHEMA", "FEED_SCHEMA", "LOBSTER_SCHEMA"]

FEED_SCHEMA: Final = Schema(
    (
        Field("sequence", "int64"),
        Field("time_ns", "int64"),
        Field("order_id", "int64"),
        Field("broker_id", "int64"),
        Field("action", "string"),
        Field("volume", "int64"),
        Field("price", "int64"),
        Field("symbol", "string"),
    )
)
"""The exchange's feed lines, see `deltabook.wire.text.FeedMessage`."""

LOBSTER_SCHEMA: Final = Schema(
    (
        Field("time", "decimal(18,9)"),
        Field("type", "int8"),
        Field("order_id", "int64"),
        Field("size", "int64"),
        Field("price", "int64"),
        Field("direction", "int8"),
    )
)
"""A LOBSTER message file, which has no header: seconds after midnight, 1 submission, 2 partial cancellation,
3 deletion, 4 execution, 5 execution of a hidden order, 6 cross trade, 7 halt (then the price is -1, 0 or 1); the
order's id, shares, dollars × 10,000; 1 for a buy order, -1 for a sell order."""

BITSTAMP_SCHEMA: Final = Schema(
    (
        Field("id", "int64"),
        Field("timestamp", "int64"),
        Field("exchange_timestamp", "int64"),
        Field("price", "decimal(18,8)"),
        Field("volume", "decimal(18,8)"),
        Field("action", "string"),
        Field("direction", "string"),
    ),
    CsvFormat(header=True),
)
"""Bitstamp's order-level events with a header, as `exchange_server.replay.bitstamp` reads them: times in milliseconds,
created, changed or deleted, bid or ask."""
