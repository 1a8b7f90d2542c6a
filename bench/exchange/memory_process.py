"""``python -m bench.exchange.memory_process ORDERS MESSAGES``: measures its memory; prints `Sizes` as one line of JSON.

The process is an exchange without sockets: OUCH orders as from a session, market, ITCH, journal and streams on disk.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec
from twisted.internet.task import Clock

from bench.exchange import crowd
from bench.exchange.memory import Sizes
from bench.processes import resident_bytes
from deltabook.wire.symbols import Instrument
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.matching import MarketRules, Now, OpenAccount, Wire
from exchange_server.outputs import encoders_of, protocols_of

__all__ = ["main"]

_SYMBOL: Final = "ACME"
_CHUNK_ORDERS: Final = 1_000
_START_NS: Final = 1_760_000_000 * 10**9
_SNAPSHOTS: Final = 4
_ORDER_BYTES: Final = len(crowd.resting(1, 1, _SYMBOL))


def _exchange(folder: Path, max_live_orders: int) -> Exchange:
    rules = MarketRules((Instrument(_SYMBOL, "0.01", "1", 10_000),), max_live_orders=max_live_orders)
    journal = Journal(folder, rules, lambda: "BENCH", "never", keep=2)
    now = Now()
    clock = MarketClock(Clock().seconds, _START_NS)
    exchange = Exchange(journal, clock, encoders_of(rules, now, ["itch"]), protocols_of(rules), now)
    exchange.submit([OpenAccount(exchange.next_time_ns(), "ouch:ALPHA", "ouch5", 7)])
    return exchange


def _submit(exchange: Exchange, data: bytes) -> None:
    size = _CHUNK_ORDERS * _ORDER_BYTES
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        exchange.submit([Wire(exchange.next_time_ns(count=len(piece)), 1, piece)])
        for teller in exchange.market.touched:
            raise RuntimeError(f"expected that all answers were taken, was {teller}")


def _order_bytes(folder: Path, orders: int) -> float:
    exchange = _exchange(folder, 2 * orders)
    _submit(exchange, crowd.resting(1, 2_000, _SYMBOL))
    gc.collect()
    before = resident_bytes()
    for first in range(2_001, 2_001 + orders, 10_000):
        _submit(exchange, crowd.resting(first, min(10_000, 2_001 + orders - first), _SYMBOL))
    gc.collect()
    if exchange.market.live_orders != orders + 2_000:
        raise RuntimeError(f"expected {orders + 2_000} live orders, was {exchange.market.live_orders}")
    grown = resident_bytes() - before
    exchange.close()
    return grown / orders


def _day(folder: Path, messages: int) -> tuple[list[int], int, float]:
    exchange = _exchange(folder, 1_000_000)
    _submit(exchange, crowd.resting(1, 2_000, _SYMBOL))
    feed = exchange.feeds["itch"].records
    sizes: list[int] = []
    reference, start = 2_001, time.perf_counter()
    while len(sizes) < 10:
        goal = messages * (len(sizes) + 1) // 10
        while feed.next_number <= goal:
            _submit(exchange, crowd.pairs(reference, 10_000, _SYMBOL))
            reference += 10_000
        if len(sizes) % (10 // _SNAPSHOTS) == 0:
            exchange.snapshot()
        gc.collect()
        sizes.append(resident_bytes())
    seconds = time.perf_counter() - start
    count = feed.next_number - 1
    exchange.close()
    return sizes, count, seconds


def main(orders: int, messages: int) -> None:
    """Measure the memory and print it."""
    with tempfile.TemporaryDirectory(prefix="bench-exchange-") as folder:
        day = _day(Path(folder) / "day", messages) if messages else ([1], 0, 1.0)
        order_bytes = _order_bytes(Path(folder) / "orders", orders)
    sys.stdout.buffer.write(msgspec.json.encode(Sizes(order_bytes, *day)) + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
