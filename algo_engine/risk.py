"""Limits that an order must pass before it is written down or sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from algo_engine.order import Order, Side
from algo_engine.quotes import Quote

__all__ = ["RiskGate", "RiskLimits", "TokenBucket"]

_NS: Final = 1_000_000_000


class RiskLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one strategy may do; per symbol where a symbol is concerned.

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
    max_open_orders: int = 50
    """Over all symbols."""
    orders_per_s: int = 50
    """New orders a second, on average."""
    burst_orders: int = 50
    """New orders at once."""
    price_band_bps: int = 1000
    """A limit price may be so many hundredths of a percent away from the middle of the last quote."""
    max_loss: int = 0
    """Loss in ticks × lots over all symbols at which the kill switch acts; 0 is none."""


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
        self._bucket = TokenBucket(limits.orders_per_s, limits.burst_orders, now_ns)

    def objection(
        self,
        side: Side,
        symbol: str,
        volume_lots: int,
        price_ticks: int,
        *,
        quote: Quote | None,
        position_lots: int,
        open_orders: Iterable[Order],
    ) -> str:
        """The reason to refuse this order, empty to let it pass; only an order that passes takes from the rate."""
        if volume_lots <= 0:
            return f"volume: expected 1 lot or more, was {volume_lots}"
        if price_ticks < 0:
            return f"price: expected 0 (market) or more ticks, was {price_ticks}"
        if quote is None:
            return f"price band: expected a quote of {symbol}, was none"
        orders = list(open_orders)
        if len(orders) >= self.limits.max_open_orders:
            return f"open orders: expected fewer than {self.limits.max_open_orders}, was {len(orders)}"
        return (
            self._size(symbol, volume_lots, quote)
            or self._position(side, volume_lots, quote, position_lots, orders)
            or self._band(side, price_ticks, quote)
            or ("" if self._bucket.take() else f"order rate: expected at most {self.limits.orders_per_s} orders/s")
        )

    def _size(self, symbol: str, volume_lots: int, quote: Quote) -> str:
        most = _limit(self.limits.max_order_lots, symbol, self.limits.max_order_touches * quote.typical_lots)
        return "" if volume_lots <= most else f"order size: expected at most {most} lots, was {volume_lots}"

    def _position(self, side: Side, volume_lots: int, quote: Quote, position_lots: int, orders: list[Order]) -> str:
        symbol = quote.symbol
        most = _limit(self.limits.max_position_lots, symbol, self.limits.max_position_touches * quote.typical_lots)
        same = sum(o.remaining_lots for o in orders if o.symbol == symbol and o.side is side)
        worst = side.sign * position_lots + same + volume_lots
        # Orders that only close what is held pass even where a limit has shrunk below the position.
        if worst <= max(0, most):
            return ""
        return f"position: expected at most {most} lots with all open orders filled, was {worst}"

    def _band(self, side: Side, price_ticks: int, quote: Quote) -> str:
        if price_ticks == 0:
            touch = quote.ask_price_ticks if side is Side.BUY else quote.bid_price_ticks
            return "" if touch is not None else "price band: expected a price to trade at, was an empty side"
        middle = quote.double_mid_ticks
        if middle is None:
            return "price band: expected a quote, was an empty book"
        if abs(2 * price_ticks - middle) * 10_000 <= self.limits.price_band_bps * middle:
            return ""
        return f"price band: expected within {self.limits.price_band_bps} bps of {middle / 2:g}, was {price_ticks}"


def _limit(given: dict[str, int], symbol: str, otherwise: int) -> int:
    return given.get(symbol, given.get("*", otherwise))
