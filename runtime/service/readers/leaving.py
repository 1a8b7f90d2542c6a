"""Deltas that delete all rows of a dropped reader's relation, read from the log."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from runtime.epochs import EpochLogError, EpochLogReader, SnapshotDirectory, rows_at

__all__ = ["rows_that_leave"]

_TRIES: Final = 3
"""Attempts to read the log, whose beginning may be retired meanwhile; a newer snapshot then replaces it."""


def rows_that_leave(
    log: EpochLogReader, snapshots: SnapshotDirectory, relation: str, epoch: int
) -> list[pa.RecordBatch]:
    """Return the deltas that empty a relation which has not changed since this epoch. May run on any thread.

    All rows are in memory at once. Raises `EpochLogError` if the log cannot be read.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            rows = rows_at(log, snapshots.newest(epoch), relation, epoch)
            break
        except EpochLogError:
            if not tries_left:
                raise
    if rows is None or not rows.num_rows:
        return []
    weight = pa.array(-rows.column(rows.num_columns - 1).to_numpy().astype(np.int64))
    last = rows.num_columns - 1
    batches: list[pa.RecordBatch] = rows.set_column(last, rows.schema.field(last), weight).to_batches()
    return batches
