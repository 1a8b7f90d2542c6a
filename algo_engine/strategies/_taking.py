"""Base of the strategies that take at the touch: the symbols they evaluate, the size they take, and their pauses."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec

from algo_engine.desk.order import OrderEvent, Side
from algo_engine.strategies._limits import MOST_TIMERS, AtLeastOne, AtLeastZero, order_lots, room_lots, wants
from algo_engine.strategy import Strategy
from algo_engine.views.quotes import Quote

__all__ = ["Factor", "Taker", "TakerParameters", "thousandths"]

Factor = Annotated[float, msgspec.Meta(ge=1, le=1_000_000)]
"""Ratio of two quantities; rounded to thousandths."""


class TakerParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of every strategy that takes at the touch."""

    symbols: tuple[str, ...] = ()
    """Symbols to trade, empty for all."""
    size_lots: dict[str, AtLeastOne] = {}
    """Size of an order by symbol, ``*`` for all others."""
    size_touch_percent: AtLeastOne = 25
    """Size of an order for other symbols, in percent of the typical size at the touch."""
    position_orders: AtLeastOne = 10
    """Position limit, as a multiple of the size of an order."""
    cooldown_ms: AtLeastZero = 500
    """Least time between two orders of a symbol."""
    order_life_ms: AtLeastOne = 2_000
    """Time after which the rest of an order is cancelled."""


P = TypeVar("P", bound=TakerParameters)


class Taker(Strategy[P], abc.ABC):
    """Takes an order's size at the other side's best price when `side_of` returns a side.

    A timer ends each order. While `MOST_TIMERS` orders wait for their timers, no further order is sent.
    """

    def __init__(self, parameters: P) -> None:
        super().__init__(parameters)
        self._quiet_until_ns: dict[str, int] = {}
        self._timed: set[str] = set()
        """Timers that are set: client ids of orders, as text."""

    @abc.abstractmethod
    def side_of(self, symbol: str) -> Side | None:
        """Return the side on which to trade this symbol now, None for none."""

    def evaluate(self, symbols: Iterable[str]) -> None:
        """Evaluate these symbols, and trade those with a two-sided quote for which `side_of` returns a side."""
        for symbol in symbols:
            quote = self.context.quote(symbol)
            if quote is None or not quote.is_two_sided or not wants(self.parameters.symbols, symbol):
                continue
            if self.context.now_ns < self._quiet_until_ns.get(symbol, 0):
                continue
            side = self.side_of(symbol)
            if side is not None:
                self._take(side, quote)

    def on_timer(self, name: str) -> None:
        """Cancel the rest of an order whose time is over."""
        self._timed.discard(name)
        self.context.cancel(int(name))

    def on_order_event(self, event: OrderEvent) -> None:
        """Cancel the timer of an order that has ended."""
        if not event.order.is_open:
            self._timed.discard(str(event.order.client_id))
            self.context.cancel_timer(str(event.order.client_id))

    def _take(self, side: Side, quote: Quote) -> None:
        p, symbol = self.parameters, quote.symbol
        position_lots = self.context.position_lots(symbol)
        position_lots += sum(o.side.sign * o.remaining_lots for o in self.context.open_orders(symbol))
        size_lots = order_lots(p.size_lots, p.size_touch_percent, quote)
        volume_lots = room_lots(side, position_lots, size_lots, p.position_orders)
        price_ticks = quote.ask_price_ticks if side is Side.BUY else quote.bid_price_ticks
        if not volume_lots or price_ticks is None or len(self._timed) >= MOST_TIMERS:
            return
        send = self.context.buy if side is Side.BUY else self.context.sell
        timer = str(send(symbol, volume_lots, price_ticks))
        self._quiet_until_ns[symbol] = self.context.now_ns + p.cooldown_ms * 1_000_000
        self._timed.add(timer)
        self.context.set_timer(timer, p.order_life_ms)


def thousandths(factor: float) -> int:
    """Return a factor as whole thousandths, with which comparisons stay exact.

    >>> thousandths(0.1)
    100
    """
    return round(factor * 1000)
