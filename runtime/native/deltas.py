"""Room for the deltas of an ordered index, sorted and added up: see `library.deltas`."""

from __future__ import annotations

import numpy as np

from runtime.native.library import ahead, deltas
from runtime.native.structures import Structure

__all__ = ["Deltas"]


class Deltas(Structure):
    """Rows and deltas of a part of a batch, at most `deltas.ROOM`. It holds nothing from one step to the next."""

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
