"""Aggregations: streaming, over input in which the rows of a group stand together, and hash, over any input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.engine.operators.aggregation.cells import Aggregate, Cells
from runtime.engine.operators.aggregation.keptcells import KeptCells
from runtime.engine.operators.columns import concat, inward
from runtime.engine.operators.errors import HeldTooMuchError
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces
from runtime.engine.operators.sorting import MOST_HELD
from runtime.state import ObjectSpace

__all__ = ["HashAggregation", "StreamingAggregation"]

_LEAST_MERGED = 1 << 18
"""Cells that wait until they are merged, at least."""


class StreamingAggregation(Operator):
    """Aggregates runs of rows with equal keys, and holds only the group that is still open.

    The input must have the rows of a group next to each other, as sorted input has; a key that comes again later is a
    group of its own. A barrier ends the open group: it is given out, and the next row starts another.
    """

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], aggregates: Sequence[Aggregate], *, most_rows: int = MOST_ROWS
    ) -> None:
        self._cells = Cells(schema, keys, aggregates)
        super().__init__(self._cells.output)
        self.most_rows = most_rows
        self._open: pa.RecordBatch | None = None  # the cells of the open group: one row

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if not batch.num_rows:
            return iter(())
        begins = _begins([inward(batch.column(key)) for key in self._cells.keys], batch.num_rows)
        codes = np.cumsum(begins) - 1
        cells = self._cells.of_rows(batch, codes, np.flatnonzero(begins))
        if self._open is not None:
            head = self._cells.merged(concat([self._open, cells.slice(0, 1)], self._cells.schema))
            cells = concat([head, cells.slice(1)], self._cells.schema)
        self._open = cells.slice(cells.num_rows - 1)
        return pieces(self._cells.results(cells.slice(0, cells.num_rows - 1)), self.most_rows)

    def drain_input(self, port: int = 0) -> Batches:
        if self._open is None:
            return iter(())
        cells, self._open = self._open, None
        return pieces(self._cells.results(cells), self.most_rows)

    def start_drain(self) -> Batches:
        return self.drain_input()

    def end_of_input(self, port: int = 0) -> Batches:
        return self.drain_input()

    def held_rows(self) -> int:
        return 0 if self._open is None else 1


def _begins(columns: Sequence[pa.Array], rows: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Rows whose key is not that of the row before, NULL being equal to NULL."""
    begins = np.zeros(rows, np.bool_)
    begins[0] = True
    for column in columns:
        one, other = column.slice(1), column.slice(0, rows - 1)
        differs = pc.not_equal(one, other)
        if column.null_count:
            differs = pc.or_(pc.fill_null(differs, False), pc.not_equal(pc.is_null(one), pc.is_null(other)))
        if pa.types.is_float64(column.type):  # NaN is a key like any other
            differs = pc.and_not(differs, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False))
        begins[1:] |= differs.to_numpy(zero_copy_only=False)
    return begins


class HashAggregation(Operator):
    """Aggregates groups of any input; gives them out when its input has been drained.

    A barrier ends all groups: the next epoch starts afresh. With ``keep`` the groups go on instead: they lie in the
    object space, and a barrier gives out those that changed, as of all epochs. Groups come in the order in which they
    were seen first in what is merged at a time; the same batches give the same order.

    An aggregate without keys has one group even of no rows, in every epoch.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Sequence[Aggregate],
        *,
        keep: bool = False,
        name: str = "aggregation",
        space: ObjectSpace | None = None,
        most_rows: int = MOST_ROWS,
        most_held: int = MOST_HELD,
    ) -> None:
        self._cells = Cells(schema, keys, aggregates)
        super().__init__(self._cells.output)
        self.most_rows = most_rows
        self._most_held = most_held
        self._kept = KeptCells(self._cells, name, space) if keep else None
        self.keeps = "the cells of every group" if keep else ""
        self._held: list[pa.RecordBatch] = []
        self._waiting = 0  # rows in all of them but the first, whose groups are merged
        self._has_given = False  # in this epoch
        self._was_drained = False

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if not batch.num_rows:
            return iter(())
        cells = self._cells.grouped(batch)
        self._held.append(cells)
        if len(self._held) > 1:
            self._waiting += cells.num_rows
            if self._waiting > max(_LEAST_MERGED, 2 * self._held[0].num_rows):
                self._merge()
        self._check_room()
        return iter(())

    def drain_input(self, port: int = 0) -> Batches:
        if not self._held:
            return iter(())
        if len(self._held) > 1:
            self._merge()
        (cells,) = self._held
        self._held, self._waiting = [], 0
        return self._given_out(cells)

    def start_drain(self) -> Batches:
        given = self.drain_input()
        if not self._cells.keys and not self._has_given:
            given = self._given_out(self._cells.of_nothing())
        self._has_given, self._was_drained = False, True
        return given

    def end_of_input(self, port: int = 0) -> Batches:
        """The end right behind a barrier is no epoch of its own."""
        return self.drain_input() if self._held or self._was_drained else self.start_drain()

    def _given_out(self, cells: pa.RecordBatch) -> Batches:
        self._has_given = True
        if self._kept is not None:
            cells = self._kept.merged(cells)
        return (self._cells.results(part) for part in pieces(cells, self.most_rows))

    def held_rows(self) -> int:
        return sum(cells.num_rows for cells in self._held)

    def _merge(self) -> None:
        self._held = [self._cells.merged(concat(self._held, self._cells.schema))]
        self._waiting = 0
        self._check_room()

    def _check_room(self) -> None:
        groups = self._held[0].num_rows
        if groups > self._most_held:
            raise HeldTooMuchError(
                f"expected at most {self._most_held} groups in an epoch, was {groups}: there is no spilling"
            )
