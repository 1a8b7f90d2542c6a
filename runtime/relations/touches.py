"""Rows of the relation TOUCHES: the best bid and ask of a symbol after each message that changes the bid or the ask.

While rows of the relation are wanted, the total volume at each price (its *level*) is maintained. Levels are computed
from the live orders, so they are not saved; rows after a restart are the same as in an uninterrupted run. `book_kernel`
changes the levels and writes the rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.native.indexes import Levels
from runtime.native.library import levels as level
from runtime.native.structures import Structure
from runtime.relations import book_kernel as kernel
from runtime.relations.book_rows import SymbolUnits, int64_columns
from runtime.state import StringPool

__all__ = ["TOUCHES_SCHEMA", "Touches"]

Integers = npt.NDArray[np.int64]
TOUCHES_SCHEMA: Final = pa.schema(
    [
        ("t", pa.int64()),
        ("symbol", pa.string()),
        ("bid_price", pa.int64()),
        ("bid_volume", pa.int64()),
        ("ask_price", pa.int64()),
        ("ask_volume", pa.int64()),
        ("weight", pa.int64()),
    ]
)
"""Schema of rows of TOUCHES, all of which have the weight 1."""
_SIDES: Final = ((kernel.X_BID_PRICE, kernel.X_BID_VOLUME), (kernel.X_ASK_PRICE, kernel.X_ASK_VOLUME))


class Touches:
    """Levels of the books of one feed, and the touch of each symbol. Not thread-safe: one owner at a time."""

    def __init__(self, root: Structure, symbols: StringPool, orders: Integers, units: SymbolUnits | None) -> None:
        """Compute the levels.

        ``root`` is the table with which the kernel is called; ``orders`` has the words of all live orders, one order a
        row.
        """
        self._root, self._symbols, self._units = root, symbols, units
        self._levels = Levels()
        self._rows: Integers = np.zeros((kernel.X_COLUMNS, 0), np.int64)
        self._numbers = root.array(kernel.NUMBERS)
        self._numbers[kernel.WITH_TOUCHES] = 1
        self._numbers[kernel.HAS_UNITS] = units is not None
        root.link(kernel.LEVELS, self._levels)
        root.put(kernel.BEST, np.zeros(0, np.int64))
        self.load(orders)

    def load(self, orders: Integers) -> None:
        """Replace the live orders, without writing rows of touches."""
        self._put_units()
        volume, price, symbol, side = orders[:, [kernel.VOLUME, kernel.PRICE, kernel.SYMBOL, kernel.SIDE]].T
        if self._units is not None:
            ticks, lots = self._units.table()[symbol + 1].T
            price, volume = price // ticks, volume // lots
        is_bid = side == kernel.BID
        self._levels.load(2 * (symbol + 1) + ~is_bid, np.where(is_bid, ~price, price), volume)
        self._reserve_groups(0)
        best = self._root.array(kernel.BEST).reshape(-1, kernel.BEST_WORDS)
        best[:] = 0
        roots = self._levels.array(level.ROOTS)[: len(best)]
        has_any = roots > 0
        best[: len(roots)][has_any] = self._levels.records.records()[roots[has_any] - 1, level.KEY : level.TOTAL + 2]

    def unlink(self) -> None:
        """Remove all arrays from the kernel's table; no other method may be called afterwards."""
        self._numbers[kernel.WITH_TOUCHES] = 0
        for place in (kernel.LEVELS, kernel.BEST, kernel.TOUCHES, kernel.UNITS):
            self._root.put(place, np.zeros(0, np.int64))

    def reserve(self, messages: int) -> None:
        """Make room for the changes of this many messages."""
        self._put_units()
        self._reserve_groups(messages)
        self._rows = np.empty((kernel.X_COLUMNS, messages), np.int64)
        self._root.put(kernel.TOUCHES, self._rows.reshape(-1))
        self._numbers[kernel.TOUCH_COUNT] = 0

    def take(self) -> pa.RecordBatch | None:
        """Return the rows that the last batch of messages has written, or None."""
        count = int(self._numbers[kernel.TOUCH_COUNT])
        if not count:
            return None
        rows = self._rows[:, :count].copy()
        columns = int64_columns(rows)
        columns[kernel.X_SYMBOL] = self._symbols.decode(rows[kernel.X_SYMBOL])
        for price, volume in _SIDES:
            if rows[volume].min() <= 0:
                columns[price] = pa.array(rows[price], mask=rows[volume] == 0)
                columns[volume] = pa.array(rows[volume], mask=rows[volume] <= 0)
        return pa.RecordBatch.from_arrays([*columns, pa.array(np.ones(count, np.int64))], schema=TOUCHES_SCHEMA)

    def _reserve_groups(self, keys: int) -> None:
        groups = 2 * (len(self._symbols) + 1)
        self._levels.reserve(groups, keys)
        if groups * kernel.BEST_WORDS > len(self._root.array(kernel.BEST)):
            self._root.extend(kernel.BEST, 2 * groups * kernel.BEST_WORDS)

    def _put_units(self) -> None:
        """Pass the units of all symbols to the kernel."""
        if self._units is not None:
            self._root.put(kernel.UNITS, self._units.table().reshape(-1))
