"""Instruments: the price of a tick and the quantity of a lot.

Money is never a float internally: prices are integer ticks and quantities integer lots. The sizes of tick and lot are
only used where a person reads or types a figure.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

__all__ = ["Instrument"]


class Instrument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tradable symbol and its scale.

    >>> Instrument("BTCUSD", "0.01", "0.00000001").price(7831900)
    Decimal('78319.00')
    """

    symbol: str
    """Symbol of up to 16 characters, without blanks or commas."""
    tick_size: str = "0.01"
    """Price of one tick, as a decimal string."""
    lot_size: str = "1"
    """Quantity of one lot, as a decimal string."""
    reference_price_ticks: int = 10_000
    """Price in ticks at which synthetic flow starts."""

    def price(self, ticks: int) -> Decimal:
        """Return a price in ticks as money."""
        return Decimal(ticks) * Decimal(self.tick_size)

    def quantity(self, lots: int) -> Decimal:
        """Return lots as a quantity."""
        return Decimal(lots) * Decimal(self.lot_size)

    def notional(self, tick_lots: int) -> Decimal:
        """Return a sum of price × quantity in ticks × lots as money."""
        return Decimal(tick_lots) * Decimal(self.tick_size) * Decimal(self.lot_size)
