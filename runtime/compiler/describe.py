"""Description of a query by DuckDB itself: names and types of the query's columns, over empty tables.

The database runs SQL of any client that may add a view. So it can read only its own tables, and no files, extensions,
settings or network.
"""

from __future__ import annotations

import atexit
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

import duckdb

from runtime.compiler.limits import GUARDS
from runtime.compiler.types import Type
from runtime.plan import Relation

__all__ = [
    "CLOSED_SETTINGS",
    "DESCRIBE_S",
    "Describer",
    "database",
    "is_outside",
    "macro_copies",
    "quoted_name",
    "time_limit",
    "unstable_functions",
]

CLOSED_SETTINGS: Final = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
}
"""Settings of a database that runs clients' SQL: it has no files and no extensions, and no setting can be changed."""
_MEMORY: Final = "2GiB"
"""Memory of the database, for all views that a process evaluates; nothing is written to a disk."""
DESCRIBE_S: Final = 10.0
"""Longest time of one description of a query, in seconds."""
_INTERRUPT_S: Final = 0.05
"""Time between two interrupts of a query that is too slow, in seconds."""
_OUTSIDE: Final = re.compile(
    r"current_setting|getenv|getvariable|nextval|currval|setseed|write_log|glob|query|query_table|pg_sleep|sleep_ms|"
    r"json_(de)?serialize_.*|json_execute_.*|"
    r"(read|duckdb|pragma|parquet|sqlite|postgres|iceberg|delta)_.*|.*_scan"
)
"""Names of functions that read more than the rows of a query."""


@cache
def database() -> duckdb.DuckDBPyConnection:
    """Return the database of this process. It stays empty: tables are temporary, and each cursor has its own.

    Opening a database takes 15 ms, and opening a cursor 1 ms.
    """
    atexit.register(_close)
    connection = duckdb.connect(config={**CLOSED_SETTINGS, "memory_limit": _MEMORY})
    for statement in GUARDS:
        connection.execute(statement)
    return connection


def is_outside(function: str) -> bool:
    """Return True if a function reads more than the rows: settings, the environment, sequences, files or other SQL."""
    return _OUTSIDE.fullmatch(function.lower()) is not None


@contextmanager
def time_limit(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt the connection's query after this time; the query then raises `duckdb.InterruptException`.

    DuckDB checks for an interrupt between its batches of rows, not inside a function.
    """
    over, late = threading.Event(), threading.Event()

    def interrupt() -> None:
        wait_s = seconds
        while not over.wait(wait_s):  # repeated, as DuckDB ignores an interrupt that comes before the query runs
            late.set()
            connection.interrupt()
            wait_s = _INTERRUPT_S

    thread = threading.Thread(target=interrupt, name="deltabook-time-limit", daemon=True)
    thread.start()
    try:
        yield
    except duckdb.InterruptException:
        if late.is_set():
            raise duckdb.InterruptException(f"expected an answer within {seconds:g} s, was a slower query") from None
        raise
    finally:
        over.set()
        thread.join()


@cache
def unstable_functions() -> frozenset[str]:
    """Return the names of DuckDB's functions whose result may change between calls, or between queries.

    DuckDB reports no stability for macros; a macro is unstable if it calls an unstable function.
    """
    rows = database().execute("SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
                              "WHERE stability <> 'CONSISTENT'").fetchall()  # fmt: skip
    macros = database().execute("SELECT lower(function_name), lower(macro_definition) FROM duckdb_functions() "
                                "WHERE function_type = 'macro' AND internal").fetchall()  # fmt: skip
    unstable = {name for (name,) in rows} | {"current_timestamp"}
    unstable |= {name for name, text in macros if unstable.intersection(re.findall(r"\w+", text or ""))}
    return frozenset(unstable) - {"now", "current_timestamp"}  # in a view, both are the time of the epoch


@cache
def macro_copies() -> dict[str, int]:
    """Return DuckDB's macros that write an argument several times, such as NULLIF, each with the number of times."""
    rows = database().execute("SELECT lower(function_name), parameters, macro_definition FROM duckdb_functions() "
                              "WHERE function_type = 'macro' AND internal").fetchall()  # fmt: skip
    copies: dict[str, int] = {}
    for name, parameters, text in rows:
        words = Counter(re.findall(r"\w+", text or ""))
        copies[name] = max([copies.get(name, 0), *(words[parameter] for parameter in parameters)])
    return {name: count for name, count in copies.items() if count > 1}


def _close() -> None:
    """Close the database: if it is open when the process ends, DuckDB's binding prints a complaint."""
    database().close()
    database.cache_clear()


class Describer:
    """Describer of queries over relations; each relation is an empty temporary table."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        self._connection = database().cursor()
        self._views = database().cursor()
        self._narrow: duckdb.DuckDBPyConnection | None = None
        self._relations: list[Relation] = []
        for relation in relations:
            self.add(relation)

    def add(self, relation: Relation) -> None:
        """Add a table."""
        self._relations.append(relation)
        _create(self._connection, relation.name, _columns(relation))
        if self._narrow is not None:
            _create(self._narrow, relation.name, _columns(relation, narrow=True))

    def close(self) -> None:
        """Close the cursors."""
        for connection in (self._connection, self._views, self._narrow):
            if connection is not None:
                connection.close()

    def columns(self, sql: str) -> list[tuple[str, str]]:
        """Return names and types of a query's columns; raise `duckdb.Error` if DuckDB refuses the query."""
        with time_limit(self._connection, DESCRIBE_S):
            return [(row[0], row[1]) for row in self._connection.execute(f"DESCRIBE {sql}").fetchall()]

    def names(self, sql: str) -> list[str]:
        """Return the names of a query's columns; raise `duckdb.Error` if DuckDB refuses the query.

        Some functions of DuckDB, such as CHR, accept only integers of 32 bits. A query that calls such a function is
        described over tables that have columns of 32 bits in place of 64. In the view itself, the arguments of the
        function are converted.
        """
        try:
            return [name for name, _ in self.columns(sql)]
        except duckdb.BinderException as error:
            if "No function matches" not in str(error):
                raise
            if self._narrow is None:
                self._narrow = database().cursor()
                for relation in self._relations:
                    _create(self._narrow, relation.name, _columns(relation, narrow=True))
            try:
                with time_limit(self._narrow, DESCRIBE_S):
                    return [row[0] for row in self._narrow.execute(f"DESCRIBE {sql}").fetchall()]
            except duckdb.Error:
                raise error from None

    def columns_over(self, sql: str, tables: dict[str, list[tuple[str, str]]]) -> list[tuple[str, str]]:
        """Return the same as `columns`, over other tables: name → columns and their types.

        The query also runs once, over the empty tables.
        """
        try:
            for name, columns in tables.items():
                _create(self._views, name, columns)
            with time_limit(self._views, DESCRIBE_S):
                described = self._views.execute(f"DESCRIBE {sql}").fetchall()
                self._views.execute(sql).fetchall()
            return [(row[0], row[1]) for row in described]
        finally:
            for name in tables:
                self._views.execute(f"DROP TABLE IF EXISTS {quoted_name(name)}")


def _columns(relation: Relation, *, narrow: bool = False) -> list[tuple[str, str]]:
    """Return names and types of a relation's columns; ``narrow`` replaces integers of 64 bits by integers of 32."""
    kinds = [(column.name, _natural(column.scale, Type.of(column).duckdb)) for column in relation.columns]
    return [(name, "INTEGER" if narrow and kind == "BIGINT" else kind) for name, kind in kinds]


def _create(connection: duckdb.DuckDBPyConnection, name: str, columns: list[tuple[str, str]]) -> None:
    body = ", ".join(f"{quoted_name(column)} {kind}" for column, kind in columns)
    connection.execute(f"CREATE TEMP TABLE {quoted_name(name)} ({body})")


def quoted_name(name: str) -> str:
    """Return a name in quotes for SQL; it may contain any characters."""
    return '"' + name.replace('"', '""') + '"'


def _natural(scale: int, duckdb_type: str) -> str:
    """Return the type that a user of SQL expects: a scaled integer is a DECIMAL."""
    if not scale:
        return duckdb_type
    return f"DECIMAL({38 if duckdb_type == 'HUGEINT' else 18}, {scale})"
