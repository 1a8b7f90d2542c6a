"""Room that operations over ordered indexes work in; it holds nothing from one call to the next."""

from __future__ import annotations

import numpy as np

from runtime.native.library import ahead, deltas, sweep
from runtime.native.structures import Structure

__all__ = ["Deltas", "Entries"]


class Deltas(Structure):
    """Rows and deltas of a part of a batch, at most `deltas.ROOM`, sorted and added up: see `library.deltas`."""

    def __init__(self, entry_words: int) -> None:
        super().__init__(deltas.PLACES)
        for place, words in {
            deltas.NUMBERS: 4,
            **dict.fromkeys((deltas.ROW_GROUP, deltas.ROW_KEY, deltas.WORDS, deltas.SPARE, deltas.KEY), deltas.ROOM),
            deltas.COUNTS: 1 << deltas.DIGIT,
            deltas.VALUE: deltas.ROOM * entry_words,
            deltas.FOUND: deltas.ROOM * 3 * entry_words,
            deltas.SCRATCH: 3 * entry_words,
            deltas.RECENT: ahead.RING_WORDS,
        }.items():
            # Pages of it that are never written to take no memory.
            self.put(place, np.zeros(words, np.int64))


class Entries(Structure):
    """Keys, values and running sums of the entries of one group: see `library.sweep`."""

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
