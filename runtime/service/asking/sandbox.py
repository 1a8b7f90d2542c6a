"""DuckDB database for one question, with access to the given tables only."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from deltabook.wire.service import AnsweredColumn
from runtime.compiler.describe import CLOSED_SETTINGS, quoted_name
from runtime.compiler.expansion import GUARDS
from runtime.plan import Column
from runtime.service.asking.errors import AskError, CostlyError
from runtime.service.asking.limits import AskLimits
from runtime.service.asking.question import located

if TYPE_CHECKING:
    import duckdb

__all__ = ["Beside", "Cancel", "Rows", "Sandbox", "Tables"]

Tables = Mapping[str, tuple[Sequence[Column], pa.Table]]
"""Name → its columns, and its rows with Arrow's decimals for numbers that have a scale."""
_BATCH_ROWS: Final = 16 * 1024
_PLAN: Final = "QUERY PLAN"
"""Name of the only column of a plan, as in PostgreSQL."""


class Beside(msgspec.Struct, frozen=True, eq=False):
    """Tables and functions of the runtime that a question may name in addition to relations and views."""

    tables: Mapping[str, pa.Table] = {}
    """Name → rows."""
    macros: Sequence[str] = ()
    """Statements that create functions."""


class Rows(msgspec.Struct, frozen=True, eq=False):
    """Rows of an answer."""

    columns: tuple[AnsweredColumn, ...]
    table: pa.Table


class Cancel:
    """Cancellation of a question, from any thread; the question stops at its next check or interrupt."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""
        self._connection: duckdb.DuckDBPyConnection | None = None

    @property
    def reason(self) -> str:
        """Reason of the cancellation; empty if the question is not cancelled."""
        return self._reason

    def __bool__(self) -> bool:
        return bool(self._reason)

    def stop(self, reason: str) -> None:
        """Cancel the question. To be repeated until it ends: DuckDB discards an interrupt that precedes its run."""
        with self._lock:
            self._reason = self._reason or reason
            if self._connection is not None:
                self._connection.interrupt()

    def check(self) -> None:
        """Raise `CostlyError` if the question is cancelled."""
        if self._reason:
            raise CostlyError(self._reason)

    @contextmanager
    def interrupting(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Context manager within which `stop` interrupts a connection."""
        with self._lock:
            self._connection = connection
        try:
            yield
        finally:
            with self._lock:
                self._connection = None


class Sandbox:
    """DuckDB database of one question. Belongs to one thread."""

    def __init__(self, limits: AskLimits) -> None:
        import duckdb  # takes 0.3 s, which a runtime without questions saves

        self._limits = limits
        settings = {**CLOSED_SETTINGS, "memory_limit": f"{limits.memory_bytes // 1024}KiB"}
        self.connection = duckdb.connect(":memory:", config=dict(settings))
        for statement in GUARDS:
            self.connection.execute(statement)

    def close(self) -> None:
        """Release all memory of the database."""
        self.connection.close()

    def answer(
        self,
        sql: str,
        tables: Tables,
        cancel: Cancel,
        *,
        beside: Beside | None = None,
        most_rows: int | None = None,
        describes: bool = False,
        explains: bool = False,
    ) -> Rows:
        """Run a checked question; raises `SqlError`, `CostlyError`, `AskError`.

        ``most_rows`` replaces the limit of rows. With ``describes`` the answer has columns and no rows; with
        ``explains`` its rows are the lines of DuckDB's plan.
        """
        import duckdb

        with cancel.interrupting(self.connection):
            cancel.check()
            try:
                self._fill(tables)
                if beside is not None:
                    self._fill_beside(beside)
                if explains:
                    return self._plan(sql)
                if describes:
                    return self._described(sql)
                return self._run(sql, cancel, self._limits.answer_rows if most_rows is None else most_rows)
            except duckdb.InterruptException:
                cancel.check()
                raise
            except duckdb.OutOfMemoryException:
                most = self._limits.memory_bytes >> 20
                raise CostlyError(f"expected a question within {most} MiB of memory, was one that needs more") from None
            except duckdb.Error as error:
                raise self._explained(sql, error) from None
            except pa.ArrowException as error:  # DuckDB's errors while rows are fetched come through Arrow
                cancel.check()
                if "Out of Memory" in str(error):
                    most = self._limits.memory_bytes >> 20
                    raise CostlyError(
                        f"expected a question within {most} MiB of memory, was one that needs more"
                    ) from None
                raise AskError(" ".join(str(error).split())) from None

    def _fill(self, tables: Tables) -> None:
        for number, (name, (columns, rows)) in enumerate(tables.items()):
            given = pa.Table.from_arrays(rows.columns, names=[str(place) for place in range(rows.num_columns)])
            self.connection.register(f"rows {number}", given)
            shown = ", ".join(_shown(place, column) for place, column in enumerate(columns))
            self.connection.execute(f'CREATE TEMP VIEW {quoted_name(name)} AS SELECT {shown} FROM "rows {number}"')

    def _fill_beside(self, beside: Beside) -> None:
        for number, (name, rows) in enumerate(beside.tables.items()):
            self.connection.register(f"beside {number}", rows)
            self.connection.execute(f'CREATE TEMP VIEW {quoted_name(name)} AS SELECT * FROM "beside {number}"')
        for macro in beside.macros:
            self.connection.execute(macro)

    def _described(self, sql: str) -> Rows:
        return Rows(_columns(self.connection.sql(sql)), pa.table({}))

    def _plan(self, sql: str) -> Rows:
        lines = str(self.connection.sql(sql).explain()).rstrip().splitlines()
        return Rows((AnsweredColumn(_PLAN, "VARCHAR"),), pa.table({_PLAN: pa.array(lines, pa.string())}))

    def _run(self, sql: str, cancel: Cancel, most_rows: int) -> Rows:
        limits = self._limits
        relation = self.connection.sql(sql)
        columns = _columns(relation)
        batches: list[pa.RecordBatch] = []
        rows = answer_bytes = 0
        with relation.to_arrow_reader(_BATCH_ROWS) as reader:
            for batch in reader:
                cancel.check()
                rows, answer_bytes = rows + batch.num_rows, answer_bytes + batch.nbytes
                if rows > most_rows:
                    raise CostlyError(f"expected an answer of at most {most_rows} rows, was a longer one: add a LIMIT")
                if answer_bytes > limits.answer_bytes:
                    raise CostlyError(f"expected an answer of at most {limits.answer_bytes} bytes, was a larger one")
                batches.append(batch)
            return Rows(columns, pa.Table.from_batches(batches, reader.schema))

    def _explained(self, sql: str, error: duckdb.Error) -> Exception:
        """Return the error with its place, which DuckDB reports only if the question is executed this way."""
        import duckdb

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
