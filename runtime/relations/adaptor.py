"""Interface and errors of adaptors, which convert an origin's rows to deltas of relations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.formats import FormattedBatch, Pushdown, Schema
from runtime.plan import Relation
from runtime.relations.rowends import RowEnds

__all__ = ["Adaptor", "AdaptorError", "FeedGapError", "Offsets", "Prepared"]


class AdaptorError(ValueError):
    """An adaptor cannot be made or cannot continue."""


class FeedGapError(AdaptorError):
    """Messages are missing in a sequenced feed."""


Offsets = RowEnds | npt.NDArray[np.int64]
"""One byte offset per row. The engine passes a `RowEnds`, which computes the offsets only when they are read."""


class Prepared(msgspec.Struct, frozen=True):
    """Rows of an origin, ready to be applied."""

    rows: pa.RecordBatch
    """Rows for `Adaptor.apply`, in stream order."""
    row_ends: Offsets
    """Byte offset after each row; see `runtime.formats.FormattedBatch`."""
    cuttable: npt.NDArray[np.bool_]
    """A flag for each row: true if an epoch may end right after the row."""

    def slice(self, start: int, stop: int) -> Prepared:
        """Return some of the rows, without copying."""
        rows = self.rows.slice(start, stop - start)
        return Prepared(rows, self.row_ends[start:stop], self.cuttable[start:stop])


class Adaptor(ABC):
    """Converter of one origin's rows to deltas. Its state is in the object space, so that the state is checkpointed.

    An adaptor is called in stream order, by one thread at a time. It must not block and must not loop over rows.
    """

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Schema of the origin's tuples."""

    @property
    @abstractmethod
    def relations(self) -> tuple[Relation, ...]:
        """Relations that the adaptor changes."""

    @property
    def pushdown(self) -> Pushdown:
        """Columns and rows of the tuples that the adaptor needs, by default all; no others are parsed."""
        return Pushdown()

    @property
    def gives_touches(self) -> bool:
        """True if the relation TOUCHES is among the adaptor's relations."""
        return False

    def switch_touches(self, on: bool) -> None:
        """Switch rows of TOUCHES on or off; called at the end of an epoch.

        Raises `AdaptorError` if the adaptor has no order book.
        """
        if on:
            names = ", ".join(relation.name for relation in self.relations)
            raise AdaptorError(f"expected the adaptor of an order book to give touches, was one of {names}")

    def opened(self, sequence: int) -> None:
        """Restart the sequence: ``sequence`` is the number of the next message.

        Called when the origin opens, before `received`.
        """
        del sequence

    @property
    def checks_numbers(self) -> bool:
        """True if a missing number among the messages is an error, unless `allow_missing` tolerates it."""
        return False

    def allow_missing(self, messages: int) -> None:
        """Tolerate this many more missing numbers, because so many messages were malformed."""
        del messages

    def forget_missing(self) -> None:  # noqa: B027 (most adaptors check no numbers)
        """Stop tolerating missing numbers, because the stream has passed all malformed messages so far."""

    def received(self, batch: FormattedBatch) -> pa.RecordBatch:
        """Return the rows of a batch in the form that `prepare` needs.

        Called in stream order, once for each batch, also for an empty one. If the messages have no numbers, the adaptor
        adds a column ``sequence`` here.
        """
        rows: pa.RecordBatch = batch.rows
        return rows

    @abstractmethod
    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        """Drop rows that are not data, and mark the rows after which an epoch may end.

        The caller does not apply the rows that follow the last marked row, and passes them again with its next call.
        """

    @abstractmethod
    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        """Apply rows; return the deltas (columns and ``weight``) by relation."""

    def at_barrier(self) -> Mapping[str, pa.RecordBatch]:
        """Return the deltas that the end of an epoch causes, such as the removal of rows whose retention is over."""
        return {}

    def leave(self) -> Mapping[str, pa.RecordBatch]:
        """Return deltas that remove this adaptor's rows from relations that other adaptors also fill.

        No other method is called afterwards. The caller empties the relations that only this adaptor fills.
        """
        return {}

    def counters(self) -> Mapping[str, int]:
        """Return the adaptor's counters of its input, by name."""
        return {}
