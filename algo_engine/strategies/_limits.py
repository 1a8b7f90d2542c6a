"""Limits of the built-in strategies: the size of their orders, and how often they evaluate a symbol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta

from algo_engine.desk.order import Side
from algo_engine.strategy import Context
from algo_engine.views.quotes import Quote

__all__ = ["AtLeastOne", "AtLeastZero", "Pace", "order_lots", "room_lots", "wants"]

AtLeastOne = Annotated[int, Meta(ge=1, le=2**62)]
AtLeastZero = Annotated[int, Meta(ge=0, le=2**62)]
MOST_TIMERS: Final = 200
"""Largest number of timers that a `Pace` or a `Taker` sets at once; a strategy may set 256 timers in all."""


def wants(symbols: tuple[str, ...], symbol: str) -> bool:
    """Return True if a strategy trades this symbol; an empty tuple stands for all symbols."""
    return not symbols or symbol in symbols


def order_lots(given: Mapping[str, int], percent: int, quote: Quote) -> int:
    """Return the size of one order: as given for the symbol (or ``*``), otherwise a part of the typical best size.

    >>> order_lots({"ACME": 7}, 10, Quote("ACME", 1, 1, 2, 1, typical_lots=500))
    7
    >>> order_lots({}, 10, Quote("ACME", 1, 1, 2, 1, typical_lots=500))
    50
    """
    fixed = given.get(quote.symbol, given.get("*", 0))
    return fixed or max(1, quote.typical_lots * percent // 100)


def room_lots(side: Side, position_lots: int, size_lots: int, position_orders: int) -> int:
    """Return the lots of an order that a position limit of ``position_orders`` orders permits.

    >>> room_lots(Side.BUY, 95, 10, 10), room_lots(Side.SELL, 95, 10, 10)
    (5, 10)
    """
    return max(0, min(size_lots, position_orders * size_lots - side.sign * position_lots))


class Pace:
    """Limits the evaluation of a symbol to once in an interval.

    A timer with the symbol's name delays an evaluation that comes too early. While `MOST_TIMERS` symbols wait for their
    timers, a further symbol is evaluated at its next change.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ns = interval_ms * 1_000_000
        self._next_ns: dict[str, int] = {}
        self._awaited: set[str] = set()

    def is_due(self, context: Context, symbol: str) -> bool:
        """Return True if the symbol is due; otherwise set the timer."""
        wait_ns = self._next_ns.get(symbol, 0) - context.now_ns
        if wait_ns <= 0:
            return True
        if symbol not in self._awaited and len(self._awaited) < MOST_TIMERS:
            self._awaited.add(symbol)
            context.set_timer(symbol, -(-wait_ns // 1_000_000))
        return False

    def timer_due(self, symbol: str) -> None:
        """Note that the timer of the symbol was due."""
        self._awaited.discard(symbol)

    def rest(self, context: Context, symbol: str) -> None:
        """Start the interval of a symbol now."""
        self._next_ns[symbol] = context.now_ns + self._interval_ns
