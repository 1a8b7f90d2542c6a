"""The rows that fill new views: relation snapshot, segments since, and the deltas of the epoch that is open.

Most of it can be read before the barrier that brings the views, on a thread of its own, so that the barrier has only
the few epochs since to add: what a fill costs, it does not cost the feed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import pyarrow as pa

from runtime.epochs import EpochLogError, EpochLogReader, SnapshotDirectory, add_up, has_snapshot_of
from runtime.epochs.consolidating import consolidate
from runtime.plan import Program, new_views
from runtime.views.filling import columns_to_fill

__all__ = ["Filled", "Filling", "with_open_epoch"]


class Filled(msgspec.Struct, frozen=True, eq=False):
    """What relations hold at an epoch, as far as some views read them."""

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
        """What fills the views of ``new`` that ``old`` has not, at an epoch; goes on from ``before`` where it can."""
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
        base = self._snapshots.newest(epoch) if self._snapshots is not None else None
        for name, wanted in columns.items():
            use = base if base is not None and has_snapshot_of(base, name) else None
            begin = 0 if use is None else use.footer.to_epoch
            tables[name] = add_up(self._log, name, begin, epoch, base=use, columns=wanted)
        return Filled(epoch, columns, tables)


def with_open_epoch(filled: Filled, deltas: Mapping[str, Sequence[pa.RecordBatch]]) -> dict[str, pa.Table]:
    """Relation → what it holds behind the deltas of the epoch that is open; relations that hold nothing left out."""
    found: dict[str, pa.Table] = {}
    for name, wanted in filled.columns.items():
        held, batches = filled.tables[name], deltas.get(name, ())
        rows = _chosen(pa.Table.from_batches(batches), wanted) if batches else None
        whole = _together(held, rows)
        if whole is not None and whole.num_rows:
            found[name] = whole.combine_chunks()
    return found


def _together(held: pa.Table | None, rows: pa.Table | None) -> pa.Table | None:
    if held is None or rows is None:
        return rows if held is None else held
    return consolidate(pa.concat_tables([held, rows]))


def _chosen(rows: pa.Table, columns: Collection[str]) -> pa.Table:
    """As `add_up` chooses: one column at least."""
    *names, _ = rows.column_names
    places = [place for place, name in enumerate(names) if name in columns] or [0]
    return rows.select([*places, len(names)])
