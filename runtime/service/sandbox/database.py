"""DuckDB database for one question, with access to the given tables only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import duckdb
import msgspec
import pyarrow as pa

from deltabook.wire.service import AnsweredColumn
from runtime.compiler.describe import CLOSED_SETTINGS, quoted_name
from runtime.compiler.limits import GUARDS
from runtime.plan import Column
from runtime.service.sandbox.exporting import exported
from runtime.service.sandbox.limits import AskError, AskLimits, CostlyError
from runtime.service.sandbox.messages import Given, GivenTable
from runtime.service.sandbox.question import located

__all__ = ["Answer", "Sandbox"]

_BATCH_ROWS: Final = 16 * 1024
_PLAN: Final = "QUERY PLAN"
"""Name of the only column of a plan, as in PostgreSQL."""
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK: Final = (
    "CREATE MACRO get_current_timestamp() AS main.now()",
    "CREATE MACRO transaction_timestamp() AS main.now()",
    "CREATE MACRO current_date() AS CAST(main.now() AS DATE)",
    "CREATE MACRO today() AS CAST(main.now() AS DATE)",
    "CREATE MACRO get_current_time() AS CAST(main.now() AS TIME WITH TIME ZONE)",
    "CREATE MACRO current_localtimestamp() AS CAST(main.now() AS TIMESTAMP)",
    "CREATE MACRO current_localtime() AS CAST(CAST(main.now() AS TIMESTAMP) AS TIME)",
    "CREATE MACRO age(a) AS system.main.age(CAST(main.today() AS TIMESTAMP), a), (a, b) AS system.main.age(a, b)",
)
"""Statements that define all clock functions of DuckDB except ``now()``, by calls of ``now()``. DuckDB replaces
``current_timestamp`` and similar words by calls of these functions."""


class Answer(msgspec.Struct, frozen=True, eq=False):
    """Answer whose rows are computed while they are read."""

    columns: tuple[AnsweredColumn, ...]
    """Names of the columns, and their types in DuckDB."""
    schema: pa.Schema
    """Schema of the batches."""
    batches: Iterator[pa.RecordBatch]
    """Iterator of the rows; it raises the errors of `Sandbox.answer`."""


class Sandbox:
    """DuckDB database of one question. Belongs to one thread."""

    def __init__(self, limits: AskLimits) -> None:
        self._limits = limits
        settings = {**CLOSED_SETTINGS, "memory_limit": f"{limits.memory_bytes // 1024}KiB"}
        self.connection = duckdb.connect(":memory:", config=dict(settings))
        for statement in (*GUARDS, *_CLOCK):
            self.connection.execute(statement)

    def close(self) -> None:
        """Release all memory of the database."""
        self.connection.close()

    def answer(self, sql: str, given: Given, tables: Sequence[pa.Table]) -> Answer:
        """Return the answer to a checked question.

        Raises `SqlError` with the place if DuckDB refuses the question, `CostlyError` beyond a limit, and `AskError`
        otherwise. ``tables`` are the rows of the tables in ``given``, with Arrow's decimals for numbers that have a
        scale.
        """
        with self._converting_errors(sql):
            for number, (table, rows) in enumerate(zip(given.tables, tables, strict=True)):
                self._add(number, table, rows)
            self._set_clock(given.time_us)
            for macro in given.macros:
                self.connection.execute(macro)
            relation = self.connection.sql(sql)
            if given.explains:
                lines = str(relation.explain()).rstrip().splitlines()
                plan = pa.table({_PLAN: pa.array(lines, pa.string())})
                return Answer((AnsweredColumn(_PLAN, "VARCHAR"),), plan.schema, iter(plan.to_batches()))
            if given.describes:
                return Answer(_columns(relation), pa.schema([]), iter(()))
            reader = exported(relation).to_arrow_reader(_BATCH_ROWS)
            most_rows = self._limits.answer_rows if given.most_rows is None else given.most_rows
            return Answer(_columns(relation), reader.schema, self._bounded(sql, reader, most_rows))

    def _add(self, number: int, table: GivenTable, rows: pa.Table) -> None:
        name = f"rows {number}"
        shown = "*"
        if table.columns:
            rows = rows.rename_columns([str(place) for place in range(rows.num_columns)])
            shown = ", ".join(_shown(place, column) for place, column in enumerate(table.columns))
        self.connection.register(name, rows)
        self.connection.execute(
            f"CREATE TEMP VIEW {quoted_name(table.name)} AS SELECT {shown} FROM {quoted_name(name)}"
        )

    def _set_clock(self, time_us: int | None) -> None:
        """Define the clock as the epoch's time in microseconds since 1970; as NULL if the epoch has none."""
        time = f"'{(_UNIX_EPOCH + timedelta(microseconds=time_us)).isoformat()}'" if time_us is not None else "NULL"
        self.connection.execute(f"CREATE MACRO now() AS CAST({time} AS TIMESTAMP WITH TIME ZONE)")

    def _bounded(self, sql: str, batches: Iterable[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
        rows = answer_bytes = 0
        most_bytes = self._limits.answer_bytes
        with self._converting_errors(sql):
            for batch in batches:
                rows, answer_bytes = rows + batch.num_rows, answer_bytes + batch.nbytes
                if rows > most_rows:
                    raise CostlyError(f"expected an answer of at most {most_rows} rows, was a longer one: add a LIMIT")
                if answer_bytes > most_bytes:
                    raise CostlyError(f"expected an answer of at most {most_bytes} bytes, was a larger one")
                yield batch

    @contextmanager
    def _converting_errors(self, sql: str) -> Iterator[None]:
        """Convert errors of DuckDB and Arrow within the ``with`` statement to errors of the question."""
        try:
            yield
        except duckdb.InterruptException:
            raise CostlyError("expected an answer, was an interrupted question") from None
        except duckdb.OutOfMemoryException as error:
            raise self._too_large(error) from None
        except duckdb.Error as error:
            raise self._with_place(sql, error) from None
        except MemoryError:
            raise self._limits.growth_error() from None
        except pa.ArrowException as error:  # DuckDB's errors while rows are fetched are raised by Arrow
            if "Out of Memory" in str(error):
                raise self._too_large(error) from None
            raise AskError(" ".join(str(error).split())) from None

    def _too_large(self, error: Exception) -> CostlyError:
        if "bad alloc" in str(error):  # raised by Arrow's or the C library's allocation, not by DuckDB's own limit
            return self._limits.growth_error()
        most = self._limits.memory_bytes >> 20
        return CostlyError(f"expected a question within {most} MiB of memory, was one that needs more")

    def _with_place(self, sql: str, error: duckdb.Error) -> Exception:
        """Return the error with its position, which DuckDB reports only from `execute`."""
        if not isinstance(error, duckdb.ProgrammingError):
            return located(sql, error)
        try:
            self.connection.execute(sql).fetchone()
        except duckdb.Error as again:
            return located(sql, again)
        return located(sql, error)


def _columns(relation: duckdb.DuckDBPyRelation) -> tuple[AnsweredColumn, ...]:
    return tuple(AnsweredColumn(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True))


def _shown(place: int, column: Column) -> str:
    """Return the SQL of a column for questions: an integer of 128 bits becomes DuckDB's HUGEINT."""
    own = f'"{place}"'
    if column.type == "int128" and not column.scale:
        own = f"CAST({own} AS HUGEINT)"
    return f"{own} AS {quoted_name(column.name)}"
