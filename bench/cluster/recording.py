"""The flow that is played: an exchange's text feed for many symbols, in files.

Two exchanges trade one half of the symbols each. For two runtimes, each feed is written as it is. For one runtime, both
feeds are merged into one feed: the same messages in the order of their times, renumbered.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from bench.exchange.flow import CANCEL, Request, make_flow
from deltabook.wire.symbols import Instrument
from exchange_server.matching import Cancel, Enter, Market, MarketRules, Now
from exchange_server.text.protocol import TextEncoder

__all__ = ["HALVES", "Recording", "recorded"]

HALVES: Final = 2
_START_NS: Final = 1_700_000_000_000_000_000
_STEP_NS: Final = 20_000
_BROKERS: Final = 10
_COLUMNS: Final = ("sequence", "time_ns", "order_id", "broker_id", "action", "volume", "price", "symbol")
_PIECE_LINES: Final = 10_000


class Recording(msgspec.Struct, frozen=True):
    """Feed lines in files."""

    whole: Path
    """File of all symbols in one feed."""
    halves: tuple[Path, Path]
    """Files of the same messages in two feeds."""
    messages: tuple[int, int, int]
    """Number of lines of the whole feed and of each half."""


def recorded(folder: Path, symbols: int, live_orders: int, requests: int) -> Recording:
    """Return the recording with these numbers of symbols, of live orders in total, and of requests.

    A missing recording is made, which takes about 30 µs of one core per request. Equal numbers give equal bytes.
    """
    place = folder / f"{symbols}-{live_orders}-{requests}"
    halves = (place / "half-0.csv", place / "half-1.csv")
    whole = place / "whole.csv"
    done = place / "messages.json"
    if not done.exists():
        place.mkdir(parents=True, exist_ok=True)
        tables = []
        for number, path in enumerate(halves):
            _write_half(path, number, symbols, live_orders, requests)
            tables.append(_read(path))
        pacsv.write_csv(_merged(tables), whole, pacsv.WriteOptions(include_header=False, quoting_style="none"))
        counts = (sum(table.num_rows for table in tables), *(table.num_rows for table in tables))
        done.write_bytes(msgspec.json.encode(counts))
    return Recording(whole, halves, msgspec.json.decode(done.read_bytes(), type=tuple[int, int, int]))


def _write_half(path: Path, half: int, symbols: int, live_orders: int, requests: int) -> None:
    """Write the feed of an exchange with every second symbol."""
    names = [f"S{number:03d}" for number in range(symbols) if number % HALVES == half]
    now, rules = Now(), MarketRules(tuple(Instrument(name) for name in names))
    encoder = TextEncoder(rules, now)
    market = Market(rules, [encoder], (), now)
    ids: dict[tuple[str, int], int] = {}
    each = -(-requests // symbols)
    with path.open("wb") as file:
        for number, (name, request) in enumerate(_requests(names, live_orders // symbols, each)):
            kind, order_id, side, price, volume = request
            # Times are unique over both halves, so that the messages of one request stay together in the merged feed.
            time_ns = _START_NS + (HALVES * number + half) * _STEP_NS
            if kind == CANCEL:
                market.apply(Cancel(time_ns, 0, order_id % _BROKERS, 0, ids.get((name, order_id), 0), name))
            else:
                ids[name, order_id] = market.next_order_id
                market.apply(Enter(time_ns, 0, order_id % _BROKERS, 0, name, "S" if side else "B", volume, price))
            if number % _PIECE_LINES == 0:
                file.write(encoder.take()[0])
        file.write(encoder.take()[0])


def _requests(names: list[str], live: int, each: int) -> Iterator[tuple[str, Request]]:
    """Yield the requests that fill the books, then those of all symbols in turns."""
    flows = [make_flow(max(0, each - live), live, seed) for seed in range(1, len(names) + 1)]
    for turn in (0, 1):
        columns: list[list[Request]] = [flow.requests if turn else flow.filling for flow in flows]
        for together in zip_longest(*columns):
            for name, request in zip(names, together, strict=True):
                if request is not None:
                    yield name, request


def _read(path: Path) -> pa.Table:
    return pacsv.read_csv(path, read_options=pacsv.ReadOptions(column_names=list(_COLUMNS)))


def _merged(tables: list[pa.Table]) -> pa.Table:
    """Merge two feeds into one by time; order ids stay distinct."""
    apart = []
    for number, table in enumerate(tables):
        ids = table["order_id"].to_numpy() * HALVES + number
        apart.append(table.set_column(_COLUMNS.index("order_id"), "order_id", pa.array(ids)))
    both = pa.concat_tables(apart)
    order = np.argsort(both["time_ns"].to_numpy(), kind="stable")
    sorted_ = both.take(pa.array(order))
    return sorted_.set_column(0, "sequence", pa.array(np.arange(1, len(order) + 1)))
