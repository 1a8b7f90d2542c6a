"""The PostgreSQL port of a running runtime: COPY of a million rows of a relation, and SQLAlchemy's reflection.

```
big.csv ─reader─▶ relation big ─▶ one published epoch ─▶ COPY big TO STDOUT ─socket─▶ a client that only reads
```

Unlike `bench.trading.pgcopy`, the answer comes through the runtime: rows at an epoch, DuckDB, encoding, the socket.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from pyarrow import csv

from bench.report import Record, record
from bench.trading.loop import deltabook, running
from bench.trading.pgcopy import copied_s
from queries import query_path

__all__ = ["measure_port"]

_ROWS: Final = 1_000_000
_COLUMNS: Final = ("id int64", "symbol string", "price int64(2)", "share float64", "quantity int64")
_VIEWS: Final = ("best_quote", "broker_volume", "vwap_trades")
_READ_S: Final = 300.0
_POLL_S: Final = 0.2


def measure_port(quick: bool) -> list[Record]:
    """Measure ``pgwire.runtime.copy.FORMAT.rows_per_s`` and ``pgwire.runtime.reflection_s``.

    The columns are bigint, text, numeric, double and bigint. Reflection is `sqlalchemy.MetaData.reflect` with views,
    with a new engine each time.
    """
    rows, runs = (_ROWS // 10, 1) if quick else (_ROWS, 5)
    with tempfile.TemporaryDirectory(prefix="bench-trading-") as place, ExitStack() as ends:
        port = _begin(Path(place), rows, ends)
        formats: dict[str, list[float]] = {"text": [], "csv": [], "binary": []}
        for _ in range(runs):
            for form, rates in formats.items():
                rates.append(rows / copied_s(port, f"COPY big TO STDOUT (FORMAT {form})"))
        reflections = [_reflection_s(port) for _ in range(runs)]
    return [record(f"pgwire.runtime.copy.{form}.rows_per_s", rates, "rows/s") for form, rates in formats.items()] + [
        record("pgwire.runtime.reflection_s", reflections, "s")
    ]


def _begin(folder: Path, rows: int, ends: ExitStack) -> int:
    """Start an exchange without orders and a runtime that has read the rows; return its PostgreSQL port."""
    csv.write_csv(_table(rows), folder / "big.csv")
    command = deltabook("exchange", "run", "--dir", str(folder / "exchange"), "--port", "0")
    exchange = ends.enter_context(running("exchange", command, folder))
    assert exchange.ready is not None
    express = ",".join(str(query_path(view)) for view in _VIEWS)
    command = deltabook(
        "runtime", "--feed", f"127.0.0.1:{exchange.ready.ports['text']}", "--dir", str(folder / "runtime"),
        "--no-spark", "--express", express, "--reader-dir", str(folder), "--pg-port", "0",
        "--question-megabytes", "2048", "--question-seconds", "120",
    )  # fmt: skip
    runtime = ends.enter_context(running("runtime", command, folder))
    assert runtime.ready is not None
    ports = runtime.ready.ports
    columns = [word for column in _COLUMNS for word in ("--column", column)]
    command = [sys.executable, "-m", "deltabook", "reader", "add", "big", "--file", str(folder / "big.csv"), *columns,
               "--option", "header=true", "--results", f"127.0.0.1:{ports['http']}"]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    _wait_for(ports["postgres"], rows)
    return ports["postgres"]


def _table(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    return pa.table({
        "id": numbers,
        "symbol": pa.array([f"S{number}" for number in range(100)] * (rows // 100)),
        "price": pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
        "share": np.random.default_rng(1).random(rows),
        "quantity": numbers % 1000,
    })  # fmt: skip


def _engine(port: int) -> Any:
    return sa.create_engine(f"postgresql+psycopg://bench@127.0.0.1:{port}/deltabook")


def _wait_for(port: int, rows: int) -> None:
    engine = _engine(port)
    deadline = time.monotonic() + _READ_S
    try:
        while True:
            with engine.connect() as connection:
                read = connection.execute(sa.text("SELECT COUNT(*) FROM big")).scalar_one()
            if read == rows:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"expected {rows} rows within {_READ_S:g} s, was {read}")
            time.sleep(_POLL_S)
    finally:
        engine.dispose()


def _reflection_s(port: int) -> float:
    engine, metadata = _engine(port), sa.MetaData()
    begun = time.perf_counter()
    metadata.reflect(engine, views=True)
    taken = time.perf_counter() - begun
    engine.dispose()
    missing = {"bids", "big", *_VIEWS} - set(metadata.tables)
    if missing:
        raise RuntimeError(f"expected {', '.join(sorted(missing))} among the reflected tables, was missing")
    return taken
