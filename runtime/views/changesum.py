"""The sum of a view's changes, which come in small pieces."""

from __future__ import annotations

import heapq
from collections.abc import Collection

import pyarrow as pa

from runtime.epochs.consolidating import consolidate

__all__ = ["MOST_PIECES", "ChangeSum", "join_longest"]

MOST_PIECES = 256


class ChangeSum:
    """Keeps changes as they come and adds them up when somebody looks, or when there are many of them.

    Adding up many takes about a millisecond. Views change together, so an owner of several joins few of them at a time
    (`join_longest`): else all of them would stop for that long at once.
    """

    __slots__ = ("_is_joined", "_pieces", "_schema")

    def __init__(self, schema: pa.Schema) -> None:
        """``schema``: the columns and the weights behind them."""
        self._schema = schema
        self._pieces: list[pa.Table] = []
        self._is_joined = False

    def __len__(self) -> int:
        """Pieces that are pending."""
        return len(self._pieces)

    def add(self, changes: pa.Table) -> None:
        """Keep changes; the table is not copied."""
        self._pieces.append(changes)
        self._is_joined = False

    def join(self) -> pa.Table:
        """Add up the pending changes and return the sum: no two rows are equal, and none has the weight 0."""
        if not self._is_joined:
            pieces = self._pieces or [self._schema.empty_table()]
            self._pieces, self._is_joined = [consolidate(pa.concat_tables(pieces), self._schema)], True
        return self._pieces[0]

    def take(self) -> pa.Table:
        """Return the sum and clear it."""
        joined = self.join()
        self._pieces, self._is_joined = [], False
        return joined


def join_longest(sums: Collection[ChangeSum]) -> list[ChangeSum]:
    """Join those that have many pieces, the longest first, and return them; called after each version of the views.

    One at a time where there are up to 254 sums. Of more, so many that none gets longer than 2 × `MOST_PIECES`.
    """
    long = [each for each in sums if len(each) >= MOST_PIECES]
    if len(long) > 1:
        long = heapq.nlargest(1 + len(sums) // (MOST_PIECES - 1), long, key=len)
    for each in long:
        each.join()
    return long
