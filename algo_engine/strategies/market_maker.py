"""A market maker with inventory control.

The strategy quotes one order on each side of a symbol, ``half_spread_percent`` of half the spread away from the mid
price. It moves both quotes against its position: down if the position is long, up if the position is short. Quotes are
replaced when the best prices have moved, at most once per interval. A quote never takes: it is at least one tick away
from the other side's best price, and post-only.
"""

from __future__ import annotations

import msgspec

from algo_engine.desk.order import OrderEvent, Side
from algo_engine.strategies._limits import AtLeastOne, AtLeastZero, Pace, order_lots, room_lots, wants
from algo_engine.strategies._resting import RestingOrders, Target
from algo_engine.strategy import Context, Strategy
from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import QUOTE_VIEW, Quote

__all__ = ["MarketMaker", "MarketMakerParameters"]


class MarketMakerParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters, set with ``--param market_maker.NAME=value``."""

    symbols: tuple[str, ...] = ()
    """Symbols to quote, empty for all."""
    size_lots: dict[str, AtLeastOne] = {}
    """Size of a quote by symbol, ``*`` for all others."""
    size_touch_percent: AtLeastOne = 50
    """Size of a quote for other symbols, in percent of the typical size at the touch."""
    position_orders: AtLeastOne = 10
    """Position limit, as a multiple of the size of a quote."""
    half_spread_percent: AtLeastZero = 100
    """Distance of a quote from the middle, in hundredths of half the visible spread; 100 joins the touch."""
    skew_percent: AtLeastZero = 200
    """Shift of the quotes when the position is at its limit, in hundredths of half the visible spread."""
    replace_ticks: AtLeastOne = 1
    """Least difference between the intended and the present price of a quote, in ticks, for which it is replaced."""
    interval_ms: AtLeastOne = 200
    """Least time between two replacements of a symbol's quotes, in milliseconds."""


class MarketMaker(Strategy[MarketMakerParameters]):
    """Earns the spread and keeps its inventory small."""

    parameters_type = MarketMakerParameters

    def __init__(self, parameters: MarketMakerParameters) -> None:
        super().__init__(parameters)
        self._quotes = RestingOrders()
        self._pace = Pace(parameters.interval_ms)

    def on_start(self, context: Context) -> None:
        """Take over orders of an earlier run, and quote."""
        for order in context.open_orders():
            if not self._quotes.adopt((order.symbol, order.side), order):
                context.cancel(order.client_id)
        for symbol in context.symbols():
            self._requote(symbol)

    def on_view_change(self, change: ViewChange) -> None:
        """Quote again after a change of the best prices."""
        if change.view == QUOTE_VIEW:
            for symbol in sorted({str(row["symbol"]) for row in (*change.added, *change.removed)}):
                self._requote(symbol)

    def on_order_event(self, event: OrderEvent) -> None:
        """Quote again, as soon as the interval allows, after a quote has ended or was executed."""
        if not event.order.is_open:
            self._quotes.ended(event.order)
        if event.is_fill or not event.order.is_open:
            self._requote(event.order.symbol)

    def on_timer(self, name: str) -> None:
        """Quote again after the interval."""
        self._pace.timer_due(name)
        self._requote(name)

    def _requote(self, symbol: str) -> None:
        quote = self.context.quote(symbol)
        if quote is None or not quote.is_two_sided or not wants(self.parameters.symbols, symbol):
            return
        if not self._pace.is_due(self.context, symbol):
            return
        within = self.parameters.replace_ticks
        moved = [
            self._quotes.move(self.context, (symbol, side), self._target(side, quote), within=within) for side in Side
        ]
        if any(moved):
            self._pace.rest(self.context, symbol)

    def _target(self, side: Side, quote: Quote) -> Target:
        """Return the target of a quote; its price is computed in half ticks, and rounded away from the middle."""
        p, middle = self.parameters, quote.double_mid_ticks
        bid, ask = quote.bid_price_ticks, quote.ask_price_ticks
        assert middle is not None
        assert bid is not None
        assert ask is not None
        size_lots = order_lots(p.size_lots, p.size_touch_percent, quote)
        position_lots = self.context.position_lots(quote.symbol)
        limit_lots = max(1, p.position_orders * size_lots)
        spread = ask - bid
        skew = -(position_lots * spread * p.skew_percent) // (100 * limit_lots)
        away = spread * p.half_spread_percent // 100
        if side is Side.BUY:
            price_ticks = min((middle + skew - away) // 2, ask - 1)
        else:
            price_ticks = max(-((-(middle + skew + away)) // 2), bid + 1)
        return Target(
            quote.symbol,
            side,
            room_lots(side, position_lots, size_lots, p.position_orders),
            max(1, price_ticks),
            most_lots=max(0, limit_lots - side.sign * position_lots),
        )
