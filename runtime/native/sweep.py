"""Room for the entries of a group of an ordered index, in one array: see `library.sweep`."""

from __future__ import annotations

import numpy as np

from runtime.native.library import sweep
from runtime.native.structures import Structure

__all__ = ["Entries"]


class Entries(Structure):
    """Keys, values and running sums of the entries of one group. It holds nothing from one call to the next."""

    def __init__(self, entry_words: int) -> None:
        super().__init__(4)
        self._entry_words = entry_words
        self.put(sweep.NUMBERS, np.zeros(2, np.int64))
        self._reserve(0)

    def make_room(self) -> None:
        """Make room where `sweep.collect` found none."""
        self._reserve(2 * int(self.views[sweep.NUMBERS][sweep.WANTED]))

    def _reserve(self, room: int) -> None:
        self.put(sweep.ENTRY_KEYS, np.zeros(room, np.int64))
        self.put(sweep.ENTRY_VALUES, np.zeros(room * self._entry_words, np.int64))
        # Running weights may have 128 bits, as sums have: one word more than the weight of an entry.
        self.put(sweep.RUNNING, np.zeros((room + 1) * (self._entry_words + 1), np.int64))
        self.views[sweep.NUMBERS][sweep.ROOM] = room
