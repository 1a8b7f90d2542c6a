"""A view's full result, kept by adding up its changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.epochs.consolidating import consolidate
from runtime.plan import Column
from runtime.state import KeyColumn, KeyedTable, StringPool, decode_words, encode_words, width_of
from runtime.views.changesum import ChangeSum
from runtime.views.rows import WEIGHT, change_schema

__all__ = ["MaterialisedView"]

_MOST_SORTED: Final = 256
"""Rows up to which sorting adds up quicker than Arrow does; of more rows most cancel."""
_MOST_WAITING_ROWS: Final = 4096


class MaterialisedView:
    """The rows of one view at its version, with their multiplicities. One owner at a time.

    A multiplicity is below 0 while a row has been removed that is yet to come, as of relations whose deletions may
    come first; such a row is kept, not shown.
    Changes that come in small pieces may wait: they are added up when somebody looks, or when the owner says so.
    """

    def __init__(self, columns: Sequence[Column], pool: StringPool | None = None) -> None:
        """``pool``: where the strings of the rows are kept, its own one if it is None."""
        self.columns = tuple(columns)
        self._keys = tuple(KeyColumn(c.name, c.type, nullable=True) for c in columns)
        self._pool = StringPool() if pool is None else pool
        self.waiting = ChangeSum(change_schema(columns))
        """Changes that are not in `table` yet."""
        self.table = KeyedTable(width_of(self._keys), [WEIGHT])
        """Row → multiplicity, without what waits."""
        self.version = 0
        self.changes = 0

    def __len__(self) -> int:
        """Distinct rows that are shown."""
        return int((self._multiplicities() > 0).sum())

    def total(self) -> int:
        """Rows that are shown, repeated ones counted."""
        held = self._multiplicities()
        return int(held[held > 0].sum())

    def apply(self, changes: pa.Table | None, version: int) -> None:
        """Add a version's changes (None: there were none)."""
        self._settle()
        self.version = version
        if changes is not None and changes.num_rows:
            self.changes += changes.num_rows
            self.add(changes)
            self._forget()

    def defer(self, changes: pa.Table | None, version: int) -> None:
        """The same, but the changes wait until somebody looks."""
        self.version = version
        if changes is not None and changes.num_rows:
            self.changes += changes.num_rows
            self.waiting.add(changes)

    def catch_up(self) -> None:
        """Add the changes that wait to the table if they are many rows, though added up."""
        if self.waiting.join().num_rows > _MOST_WAITING_ROWS:
            self._settle()

    def add(self, changes: pa.Table) -> None:
        """Add changes to `table`, which afterwards knows what of it is to be saved."""
        if changes.num_rows > _MOST_SORTED:
            changes = consolidate(changes, changes.schema)
        *columns, weight = (c.combine_chunks() for c in changes.columns)
        words = encode_words(self._keys, columns, self._pool)
        keys, inverse = np.unique(words, axis=0, return_inverse=True)
        added = np.zeros(len(keys), np.int64)
        np.add.at(added, inverse.reshape(-1), weight.to_numpy())
        slots = self.table.lookup(keys)
        old = np.where(slots >= 0, self.table.get(np.maximum(slots, 0))[0], 0)
        new = old + added
        stays = new != 0
        self.table.put(keys[stays], new[stays][None, :])
        self.table.delete(keys[~stays & (slots >= 0)])

    def rows(self) -> pa.Table:
        """Columns and ``weight``, in no order; with rows that are not shown, as changes are to be added to them."""
        self._settle()
        slots = self.table.live_slots()
        arrays = decode_words(self._keys, self.table.keys_of(slots), self._pool)
        return pa.Table.from_arrays([*arrays, pa.array(self.table.get(slots)[0])], schema=change_schema(self.columns))

    def shown(self) -> pa.Table:
        """The same without rows that are not shown."""
        rows = self.rows()
        return rows.filter(pc.greater(rows.column(rows.num_columns - 1), 0))

    def _multiplicities(self) -> npt.NDArray[np.int64]:
        self._settle()
        return self.table.column_at(0, self.table.live_slots())

    def _settle(self) -> None:
        if self.waiting:
            self.add(self.waiting.take())
            self._forget()

    def _forget(self) -> None:
        """Nobody saves it: what changed need not be known."""
        self.table.forget_changes()
