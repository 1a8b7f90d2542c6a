"""Adaptors: an origin's rows in, deltas of relations out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.formats import FormattedBatch, Schema
from runtime.plan import Relation
from runtime.relations.errors import AdaptorError
from runtime.relations.rowends import RowEnds

__all__ = ["Adaptor", "Offsets", "Prepared"]

Offsets = RowEnds | npt.NDArray[np.int64]
"""One byte offset per row; from the engine a `RowEnds`, which is not made before somebody looks."""


class Prepared(msgspec.Struct, frozen=True):
    """Rows of an origin, ready to be applied."""

    rows: pa.RecordBatch
    """What `Adaptor.apply` takes, in stream order."""
    row_ends: Offsets
    """Byte offset behind each row; see `runtime.formats.FormattedBatch`."""
    cuttable: npt.NDArray[np.bool_]
    """Whether an epoch may end right behind the row."""

    def slice(self, start: int, stop: int) -> Prepared:
        """Some of the rows, without copying."""
        rows = self.rows.slice(start, stop - start)
        return Prepared(rows, self.row_ends[start:stop], self.cuttable[start:stop])


class Adaptor(ABC):
    """What makes deltas of one origin's rows. State lives in the object space, so that it is checkpointed.

    Called in stream order by one thread at a time; must not block and must not loop over rows.
    """

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What the origin's tuples look like."""

    @property
    @abstractmethod
    def relations(self) -> tuple[Relation, ...]:
        """The relations that it changes."""

    @property
    def gives_touches(self) -> bool:
        """Whether TOUCHES is among its relations."""
        return False

    def switch_touches(self, on: bool) -> None:
        """Give rows of TOUCHES from now on, or no more; called where an epoch has ended.

        Raises `AdaptorError` if it keeps no order book.
        """
        if on:
            names = ", ".join(relation.name for relation in self.relations)
            raise AdaptorError(f"expected the adaptor of an order book to give touches, was one of {names}")

    def opened(self, sequence: int) -> None:
        """The source begins anew: the next message that counts has this number. Called before `received`."""
        del sequence

    def received(self, batch: FormattedBatch) -> pa.RecordBatch:
        """The rows of a batch as `prepare` takes them; called once for every batch, in stream order, empty ones too.

        Whose messages have no number of their own gives them a column ``sequence`` here.
        """
        rows: pa.RecordBatch = batch.rows
        return rows

    @abstractmethod
    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        """Take out what is not data and say where an epoch may end. Rows that may not be cut behind yet come again."""

    @abstractmethod
    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        """Take rows in; gives the deltas (columns and ``weight``) by relation."""

    def at_barrier(self) -> Mapping[str, pa.RecordBatch]:
        """Deltas that the end of an epoch brings about by itself, such as rows whose retention is over."""
        return {}

    def leave(self) -> Mapping[str, pa.RecordBatch]:
        """Take back every row that it has put into relations which others fill too, as deltas; nothing follows.

        Relations that it fills alone are emptied by whoever knows their rows.
        """
        return {}

    def counters(self) -> Mapping[str, int]:
        """What it saw, by name."""
        return {}
