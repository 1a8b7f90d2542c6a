"""Script that plays a recorded flow through the L3 backtester of hftbacktest; the interpreter must have hftbacktest.

The script reads ``t,id,action,volume,price`` (B S add, E executes in part, F in full, D deletes; times in ms). Before
the clock starts, each line becomes an event of hftbacktest's market-by-order feed, and an execution becomes two events:
the fill, and the change or removal of the order. The strategy, which numba compiles before the clock starts, reads the
best prices after every event. At every thousandth change of the best prices it cancels its order and bids one lot at
the best bid. The script prints messages (lines), seconds, touches and orders as one line of JSON. It imports nothing of
this project.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from hftbacktest import (
    ADD_ORDER_EVENT,
    BUY_EVENT,
    CANCEL_ORDER_EVENT,
    EXCH_EVENT,
    FILL_EVENT,
    GTC,
    LIMIT,
    LOCAL_EVENT,
    MODIFY_ORDER_EVENT,
    SELL_EVENT,
    BacktestAsset,
    HashMapMarketDepthBacktest,
)
from hftbacktest.types import event_dtype
from numba import njit

EVERY = 1_000
FEED = 2
LATEST_NS = 10**18
NOBODY = 2**31
BOTH = EXCH_EVENT | LOCAL_EVENT


def events_of(lines: list[str]) -> Any:
    """Return the lines as events."""
    live: dict[int, tuple[int, float, int]] = {}
    found: list[tuple[int, int, int, float, float, int, int, float]] = []
    time_ns = 0
    for line in lines:
        t, order, action, volume, price = line.split(",")
        # The times differ by a nanosecond, because hftbacktest shows the strategy all events of a time at once.
        order_id, lots, time_ns = int(order), int(volume), max(time_ns + 1, int(t) * 1_000_000)
        if action in "BS":
            side, at = (BUY_EVENT if action == "B" else SELL_EVENT), int(price) / 100
            live[order_id] = (side, at, lots)
            found.append((ADD_ORDER_EVENT | side | BOTH, time_ns, time_ns, at, lots, order_id, 0, 0.0))
            continue
        side, at, lots_left = live.pop(order_id)
        if action in "EF":
            found.append((FILL_EVENT | side | BOTH, time_ns, time_ns, at, lots, order_id, 0, 0.0))
        left = lots_left - lots if action == "E" else 0
        if left:
            live[order_id] = (side, at, left)
        kind, lots = (MODIFY_ORDER_EVENT, left) if left else (CANCEL_ORDER_EVENT, lots_left)
        found.append((kind | side | BOTH, time_ns, time_ns, at, lots, order_id, 0, 0.0))
    return np.array(found, event_dtype)


@njit  # type: ignore[untyped-decorator]
def play(hbt: Any) -> tuple[int, int]:
    """Trade like `bench.trading.toucher`."""
    touches = orders = 0
    bid = ask = 0
    while hbt.wait_next_feed(False, LATEST_NS) == FEED:
        depth = hbt.depth(0)
        best_bid, best_ask = depth.best_bid_tick, depth.best_ask_tick
        if best_bid == bid and best_ask == ask:
            continue
        bid, ask = best_bid, best_ask
        touches += 1
        if touches % EVERY or not -NOBODY < bid < NOBODY:
            continue
        if orders:
            hbt.cancel(0, orders, False)
            hbt.clear_inactive_orders(0)
        orders += 1
        hbt.submit_buy_order(0, orders, bid * depth.tick_size, 1.0, GTC, LIMIT, False)
    return touches, orders


def backtest_of(events: Any) -> Any:
    """Return a backtest with exact queues and without latencies or fees."""
    asset = (
        BacktestAsset()
        .data([events])
        .linear_asset(1.0)
        .constant_order_latency(0, 0)
        .l3_fifo_queue_model()
        .no_partial_fill_exchange()
        .trading_value_fee_model(0.0, 0.0)
        .tick_size(0.01)
        .lot_size(1.0)
    )
    return HashMapMarketDepthBacktest([asset])


def main(path: Path) -> None:
    """Run the backtest once."""
    lines = path.read_text("ascii").splitlines()
    events = events_of(lines)
    play(backtest_of(events_of(lines[:100])))
    hbt = backtest_of(events)
    gc.collect()
    started = time.perf_counter()
    touches, orders = play(hbt)
    seconds = time.perf_counter() - started
    result = {"messages": len(lines), "seconds": seconds, "touches": touches, "orders": orders}
    sys.stdout.write(json.dumps(result) + "\n")


main(Path(sys.argv[1]))
