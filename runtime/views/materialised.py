"""A view's full result, kept by adding up its changes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runtime.native.kernels import Kernels
from runtime.plan import Column
from runtime.state import KeyColumn, StringPool, decode_words, encode_words, width_of
from runtime.views.pending_changes import PendingChanges
from runtime.views.result_rows import ResultRows, Words
from runtime.views.rows import change_schema

__all__ = ["MaterialisedView"]


class MaterialisedView:
    """The rows of one view at its version, with their multiplicities. One owner at a time.

    A multiplicity is below 0 while a row has been removed that is yet to come, as of relations whose deletions may
    come first; such a row is kept, not shown. Changes wait until somebody reads the rows or calls `settle`.
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
        self.version = 0
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
        """Rows that are shown, repeated ones counted."""
        self.settle()
        return self.table.total

    def apply(self, changes: pa.Table | None, version: int) -> None:
        """Take a version's changes (None: there were none); they wait until somebody reads the rows."""
        self.version = version
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
        """Columns and ``weight``, in no order; with rows that are not shown, as changes are to be added to them."""
        self.settle()
        return self._decoded(*self.table.dump())

    def shown(self) -> pa.Table:
        """The same without rows that are not shown."""
        rows = self.rows()
        return rows.filter(pc.greater(rows.column(rows.num_columns - 1), 0))

    def _decoded(self, words: Words, weights: Words) -> pa.Table:
        arrays = decode_words(self._keys, words, self._pool)
        return pa.Table.from_arrays([*arrays, pa.array(weights)], schema=self._schema)
