"""Own orders that rest in the book: each has a place of its own, and is moved to the target of that place."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec

from algo_engine.desk.order import Order, Side
from algo_engine.strategy import Context
from deltabook.wire.text import OrderOptions

__all__ = ["RestingOrders", "Target"]

_POST_ONLY: Final = OrderOptions(post_only=True)


class Target(msgspec.Struct, frozen=True, gc=False):
    """Price and size at which an order should rest."""

    symbol: str
    """Symbol of the instrument."""
    side: Side
    """Buy or sell."""
    lots: int
    """Number of lots; 0 for no order."""
    price_ticks: int
    """Limit price in ticks."""
    most_lots: int
    """Largest number of lots that an order and its replacement together may execute on this side."""


class RestingOrders:
    """At most one own order in each place; a place is any key, such as symbol and side.

    The orders never take liquidity.
    """

    def __init__(self) -> None:
        self._orders: dict[Hashable, int] = {}

    def adopt(self, place: Hashable, order: Order) -> bool:
        """Take over an order that is in the market already; return False if the place is taken."""
        return self._orders.setdefault(place, order.client_id) == order.client_id

    def ended(self, order: Order) -> None:
        """Forget an order that is no longer open."""
        for place, client_id in self._orders.items():
            if client_id == order.client_id:
                del self._orders[place]
                return

    def move(self, context: Context, place: Hashable, target: Target, *, within: int = 1) -> bool:
        """Move the order of a place to its target; return True if a request was sent.

        An order that is less than ``within`` ticks from the target, and not too large, keeps its place in the queue.
        Any other order is replaced if the exchange has accepted it, and if ``most_lots`` allows that both the old and
        the new order execute. Otherwise the old order is cancelled; after its end, the next call for this place sends
        the new one.
        """
        t = target
        old = context.order(self._orders[place]) if place in self._orders else None
        if old is None or not old.is_open:
            if t.lots:
                send = context.buy if t.side is Side.BUY else context.sell
                self._orders[place] = send(t.symbol, t.lots, t.price_ticks, options=_POST_ONLY)
            return bool(t.lots)
        if t.lots and abs(old.price_ticks - t.price_ticks) < within and old.remaining_lots <= t.lots:
            return False
        if t.lots and old.order_id and old.remaining_lots + t.lots <= t.most_lots:
            context.replace(old.client_id, t.lots, t.price_ticks)
        else:
            context.cancel(old.client_id)
        return True
