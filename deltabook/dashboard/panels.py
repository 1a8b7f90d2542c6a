"""What the panels show of one symbol: sections of its frames, made of what runtime and strategies say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from algo_engine.order import TERMINAL
from deltabook.dashboard import records
from deltabook.dashboard.algos import Algos
from deltabook.dashboard.history import Mark, Point
from deltabook.dashboard.market import Level, Market
from deltabook.dashboard.scales import Scales
from deltabook.wire.strategies import FillLine, OrderLine

__all__ = ["DEPTH", "SymbolPanels", "clock_text", "is_open"]

DEPTH: Final = 10
"""Levels of a side."""
MOST_TRADES: Final = 30
_DAY_NS: Final = 86_400 * 10**9


def clock_text(time_ns: int) -> str:
    """Time of day to the millisecond.

    >>> clock_text(86_400 * 10**9 + 3_661_001_999_999)
    '01:01:01.001'
    """
    ms = time_ns % _DAY_NS // 1_000_000
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"


class SymbolPanels:
    """The sections of one symbol."""

    def __init__(self, market: Market, scales: Scales, algos: Algos | None) -> None:
        self._market, self._scales, self._algos = market, scales, algos

    def book(self, symbol: str) -> records.BookSection:
        """The ladder; where the runtime keeps no depth, the touch."""
        market, scales = self._market, self._scales
        own = self._own(symbol)
        bids, asks = (self._levels(symbol, side) for side in ("B", "S"))
        spread = scales.price(symbol, asks[0].price_ticks - bids[0].price_ticks) if bids and asks else None
        quote = None if "book_depth" in market.known else market.quotes.get(symbol)

        def rows(side: str, levels: Iterable[Level]) -> tuple[records.LevelRow, ...]:
            return tuple(
                records.LevelRow(
                    scales.price(symbol, level.price_ticks) or "",
                    scales.quantity(symbol, level.volume_lots) or "",
                    None if quote else level.orders,
                    scales.quantity(symbol, own.get((side, level.price_ticks))) or "",
                )
                for level in levels
            )

        return records.BookSection(rows("B", bids), rows("S", asks), spread, scales.knows(symbol))

    def tape(self, symbol: str) -> tuple[records.TradeRow, ...]:
        """The newest trades."""
        scales = self._scales
        trades = list(self._market.trades(symbol, MOST_TRADES + 1))
        ways = [(a.price_ticks > b.price_ticks) - (a.price_ticks < b.price_ticks) for a, b in pairwise(trades)]
        return tuple(
            records.TradeRow(
                trade.number,
                clock_text(trade.time_ns),
                scales.price(symbol, trade.price_ticks) or "",
                scales.quantity(symbol, trade.volume_lots) or "",
                way,
            )
            for trade, way in zip(trades[:MOST_TRADES], [*ways, 0], strict=False)
        )

    def prices(self, symbol: str) -> records.PricesSection:
        """Last, middle and averages."""
        market, scales = self._market, self._scales
        last, quote = market.last(symbol), market.quotes.get(symbol)
        averages = (
            market.trade_averages.get(symbol),
            market.book_averages.get((symbol, "B")),
            market.book_averages.get((symbol, "S")),
        )
        texts = [scales.average(symbol, a.price_volume, a.volume) if a else None for a in averages]
        mid = None
        if quote and quote.bid_ticks is not None and quote.ask_ticks is not None:
            mid = scales.average(symbol, quote.bid_ticks + quote.ask_ticks, 2)
        return records.PricesSection(
            last=scales.price(symbol, last.price_ticks) if last else None,
            mid=mid,
            vwap=texts[0],
            vwap_bid=texts[1],
            vwap_ask=texts[2],
            now=(_number(mid), _number(texts[0]), _number(texts[1]), _number(texts[2])),
        )

    def point(self, symbol: str, now_s: float) -> Point:
        """The prices of this moment for the chart."""
        return Point(round(now_s, 2), *self.prices(symbol).now)

    def marks(self, placed: Iterable[tuple[FillLine, float]]) -> dict[str, list[Mark]]:
        """Symbol → own fills on its chart; those of a strategy at one price in a second are one mark."""
        found: dict[tuple[str, str, int, str, int], tuple[int, int, float]] = {}
        for fill, time_s in placed:
            key = (fill.symbol, fill.strategy, fill.price_ticks, fill.side, int(time_s))
            count, lots, _ = found.get(key, (0, 0, 0.0))
            found[key] = (count + 1, lots + fill.volume_lots, time_s)
        marks: defaultdict[str, list[Mark]] = defaultdict(list)
        for (symbol, strategy, ticks, side, _), (count, lots, time_s) in found.items():
            price = self._scales.price(symbol, ticks) or ""
            times = f" in {count} fills" if count > 1 else ""
            words = f"{strategy}, {self._scales.quantity(symbol, lots)} at {price}{times}"
            marks[symbol].append(Mark(round(time_s, 2), float(price), side, words))
        return dict(marks)

    def _levels(self, symbol: str, side: str) -> list[Level]:
        market = self._market
        if "book_depth" in market.known:
            return list(market.levels(symbol, side, DEPTH))
        quote = market.quotes.get(symbol)
        if quote is None:
            return []
        ticks, lots = (quote.bid_ticks, quote.bid_lots) if side == "B" else (quote.ask_ticks, quote.ask_lots)
        return [] if ticks is None else [Level(ticks, lots or 0, 0)]

    def _own(self, symbol: str) -> dict[tuple[str, int], int]:
        """(side, price in ticks) → lots of own orders that may still trade."""
        found: defaultdict[tuple[str, int], int] = defaultdict(int)
        for order in self._algos.orders.orders if self._algos else ():
            if order.symbol == symbol and is_open(order):
                found[order.side, order.price_ticks] += order.volume_lots - order.filled_lots
        return dict(found)


def is_open(order: OrderLine) -> bool:
    """Whether an order may still trade."""
    return order.status not in TERMINAL


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
