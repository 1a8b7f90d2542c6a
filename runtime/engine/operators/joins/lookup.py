"""Lookup join of every row with the rows of a table that have its key, by means of an index of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import concat, matched, take
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.engine.operators.keys import group_codes, order_codes
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, OperatorError, pieces
from runtime.state import ObjectSpace

__all__ = ["LOOKUP_KINDS", "LookupJoin", "LookupKind", "TableIndex"]


Integers = npt.NDArray[np.int64]


class TableIndex:
    """Rows of a table, a multiset that changes by deltas, with an index by key.

    The rows are in the object space, each with its number of copies. The first look-up after a change of the table
    rebuilds the index, for which it sorts the table. Not thread-safe: owned by one operator.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[str], *, name: str, space: ObjectSpace) -> None:
        self.schema = schema
        """Schema of the table, without the weight."""
        self.keys = tuple(keys)
        kept = pa.schema([*schema, pa.field("weight", pa.int64(), nullable=False)])
        self._rows = KeyedRows(kept, len(schema), name, space)
        self._sorted: pa.RecordBatch | None = None  # rows by key; None if they have to be read again
        self._coders: list[_Coder] = []  # one for each key column
        self._prefixes: list[Integers] = []  # for each further key column, the codes of the columns up to it
        self._codes: Integers = np.zeros(0, np.int64)  # codes of the sorted rows

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, batch: pa.RecordBatch) -> None:
        """Apply deltas, whose last column is their weight; raise `OperatorError` if a deleted row is missing."""
        if not batch.num_rows:
            return
        rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=self.schema)
        weights = batch.columns[-1].to_numpy(zero_copy_only=False)
        codes, first = group_codes(rows.columns, rows.num_rows)
        change = np.zeros(len(first), np.int64)
        np.add.at(change, codes, weights)
        changed = np.flatnonzero(change)
        rows = rows.take(pa.array(first[changed]))
        slots = self._rows.find(rows.columns, rows.num_rows)
        known = slots >= 0
        counts = change[changed]
        if known.any():
            counts[known] += self._rows.values(slots[known])[0]
        if bool((counts < 0).any()):
            lost = rows.slice(int(np.argmin(counts)), 1).to_pylist()[0]
            raise OperatorError(f"expected to delete a row that the table has, was {lost}")
        self._rows.delete_at(slots[known & (counts == 0)])
        stays = counts > 0
        kept = rows.filter(pa.array(stays))
        self._rows.put(pa.RecordBatch.from_arrays([*kept.columns, pa.array(counts[stays])], schema=self._rows.schema))
        self._sorted = None

    def look_up(self, keys: Sequence[pa.Array]) -> tuple[pa.RecordBatch, Integers, Integers]:
        """Return the table's rows, grouped by key, and the first row and the number of rows of each of ``keys``."""
        rows = self._indexed()
        codes = self._coded(keys, len(keys[0]))
        starts = np.searchsorted(self._codes, codes, side="left")
        counts = np.searchsorted(self._codes, codes, side="right") - starts
        return rows, starts, np.where(codes >= 0, counts, 0)

    def _indexed(self) -> pa.RecordBatch:
        if self._sorted is not None:
            return self._sorted
        slots = self._rows.live_slots()
        records = pa.RecordBatch.from_arrays(self._rows.rows(slots), schema=self._rows.schema)
        copies = records.column("weight").to_numpy()
        rows = records.select(self.schema.names)
        if len(copies) and int(copies.max()) > 1:
            rows = rows.take(pa.array(np.repeat(np.arange(len(copies)), copies)))
        if rows.num_rows:  # by all columns, so that the order of matches does not depend on earlier deletions
            (order,) = order_codes([[rows.column(name) for name in self.schema.names]])
            rows = rows.take(pa.array(np.argsort(order, kind="stable")))
        columns = [rows.column(key) for key in self.keys]
        self._coders = [_Coder(column) for column in columns]
        self._prefixes = []
        codes = self._coded(columns, rows.num_rows)
        order = np.argsort(codes, kind="stable")
        self._codes = codes[order]
        self._sorted = concat([rows.take(pa.array(order))], self.schema)
        return self._sorted

    def _coded(self, columns: Sequence[pa.Array], rows: int) -> Integers:
        """Return a number for each key that the table may have; -1 for other keys and for NULL."""
        codes = np.zeros(rows, np.int64)
        for place, (column, coder) in enumerate(zip(columns, self._coders, strict=True)):
            part = coder.codes(column)
            codes = np.where((part < 0) | (codes < 0), -1, codes * (len(coder) + 1) + part)
            if place:  # renumbered, so that the codes of any number of columns fit 64 bits
                if len(self._prefixes) < place:
                    self._prefixes.append(np.unique(codes[codes >= 0]))
                codes = _places(self._prefixes[place - 1], codes)
        return codes


def _places(known: Integers, codes: Integers) -> Integers:
    """Return the place of each code among the known codes, -1 for others."""
    if not len(known):
        return np.full(len(codes), -1)
    places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return np.where(known[places] == codes, places, -1)


class _Coder:
    """Distinct values of a column, numbered."""

    def __init__(self, column: pa.Array) -> None:
        self._texts: dict[str, int] | None = None
        if pa.types.is_string(column.type):
            distinct = [text for text in column.unique().to_pylist() if text is not None]
            self._texts = {text: number for number, text in enumerate(distinct)}
            self._size = len(distinct)
            return
        self._values = column.drop_null().unique()
        self._size = len(self._values)
        if self._size:
            (codes,) = order_codes([[self._values]])
            self._values = self._values.take(pa.array(np.argsort(codes, kind="stable")))

    def __len__(self) -> int:
        return self._size

    def codes(self, column: pa.Array) -> Integers:
        """Return the number of each value, -1 for a value that is not among them."""
        if not self._size:
            return np.full(len(column), -1)
        if self._texts is not None:
            encoded = column.dictionary_encode()
            numbers = [self._texts.get(text, -1) for text in encoded.dictionary.to_pylist()]
            places = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
            value_codes: Integers = np.array([*numbers, -1], np.int64)[places]
            return value_codes
        mine, known = order_codes([[column], [self._values]])
        places = np.minimum(np.searchsorted(known, mine), self._size - 1)
        hits = known[places] == mine
        if column.null_count:
            hits &= column.is_valid().to_numpy(zero_copy_only=False)
        return np.where(hits, places, -1)


LookupKind = Literal["inner", "left", "semi", "anti"]
LOOKUP_KINDS: Final = ("inner", "left", "semi", "anti")


class LookupJoin(Operator):
    """Operator that joins the rows of port 0 with their matches in a table; port 1 takes the deltas of the table.

    A row is joined with the table as it is when the row is added. The plan adds rows at a barrier, after all earlier
    deltas, so that the rows are joined with the table as of that barrier. Output is in the order of the rows; the
    matches of one row are ordered by the table's columns. A NULL in the key matches nothing.
    """

    ports = 2
    keeps = "the rows of the table"
    holds_state = True

    def __init__(
        self, schema: pa.Schema, index: TableIndex, keys: Sequence[str], kind: LookupKind, *, most_rows: int = MOST_ROWS
    ) -> None:
        if kind not in LOOKUP_KINDS:
            raise PlanError(f"expected a look-up of {', '.join(LOOKUP_KINDS)}, was {kind}")
        both = matched(schema, index.schema, left_optional=False, right_optional=kind == "left")
        super().__init__(schema if kind in ("semi", "anti") else both)
        self.most_rows = most_rows
        self._index = index
        self._keys = tuple(keys)
        self._kind = kind

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if port == 1:
            self._index.update(batch)
            return
        if not batch.num_rows:
            return
        table, starts, counts = self._index.look_up([batch.column(key) for key in self._keys])
        if self._kind in ("semi", "anti"):
            chosen = (counts > 0) == (self._kind == "semi")
            yield from pieces(batch.filter(pa.array(chosen)), self.most_rows)
            return
        is_alone = counts == 0
        widths = np.where(is_alone, 1, counts) if self._kind == "left" else counts
        ends = np.cumsum(widths)
        for begin in range(0, int(ends[-1]), self.most_rows):
            places = np.arange(begin, min(begin + self.most_rows, int(ends[-1])))
            owners = np.searchsorted(ends, places, side="right")
            rows = starts[owners] + places - (ends - widths)[owners]
            rows = np.where(is_alone[owners], -1, rows)
            arrays = take(batch.columns, owners) + take(table.columns, rows)
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def held_rows(self) -> int:
        return len(self._index)
