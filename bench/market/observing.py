"""A market is watched, second by second, while a recording or agents trade in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from deltabook.wire.symbols import Instrument
from exchange_server.agents import AgentFlow, AgentSettings
from exchange_server.matching.book import Book
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules, Recorded, Replace
from exchange_server.matching.market import Market
from exchange_server.matching.order import Order
from exchange_server.matching.silence import Silence
from exchange_server.replay import BitstampLoader

__all__ = ["EDGES", "REQUESTS_PER_S", "Observation", "Venue", "watch_agents", "watch_capture"]

EDGES: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Distances from the middle, in steps, up to which displayed lots are added up."""
REQUESTS_PER_S: Final = 160.0
"""Of agents, on one symbol: as many as the recording has."""

_CAPTURE_STEP_TICKS: Final = 100
"""Nearly all orders of the recording are at whole dollars."""
_SNAPSHOT_RECORDS: Final = 6_513
"""Records of the recording that say what was in the book when it began."""
_WARM_S: Final = 100
_SECOND_NS: Final = 10**9


class _Counting(Silence):
    """Counts displayed orders that came, and that were cancelled."""

    __slots__ = ("added_orders", "deleted_orders")

    def __init__(self) -> None:
        self.added_orders = 0
        self.deleted_orders = 0

    def added(self, order: Order) -> None:
        self.added_orders += 1

    def deleted(self, order: Order, volume: int) -> None:
        self.deleted_orders += 1

    def replaced(self, old: Order, order: Order) -> None:
        self.added_orders += 1
        self.deleted_orders += 1


class Observation:
    """What was seen: arrays with an entry a second, and the sizes of all orders; prices in steps."""

    def __init__(self, name: str, step_ticks: int) -> None:
        self.name = name
        self.step_ticks = step_ticks
        self._mids: list[float] = []
        self._spreads: list[float] = []
        self._depths: list[list[float]] = []
        self._trades: list[int] = []
        self.sizes: list[int] = []
        """Lots of every order that was entered."""
        self.orders = 0
        """Entered while it was watched."""
        self.trades = 0
        self.added = 0
        """Displayed orders that came."""
        self.deleted = 0
        """Displayed orders that were cancelled."""

    def look(self, book: Book, trades: int) -> None:
        """A second is over."""
        bid, ask = book.best("B"), book.best("S")
        if not bid or not ask:
            return
        mid = (bid + ask) / 2
        self._mids.append(mid / self.step_ticks)
        self._spreads.append((ask - bid) / self.step_ticks)
        self._trades.append(trades)
        depth = np.zeros(len(EDGES))
        for side in ("B", "S"):
            for price, volume, _ in book.levels(side):
                away = abs(price - mid) / self.step_ticks
                if away > EDGES[-1]:
                    break
                depth[int(np.searchsorted(EDGES, away)) :] += volume / 2
        self._depths.append(depth.tolist())

    @property
    def mids(self) -> npt.NDArray[np.float64]:
        """Middle of the best prices."""
        return np.array(self._mids)

    @property
    def spreads(self) -> npt.NDArray[np.float64]:
        """Distance of the best prices."""
        return np.array(self._spreads)

    @property
    def trades_per_s(self) -> npt.NDArray[np.int64]:
        """Trades of each second."""
        trades = np.array(self._trades, np.int64)
        return trades[1:] - trades[:-1]

    @property
    def clip(self) -> float:
        """The median size of an order."""
        return float(np.median(self.sizes))

    @property
    def depth(self) -> npt.NDArray[np.float64]:
        """Displayed lots of a side up to each of `EDGES`, on average, in clips."""
        depths: npt.NDArray[np.float64] = np.array(self._depths, np.float64).mean(axis=0)
        return depths / self.clip

    def returns(self, seconds: int) -> npt.NDArray[np.float64]:
        """Moves of the middle over so many seconds."""
        return np.diff(self.mids[::seconds])


class Venue:
    """A market in this process, without a journal."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self.counting = _Counting()
        self.market = Market(MarketRules(instruments=tuple(instruments)), (self.counting,))
        self.inputs = 0
        self.time_ns = _SECOND_NS
        self.seen: list[AnyInput] | None = None
        """Collects what is submitted, if it is a list."""
        self.cpu_s = 0.0
        """Processor time of the market alone."""

    def next_time_ns(self, at_least_ns: int = 0, count: int = 1) -> int:
        """The first of so many times, later than all before."""
        first_ns = max(at_least_ns, self.time_ns + 1)
        self.time_ns = first_ns + count - 1
        return first_ns

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        """Apply a batch."""
        start_s = time.thread_time()
        answers = [self.market.apply(item) for item in batch]
        self.cpu_s += time.thread_time() - start_s
        self.inputs += len(batch)
        if self.seen is not None:
            self.seen += batch
        return answers


def watch_agents(name: str, settings: AgentSettings, seconds: int, seed: int) -> Observation:
    """Agents on one symbol, in batches every 10 ms as the exchange has them."""
    instrument = Instrument("ACME")
    venue = Venue([instrument])
    flow = AgentFlow(
        venue, [instrument], None, settings=settings, seed=seed, rate_per_s=REQUESTS_PER_S, stop=_no_reason
    )  # fmt: skip
    book, counting = venue.market.books["ACME"], venue.counting
    seen = Observation(name, flow.populations[0].view.step)
    due = 0.0
    for turn in range(-_WARM_S * 100, seconds * 100):
        if not turn:
            before = venue.market.orders, venue.market.trades, counting.added_orders, counting.deleted_orders
            venue.seen = []
        due += REQUESTS_PER_S / 100
        flow.step(int(due))
        due -= int(due)
        if turn >= 0 and not turn % 100:
            seen.look(book, venue.market.trades)
    seen.sizes = [item.volume for item in venue.seen or () if isinstance(item, Enter | Replace)]
    seen.orders, seen.trades = venue.market.orders - before[0], venue.market.trades - before[1]
    seen.added, seen.deleted = counting.added_orders - before[2], counting.deleted_orders - before[3]
    return seen


def watch_capture(path: Path) -> Observation:
    """The recording of BTC/USD, played as orders, from behind its snapshot on."""
    counting = _Counting()
    instrument = Instrument("BTCUSD", "0.01", "0.00000001")
    market = Market(MarketRules((instrument,), ("BTCUSD",), "as-orders", outlier_factor=10), (counting,))
    seen = Observation("BTC/USD", _CAPTURE_STEP_TICKS)
    book = market.books["BTCUSD"]
    time_ns = next_ns = 0
    before = 0, 0, 0, 0
    for r in BitstampLoader(path, "BTCUSD").records():
        if r.position > _SNAPSHOT_RECORDS:
            if not next_ns:
                next_ns = r.time_ns + 10 * _SECOND_NS
            while r.time_ns >= next_ns:
                if not seen.orders:
                    seen.orders = 1
                    before = market.orders, market.trades, counting.added_orders, counting.deleted_orders
                seen.look(book, market.trades)
                next_ns += _SECOND_NS
            if r.action in "BS" and seen.orders:
                seen.sizes.append(r.volume)
        time_ns = max(time_ns + 1, r.time_ns)
        market.apply(
            Recorded(time_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, r.symbol)
        )
    seen.orders, seen.trades = market.orders - before[0], market.trades - before[1]
    seen.added, seen.deleted = counting.added_orders - before[2], counting.deleted_orders - before[3]
    return seen


def _no_reason(reason: str) -> None:
    raise RuntimeError(reason)
