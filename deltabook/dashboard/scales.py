"""Tick and lot sizes of symbols, and figures formatted with them: exact decimals, never floats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from itertools import islice
from typing import Final

from deltabook.dashboard.errors import DashboardError
from deltabook.wire.symbols import Instrument

__all__ = ["Scales", "parse_scales"]

_EXACT = Context(prec=100, rounding=ROUND_HALF_EVEN)
"""Context with more digits than any product of two 128-bit integers and two sizes has."""
_MORE_DIGITS = 2
"""Digits that an average has in addition to those of a price."""
_MONEY_DIGITS = 2
"""Minimum number of digits of money after the point."""
_EVERY = "*"
"""Symbol that stands for all others."""
MOST_SCALES: Final = 1_000
"""Maximum number of scales that a page is sent, for the rows of views."""


def parse_scales(options: Iterable[str]) -> dict[str, Instrument]:
    """Parse options ``SYMBOL=TICK,LOT`` into symbol → instrument; ``*`` stands for all others.

    Raise `DashboardError` for other text.

    >>> parse_scales(["BTCUSD=0.01,0.00000001"])["BTCUSD"].lot_size
    '0.00000001'
    """
    scales: dict[str, Instrument] = {}
    for option in options:
        symbol, equals, sizes = option.partition("=")
        tick, comma, lot = sizes.partition(",")
        if not (symbol and equals and comma and _is_size(tick) and _is_size(lot)):
            raise DashboardError(f"expected SYMBOL=TICK,LOT such as ACME=0.01,1 for --scale, was {option!r}")
        scales[symbol] = Instrument(symbol, tick, lot)
    return scales


def _is_size(text: str) -> bool:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return False
    return value.is_finite() and value > 0 and len(text) <= 30


class Scales:
    """Tick and lot size of every symbol: those of the options, else those of the exchange, else 1 and 1."""

    def __init__(self, given: Mapping[str, Instrument] | None = None) -> None:
        self._given = dict(given or {})
        self._learned: dict[str, Instrument] = {}
        self.version = 0
        """Number that grows when a symbol's scale changes; figures formatted at an earlier version are stale."""

    def learn(self, instrument: Instrument) -> None:
        """Store the instrument that the exchange reports."""
        if self._learned.get(instrument.symbol) != instrument:
            self._learned[instrument.symbol] = instrument
            self.version += 1

    def knows(self, symbol: str) -> bool:
        """Return True if the scale of a symbol is known; else its figures are ticks and lots."""
        return symbol in self._given or symbol in self._learned or _EVERY in self._given

    def known(self, symbols: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return symbol → tick and lot size, of the first `MOST_SCALES` symbols whose scale is known."""
        known = islice((symbol for symbol in symbols if self.knows(symbol)), MOST_SCALES)
        return {symbol: (self.of(symbol).tick_size, self.of(symbol).lot_size) for symbol in known}

    def of(self, symbol: str) -> Instrument:
        """Return the symbol's instrument, with a tick and a lot of 1 if its scale is unknown."""
        instrument = self._given.get(symbol) or self._learned.get(symbol) or self._given.get(_EVERY)
        return instrument or Instrument(symbol, "1", "1")

    def price(self, symbol: str, ticks: int | None) -> str | None:
        """Return a price with all the decimals of the tick; None for None."""
        if ticks is None:
            return None
        return f"{_EXACT.multiply(Decimal(ticks), Decimal(self.of(symbol).tick_size)):f}"

    def quantity(self, symbol: str, lots: int | None) -> str | None:
        """Return a quantity with all the decimals of the lot; None for None."""
        if lots is None:
            return None
        return f"{_EXACT.multiply(Decimal(lots), Decimal(self.of(symbol).lot_size)):f}"

    def average(self, symbol: str, price_volume: int | None, volume: int | None) -> str | None:
        """Return ``price_volume / volume`` with two digits more than a price, rounded half to even; None without
        volume."""
        if not volume or price_volume is None:
            return None
        tick = Decimal(self.of(symbol).tick_size)
        step = Decimal(1).scaleb(min(_exponent(tick), 0) - _MORE_DIGITS)
        value = _EXACT.divide(_EXACT.multiply(Decimal(price_volume), tick), Decimal(volume))
        return f"{value.quantize(step, ROUND_HALF_EVEN, _EXACT):f}"

    def money(self, symbol: str, tick_lots: int | None) -> str | None:
        """Return ticks × lots as money: exact, with two decimals or more, without trailing zeros after the second."""
        if tick_lots is None:
            return None
        return self.sum_of_money([(symbol, tick_lots)])

    def sum_of_money(self, parts: Iterable[tuple[str, int]]) -> str:
        """Return the sum of (symbol, ticks × lots) as money, formatted as `money` does."""
        total = Decimal(0)
        for symbol, tick_lots in parts:
            instrument = self.of(symbol)
            part = _EXACT.multiply(Decimal(tick_lots), Decimal(instrument.tick_size))
            total = _EXACT.add(total, _EXACT.multiply(part, Decimal(instrument.lot_size)))
        whole, _, decimals = f"{total:,f}".partition(".")
        return f"{whole}.{decimals.rstrip('0').ljust(_MONEY_DIGITS, '0')}"


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0
