"""Generated order flow: feed lines of several symbols, with a steady number of live orders."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

__all__ = ["feed_table", "write_feed"]

_SYMBOLS: Final = ("ACME", "GLOBEX", "INITECH")
_START_NS: Final = 1_700_000_000_000_000_000
_STEP_NS: Final = 20_000


def feed_table(messages: int, live_orders: int, seed: int) -> pa.Table:
    """Return feed messages: an order is added, then executed or cancelled in part, and ends ``live_orders`` adds later.

    Of five messages, two add an order, one changes a live order, and two end an order (half of them by execution, half
    by deletion). Thus about ``live_orders`` orders rest at any time. Prices are spread over about 200 ticks a side.
    """
    rng = np.random.default_rng(seed)
    place = np.arange(messages)
    cycle = place % 5
    adds = (cycle == 0) | (cycle == 2)
    number = np.cumsum(adds)  # orders are numbered by their adds
    ends = ((cycle == 3) | (cycle == 4)) & (number > live_orders)
    ended = np.cumsum(ends)
    changes = (cycle == 1) & (number > live_orders)
    order_id = np.where(adds, number, np.where(ends, ended, np.maximum(1, ended + live_orders // 2)))
    side = order_id % 2
    traded = rng.random(messages) < 0.5
    action = np.full(messages, ord("X"), np.uint8)
    action[changes & traded] = ord("E")
    action[ends] = np.where(traded[ends], ord("F"), ord("D"))
    action[adds] = np.where(side[adds] == 0, ord("B"), ord("S"))
    volume = np.where(adds, rng.integers(20, 100, messages), np.where(action == ord("F"), 1000, 1))
    depth = (order_id * 7919) % 200
    price = np.where(side == 0, 10_000 - depth, 10_001 + depth)
    letters = pa.array([chr(code) for code in range(128)])
    return pa.table(
        {
            "sequence": place + 1,
            "time_ns": _START_NS + place * _STEP_NS,
            "order_id": order_id,
            "broker_id": order_id % 10,
            "action": letters.take(pa.array(action)),
            "volume": volume,
            "price": price,
            "symbol": pa.array(_SYMBOLS).take(pa.array(order_id % len(_SYMBOLS))),
        }
    )


def write_feed(path: Path, messages: int, live_orders: int, seed: int = 1) -> int:
    """Write the flow as feed lines with a heartbeat at the end; return the size in bytes."""
    options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    table = feed_table(messages, live_orders, seed)
    with path.open("wb") as file:
        pa.csv.write_csv(table, file, options)
        file.write(f"{messages + 1},{_START_NS + messages * _STEP_NS},0,0,H,0,0,\n".encode())
    return path.stat().st_size
