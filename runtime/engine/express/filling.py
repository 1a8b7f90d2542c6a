"""The rows that fill new views: relation snapshot, segments since, and the deltas of the epoch that is open.

Most of it can be read before the barrier that brings the views, on a thread of its own, so that the barrier has only
the few epochs since to add: what a fill costs, it does not cost the feed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import pyarrow as pa

from runtime.epochs import EpochLogError, EpochLogReader, SnapshotDirectory, add_up, rows_at
from runtime.epochs.consolidating import consolidate
from runtime.plan import Program, new_views
from runtime.views.filling import columns_to_fill

__all__ = ["Filled", "Filling", "with_open_epoch"]


class Filled(msgspec.Struct, frozen=True, eq=False):
    """Rows of relations at an epoch, in the columns that some views read."""

    epoch: int
    """The last epoch inside."""
    columns: Mapping[str, Collection[str]]
    """Relation → what is read of it."""
    tables: Mapping[str, pa.Table | None]
    """Relation → those columns (one at least) and ``weight``; None where nothing ever was."""


class Filling:
    """Reads an epoch log for new views. `read` may run on any thread; it keeps nothing between two calls."""

    def __init__(self, log: EpochLogReader, snapshots: SnapshotDirectory | None = None) -> None:
        self._log = log
        self._snapshots = snapshots

    def read(self, old: Program, new: Program, epoch: int, before: Filled | None = None) -> Filled:
        """Return the tables for the views of ``new`` missing in ``old``, at an epoch; reuse ``before`` if possible."""
        try:
            return self._read(old, new, epoch, before)
        except EpochLogError:
            # The log may have lost its beginning meanwhile: then a newer snapshot stands for it.
            return self._read(old, new, epoch, None)

    def _read(self, old: Program, new: Program, epoch: int, before: Filled | None) -> Filled:
        columns = columns_to_fill(new, new_views(old, new))
        tables: dict[str, pa.Table | None] = {}
        if before is not None and before.columns == columns and before.epoch <= epoch:
            for name, wanted in columns.items():
                rows = add_up(self._log, name, before.epoch, epoch, columns=wanted)
                tables[name] = _together(before.tables[name], rows)
            return Filled(epoch, columns, tables)
        snapshot = self._snapshots.newest(epoch) if self._snapshots is not None else None
        for name, wanted in columns.items():
            tables[name] = rows_at(self._log, snapshot, name, epoch, columns=wanted)
        return Filled(epoch, columns, tables)


def with_open_epoch(filled: Filled, deltas: Mapping[str, Sequence[pa.RecordBatch]]) -> dict[str, pa.Table]:
    """Return relation → its rows after the deltas of the open epoch; empty relations are left out."""
    tables: dict[str, pa.Table] = {}
    for name, wanted in filled.columns.items():
        base, batches = filled.tables[name], deltas.get(name, ())
        rows = _chosen(pa.Table.from_batches(batches), wanted) if batches else None
        whole = _together(base, rows)
        if whole is not None and whole.num_rows:
            tables[name] = whole.combine_chunks()
    return tables


def _together(base: pa.Table | None, rows: pa.Table | None) -> pa.Table | None:
    if base is None or rows is None:
        return rows if base is None else base
    return consolidate(pa.concat_tables([base, rows]))


def _chosen(rows: pa.Table, columns: Collection[str]) -> pa.Table:
    """Return the columns that `add_up` would choose: at least one."""
    *names, _ = rows.column_names
    places = [place for place, name in enumerate(names) if name in columns] or [0]
    return rows.select([*places, len(names)])
