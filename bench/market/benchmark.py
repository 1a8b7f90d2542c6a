"""Cost of an agent's order, beside the market's cost of the same order, and the speed of reading recorded files."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.market.observing import Venue
from bench.report import Record, record
from deltabook.wire.itch import encode_message, frame
from exchange_server.agents import PRESETS, AgentFlow
from exchange_server.config import DEFAULT_INSTRUMENTS
from exchange_server.replay import BitstampLoader, DbtoasterLoader, ItchLoader, Loader, LobsterLoader
from exchange_server.replay.bitstamp import HEADER

__all__ = ["run"]

_BATCH: Final = 20
"""Number of requests in 10 ms at the default rate."""


def run(quick: bool) -> list[Record]:
    """Measure the processor time of the loaders, and of agents on the default symbols with the batches of the default
    rate.
    """
    return [*_agents(quick), *_loaders(quick)]


def _agents(quick: bool) -> list[Record]:
    records = []
    for name, settings in PRESETS.items():
        agents_us, market_us = [], []
        for seed in range(1, 4 if quick else 6):
            venue = Venue(DEFAULT_INSTRUMENTS)
            flow = AgentFlow(
                venue, DEFAULT_INSTRUMENTS, None, settings=settings, seed=seed, rate_per_s=2_000.0, stop=print
            )  # fmt: skip
            start_s = time.thread_time()
            for _ in range(500 if quick else 5_000):
                flow.step(_BATCH)
            spent_s = time.thread_time() - start_s
            agents_us.append((spent_s - venue.cpu_s) / venue.inputs * 1e6)
            market_us.append(venue.cpu_s / venue.inputs * 1e6)
        reference = "the market with the same requests, nobody listening"
        records.append(record(f"market.agents.{name}.us_per_request", agents_us, "µs", reference, market_us))
    return records


def _loaders(quick: bool) -> list[Record]:
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, loader in _recordings(Path(folder), 20_000 if quick else 200_000).items():
            rates[name] = [_rate(loader) for _ in range(3)]
    slowest = rates["bitstamp"]
    return [
        record(f"market.replay.{name}.records_per_s", values, "records/s", "bitstamp", slowest)
        for name, values in rates.items()
    ]


def _rate(loader: Loader) -> float:
    start_s = time.thread_time()
    count = sum(1 for _ in loader.records())
    return count / (time.thread_time() - start_s)


def _recordings(folder: Path, count: int) -> dict[str, Loader]:
    """Write a file in each format with the same orders, each added and then deleted; in ITCH the orders are distributed
    over 20 stocks. Return a loader for each file, and a loader for a single stock of the ITCH file.
    """
    orders = range(1, count // 2 + 1)
    lines = {
        "dbtoaster": [f"{n},{n},B,100,{10_000 + n % 50}\n{n},{n},D,0,0\n" for n in orders],
        "lobster": [
            f"{n}.5,1,{n},100,{10_000 + n % 50},1\n{n}.7,3,{n},100,{10_000 + n % 50},1\n" for n in _day(orders)
        ],
        "bitstamp": [
            f"{HEADER}\n" if not n
            else f"{n},{n},0,{100 + n % 50}.0,0.07,created,bid\n{n},{n + 1},0,{100 + n % 50}.0,0.07,deleted,bid\n"
            for n in range(len(orders) + 1)
        ],
    }  # fmt: skip
    for name, texts in lines.items():
        (folder / name).write_text("".join(texts))
    stocks = [f"S{locate}" for locate in range(20)]
    data = bytearray()
    for n in orders:
        common = {"stock_locate": n % 20 + 1, "timestamp": n, "order_reference_number": n}
        add = encode_message(
            "A", **common, buy_sell_indicator="B", shares=100, stock=stocks[n % 20], price=10_000 + n % 50
        )
        data += frame(add) + frame(encode_message("D", **common))
    (folder / "itch").write_bytes(data)
    return {
        "dbtoaster": DbtoasterLoader(folder / "dbtoaster", "R"),
        "lobster": LobsterLoader(folder / "lobster", "R"),
        "bitstamp": BitstampLoader(folder / "bitstamp", "R"),
        "itch": ItchLoader(folder / "itch", stocks),
        "itch_one_of_20": ItchLoader(folder / "itch", stocks[:1]),
    }


def _day(orders: range) -> Iterator[int]:
    """Yield the numbers modulo the seconds of a day."""
    return (n % 86_400 for n in orders)
