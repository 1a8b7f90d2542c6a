"""What everybody sees whatever the symbol: links, engine, symbols, views, strategies, orders and fills."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from deltabook.dashboard import records
from deltabook.dashboard.algos import Algos
from deltabook.dashboard.exchange import Exchange
from deltabook.dashboard.looks import Looks
from deltabook.dashboard.market import Market
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
    "spark": "spark",
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
        looks: Looks,
        algos: Algos | None,
        exchange: Exchange | None,
    ) -> None:
        self._market, self._scales, self._results, self._looks = market, scales, results, looks
        self._algos, self._exchange = algos, exchange

    def engine(self) -> records.EngineSection:
        """The runtime's figures as it says them."""
        figures = self._results.figures
        engine = figures.get("engine") or {}
        said = {name: _figure(figures, source) for name, source in _ENGINE.items()}
        barriers = {name: _figure(engine, name) for name in ("barrier_p50_us", "barrier_p99_us")}
        return msgspec.convert({**said, **barriers}, records.EngineSection, strict=False)

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
        found: ViewLine | None = next((view for view in self._results.views if view.name == name), None)
        if found is None:
            return None
        return records.ViewSection(found.lane, found.view_class, found.reason, found.sql, self._looks.found.get(name))

    def strategies(self) -> records.StrategiesSection | None:
        """All strategies; None before they have answered."""
        said = self._algos.strategies if self._algos else None
        if said is None:
            return None
        positions = [position for line in said.strategies for position in line.positions]
        return records.StrategiesSection(
            profit=self._money(positions, lambda p: p.realised + p.unrealised - p.fees),
            views_connected=said.views_connected,
            strategies=tuple(self._strategy(line) for line in said.strategies),
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
            "profit": self._money(line.positions, lambda p: p.realised + p.unrealised - p.fees),
            "realised": self._money(line.positions, lambda p: p.realised),
            "unrealised": self._money(line.positions, lambda p: p.unrealised),
            "fees": self._money(line.positions, lambda p: p.fees),
        }
        return records.StrategyRow(
            name=line.name,
            broker_id=line.broker_id,
            state=line.state,
            reason=line.reason,
            is_connected=line.is_connected,
            parameters={name: bytes(value).decode("utf-8", "replace") for name, value in line.parameters.items()},
            views=line.views,
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
