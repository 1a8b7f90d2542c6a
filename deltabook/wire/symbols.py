"""Instruments: what a tick and a lot are worth.

Money is never a float inside: prices travel as ticks and quantities as lots; the sizes here are only used where a
person reads a figure or types one.
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
    """Up to 16 characters, no blanks or commas."""
    tick_size: str = "0.01"
    """Price of one tick, as a decimal string."""
    lot_size: str = "1"
    """Quantity of one lot, as a decimal string."""
    reference_price_ticks: int = 10_000
    """Where synthetic flow starts."""

    def price(self, ticks: int) -> Decimal:
        """Ticks as money."""
        return Decimal(ticks) * Decimal(self.tick_size)

    def quantity(self, lots: int) -> Decimal:
        """Lots as a quantity."""
        return Decimal(lots) * Decimal(self.lot_size)

    def notional(self, tick_lots: int) -> Decimal:
        """A sum of price × quantity in ticks × lots, as money."""
        return Decimal(tick_lots) * Decimal(self.tick_size) * Decimal(self.lot_size)
