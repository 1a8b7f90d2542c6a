"""Conversion of rows that the kernel of an order book writes: to ticks and lots, and to Arrow columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state import StringPool

__all__ = ["SymbolUnits", "Units", "int64_columns"]

Integers = npt.NDArray[np.int64]
Units = Callable[[str | None], tuple[int, int]]
"""Function that returns, for a symbol, how many units of the feed are in a tick and in a lot."""


class SymbolUnits:
    """Number of the feed's units in a tick and in a lot, for each symbol of a growing pool."""

    def __init__(self, symbols: StringPool, units_of: Units) -> None:
        self._symbols, self._units_of = symbols, units_of
        self._table: Integers = np.zeros((0, 2), np.int64)

    def table(self) -> Integers:
        """Return the units for rows without a symbol, then those of each symbol, shape (symbols + 1, 2).

        After a symbol was added, the next call returns a new array.
        """
        known = len(self._table)
        if known != len(self._symbols) + 1:
            names = [None, *self._symbols.added_since(0)][known:]
            self._table = np.concatenate([self._table, np.array([self._units_of(name) for name in names], np.int64)])
        return self._table

    def convert(self, rows: Integers, price: int, volume: int, symbol: int) -> Any:
        """Convert prices and volumes from the feed's units to ticks and lots, in place.

        ``price``, ``volume`` and ``symbol`` are the places of these columns in ``rows``. Return a flag for each row: it
        is True if a fraction of a tick or a lot was cut off.
        """
        ticks, lots = self.table()[rows[symbol] + 1].T
        rows[price], tick_rest = np.divmod(rows[price], ticks)
        rows[volume], lot_rest = np.divmod(rows[volume], lots)
        return (tick_rest != 0) | (lot_rest != 0)


def int64_columns(rows: Integers) -> list[pa.Array]:
    """Return the rows of a contiguous matrix as arrays without NULLs, not copied.

    The function takes half the time of `pyarrow.array`, which inspects the type of its argument.
    """
    count, buffer = rows.shape[1], pa.py_buffer(rows)
    return [
        pa.Array.from_buffers(pa.int64(), count, [None, buffer.slice(8 * count * place, 8 * count)])
        for place in range(len(rows))
    ]
