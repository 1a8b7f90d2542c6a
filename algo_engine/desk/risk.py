"""Risk limits that an order must pass before it is recorded in the journal or sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from algo_engine.desk.order import Order, Side
from algo_engine.views.quotes import Quote

__all__ = ["Exposure", "RiskGate", "RiskLimits", "TokenBucket"]

_NS: Final = 1_000_000_000


class RiskLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one strategy.

    Limits in lots can be set for each symbol. For a symbol without one, the limit is a multiple of the typical visible
    size at the touch, so that the same settings suit a share and a coin counted in satoshi.
    """

    max_order_lots: dict[str, int] = {}
    """Largest order in lots by symbol, ``*`` for all others."""
    max_order_touches: int = 20
    """Largest order as a multiple of the typical best size, for symbols missing from `max_order_lots`."""
    max_position_lots: dict[str, int] = {}
    """Largest position, long or short, by symbol, ``*`` for all others; open orders count as if filled."""
    max_position_touches: int = 100
    """Largest position as a multiple of the typical best size, for symbols missing from `max_position_lots`."""
    max_order_notional: dict[str, int] = {}
    """Largest order in ticks × lots by symbol, ``*`` for all others; other symbols have no limit."""
    max_open_notional: dict[str, int] = {}
    """Largest sum of all open orders of a symbol in ticks × lots, by symbol as in `max_order_notional`."""
    max_gross_notional: int = 0
    """Largest gross exposure in ticks × lots; 0 is no limit.

    It is the sum of the absolute positions of all symbols, each valued at its mark. For each symbol, the open orders of
    the side that makes the absolute position larger are counted as filled.
    """
    max_net_notional: int = 0
    """Largest net exposure in ticks × lots, long or short; 0 is no limit.

    It is the sum of the positions with their signs, each valued at its mark. Either all open purchases or all open
    sales are counted as filled, whichever gives the larger exposure.
    """
    max_open_orders: int = 50
    """Largest number of open orders, over all symbols."""
    orders_per_s: int = 50
    """Largest average number of new orders and replacements per second."""
    burst_orders: int = 50
    """Largest number of new orders and replacements at one moment."""
    max_orders_per_day: int = 0
    """Largest number of new orders and replacements in a UTC day, restarts included; 0 for no limit."""
    price_band_bps: int = 1000
    """Largest distance of a limit price from the middle of the last quote, in hundredths of a percent of this
    middle.
    """
    max_loss: int = 0
    """Loss after fees, in ticks × lots over all symbols, that triggers the kill switch; 0 is no limit."""


class TokenBucket:
    """Token bucket: `rate_per_s` events per second on average, `burst` at one moment; integers, on an injected clock.

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
        """Take a token; return False if there is none."""
        now_ns = self._now_ns()
        # A clock that is set back adds no tokens; later time counts from its new value.
        self._level = min(self._full, self._level + max(0, now_ns - self._at_ns) * self._rate_per_s)
        self._at_ns = now_ns
        if self._level < _NS:
            return False
        self._level -= _NS
        return True


class RiskGate:
    """Check of every order against the limits of one strategy, and the rate of orders so far."""

    def __init__(self, limits: RiskLimits, now_ns: Callable[[], int]) -> None:
        self.limits = limits
        self.now_ns = now_ns
        """Clock of the engine, in nanoseconds since the UTC epoch."""
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
        """Return the reason to refuse an order; empty if it passes.

        Only an order that passes takes a token of the rate.

        * ``open_orders``: all orders of the strategy that may still trade.
        * ``replacing``: the requested replacements of some of them. Until the exchange answers, both the old lots and
          the requested lots may trade, so both are counted.
        * ``sent_today``: new orders and replacements sent in this UTC day.
        * ``is_new``: False if the order replaces one of ``open_orders``, so that their number does not grow.
        * ``exposures``: position and mark of each symbol; required if gross or net exposure has a limit.
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
        # An order that only closes the position passes, even if the limit has become smaller than the position.
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
        """Return the reason to refuse an order that raises an exposure's worst case above its limit; else empty."""
        limits = self.limits
        if not (limits.max_gross_notional or limits.max_net_notional):
            return ""
        before, after = _Worst(), _Worst()
        # A symbol without a position may still have open orders.
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
    """Number of lots: positive for a long position, negative for a short one."""
    mark_ticks: int | None
    """Price at which the position is valued; None before the first quote."""


class _Worst:
    """Largest gross and net exposure that positions can reach if any of the open orders trade."""

    def __init__(self) -> None:
        self.gross = 0
        self._long = self._short = 0

    @property
    def net(self) -> int:
        """Absolute net exposure with either all purchases or all sales filled, whichever is larger."""
        return max(self._long, -self._short)

    def add(self, exposure: Exposure, orders: Sequence[Order]) -> None:
        """Add a symbol with all of its open orders; each lot is valued at the mark."""
        position, mark = exposure.position_lots, exposure.mark_ticks or 0
        long = position + sum(order.remaining_lots for order in orders if order.side is Side.BUY)
        short = position - sum(order.remaining_lots for order in orders if order.side is Side.SELL)
        self.gross += max(long, -short) * mark
        self._long += long * mark
        self._short += short * mark


def _worth_ticks(order: Order, quote: Quote) -> int:
    """Return the price at which a lot of an order is valued.

    A purchase is valued at its limit; without a limit at its stop price; with neither at the best ask. A sale is valued
    at its limit (or stop price), or at the best bid if that is higher: with a limit below the best bid, it would
    execute at the best bid.
    """
    limit_ticks = order.price_ticks or order.options.stop_ticks or 0
    if order.side is Side.BUY:
        return limit_ticks or quote.ask_price_ticks or 0
    return max(limit_ticks, quote.bid_price_ticks or 0)


def _limit(given: dict[str, int], symbol: str, otherwise: int) -> int:
    return given.get(symbol, given.get("*", otherwise))
