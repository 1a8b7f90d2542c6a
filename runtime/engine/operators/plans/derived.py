"""One SELECT kept over event time: rows of streams in, rows of a derived stream out behind the watermark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from runtime.compiler import NamedSelect, SqlError
from runtime.state import MemoryStore, ObjectSpace, PersistedList, PersistedValue, Schema, decode_run, encode_run

__all__ = ["DerivedQuery", "StreamInput"]

_MOST_HELD: Final = 4_000_000
_MOST_LATE: Final = 1_000
_LOWEST: Final = -(1 << 63)


class StreamInput(msgspec.Struct, frozen=True):
    """A relation that a derived stream may read."""

    schema: pa.Schema
    """Of its rows, without a weight."""
    time: str = ""
    """Its time column; empty for a table."""
    is_table: bool = False
    """Whether its rows come and go: then `DerivedQuery.add` is given a last column ``weight``."""


class DerivedQuery:
    """A projection and filter of one stream. Belongs to one thread at a time."""

    def __init__(  # noqa: PLR0917 (called with four or five of them)
        self,
        select: NamedSelect,
        inputs: Mapping[str, StreamInput],
        space: ObjectSpace | None,
        name: str,
        lateness: int = 0,
        most_held: int = _MOST_HELD,
    ) -> None:
        """Raises `SqlError` for what is refused; without a ``space`` nothing is saved."""
        self._select, self._lateness, self._most_held = select, lateness, most_held
        try:
            tree = sqlglot.parse_one(select.sql, read="duckdb")
        except sqlglot.errors.ParseError as error:
            raise self._error(str(error).splitlines()[0]) from None
        tables = [table.name.lower() for table in tree.find_all(exp.Table)]
        if len(tables) != 1 or tree.find(exp.Group) or tree.find(exp.AggFunc):
            raise self._error(f"expected a projection of one stream, was {len(tables)} relations")
        if tables[0] not in inputs:
            raise self._error(f"unknown relation {tables[0]!r}; the relations are: {', '.join(sorted(inputs))}")
        self.reads = (tables[0],)
        self._input = inputs[tables[0]]
        self._engine = duckdb.connect(":memory:", config={"threads": "1"})
        try:
            self.schema: pa.Schema = self._evaluate(self._input.schema.empty_table()).schema
        except duckdb.Error as error:
            raise self._error(str(error).splitlines()[0]) from None
        if self._input.time not in self.schema.names:
            raise self._error(f"expected the time column {self._input.time} among the columns, was none")
        self.time = self._input.time
        space = space or ObjectSpace(MemoryStore())
        self._held = space.get_or_create(PersistedList, f"{name}/held", Schema(bytes))
        self._mark = space.get_or_create(PersistedValue, f"{name}/watermark", Schema(int), initial=_LOWEST)
        self._late: list[tuple[str, pa.RecordBatch]] = []
        self.late = 0

    def add(self, relation: str, rows: pa.RecordBatch) -> None:
        """Take rows in, in the order in which they came."""
        is_late = pc.less(rows.column(self._input.time).cast(pa.int64()), self._mark.value)
        if (late := rows.filter(is_late)).num_rows:
            self.late += late.num_rows
            self._late.append((relation, late.slice(0, _MOST_LATE)))
            rows = rows.filter(pc.invert(is_late))
        if rows.num_rows:
            self._held.append(encode_run(rows))
        if self.held_rows() > self._most_held:
            raise ValueError(f"expected at most {self._most_held} rows that wait, was {self.held_rows()}")

    def close(self, watermarks: Mapping[str, int]) -> list[pa.RecordBatch]:
        """Return the rows that are complete by the watermarks, in the order of time, then of arrival."""
        mark = watermarks.get(self.reads[0])
        if mark is None:
            return []
        self._mark.value = max(self._mark.value, mark - self._lateness if mark < (1 << 63) - 1 else mark)
        batches = [decode_run(data, "held") for data in self._held]
        if not batches:
            return []
        table = pa.Table.from_batches(batches)
        times = table.column(self._input.time).cast(pa.int64())
        table = table.take(pa.array(np.argsort(times.to_numpy(), kind="stable")))
        is_complete = pc.less(table.column(self._input.time).cast(pa.int64()), self._mark.value)
        left = table.filter(pc.invert(is_complete))
        self._held.clear()
        for batch in left.combine_chunks().to_batches():
            self._held.append(encode_run(batch))
        return [b for b in self._evaluate(table.filter(is_complete)).combine_chunks().to_batches() if b.num_rows]

    def watermark(self) -> int:
        """Return the time before which no further row will come out."""
        return int(self._mark.value)

    def take_late(self) -> list[tuple[str, pa.RecordBatch]]:
        """Return late rows by relation since the last call, the first of them."""
        late, self._late, self.late = self._late, [], 0
        return late

    def explain(self) -> str:
        """Return the operators in words."""
        return f"project {', '.join(self.schema.names)} of {self.reads[0]}"

    def held_rows(self) -> int:
        """Return how many rows wait."""
        return sum(decode_run(data, "held").num_rows for data in self._held)

    def _evaluate(self, rows: pa.Table) -> pa.Table:
        self._engine.register(self.reads[0], rows)
        return self._engine.sql(self._select.sql).arrow().read_all()

    def _error(self, reason: str) -> SqlError:
        select = self._select
        return SqlError(reason, file=select.file, line=select.line, column=select.column)
