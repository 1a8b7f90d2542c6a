"""Rows of a view: the full result with its changes applied, and changes that wait to be added up."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence, Sized
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from runtime.epochs.consolidating import consolidate
from runtime.native.tiers import Kernels
from runtime.plan import Column
from runtime.state import KeyColumn, StringPool, decode_words, encode_words, width_of
from runtime.views.result_rows import ResultRows, Words
from runtime.views.rows import change_schema

__all__ = ["MOST_PIECES", "MaterialisedView", "PendingChanges", "overdue"]

MOST_PIECES = 256
"""Number of pieces at which an owner joins them, or adds them up."""

T = TypeVar("T", bound=Sized)


class MaterialisedView:
    """The rows of one view, with their multiplicities. One owner at a time.

    A multiplicity is below 0 while a row has been removed that is yet to come, as of relations whose deletions may
    come first; such a row is kept, not shown. Changes wait until the rows are read or `settle` is called.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        pool: StringPool | None = None,
        *,
        is_saved: bool = False,
        kernels: Kernels | None = None,
    ) -> None:
        """``pool``: where the strings of the rows are kept, its own one if it is None; the rest as of `ResultRows`."""
        self.columns = tuple(columns)
        self._schema = change_schema(columns)
        self._keys = tuple(KeyColumn(c.name, c.type, nullable=True) for c in columns)
        self._pool = StringPool() if pool is None else pool
        self._waiting = PendingChanges(self._schema)
        self.table = ResultRows(width_of(self._keys), is_saved=is_saved, kernels=kernels)
        """Row → multiplicity, without what waits."""
        self.changes = 0

    @property
    def waiting(self) -> PendingChanges:
        """Changes that are not in `table` yet."""
        return self._waiting

    def __len__(self) -> int:
        """Distinct rows that are shown."""
        self.settle()
        return self.table.shown

    def total(self) -> int:
        """Return rows that are shown, repeated ones counted."""
        self.settle()
        return self.table.total

    def apply(self, changes: pa.Table | None) -> None:
        """Take a version's changes (None: there were none); they are applied when the rows are read."""
        if changes is not None and changes.num_rows:
            self.changes += changes.num_rows
            self._waiting.add(changes)

    def settle(self) -> None:
        """Add the changes that wait."""
        if self._waiting:
            self.add(self._waiting.take())

    def add(self, changes: pa.Table) -> pa.Table:
        """Add changes to `table`, and return their sum: no two rows are equal, and none has the weight 0."""
        *columns, weight = (column.combine_chunks() for column in changes.columns)
        words, weights = self.table.add(encode_words(self._keys, columns, self._pool), weight.to_numpy())
        return self._decoded(words, weights)

    def rows(self) -> pa.Table:
        """Return columns and ``weight``, unordered; with rows that are not shown, as changes are added to them."""
        self.settle()
        return self._decoded(*self.table.dump())

    def shown(self) -> pa.Table:
        """Return columns and ``weight`` without rows that are not shown."""
        rows = self.rows()
        return rows.filter(pc.greater(rows.column(rows.num_columns - 1), 0))

    def _decoded(self, words: Words, weights: Words) -> pa.Table:
        arrays = decode_words(self._keys, words, self._pool)
        return pa.Table.from_arrays([*arrays, pa.array(weights)], schema=self._schema)


class PendingChanges:
    """Changes of a view that wait to be added to its rows; equal rows may still be apart."""

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
        """Add the pieces up into one: most rows of a step are undone by the next, and the end of an epoch, which would
        have to go through all of them, competes with the steps that subscribers wait for."""
        if self._pieces:
            self._joined.append(consolidate(pa.concat_tables(self._pieces)))
            self._pieces = []

    def rows(self) -> pa.Table:
        """Return all changes, whose sum counts; they stay."""
        return pa.concat_tables([self._schema.empty_table(), *self._joined, *self._pieces])

    def take(self) -> pa.Table:
        """Return all changes and forget them."""
        rows = self.rows()
        self._joined, self._pieces = [], []
        return rows


def overdue(changed: Collection[T], views: int) -> list[T]:
    """Return those that have `MOST_PIECES` or more, the longest first; called after each version with what it changed.

    Views change together, and joining takes a part of a millisecond. So only one is returned where there are up to 254
    ``views`` in all; of more, so many that none gets longer than 2 × `MOST_PIECES`.
    """
    long = [each for each in changed if len(each) >= MOST_PIECES]
    if len(long) > 1:
        long = heapq.nlargest(1 + views // (MOST_PIECES - 1), long, key=len)
    return long
