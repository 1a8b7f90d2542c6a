"""Limits that an order must pass before it is written down or sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from algo_engine.order import Order, Side
from algo_engine.quotes import Quote

__all__ = ["Exposure", "RiskGate", "RiskLimits", "TokenBucket"]

_NS: Final = 1_000_000_000


class RiskLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one strategy; per symbol where a symbol is concerned.

    Limits in lots can be given per symbol. Where none is given they follow the visible size at the touch, so that the
    same limits hold for a share and for a coin counted in satoshi.
    """

    max_order_lots: dict[str, int] = {}
    """Largest order by symbol, ``*`` for all others."""
    max_order_touches: int = 20
    """Where not given above: so many times the typical size at the touch."""
    max_position_lots: dict[str, int] = {}
    """Largest position, long or short, by symbol, ``*`` for all others; open orders count as if filled."""
    max_position_touches: int = 100
    """Where not given above: so many times the typical size at the touch."""
    max_order_notional: dict[str, int] = {}
    """Largest order in ticks × lots by symbol, ``*`` for all others; none where not given."""
    max_open_notional: dict[str, int] = {}
    """All open orders of a symbol together, in ticks × lots, as above."""
    max_gross_notional: int = 0
    """Gross exposure in ticks × lots: positions of all symbols without their signs, each valued at its touch, with the
    open orders of one side counted as filled where that makes it larger; 0 is no limit."""
    max_net_notional: int = 0
    """Net exposure in ticks × lots: the same with signs, all open purchases or all open sales counted as filled; 0 is
    no limit."""
    max_open_orders: int = 50
    """Over all symbols."""
    orders_per_s: int = 50
    """New orders and replacements a second, on average."""
    burst_orders: int = 50
    """New orders and replacements at once."""
    max_orders_per_day: int = 0
    """New orders and replacements in a UTC day, over restarts; 0 is no limit."""
    price_band_bps: int = 1000
    """A limit price may be so many hundredths of a percent away from the middle of the last quote."""
    max_loss: int = 0
    """Loss after fees in ticks × lots over all symbols at which the kill switch acts; 0 is none."""


class TokenBucket:
    """So many events a second on average, so many at once; integers on an injected clock.

    >>> now = [0]
    >>> bucket = TokenBucket(rate_per_s=1, burst=1, now_ns=lambda: now[0])
    >>> bucket.take(), bucket.take()
    (True, False)
    >>> now[0] += 1_000_000_000
    >>> bucket.take()
    True
    """

    def __init__(self, rate_per_s: int, burst: int, now_ns: Callable[[], int]) -> None:
        self._rate_per_s = rate_per_s
        self._full = burst * _NS
        self._level = self._full
        self._now_ns = now_ns
        self._at_ns = now_ns()

    def take(self) -> bool:
        """Take one token if there is one."""
        now_ns = self._now_ns()
        # A clock that steps back earns nothing, and the time after the step counts from there.
        self._level = min(self._full, self._level + max(0, now_ns - self._at_ns) * self._rate_per_s)
        self._at_ns = now_ns
        if self._level < _NS:
            return False
        self._level -= _NS
        return True


class RiskGate:
    """Says why an order may not be sent."""

    def __init__(self, limits: RiskLimits, now_ns: Callable[[], int]) -> None:
        self.limits = limits
        self.now_ns = now_ns
        """Our clock, nanoseconds since the UTC epoch."""
        self._bucket = TokenBucket(limits.orders_per_s, limits.burst_orders, now_ns)

    def objection(
        self,
        order: Order,
        *,
        quote: Quote | None,
        position_lots: int,
        open_orders: Sequence[Order],
        replacing: Sequence[Order] = (),
        sent_today: int = 0,
        is_new: bool = True,
        exposures: Mapping[str, Exposure] = MappingProxyType({}),
    ) -> str:
        """The reason to refuse this order, empty to let it pass; only an order that passes takes from the rate.

        ``open_orders`` may all trade still. Some of them are being replaced: until the exchange answers they may trade
        both all that they have and all that was asked for, which is ``replacing``. Not ``is_new``: the order takes the
        place of one of them, so that there are no more. ``exposures``: what is held of each symbol; needed where gross
        or net exposure has a limit.
        """
        if order.volume_lots <= 0:
            return f"volume: expected 1 lot or more, was {order.volume_lots}"
        if order.price_ticks < 0:
            return f"price: expected 0 (market) or more ticks, was {order.price_ticks}"
        if quote is None:
            return f"price band: expected a quote of {order.symbol}, was none"
        limits = self.limits
        if is_new and len(open_orders) >= limits.max_open_orders:
            return f"open orders: expected fewer than {limits.max_open_orders}, was {len(open_orders)}"
        if 0 < limits.max_orders_per_day <= sent_today:
            return f"orders of the day: expected fewer than {limits.max_orders_per_day}, was {sent_today}"
        orders = [*open_orders, *replacing]
        return (
            self._size(order, quote)
            or self._position(order, quote, position_lots, orders)
            or self._band(order, quote)
            or self._notional(order, quote, orders)
            or self._exposure(order, quote, orders, exposures)
            or ("" if self._bucket.take() else f"order rate: expected at most {limits.orders_per_s} orders/s")
        )

    def _size(self, order: Order, quote: Quote) -> str:
        limits = self.limits
        most = _limit(limits.max_order_lots, order.symbol, limits.max_order_touches * quote.typical_lots)
        return "" if order.volume_lots <= most else f"order size: expected at most {most} lots, was {order.volume_lots}"

    def _position(self, order: Order, quote: Quote, position_lots: int, orders: Sequence[Order]) -> str:
        symbol, side, limits = order.symbol, order.side, self.limits
        most = _limit(limits.max_position_lots, symbol, limits.max_position_touches * quote.typical_lots)
        same = sum(o.remaining_lots for o in orders if o.symbol == symbol and o.side is side)
        worst = side.sign * position_lots + same + order.volume_lots
        # Orders that only close what is held pass even where a limit has shrunk below the position.
        if worst <= max(0, most):
            return ""
        return f"position: expected at most {most} lots with all open orders filled, was {worst}"

    def _band(self, order: Order, quote: Quote) -> str:
        price_ticks = order.price_ticks
        if price_ticks == 0:
            lots = quote.ask_volume_lots if order.side is Side.BUY else quote.bid_volume_lots
            return "" if lots else "price band: expected a price to trade at, was an empty side"
        middle = quote.double_mid_ticks
        if middle is None:
            return "price band: expected a quote, was an empty book"
        if abs(2 * price_ticks - middle) * 10_000 <= self.limits.price_band_bps * middle:
            return ""
        exact = f"{middle // 2}{'.5' if middle % 2 else ''}"
        return f"price band: expected within {self.limits.price_band_bps} bps of {exact}, was {price_ticks}"

    def _notional(self, order: Order, quote: Quote, orders: Sequence[Order]) -> str:
        symbol, limits = order.symbol, self.limits
        most, most_open = (_limit(given, symbol, 0) for given in (limits.max_order_notional, limits.max_open_notional))
        own = order.volume_lots * _worth_ticks(order, quote)
        if most and own > most:
            return f"notional: expected at most {most} ticks × lots, was {own}"
        if not most_open:
            return ""
        both = own + sum(o.remaining_lots * _worth_ticks(o, quote) for o in orders if o.symbol == symbol)
        if both > most_open:
            return f"open notional: expected at most {most_open} ticks × lots, was {both}"
        return ""

    def _exposure(self, order: Order, quote: Quote, orders: Sequence[Order], exposures: Mapping[str, Exposure]) -> str:
        """Orders that bring the worst case of an exposure no nearer to its limit pass also beyond the limit."""
        limits = self.limits
        if not (limits.max_gross_notional or limits.max_net_notional):
            return ""
        before, after = _Worst(), _Worst()
        # A symbol without a position of its own may have open orders all the same.
        symbols = dict.fromkeys([order.symbol, *exposures, *(each.symbol for each in orders)])
        for symbol in symbols:
            exposure = exposures.get(symbol, Exposure(0, quote.mark_ticks(0) if symbol == order.symbol else None))
            here = [each for each in orders if each.symbol == symbol]
            before.add(exposure, here)
            after.add(exposure, [*here, order] if symbol == order.symbol else here)
        if limits.max_gross_notional and before.gross < after.gross > limits.max_gross_notional:
            return f"gross exposure: expected at most {limits.max_gross_notional} ticks × lots, was {after.gross}"
        if limits.max_net_notional and before.net < after.net > limits.max_net_notional:
            return f"net exposure: expected at most {limits.max_net_notional} ticks × lots, was {after.net}"
        return ""


class Exposure(NamedTuple):
    """Position in one symbol, and its mark."""

    position_lots: int
    """Positive long, negative short."""
    mark_ticks: int | None
    """Price of a lot; None where there has been no quote."""


class _Worst:
    """The largest exposures that open orders can lead to, whichever of them trade."""

    def __init__(self) -> None:
        self.gross = 0
        self._long = self._short = 0

    @property
    def net(self) -> int:
        """The larger one of all purchases and all sales filled."""
        return max(self._long, -self._short)

    def add(self, exposure: Exposure, orders: Sequence[Order]) -> None:
        """One symbol, with all orders of it; every lot is worth the mark."""
        position, mark = exposure.position_lots, exposure.mark_ticks or 0
        long = position + sum(order.remaining_lots for order in orders if order.side is Side.BUY)
        short = position - sum(order.remaining_lots for order in orders if order.side is Side.SELL)
        self.gross += max(long, -short) * mark
        self._long += long * mark
        self._short += short * mark


def _worth_ticks(order: Order, quote: Quote) -> int:
    """What a lot of it may be worth: its limit, or of a market order its stop or the price that it would find; a sale
    finds the best bid, however low its limit is."""
    limit_ticks = order.price_ticks or order.options.stop_ticks or 0
    if order.side is Side.BUY:
        return limit_ticks or quote.ask_price_ticks or 0
    return max(limit_ticks, quote.bid_price_ticks or 0)


def _limit(given: dict[str, int], symbol: str, otherwise: int) -> int:
    return given.get(symbol, given.get("*", otherwise))
