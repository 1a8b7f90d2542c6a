"""Instruments that NASDAQ's messages can carry, and their units."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import msgspec

from deltabook.wire.symbols import Instrument

__all__ = ["LARGEST_PRICE", "LARGEST_SHARES", "Listing", "list_instruments"]

LARGEST_PRICE: Final = 2**32 - 1
"""Largest four-byte price, with four decimals."""
LARGEST_SHARES: Final = 2**32 - 1

_STOCK_WIDTH: Final = 8
_MOST_LOCATES: Final = 2**16 - 1
_UNITS_PER_PRICE: Final = 10_000


class Listing(msgspec.Struct, frozen=True):
    """An instrument as the messages have it."""

    symbol: str
    """Name of the instrument, at most 8 characters."""
    locate: int
    """Stock locate code: its place among the market's instruments, from 1."""
    tick_units: int
    """Ten-thousandths of the currency in one tick."""
    lot_shares: int
    """Shares in one lot."""


def list_instruments(instruments: Iterable[Instrument]) -> tuple[dict[str, Listing], dict[str, str]]:
    """Return the listings by symbol, and by symbol the reasons why the other instruments are not listed.

    >>> listed, unlisted = list_instruments([Instrument("ACME"), Instrument("BTCUSD", "0.01", "0.00000001")])
    >>> listed["ACME"].tick_units, unlisted
    (100, {'BTCUSD': 'expected a lot of whole shares, was 0.00000001'})
    """
    listed: dict[str, Listing] = {}
    unlisted: dict[str, str] = {}
    for locate, instrument in enumerate(instruments, 1):
        reason = _why_not(instrument, locate)
        if reason:
            unlisted[instrument.symbol] = reason
            continue
        tick_units = int(Decimal(instrument.tick_size) * _UNITS_PER_PRICE)
        lot_shares = int(Decimal(instrument.lot_size))
        listed[instrument.symbol] = Listing(instrument.symbol, locate, tick_units, lot_shares)
    return listed, unlisted


def _why_not(instrument: Instrument, locate: int) -> str:
    if len(instrument.symbol) > _STOCK_WIDTH:
        return f"expected a symbol of at most {_STOCK_WIDTH} characters, was {len(instrument.symbol)}"
    if not _is_whole(Decimal(instrument.tick_size) * _UNITS_PER_PRICE, LARGEST_PRICE):
        return f"expected a tick of whole ten-thousandths, was {instrument.tick_size}"
    if not _is_whole(Decimal(instrument.lot_size), LARGEST_SHARES):
        return f"expected a lot of whole shares, was {instrument.lot_size}"
    if locate > _MOST_LOCATES:
        return f"expected a place among the first {_MOST_LOCATES}, was {locate}"
    return ""


def _is_whole(value: Decimal, largest: int) -> bool:
    return value == value.to_integral_value() and 1 <= value <= largest
