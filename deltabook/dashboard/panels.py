"""What the panels show of one symbol: sections of its frames, made of what runtime and strategies say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from itertools import accumulate, chain
from typing import Final

from algo_engine.order import TERMINAL
from deltabook.dashboard import records
from deltabook.dashboard.algos import Algos
from deltabook.dashboard.bars import Bars, Trade
from deltabook.dashboard.history import Depth, Line, Mark
from deltabook.dashboard.market import Level, Market
from deltabook.dashboard.scales import Scales
from deltabook.wire.strategies import FillLine, OrderLine

__all__ = ["DEPTH", "SymbolPanels", "clock_text", "is_open"]

DEPTH: Final = 10
"""Levels of a side."""
SIDES: Final = ("B", "S")
MOST_TRADES: Final = 30
"""Rows of the tape."""
MOST_READ: Final = 300
"""Trades that the tape's rows are made of."""
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

    def __init__(self, market: Market, bars: Bars, scales: Scales, algos: Algos | None) -> None:
        self._market, self._bars, self._scales, self._algos = market, bars, scales, algos

    def book(self, symbol: str) -> records.BookSection:
        """The spread."""
        bids, asks = (self._levels(symbol, side) for side in SIDES)
        spread = self._scales.price(symbol, asks[0].price_ticks - bids[0].price_ticks) if bids and asks else None
        return records.BookSection(spread, self._scales.knows(symbol))

    def ladder(self, symbol: str) -> dict[str, list[records.LevelRow]]:
        """Levels of both sides, best first; where the runtime keeps no depth, the touch."""
        scales, own = self._scales, self._own(symbol)
        sides = {side: self._levels(symbol, side) for side in SIDES}
        has_orders = "book_depth" in self._market.known
        deepest = max(sum(level.volume_lots for level in levels) for levels in sides.values())
        rows: dict[str, list[records.LevelRow]] = {}
        for side, levels in sides.items():
            totals = accumulate(level.volume_lots for level in levels)
            rows[side] = [
                records.LevelRow(
                    scales.price(symbol, level.price_ticks) or "",
                    scales.quantity(symbol, level.volume_lots) or "",
                    scales.quantity(symbol, total) or "",
                    round(total / deepest, 3) if deepest else 0.0,
                    level.orders if has_orders else None,
                    scales.quantity(symbol, own.get((side, level.price_ticks))) or "",
                )
                for level, total in zip(levels, totals, strict=True)
            ]
        return rows

    def depth(self, symbol: str, time_s: int) -> Depth | None:
        """The best levels at this moment for the heat strip; None of an empty book."""
        bids, asks = (
            tuple(chain.from_iterable((level.price_ticks, level.volume_lots) for level in self._levels(symbol, side)))
            for side in SIDES
        )
        return Depth(time_s, bids, asks) if bids or asks else None

    def scale(self, symbol: str) -> records.ScaleSection:
        """What a tick and a lot are worth."""
        instrument = self._scales.of(symbol)
        return records.ScaleSection(instrument.tick_size, instrument.lot_size)

    def tape(self, symbol: str) -> list[records.TradeRow]:
        """The newest trades, oldest first; those of one order at one price are one row."""
        groups: list[list[Trade]] = []
        read = list(self._market.trades(symbol, MOST_READ))
        for trade in read:  # newest first
            same = groups[-1][-1] if groups else None
            if same is not None and (same.time_ns, same.price_ticks) == (trade.time_ns, trade.price_ticks):
                groups[-1].append(trade)
            elif len(groups) > MOST_TRADES:
                break
            else:
                groups.append([trade])
        if len(read) == MOST_READ:
            groups.pop()  # more trades may belong to it
        groups.reverse()
        befores = [groups[0] if groups else [], *groups]
        rows = [self._trades(symbol, group, before) for group, before in zip(groups, befores, strict=False)]
        return rows[-MOST_TRADES:]

    def prices(self, symbol: str) -> records.PricesSection:
        """Last with its change, middle and averages."""
        scales, last, first = self._scales, self._market.last(symbol), self._bars.first(symbol)
        change = percent = None
        if last and first:
            moved = last.price_ticks - first.open
            change = scales.price(symbol, moved)
            percent = f"{Decimal(100 * moved) / Decimal(first.open):.2f}" if first.open else None
        texts = [scales.average(symbol, *sums) for sums in self._averages(symbol)]
        return records.PricesSection(
            last=scales.price(symbol, last.price_ticks) if last else None,
            change=change,
            change_percent=percent,
            since_s=first.begin_s if first else None,
            mid=texts[0],
            vwap=texts[1],
            vwap_bid=texts[2],
            vwap_ask=texts[3],
        )

    def line(self, symbol: str, time_s: int) -> Line:
        """The prices of this moment for the chart, in ticks."""
        ratios = [round(total / count, 4) if count and total is not None else None
                  for total, count in self._averages(symbol)]  # fmt: skip
        return Line(time_s, *ratios)

    def marks(self, placed: Iterable[tuple[FillLine, float]]) -> list[tuple[str, Mark]]:
        """Symbol and mark of own fills; those of a strategy at one price in a second are one mark."""
        merged: dict[tuple[str, str, int, str, int], tuple[int, int, float]] = {}
        for fill, time_s in placed:
            key = (fill.symbol, fill.strategy, fill.price_ticks, fill.side, int(time_s))
            count, lots, _ = merged.get(key, (0, 0, 0.0))
            merged[key] = (count + 1, lots + fill.volume_lots, time_s)
        return [
            (symbol, Mark(0, round(time_s, 3), ticks, side, lots, count, strategy))
            for (symbol, strategy, ticks, side, _), (count, lots, time_s) in merged.items()
        ]

    def _averages(self, symbol: str) -> list[tuple[int | None, int]]:
        """Sums of prices and what they are to be divided by: mid, VWAP of trades, of bids, of asks."""
        market, quote = self._market, self._market.quotes.get(symbol)
        has_mid = quote is not None and quote.bid_ticks is not None and quote.ask_ticks is not None
        mid = (quote.bid_ticks or 0) + (quote.ask_ticks or 0) if quote is not None and has_mid else None
        averages = (
            market.trade_averages.get(symbol),
            market.book_averages.get((symbol, "B")),
            market.book_averages.get((symbol, "S")),
        )
        return [(mid, 2), *((each.price_volume, each.volume) if each else (None, 0) for each in averages)]

    def _trades(self, symbol: str, group: list[Trade], before: list[Trade]) -> records.TradeRow:
        newest, ticks, scales = group[0], group[0].price_ticks, self._scales
        other = before[0].price_ticks
        return records.TradeRow(
            group[-1].number,
            clock_text(newest.time_ns),
            scales.price(symbol, ticks) or "",
            scales.quantity(symbol, sum(trade.volume_lots for trade in group)) or "",
            (ticks > other) - (ticks < other),
            len(group),
        )

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
        lots: defaultdict[tuple[str, int], int] = defaultdict(int)
        for order in self._algos.orders.orders if self._algos else ():
            if order.symbol == symbol and is_open(order):
                lots[order.side, order.price_ticks] += order.volume_lots - order.filled_lots
        return dict(lots)


def is_open(order: OrderLine) -> bool:
    """Return True if an order may still trade."""
    return order.status not in TERMINAL
