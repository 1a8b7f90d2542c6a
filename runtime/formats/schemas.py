"""Schemas of the files and feeds that Deltabook knows."""

from __future__ import annotations

from typing import Final

from runtime.formats.fields import Field
from runtime.formats.schema import Schema

__all__ = ["FEED_SCHEMA"]

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
