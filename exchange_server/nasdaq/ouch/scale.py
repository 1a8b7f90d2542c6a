"""Scales between OUCH's prices and shares and the market's ticks and lots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from deltabook.wire.symbols import Instrument
from exchange_server.nasdaq.listing import list_instruments

__all__ = ["LARGEST_QUANTITY", "MARKET_UNITS", "NO_SCALE", "Scales"]

MARKET_UNITS: Final = 2_000_000_000
"""A price from here on, which is $200,000, is a market order's."""
LARGEST_QUANTITY: Final = 999_999
NO_SCALE: Final = (0, 1, 1)
"""Scale of a symbol that is not listed; no message ever uses it."""


class Scales:
    """The listed instruments: by the eight bytes of their name, and by their locate."""

    __slots__ = ("by_locate", "by_stock")

    def __init__(self, instruments: Iterable[Instrument]) -> None:
        listed, unlisted = list_instruments(instruments)
        self.by_stock: dict[bytes, tuple[int, int, int]] = {}
        """Padded name → locate, ten-thousandths in a tick, shares in a lot."""
        self.by_locate: list[tuple[int, int, int]] = [NO_SCALE] * (len(listed) + len(unlisted) + 1)
        """The same by locate."""
        for listing in listed.values():
            scale = (listing.locate, listing.tick_units, listing.lot_shares)
            self.by_stock[listing.symbol.encode("ascii").ljust(8)] = scale
            self.by_locate[listing.locate] = scale
