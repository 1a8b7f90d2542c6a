"""Which rows of two sorted blocks belong together, and the pairs a window at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.keys import null_rows, order_codes

__all__ = ["Matches", "match"]

Integers = npt.NDArray[np.int64]


class Matches:
    """Rows of the other block that match each row of the driving block: ``counts`` neighbours from ``starts`` on."""

    def __init__(self, codes: Integers, others: Integers, starts: Integers, counts: Integers) -> None:
        self._codes = codes
        self._others = others
        self.starts = starts
        self.counts = counts

    def pairs(self, most: int, *, optional: bool, with_others: bool) -> Iterator[tuple[Integers, Integers]]:
        """Pairs of rows in the order of the driving block, at most so many at a time.

        ``optional``: a driving row without a match is paired with -1. ``with_others``: so is every row of the other
        block that matched none, in its place by key.
        """
        rows = np.arange(len(self.counts))
        starts = np.where(self.counts > 0, self.starts, -1)
        counts = np.maximum(self.counts, 1) if optional else self.counts
        if with_others:
            alone = np.flatnonzero(~self._matched())
            places = np.searchsorted(self._codes, self._others[alone])
            rows = np.insert(rows, places, -1)
            starts = np.insert(starts, places, alone)
            counts = np.insert(counts, places, 1)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        if total == len(counts) and (len(counts) == 0 or int(counts.max()) == 1):
            for begin in range(0, total, most):  # one pair each, as where keys are unique
                yield rows[begin : begin + most], starts[begin : begin + most]
            return
        for begin in range(0, total, most):
            places = np.arange(begin, min(begin + most, total))
            driver = np.searchsorted(ends, places, side="right")
            offset = places - (ends - counts)[driver]
            yield rows[driver], np.where(starts[driver] < 0, -1, starts[driver] + offset)

    def _matched(self) -> npt.NDArray[np.bool_]:
        """Return a flag for each row of the other block: true if it matches a driving row."""
        edges = np.zeros(len(self._others) + 1, np.int64)
        has_match = self.counts > 0
        np.add.at(edges, self.starts[has_match], 1)
        np.add.at(edges, self.starts[has_match] + self.counts[has_match], -1)
        return np.cumsum(edges[:-1]) > 0


def match(driving: Sequence[pa.Array], other: Sequence[pa.Array]) -> Matches:
    """Return the matches of two sorted blocks by their key columns; a key with a NULL in it matches nothing."""
    codes, others = order_codes([driving, other])
    starts = np.searchsorted(others, codes)
    ends = _run_ends(others)
    inside = np.minimum(starts, max(len(others) - 1, 0))
    if not len(others):
        return Matches(codes, others, starts, np.zeros(len(codes), np.int64))
    counts = np.where((starts < len(others)) & (others[inside] == codes), ends[inside] - starts, 0)
    nulls = null_rows(driving)
    if nulls is not None:
        counts[nulls] = 0
    return Matches(codes, others, starts, counts)


def _run_ends(codes: Integers) -> Integers:
    """Return, for each row of a sorted block, the end of the run of its key."""
    if not len(codes):
        return codes
    last = np.append(np.flatnonzero(codes[1:] != codes[:-1]) + 1, len(codes))
    lengths = np.diff(last, prepend=0)
    ends: Integers = np.repeat(last, lengths)
    return ends
