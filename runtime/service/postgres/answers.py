"""Answers of a session: rows at one version, whole in memory, and a position in them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltabook.wire.service import AnsweredColumn
from runtime.service.postgres.encoding import binary_values, data_rows, text_values
from runtime.service.postgres.messages import Field
from runtime.service.postgres.statements import Fetch
from runtime.service.postgres.types import ResultType, result_field, result_type
from runtime.service.sandbox import Rows

__all__ = ["Cursor", "ShownRows"]

_CHUNK_BYTES: int = 512 * 1024
_CHUNK_ROWS: int = 32 * 1024


class ShownRows:
    """Rows of an answer, with the names and types of their columns."""

    def __init__(self, rows: Rows) -> None:
        self.columns: tuple[AnsweredColumn, ...] = rows.columns
        self.table = rows.table
        self.kinds: list[ResultType] = [result_type(column.type) for column in rows.columns]
        self.fields: list[Field] = [result_field(column.name, column.type) for column in rows.columns]
        self.nbytes = int(rows.table.nbytes)

    @classmethod
    def of_text(cls, names: Sequence[str], lines: Sequence[Sequence[str]]) -> ShownRows:
        """Return an answer of text columns, such as settings."""
        columns = tuple(AnsweredColumn(name, "VARCHAR") for name in names)
        arrays = [pa.array([line[place] for line in lines], pa.string()) for place in range(len(names))]
        return cls(Rows(columns, pa.Table.from_arrays(arrays, names=[str(place) for place in range(len(names))])))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def chunk_rows(self) -> int:
        """Number of rows to encode together."""
        return max(1, min(_CHUNK_ROWS, _CHUNK_BYTES * max(1, len(self)) // max(1, self.nbytes)))

    def encoded(self, begin: int, end: int, formats: Sequence[int]) -> memoryview:
        """Return rows as messages, each column in its format. May run on any thread."""
        part = self.table.slice(begin, end - begin)
        values = []
        for column, kind, form in zip(part.columns, self.kinds, formats, strict=True):
            combined = column.combine_chunks()
            array = pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
            values.append(binary_values(array, kind) if form else text_values(array, kind))
        return data_rows(values, part.num_rows)


class Cursor:
    """Position in the rows of an answer: 0 before the first, one more than their number after the last."""

    def __init__(self, rows: ShownRows, formats: Sequence[int]) -> None:
        self.rows, self.formats = rows, formats
        self.at = 0

    def move(self, fetch: Fetch) -> list[range]:
        """Move the position; return the rows that FETCH shows, counted from 0, in their order."""
        count, total = fetch.count, len(self.rows)
        if fetch.direction == "ABSOLUTE":
            assert count is not None
            self.at = max(0, min(total + 1, count if count >= 0 else total + 1 + count))
            return self._here()
        if fetch.direction == "RELATIVE":
            assert count is not None
            self.at = max(0, min(total + 1, self.at + count))
            return self._here()
        steps = total + 1 if count is None else count
        if steps == 0:
            return self._here()
        forward = (fetch.direction == "FORWARD") == (steps > 0)
        steps = abs(steps)
        if forward:
            begin, end = self.at, min(self.at + steps, total)
            self.at = min(self.at + steps, total + 1)
            return [range(begin, end)] if begin < end else []
        begin, end = max(self.at - 1 - steps, 0), max(self.at - 1, 0)
        self.at = max(self.at - steps, 0)
        return [range(row, row + 1) for row in range(end - 1, begin - 1, -1)]

    def _here(self) -> list[range]:
        return [range(self.at - 1, self.at)] if 1 <= self.at <= len(self.rows) else []
