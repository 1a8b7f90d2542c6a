"""DuckDB: every answer from scratch."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa

from bench.views.cases import Case
from bench.views.handwritten import Answer
from bench.views.market import Market

__all__ = ["FromScratch", "answer_of", "seconds_as_written"]


class FromScratch:
    """The relations as tables; a batch is inserted and deleted by id, then the tuned SQL computes the answer, on all
    cores.
    """

    def __init__(self, case: Case, live: Mapping[str, pa.Table], memory_limit: str = "") -> None:
        self._case = case
        self._connection = duckdb.connect(
            config={"memory_limit": memory_limit, "temp_directory": ""} if memory_limit else {}
        )
        for name, rows in live.items():
            self._connection.register("given", rows)
            self._connection.execute(f"CREATE TABLE {name} AS FROM given")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def apply(self, deltas: Mapping[str, pa.Table]) -> list[Any]:
        """Apply a batch and return the answer's rows as DuckDB returns them."""
        for name, table in deltas.items():
            self._connection.register("given", table)
            self._connection.execute(f"INSERT INTO {name} SELECT * EXCLUDE (weight) FROM given WHERE weight > 0")
            self._connection.execute(f"DELETE FROM {name} WHERE id IN (SELECT id FROM given WHERE weight < 0)")
        return self._connection.sql(self._case.tuned).fetchall()

    def answer(self) -> Answer:
        """Return the present answer."""
        return answer_of(self._connection, self._case.tuned)

    def seconds_as_written(self, limit_seconds: float) -> float | None:
        """Return the seconds of the original SQL; None if it exceeds the limit of time or memory."""
        timer = threading.Timer(limit_seconds, self._connection.interrupt)
        timer.start()
        start = time.perf_counter()
        try:
            self._connection.sql(self._case.sql).fetchall()
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            return None
        finally:
            timer.cancel()
        return time.perf_counter() - start


def answer_of(connection: duckdb.DuckDBPyConnection, sql: str, factor: int = 1) -> Answer:
    """Return DuckDB's answer with its last column times `factor`, as scaled integers, sorted."""
    rows = connection.sql(sql).fetchall()
    return sorted((tuple(_whole(v, factor if i == len(r) - 1 else 1) for i, v in enumerate(r)) for r in rows), key=repr)


def _whole(value: Any, factor: int) -> int | None:
    return None if value is None else int(value * factor)


def seconds_as_written(case: Case, live_orders: int, limit_seconds: float, memory: str) -> float | None:
    """Return DuckDB's seconds for the original SQL; None if it exceeds a limit."""
    live = Market(live_orders).live(case.relations)
    with FromScratch(case, live, memory_limit=memory) as scratch:
        return scratch.seconds_as_written(limit_seconds)
