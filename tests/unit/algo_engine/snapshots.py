"""Frames as the runtime sends them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltabook.wire.results import Frame, FrameHeader

__all__ = ["snapshot"]

SCHEMAS = {
    "best_quote": {"symbol": "", "bid_price": 0, "bid_volume": 0, "ask_price": 0, "ask_volume": 0},
    "vwap_book": {"symbol": "", "side": "", "price_volume": 0, "volume": 0},
    "spread": {"symbol": "", "ticks": 0},
    "trades_1s": {"symbol": "", "second": 0, "open": 0, "high": 0, "low": 0, "close": 0, "volume": 0, "trades": 0},
}


def snapshot(view: str, *rows: dict[str, Any], epoch: int = 1) -> Frame:
    """A snapshot of a view with these rows."""
    columns = SCHEMAS[view]
    schema = pa.schema(
        [pa.field(name, pa.string() if example == "" else pa.int64()) for name, example in columns.items()]
        + [pa.field("weight", pa.int64())]
    )
    data = {name: [row[name] for row in rows] for name in columns}
    return Frame(
        FrameHeader("snapshot", view, 0, epoch, {}, 5), pa.table({**data, "weight": [1] * len(rows)}, schema=schema)
    )
