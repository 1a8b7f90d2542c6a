"""Relations at an epoch: the sum of the log, kept for the next question and updated from the changes since then.

The errors defined here belong to questions that never reach their process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

import pyarrow as pa

from runtime.epochs import EpochLogError, EpochLogReader, SnapshotDirectory, add_up, rows_at
from runtime.epochs.consolidating import consolidate
from runtime.plan import Relation
from runtime.service.sandbox import AskError, Cancel
from runtime.views.rows import change_schema

__all__ = ["GoneError", "RelationsAtEpochs", "TooManyError", "UnpublishedError"]


class GoneError(AskError):
    """The epoch is retired, or a view is not known at it."""


class UnpublishedError(AskError):
    """A view of the Spark lane has no version yet."""


class TooManyError(AskError):
    """Too many questions are being answered."""


_ATTEMPTS: Final = 2
"""Number of attempts to read a log that is being retired; each begins at a newer snapshot."""


class RelationsAtEpochs:
    """Relations of one log. May be called from any thread; calls run one at a time.

    A relation is kept at the newest requested epoch, so that the next question only reads the changes since then. An
    older epoch is added up from a snapshot, and not kept.
    """

    def __init__(self, epochs: Path, snapshots: Path, most_bytes: int) -> None:
        self._log = EpochLogReader(epochs)
        self._snapshots = SnapshotDirectory(snapshots)
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, tuple[int, Relation, pa.Table]] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, relation: Relation, epoch: int, cancel: Cancel) -> pa.Table:
        """Return the rows at the end of an epoch, with their weights in the last column.

        Raises `GoneError` for an epoch that is no longer available, `CostlyError` if the question is cancelled.
        """
        with self._lock:
            for attempt in range(_ATTEMPTS):
                try:
                    rows = self._at(relation, epoch, cancel)
                    cancel.check()
                    return rows
                except (EpochLogError, OSError) as error:
                    cancel.check()
                    if attempt == _ATTEMPTS - 1:
                        raise GoneError(self._gone(epoch, error)) from None
        raise AssertionError("the last attempt returns or raises")

    def kept(self) -> dict[str, int]:
        """Return kept relation → its epoch."""
        return {name: epoch for name, (epoch, _, _) in self._kept.items()}

    def _at(self, relation: Relation, epoch: int, cancel: Cancel) -> pa.Table:
        begin, known, rows = self._kept.get(relation.name, (-1, relation, None))
        if rows is None or begin > epoch or known != relation:
            snapshot = self._snapshots.newest(epoch)
            rows = _typed(rows_at(self._log, snapshot, relation.name, epoch, stopped=cancel.__bool__), relation)
        elif begin < epoch:
            deltas = add_up(self._log, relation.name, begin, epoch, stopped=cancel.__bool__)
            if deltas is not None:
                rows = consolidate(pa.concat_tables([rows, _typed(deltas, relation)]))
        cancel.check()
        if epoch >= self._kept.get(relation.name, (-1,))[0]:
            self._keep(relation, epoch, rows)
        return rows

    def _keep(self, relation: Relation, epoch: int, rows: pa.Table) -> None:
        self._kept.pop(relation.name, None)
        self._kept[relation.name] = (epoch, relation, rows)
        kept_bytes = sum(table.nbytes for _, _, table in self._kept.values())
        while kept_bytes > self._most_bytes:
            _, (_, _, table) = self._kept.popitem(last=False)
            kept_bytes -= table.nbytes

    def _gone(self, epoch: int, error: Exception) -> str:
        first, latest = self._log.first(), self._log.latest()
        if epoch < first:
            return f"expected an epoch from {first} on, as earlier ones are retired, was {epoch}"
        return f"expected an epoch up to {latest} that can be read, was {epoch}: {error}"


def _typed(rows: pa.Table | None, relation: Relation) -> pa.Table:
    """Return the rows in the relation's types; an empty table if ``rows`` is None."""
    schema = change_schema(relation.columns)
    if rows is None:
        return schema.empty_table()
    return rows.rename_columns(schema.names).cast(schema)
