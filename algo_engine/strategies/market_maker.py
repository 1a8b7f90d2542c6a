"""A market maker with inventory control.

Quotes one order on each side of a symbol, ``half_spread`` away from the middle; both move against the inventory, so
that what is held too much is offered more cheaply. Quotes are replaced when the touch has moved, never faster than the
interval. A quote never crosses the touch: it stands at the other side's best price less one tick at the most.
"""

from __future__ import annotations

import msgspec

from algo_engine.contents import ViewChange
from algo_engine.order import OrderEvent, Side
from algo_engine.quotes import QUOTE_VIEW, Quote
from algo_engine.strategies._sizing import order_lots, room_lots, wants
from algo_engine.strategy import Context, Strategy

__all__ = ["MarketMaker", "MarketMakerParameters"]


class MarketMakerParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be set with ``--param market_maker.NAME=value``."""

    symbols: tuple[str, ...] = ()
    """Symbols to quote, empty for all."""
    size_lots: dict[str, int] = {}
    """Size of a quote by symbol, ``*`` for all others."""
    size_touch_percent: int = 50
    """Where not given: part of the typical size at the touch."""
    position_orders: int = 10
    """Position limit, in quotes."""
    half_spread_percent: int = 100
    """Distance of a quote from the middle, in hundredths of half the visible spread; 100 joins the touch."""
    skew_percent: int = 200
    """With the position at its limit, quotes move by so many hundredths of half the visible spread."""
    replace_ticks: int = 1
    """Quotes are replaced when their best price differs by at least so many ticks."""
    interval_ms: int = 200
    """Between two replacements of a symbol's quotes."""


class MarketMaker(Strategy[MarketMakerParameters]):
    """Earns the spread and keeps its inventory small."""

    parameters_type = MarketMakerParameters

    def __init__(self, parameters: MarketMakerParameters) -> None:
        super().__init__(parameters)
        self._quotes: dict[tuple[str, Side], int] = {}
        self._quiet_until_ns: dict[str, int] = {}

    def on_start(self, context: Context) -> None:
        """Take over orders of an earlier run, and quote."""
        for order in context.open_orders():
            key = (order.symbol, order.side)
            if key in self._quotes:
                context.cancel(order.client_id)
            else:
                self._quotes[key] = order.client_id
        for symbol in context.symbols():
            self._requote(symbol)

    def on_view_change(self, change: ViewChange) -> None:
        """The touch moved."""
        if change.view == QUOTE_VIEW:
            for symbol in sorted({str(row["symbol"]) for row in (*change.added, *change.removed)}):
                self._requote(symbol)

    def on_order_event(self, event: OrderEvent) -> None:
        """A quote has gone or was executed: quote again, as soon as the interval allows."""
        order = event.order
        key = (order.symbol, order.side)
        if not order.is_open and self._quotes.get(key) == order.client_id:
            del self._quotes[key]
        if event.is_fill:
            self._requote(order.symbol)

    def on_timer(self, name: str) -> None:
        """The interval is over."""
        self._requote(name)

    def _requote(self, symbol: str) -> None:
        if not wants(self.parameters.symbols, symbol):
            return
        wait_ns = self._quiet_until_ns.get(symbol, 0) - self.context.now_ns
        if wait_ns > 0:
            self.context.set_timer(symbol, wait_ns // 1_000_000 + 1)
            return
        quote = self.context.quote(symbol)
        if quote is None or not quote.is_two_sided:
            return
        moved = [self._place(side, quote) for side in (Side.BUY, Side.SELL)]
        if any(moved):
            self._quiet_until_ns[symbol] = self.context.now_ns + self.parameters.interval_ms * 1_000_000

    def _place(self, side: Side, quote: Quote) -> bool:
        """Bring one quote to where it should stand; whether anything was sent."""
        key = (quote.symbol, side)
        price_ticks, volume_lots = self._target(side, quote)
        old = self.context.order(self._quotes[key]) if key in self._quotes else None
        if old is not None and old.is_open:
            if volume_lots and abs(old.price_ticks - price_ticks) < self.parameters.replace_ticks:
                return False
            # The new quote waits until the old one has gone: both together could break the position limit.
            self.context.cancel(old.client_id)
            self.context.set_timer(quote.symbol, self.parameters.interval_ms)
            return True
        if not volume_lots:
            return False
        send = self.context.buy if side is Side.BUY else self.context.sell
        self._quotes[key] = send(quote.symbol, volume_lots, price_ticks)
        return True

    def _target(self, side: Side, quote: Quote) -> tuple[int, int]:
        """Price and size of a quote; all in doubled ticks until the last step, and rounded away from the middle."""
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
        return max(1, price_ticks), room_lots(side, position_lots, size_lots, p.position_orders)
