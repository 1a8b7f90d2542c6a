"""Sections of frames: the lists that every page shows, and the panels of one symbol.

The lists are engine, money, symbols, views, strategies, orders and fills. The panels combine the runtime's and the
strategies' data on a symbol.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import accumulate, chain, islice, takewhile
from typing import Any, Final

import msgspec

from algo_engine.desk.order import TERMINAL
from deltabook.dashboard import records
from deltabook.dashboard.bars import Bars, TapeTrade
from deltabook.dashboard.followers import AlgoFollower, ExchangeFollower, ResultsFollower, ViewDescription
from deltabook.dashboard.history import Depth, EnginePoint, FillMark, PriceLine, ProfitPoint
from deltabook.dashboard.market import DisplayedLevel, DisplayedMarket
from deltabook.dashboard.opened import OpenViews
from deltabook.dashboard.scales import Scales
from deltabook.wire.strategies import FillLine, OrderLine, PositionLine, StrategyLine

__all__ = ["Lists", "SymbolPanels"]

DEPTH: Final = 10
"""Number of levels of a side."""
SIDES: Final = ("B", "S")
"""Bids and asks."""
MOST_TRADES: Final = 30
"""Greatest number of rows of the tape."""
MOST_READ: Final = 300
"""Greatest number of trades from which the tape's rows are made, unless one order has made more."""
_DAY_NS: Final = 86_400 * 10**9


def clock_text(time_ns: int) -> str:
    """Return the time of day to the millisecond.

    >>> clock_text(86_400 * 10**9 + 3_661_001_999_999)
    '01:01:01.001'
    """
    ms = time_ns % _DAY_NS // 1_000_000
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"


class SymbolPanels:
    """The sections of one symbol."""

    def __init__(self, market: DisplayedMarket, bars: Bars, scales: Scales, algos: AlgoFollower | None) -> None:
        self._market, self._bars, self._scales, self._algos = market, bars, scales, algos

    def book(self, symbol: str) -> records.BookSection:
        """Return the spread."""
        bids, asks = (self._levels(symbol, side) for side in SIDES)
        spread = self._scales.price(symbol, asks[0].price_ticks - bids[0].price_ticks) if bids and asks else None
        return records.BookSection(spread, self._scales.knows(symbol))

    def ladder(self, symbol: str) -> dict[str, list[records.LevelRow]]:
        """Return the levels of both sides, best first; only the best prices if the runtime has no view of the depth."""
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
        """Return the best levels at this time for the heat strip; None for an empty book."""
        bids, asks = (
            tuple(chain.from_iterable((level.price_ticks, level.volume_lots) for level in self._levels(symbol, side)))
            for side in SIDES
        )
        return Depth(time_s, bids, asks) if bids or asks else None

    def scale(self, symbol: str) -> records.ScaleSection:
        """Return the worth of a tick and of a lot."""
        instrument = self._scales.of(symbol)
        return records.ScaleSection(instrument.tick_size, instrument.lot_size)

    def tape(self, symbol: str) -> list[records.TradeRow]:
        """Return the newest trades, oldest first; trades of one order at one price are one row."""
        groups: list[list[TapeTrade]] = []
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
            # The oldest group may have further trades, which were not read. If there is no other group, it is read to
            # its end.
            newest = groups.pop()[0]
            if not groups:
                at = newest.time_ns, newest.price_ticks
                trades = self._market.trades(symbol, sys.maxsize)
                groups = [list(takewhile(lambda trade: (trade.time_ns, trade.price_ticks) == at, trades))]
        groups.reverse()
        befores = [groups[0] if groups else [], *groups]
        rows = [self._trades(symbol, group, before) for group, before in zip(groups, befores, strict=False)]
        return rows[-MOST_TRADES:]

    def prices(self, symbol: str) -> records.PricesSection:
        """Return the last price with its change, the middle and the averages."""
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

    def line(self, symbol: str, time_s: int) -> PriceLine:
        """Return the present prices for the chart, in ticks."""
        ratios = [round(total / count, 4) if count and total is not None else None
                  for total, count in self._averages(symbol)]  # fmt: skip
        return PriceLine(time_s, *ratios)

    def marks(self, placed: Iterable[tuple[FillLine, float]]) -> list[tuple[str, FillMark]]:
        """Return symbol and mark of own fills; the fills of a strategy at one price in a second are one mark."""
        merged: dict[tuple[str, str, int, str, int], tuple[int, int, float]] = {}
        for fill, time_s in placed:
            key = (fill.symbol, fill.strategy, fill.price_ticks, fill.side, int(time_s))
            count, lots, _ = merged.get(key, (0, 0, 0.0))
            merged[key] = (count + 1, lots + fill.volume_lots, time_s)
        return [
            (symbol, FillMark(0, round(time_s, 3), ticks, side, lots, count, strategy))
            for (symbol, strategy, ticks, side, _), (count, lots, time_s) in merged.items()
        ]

    def _averages(self, symbol: str) -> list[tuple[int | None, int]]:
        """Return sums of prices and their divisors: of the middle, and of the VWAPs of trades, bids and asks."""
        market, quote = self._market, self._market.quotes.get(symbol)
        has_mid = quote is not None and quote.bid_ticks is not None and quote.ask_ticks is not None
        mid = (quote.bid_ticks or 0) + (quote.ask_ticks or 0) if quote is not None and has_mid else None
        averages = (
            market.trade_averages.get(symbol),
            market.book_averages.get((symbol, "B")),
            market.book_averages.get((symbol, "S")),
        )
        return [(mid, 2), *((each.price_volume, each.volume) if each else (None, 0) for each in averages)]

    def _trades(self, symbol: str, group: list[TapeTrade], before: list[TapeTrade]) -> records.TradeRow:
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

    def _levels(self, symbol: str, side: str) -> list[DisplayedLevel]:
        market = self._market
        if "book_depth" in market.known:
            return list(market.levels(symbol, side, DEPTH))
        quote = market.quotes.get(symbol)
        if quote is None:
            return []
        ticks, lots = (quote.bid_ticks, quote.bid_lots) if side == "B" else (quote.ask_ticks, quote.ask_lots)
        return [] if ticks is None else [DisplayedLevel(ticks, lots or 0, 0)]

    def _own(self, symbol: str) -> dict[tuple[str, int], int]:
        """Return the lots of own orders that may still trade, by side and price in ticks."""
        lots: defaultdict[tuple[str, int], int] = defaultdict(int)
        for order in self._algos.orders.orders if self._algos else ():
            if order.symbol == symbol and is_open(order):
                lots[order.side, order.price_ticks] += order.volume_lots - order.filled_lots
        return dict(lots)


def is_open(order: OrderLine) -> bool:
    """Return True if an order may still trade."""
    return order.status not in TERMINAL


_MOST_SYMBOL_ROWS: Final = 1_000
"""Greatest number of symbols in the list, which has the first symbols by name."""
_MOST_ORDER_ROWS: Final = 60
"""Greatest number of orders of a strategy on a page."""
_MOST_FILL_ROWS: Final = 60
"""Greatest number of fills of a strategy on a page."""
_ENGINE: Final[Mapping[str, str]] = {
    "epoch": "epoch",
    "published_epoch": "published_epoch",
    "step": "express_step",
    "express_lag_ms": "express_lag_ms",
    "lag_ms": "lag_ms",
    "batch_ms": "batch_ms",
    "messages_per_s": "rows_per_s",
    "messages": "messages",
    "memory_bytes": "memory_bytes",
    "live_orders": "live_orders",
    "waiting_bytes": "waiting_bytes",
    "disk_bytes": "disk_bytes",
    "dead_letters": "dead_letters",
    "subscribers": "subscribers",
    "lanes_differ": "lanes_differ",
    "spark_restarts": "spark_restarts",
}
"""Name in ``/v1/status`` of each figure of the section."""


class Lists:
    """Makes the sections of every page, and those of an open view."""

    def __init__(
        self,
        market: DisplayedMarket,
        scales: Scales,
        results: ResultsFollower,
        *,
        opened: OpenViews,
        algos: AlgoFollower | None,
        exchange: ExchangeFollower | None,
    ) -> None:
        self._market, self._scales, self._results, self._opened = market, scales, results, opened
        self._algos, self._exchange = algos, exchange

    def engine(self) -> records.EngineSection:
        """Return the runtime's figures as it reports them."""
        figures = self._results.figures
        engine = figures.get("engine") or {}
        reported = {name: _figure(figures, source) for name, source in _ENGINE.items()}
        barriers = {name: _figure(engine, name) for name in ("barrier_p50_us", "barrier_p99_us")}
        spark = figures.get("spark")
        lane = {"spark": spark if isinstance(spark, str) else None}
        return msgspec.convert({**reported, **barriers, **lane}, records.EngineSection, strict=False)

    def figures(self, time_s: int) -> EnginePoint:
        """Return the runtime's figures for a chart."""
        engine = self.engine()
        barrier_ms = None if engine.barrier_p50_us is None else engine.barrier_p50_us / 1000
        return EnginePoint(
            time_s,
            engine.messages_per_s,
            engine.express_lag_ms,
            engine.lag_ms,
            barrier_ms if engine.batch_ms is None else engine.batch_ms,
            engine.memory_bytes,
            engine.live_orders,
            engine.waiting_bytes,
        )

    def symbols(self) -> tuple[records.SymbolRow, ...]:
        """Return all symbols with their last prices."""
        phases = self._exchange.phases if self._exchange else {}
        return tuple(
            records.SymbolRow(symbol, self._last(symbol), phases.get(symbol, ""))
            for symbol in self._market.symbols[:_MOST_SYMBOL_ROWS]
        )

    def views(self) -> tuple[records.ViewRow, ...]:
        """Return all views of the runtime."""
        return tuple(
            records.ViewRow(
                view.name,
                view.lane,
                view.view_class,
                view.rows,
                view.step or view.epoch,
                view.since,
                view.failed,
                view.record.comparison if view.record else None,
            )
            for view in self._results.views
        )

    def view(self, name: str) -> records.ViewSection | None:
        """Return the full description of a view; None if there is no such view."""
        line: ViewDescription | None = next((view for view in self._results.views if view.name == name), None)
        if line is None:
            return None
        opened = self._opened.get(name)
        columns = tuple((column.name, column.type) for column in line.columns)
        explain = opened.explain if opened else ""
        return records.ViewSection(line.lane, line.view_class, line.reason, line.sql, explain, columns)

    def money(self) -> records.MoneySection | None:
        """Return profit and exposure of all strategies; None before they have answered."""
        report = self._algos.strategies if self._algos else None
        if report is None:
            return None
        positions = [position for line in report.strategies for position in line.positions]
        marked = [p for p in positions if p.mark_ticks is not None]
        return records.MoneySection(
            profit=self._money(positions, _profit),
            realised=self._money(positions, lambda p: p.realised),
            unrealised=self._money(positions, lambda p: p.unrealised),
            fees=self._money(positions, lambda p: p.fees),
            gross=self._money(marked, lambda p: abs(p.position_lots * p.mark_ticks)),
            net=self._money(marked, lambda p: p.position_lots * p.mark_ticks),
            unmarked=sum(p.mark_ticks is None and p.position_lots != 0 for p in positions),
            views_connected=report.views_connected,
        )

    def profits(self, time_s: int) -> ProfitPoint | None:
        """Return the profit of all strategies and of each, for a chart; None before they have answered."""
        report = self._algos.strategies if self._algos else None
        if report is None:
            return None
        profits = [_number(self._money(line.positions, _profit)) for line in report.strategies]
        return ProfitPoint(time_s, round(sum(profits), 2), tuple(profits))

    def strategies(self) -> tuple[records.StrategyRow, ...]:
        """Return all strategies; none before they have answered."""
        report = self._algos.strategies if self._algos else None
        return tuple(self._strategy(line) for line in report.strategies) if report else ()

    def traits(self) -> tuple[records.StrategyTraits, ...] | None:
        """Return the unchanging properties of all strategies; None before they have answered."""
        report = self._algos.strategies if self._algos else None
        if report is None:
            return None
        return tuple(
            records.StrategyTraits(
                line.name,
                line.broker_id,
                {name: bytes(value).decode("utf-8", "replace") for name, value in line.parameters.items()},
                line.views,
            )
            for line in report.strategies
        )

    def orders(self, strategy: str) -> tuple[records.OrderRow, ...]:
        """Return the newest orders of a strategy."""
        orders = self._algos.orders.orders if self._algos else ()
        own = (order for order in reversed(orders) if order.strategy == strategy)
        return tuple(self._order(order) for order in islice(own, _MOST_ORDER_ROWS))

    def fills(self, strategy: str) -> tuple[records.FillRow, ...]:
        """Return the newest trades of a strategy."""
        fills = self._algos.fills if self._algos else ()
        own = (fill for fill in reversed(fills) if fill.strategy == strategy)
        return tuple(self._fill(fill) for fill in islice(own, _MOST_FILL_ROWS))

    def _last(self, symbol: str) -> str | None:
        last = self._market.last(symbol)
        return self._scales.price(symbol, last.price_ticks) if last else None

    def _money(self, positions: Any, part: Any) -> str:
        return self._scales.sum_of_money((position.symbol, part(position)) for position in positions)

    def _strategy(self, line: StrategyLine) -> records.StrategyRow:
        money = {
            "profit": self._money(line.positions, _profit),
            "realised": self._money(line.positions, lambda p: p.realised),
            "unrealised": self._money(line.positions, lambda p: p.unrealised),
            "fees": self._money(line.positions, lambda p: p.fees),
        }
        return records.StrategyRow(
            name=line.name,
            state=line.state,
            reason=line.reason,
            is_connected=line.is_connected,
            orders_sent=line.orders_sent,
            orders_filled=line.orders_filled,
            orders_open=line.orders_open,
            orders_rejected=line.orders_rejected,
            orders_refused=line.orders_refused,
            fills=line.fills,
            positions=tuple(self._position(position) for position in line.positions),
            **money,
        )

    def _position(self, line: PositionLine) -> records.PositionRow:
        scales, symbol = self._scales, line.symbol
        return records.PositionRow(
            symbol,
            scales.quantity(symbol, line.position_lots) or "",
            scales.price(symbol, line.mark_ticks),
            scales.money(symbol, line.realised) or "",
            scales.money(symbol, line.unrealised) or "",
            scales.money(symbol, line.fees) or "",
        )

    def _order(self, order: OrderLine) -> records.OrderRow:
        scales, symbol = self._scales, order.symbol
        return records.OrderRow(
            order.client_id,
            symbol,
            order.side,
            scales.quantity(symbol, order.volume_lots) or "",
            scales.quantity(symbol, order.filled_lots) or "",
            (scales.price(symbol, order.price_ticks) or "") if order.price_ticks else "",
            order.status,
            order.reason,
        )

    def _fill(self, fill: FillLine) -> records.FillRow:
        scales, symbol = self._scales, fill.symbol
        return records.FillRow(
            fill.number,
            clock_text(fill.time_ns),
            symbol,
            fill.side,
            scales.quantity(symbol, fill.volume_lots) or "",
            scales.price(symbol, fill.price_ticks) or "",
            fill.liquidity,
            scales.money(symbol, fill.fee) or "",
        )


def _figure(figures: Mapping[str, Any], name: str) -> int | float | None:
    value = figures.get(name)
    return value if isinstance(value, int | float) else None


def _profit(position: PositionLine) -> int:
    return position.realised + position.unrealised - position.fees


def _number(money: str) -> float:
    return float(money.replace(",", ""))
