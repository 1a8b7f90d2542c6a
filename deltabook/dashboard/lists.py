"""What everybody sees whatever the symbol: links, engine, symbols, views, strategies, orders and fills."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from deltabook.dashboard import records
from deltabook.dashboard.algos import Algos
from deltabook.dashboard.exchange import Exchange
from deltabook.dashboard.history import Engine, Money
from deltabook.dashboard.market import Market
from deltabook.dashboard.opened import OpenViews
from deltabook.dashboard.panels import clock_text
from deltabook.dashboard.results import Results, ViewLine
from deltabook.dashboard.scales import Scales
from deltabook.wire.strategies import FillLine, OrderLine, PositionLine, StrategyLine

__all__ = ["Lists"]

MOST_SYMBOLS: Final = 1_000
MOST_ORDERS: Final = 60
MOST_FILLS: Final = 60
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
"""Figure of the section → its name in ``/v1/status``."""


class Lists:
    """Makes the sections of everybody, and those of a view that is open."""

    def __init__(
        self,
        market: Market,
        scales: Scales,
        results: Results,
        *,
        opened: OpenViews,
        algos: Algos | None,
        exchange: Exchange | None,
    ) -> None:
        self._market, self._scales, self._results, self._opened = market, scales, results, opened
        self._algos, self._exchange = algos, exchange

    def engine(self) -> records.EngineSection:
        """The runtime's figures as it says them."""
        figures = self._results.figures
        engine = figures.get("engine") or {}
        reported = {name: _figure(figures, source) for name, source in _ENGINE.items()}
        barriers = {name: _figure(engine, name) for name in ("barrier_p50_us", "barrier_p99_us")}
        spark = figures.get("spark")
        lane = {"spark": spark if isinstance(spark, str) else None}
        return msgspec.convert({**reported, **barriers, **lane}, records.EngineSection, strict=False)

    def figures(self, time_s: int) -> Engine:
        """The same for drawing."""
        engine = self.engine()
        barrier_ms = None if engine.barrier_p50_us is None else engine.barrier_p50_us / 1000
        return Engine(
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
        """All symbols with their last price."""
        phases = self._exchange.phases if self._exchange else {}
        return tuple(
            records.SymbolRow(symbol, self._last(symbol), phases.get(symbol, ""))
            for symbol in self._market.symbols[:MOST_SYMBOLS]
        )

    def views(self) -> tuple[records.ViewRow, ...]:
        """All views of the runtime."""
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
        """One of them in full; None if there is none of that name."""
        line: ViewLine | None = next((view for view in self._results.views if view.name == name), None)
        if line is None:
            return None
        opened = self._opened.get(name)
        columns = tuple((column.name, column.type) for column in line.columns)
        explain = opened.explain if opened else ""
        return records.ViewSection(line.lane, line.view_class, line.reason, line.sql, explain, columns)

    def money(self) -> records.MoneySection | None:
        """Profit and exposure of all strategies; None before they have answered."""
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

    def profits(self, time_s: int) -> Money | None:
        """Profit of all strategies and of each, for drawing."""
        report = self._algos.strategies if self._algos else None
        if report is None:
            return None
        profits = [_number(self._money(line.positions, _profit)) for line in report.strategies]
        return Money(time_s, round(sum(profits), 2), tuple(profits))

    def strategies(self) -> tuple[records.StrategyRow, ...]:
        """All strategies; none before they have answered."""
        report = self._algos.strategies if self._algos else None
        return tuple(self._strategy(line) for line in report.strategies) if report else ()

    def traits(self) -> tuple[records.StrategyTraits, ...] | None:
        """What does not change of them; None before they have answered."""
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
        """The newest orders of a strategy."""
        orders = self._algos.orders.orders if self._algos else ()
        own = (order for order in reversed(orders) if order.strategy == strategy)
        return tuple(self._order(order) for order in islice(own, MOST_ORDERS))

    def fills(self, strategy: str) -> tuple[records.FillRow, ...]:
        """The newest trades of a strategy."""
        fills = self._algos.fills if self._algos else ()
        own = (fill for fill in reversed(fills) if fill.strategy == strategy)
        return tuple(self._fill(fill) for fill in islice(own, MOST_FILLS))

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
