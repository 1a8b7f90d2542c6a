"""Changes of a view that come in small pieces, kept until somebody adds them up."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sized
from typing import TypeVar

import pyarrow as pa

__all__ = ["MOST_PIECES", "PendingChanges", "overdue"]

MOST_PIECES = 256
"""Number of pieces at which an owner joins them, or adds them up."""

T = TypeVar("T", bound=Sized)


class PendingChanges:
    """Changes in the order in which they came; rows that cancel each other stay until they are added up."""

    __slots__ = ("_joined", "_pieces", "_schema")

    def __init__(self, schema: pa.Schema) -> None:
        """``schema``: the columns and the weights behind them."""
        self._schema = schema
        self._joined: list[pa.Table] = []
        self._pieces: list[pa.Table] = []

    def __len__(self) -> int:
        """Pieces that are not joined."""
        return len(self._pieces)

    def __bool__(self) -> bool:
        return bool(self._joined or self._pieces)

    def add(self, changes: pa.Table) -> None:
        """Keep changes; the table is not copied."""
        self._pieces.append(changes)

    def join(self) -> None:
        """Copy the pieces into one: thousands of tables, freed at once, would stop all threads."""
        if self._pieces:
            self._joined.append(pa.concat_tables(self._pieces).combine_chunks())
            self._pieces = []

    def rows(self) -> pa.Table:
        """Return all changes; they stay."""
        return pa.concat_tables([self._schema.empty_table(), *self._joined, *self._pieces])

    def take(self) -> pa.Table:
        """Return all changes and forget them."""
        rows = self.rows()
        self._joined, self._pieces = [], []
        return rows


def overdue(pending: Collection[T]) -> list[T]:
    """Return those that have `MOST_PIECES` or more, the longest first; called after each version of the views.

    Views change together, and joining takes a part of a millisecond. So only one is returned where there are up to 254;
    of more, so many that none gets longer than 2 × `MOST_PIECES`.
    """
    long = [each for each in pending if len(each) >= MOST_PIECES]
    if len(long) > 1:
        long = heapq.nlargest(1 + len(pending) // (MOST_PIECES - 1), long, key=len)
    return long
