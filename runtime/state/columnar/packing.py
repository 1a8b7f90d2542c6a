"""How a group number and a key become one number that sorts as they do."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.state.columnar.exactsums import Exact

__all__ = ["WORD", "Packing"]

Integers = npt.NDArray[np.int64]

WORD: Final = 62
"""Bits that fit one number."""
_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


class Packing(msgspec.Struct, frozen=True):
    """How a group number and a key become one sortable number: ``group << bits | key - base``."""

    base: int
    """The least key that can be held."""
    bits: int
    """Keys from ``base`` to ``base + 2**bits - 2`` can be held: one less, so that a bound can lie behind them."""

    def holds(self, lowest: int, highest: int) -> bool:
        """Whether keys between these have a place."""
        return lowest >= self.base and highest - self.base < (1 << self.bits) - 1

    def widened(self, lowest: int, highest: int) -> Packing:
        """A packing for these keys besides its own, with as much room again on the side that grew."""
        if self.bits == 0:
            span = highest - lowest + 2
            bits = max((2 * span).bit_length(), 6)
            return Packing(max(lowest - ((1 << bits) - span) // 2, _LEAST), bits)
        low, high = min(self.base, lowest), max(self.base + (1 << self.bits) - 2, highest)
        if low == self.base and high == self.base + (1 << self.bits) - 2:
            return self
        bits = (high - low + 2).bit_length()
        spare = (1 << bits) - (high - low + 2)
        return Packing(max(low - spare, _LEAST) if low < self.base else low, bits)

    @property
    def is_wide(self) -> bool:
        """Whether offsets need Python integers, as they do for keys all over the 64 bits."""
        return self.bits > WORD

    def offsets(self, keys: Integers) -> Exact:
        """Keys that can be held, as offsets."""
        return keys.astype(object) - self.base if self.is_wide else keys - self.base

    def keys(self, offsets: Exact) -> Integers:
        """The inverse of `offsets`."""
        found: Integers = (offsets + self.base).astype(np.int64)
        return found

    def places(self, bounds: Exact, *, inclusive: bool) -> Exact:
        """Bounds of any size as offsets: entries below one are those whose offset is less."""
        if bounds.dtype == object or self.is_wide:
            last = (1 << self.bits) - 1
            moved = [min(max(int(b) - self.base + inclusive, 0), last) for b in bounds]
            return np.array(moved, object if self.is_wide else np.int64)
        # Clipped first, so that a bound far outside cannot wrap.
        least, top = self.base - inclusive, self.base + (1 << self.bits) - 1 - inclusive
        inside: Integers = np.maximum(bounds, max(least, _LEAST))
        np.minimum(inside, min(top, _MOST), out=inside)
        inside -= self.base
        if inclusive:
            inside += 1
        return inside
