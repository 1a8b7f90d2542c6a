"""Any messages in any batches: the relations are those of a replay that looks at one message after the other.

Of touches that holds row by row, whenever they are switched on and off, and over restarts and lost saves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from runtime.native.cache import KernelCache
from runtime.relations import DBTOASTER, FEED, ITCH, KERNEL_SOURCE, Dialect, Messages, OrderBookAdaptor
from runtime.state import MemoryStore, ObjectSpace, chains, decode_run
from tests.harness.examples import examples

SYMBOLS = ("A", "B")
Line = tuple[int, str, int, int, int]
"""Order, action, volume, price, symbol; the place in the list is the rest."""
LINE = st.tuples(
    st.integers(0, 8),
    st.sampled_from("BSBSBSEEFXDTHCUU?"),
    st.sampled_from([-1, 0, 1, 2, 3, 5, 5, 10, 10, 20, 20, 2**62, 2**62 + 1, 2**63 - 1]),
    st.sampled_from([0, 7, 8]),
    st.integers(0, 1),
)
# Long lists are asked for by their length: by itself Hypothesis prefers short ones.
LINES = st.sampled_from([0, 1, 5, 20, 60, 120]).flatmap(lambda n: st.lists(LINE, min_size=n, max_size=n))
HIGHEST_VOLUME = 2**62
LARGEST = 2**63 - 1


def new_order(line: Line) -> int:
    """The order that replaces another one, perhaps itself or one that is live."""
    return (line[0] + line[2]) % 9


class Order(msgspec.Struct):
    """A live order of the replay."""

    t: int
    broker_id: int
    volume: int
    price: int
    symbol: str
    side: str


class Replay:
    """One message at a time, on a dict."""

    def __init__(self, dialect: Dialect, units: tuple[int, int]) -> None:
        self.units = units
        self.touches: list[tuple[Any, ...]] = []
        self.reduces, self.kills, self.matches = (
            bytes(letters).decode() for letters in (dialect.reduces, dialect.kills, dialect.trades)
        )
        self.replaces = bytes(dialect.replaces).decode()
        self.brokers = dialect.brokers
        self.live: dict[int, Order] = {}
        self.trades: list[tuple[Any, ...]] = []
        self.unknown = self.duplicates = self.bad = self.replaced = 0

    def touch(self, symbol: str) -> tuple[int | None, ...]:
        """Best bid and ask with the volume at them, in units of ticks and lots."""
        tick, lot = self.units
        found: list[int | None] = []
        for side, best in (("B", max), ("S", min)):
            levels = Counter[int]()
            for order in self.live.values():
                if (order.side, order.symbol) == (side, symbol):
                    levels[order.price // tick] += order.volume // lot
            price = best((price for price, volume in levels.items() if volume), default=None)
            volume = None if price is None else levels[price]
            found += [price, volume]
        return tuple(found)

    def apply(self, number: int, line: Line) -> None:
        """Apply a message, and note each touch that is another one behind it."""
        before = {symbol: self.touch(symbol) for symbol in SYMBOLS}
        self._apply(number, line)
        for symbol, old in before.items():
            if (new := self.touch(symbol)) != old:
                shown = [None if value is not None and value > LARGEST else value for value in new]
                self.touches.append((number, symbol, *shown, 1))

    def _apply(self, number: int, line: Line) -> None:
        order_id, action, volume, price, symbol = line
        if action in "BS":
            broker = order_id % self.brokers if self.brokers else number % 5
            self.add(order_id, Order(number, broker, volume, price, SYMBOLS[symbol], action))
        elif action in self.replaces:
            if order_id not in self.live:
                self.unknown += 1
            else:
                old = self.live.pop(order_id)
                self.replaced += 1
                self.add(new_order(line), Order(number, old.broker_id, volume, price, old.symbol, old.side))
        elif action in self.reduces or action in self.kills:
            if action in self.reduces and not 0 <= volume <= HIGHEST_VOLUME:
                self.bad += 1
            elif order_id not in self.live:
                self.unknown += 1
            else:
                self.change(number, line, self.live[order_id])
        elif action in self.matches:
            if volume > 0:
                self.trades.append(
                    (number, number, SYMBOLS[symbol], price, volume, None, order_id or None, None, None, 1)
                )
            else:
                self.bad += 1

    def add(self, order_id: int, order: Order) -> None:
        if not 0 < order.volume <= HIGHEST_VOLUME:
            self.bad += 1
        elif order_id in self.live:
            self.duplicates += 1
        else:
            self.live[order_id] = order

    def change(self, number: int, line: Line, order: Order) -> None:
        order_id, action, volume, price, _ = line
        if action in self.matches:
            side = "S" if order.side == "B" else "B"
            self.trades.append(
                (
                    number,
                    number,
                    order.symbol,
                    price or order.price,
                    volume,
                    side,
                    order_id or None,
                    None,
                    order.broker_id,
                    1,
                )
            )
        order.volume = 0 if action in self.kills else order.volume - volume
        if order.volume <= 0:
            del self.live[order_id]

    def scaled_trades(self) -> list[tuple[Any, ...]]:
        """The trades, with prices in ticks and volumes in lots."""
        tick, lot = self.units
        return [(*row[:3], row[3] // tick, row[4] // lot, *row[5:]) for row in self.trades]

    def book(self) -> Counter[tuple[Any, ...]]:
        return Counter(
            (
                "bids" if o.side == "B" else "asks",
                o.t,
                order_id,
                o.broker_id,
                o.volume // self.units[1],
                o.price // self.units[0],
                o.symbol,
            )
            for order_id, o in self.live.items()
        )


def messages(first: int, lines: list[Line], symbols: np.ndarray[Any, np.dtype[np.int64]]) -> Messages:
    number = np.arange(first, first + len(lines))
    columns = np.array([(i, ord(a), v, p, s) for i, a, v, p, s in lines], np.int64).reshape(len(lines), 5).T
    return Messages(
        t=number,
        order_id=columns[0],
        broker_id=number % 5,
        action=columns[1].astype(np.uint8),
        volume=columns[2],
        price=columns[3],
        symbol=symbols[columns[4]],
        number=number,
        new_order_id=np.array([new_order(line) for line in lines], np.int64),
    )


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelCache]:
    found = KernelCache(tmp_path_factory.mktemp("kernels"))
    assert not found.compile_now([KERNEL_SOURCE]).failures
    yield found
    found.close()


@pytest.fixture(scope="module", autouse=True)
def _sweeps() -> Iterator[None]:
    """Chains of a few runs are compacted already, in two saves."""
    with patch.object(chains, "_SMALLEST_BASE_BYTES", 1), patch.object(chains, "_LEAST_SWEPT", 40):
        yield


def test_a_sweep_passes_by_no_live_order() -> None:
    adaptor = OrderBookAdaptor(ObjectSpace(MemoryStore()), "book", FEED)
    symbols = adaptor.symbols.encode(pa.array(SYMBOLS))
    adaptor.apply(messages(1, [(number, "B", 5, 7, 0) for number in range(100)], symbols))
    orders, swept = adaptor._orders, list[int]()
    orders.save()
    start: int | None = 0
    while start is not None:
        run, start = orders.save_swept(start, 7, 2)
        swept += decode_run(run.encode(), "live orders").column(0).to_pylist()
    assert sorted(swept) == list(range(100))


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@settings(max_examples=examples(200))
@given(
    dialect=st.sampled_from([FEED, DBTOASTER, ITCH]),
    lines=LINES,
    splits=st.lists(st.integers(0, 120), max_size=8),
    restarts=st.sets(st.integers(0, 8)),
    lost=st.sets(st.integers(0, 8)),
    saved=st.sets(st.integers(0, 8)),
    switched=st.sets(st.integers(0, 8)),
    units=st.sampled_from([None, (5, 3)]),
)
def test_batches_are_the_replay(
    kernels: KernelCache,
    tier: str,
    dialect: Dialect,
    lines: list[Line],
    splits: list[int],
    restarts: set[int],
    lost: set[int],
    saved: set[int],
    switched: set[int],
    units: tuple[int, int] | None,
) -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    held = kernels if tier == "compiled" else None
    units_of = None if units is None else lambda _: units
    adaptor = OrderBookAdaptor(space, "book", dialect, kernels=held, units=units_of)
    replay = Replay(dialect, units or (1, 1))
    book: Counter[tuple[Any, ...]] = Counter()
    trades: list[tuple[Any, ...]] = []
    seen = Counter[str]()
    places = [0, *sorted(min(s, len(lines)) for s in splits), len(lines)]
    for batch, (start, stop) in enumerate(pairwise(places)):
        if batch in lost:
            space.save()
            space.on_failed()
        elif batch in saved:
            space.commit()
        if batch in restarts:
            event("restart")
            space.commit()
            seen.update(adaptor.counts())
            space = ObjectSpace(store)
            gives_touches = adaptor.gives_touches
            adaptor = OrderBookAdaptor(space, "book", dialect, kernels=held, units=units_of)
            adaptor.switch_touches(gives_touches)
        if batch in switched:
            adaptor.switch_touches(not adaptor.gives_touches)
        replay.touches.clear()
        symbols = adaptor.symbols.encode(pa.array(SYMBOLS))
        deltas = adaptor.apply(messages(start + 1, lines[start:stop], symbols))
        for number, line in enumerate(lines[start:stop], start + 1):
            replay.apply(number, line)
        for name in ("bids", "asks"):
            rows = deltas[name].to_pylist() if name in deltas else []
            net = Counter[tuple[Any, ...]]()
            for row in rows:
                weight = row.pop("weight")
                net[(name, *row.values())] += weight
            if units is None:  # with lots of three, a change by one may leave the row as it was
                assert sum(abs(w) for w in net.values()) == len(rows), "nothing is taken out and put in again"
            for key, weight in net.items():
                book[key] += weight
        book = Counter({key: weight for key, weight in book.items() if weight})
        trades += [tuple(row.values()) for row in deltas["trades"].to_pylist()] if "trades" in deltas else []
        touches = [tuple(row.values()) for row in deltas["touches"].to_pylist()] if "touches" in deltas else []
        assert touches == (replay.touches if adaptor.gives_touches else [])
        assert book == replay.book()
        assert trades == replay.scaled_trades()
        assert len(adaptor) == len(replay.live)
    seen.update(adaptor.counts())
    assert (seen["messages"], seen["unknown_orders"], seen["duplicate_orders"], seen["bad_volumes"]) == (
        len(lines) + replay.replaced,
        replay.unknown,
        replay.duplicates,
        replay.bad,
    )
