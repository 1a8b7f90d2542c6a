"""Derived streams: rows per second through one query in batches of 10,000, with a barrier after each.

`runtime.engine.operators.DerivedQuery` maintains the query, whose state is committed to a store in memory at every
barrier. The references are DuckDB in one thread, and Polars with all cores. At each barrier a reference computes the
query again over all rows so far, which is the cost of a stream without state. The references are timed at five evenly
spaced barriers; the mean is used for all barriers. For `streams.NAME.once.rows_per_s` the references compute the query
once, at the end (all rows in one batch, without order, state or barriers), and the faster one counts. The numbers of
rows must be equal.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from bench.report import Record, record
from runtime.compiler.script import NamedSelect
from runtime.engine.operators import DerivedQuery, StreamInput
from runtime.state import MemoryStore, ObjectSpace

__all__ = ["measure_streams"]

_BATCH: Final = 10_000
_RUNS: Final = 5
_PREFIXES: Final = 5
_SECOND: Final = 1_000_000_000
_SYMBOLS: Final = 100

_TRADES = pa.schema([("t", pa.int64()), ("symbol", pa.string()), ("price", pa.int64()), ("volume", pa.int64())])
_QUOTES = pa.schema([("t", pa.int64()), ("symbol", pa.string()), ("bid", pa.int64()), ("ask", pa.int64())])
_NAMES = pa.schema([("symbol", pa.string()), ("sector", pa.string())])
_INPUTS: Final = {
    "trades": StreamInput(_TRADES, "t"),
    "quotes": StreamInput(_QUOTES, "t"),
    "names": StreamInput(_NAMES, is_table=True),
}
_ASOF: Final = """SELECT trades.t, trades.symbol, price, bid, ask FROM trades ASOF JOIN quotes
    ON trades.symbol = quotes.symbol AND trades.t >= quotes.t"""
_MERGE: Final = """SELECT trades.t, trades.symbol, price, bid FROM trades JOIN quotes
    ON trades.t = quotes.t AND trades.symbol = quotes.symbol"""
_LOOKUP: Final = "SELECT t, trades.symbol, price, sector FROM trades JOIN names ON trades.symbol = names.symbol"
_BARS: Final = """FIRST(price) AS o, MAX(price) AS h, MIN(price) AS l, LAST(price) AS c, SUM(volume) AS v, COUNT(*) AS n
    FROM trades GROUP BY"""
_QUERIES: Final = {
    "asof": (_ASOF, _ASOF),
    "tumble": (
        f"SELECT symbol, window_start AS t, {_BARS} symbol, TUMBLE(t, INTERVAL '1' SECOND)",
        f"SELECT symbol, t // {_SECOND} * {_SECOND} AS s, {_BARS} ALL",
    ),
    "lookup": (_LOOKUP, _LOOKUP),
    "merge": (_MERGE, _MERGE),
}
"""Query of each figure, and the SQL for DuckDB."""


def measure_streams(quick: bool) -> list[Record]:
    """Measure every figure beside the faster one of DuckDB and Polars."""
    rows = 200_000 if quick else 1_000_000
    tables = _feed(rows)
    records = []
    for name, (sql, asked) in _QUERIES.items():
        ours: list[float] = []
        others: dict[str, tuple[list[float], list[float]]] = {"DuckDB": ([], []), "Polars": ([], [])}
        for _ in range(3 if quick else _RUNS):
            total, seconds, count = _derived(sql, tables)
            ours.append(total / seconds)
            for other, compute in (("DuckDB", partial(_duckdb, asked)), ("Polars", partial(_polars, name))):
                times = []
                for part in range(1, _PREFIXES + 1):
                    seconds, made = compute({each: table.slice(0, table.num_rows * part // _PREFIXES)
                                             for each, table in tables.items()})  # fmt: skip
                    times.append(seconds)
                if made != count:
                    raise RuntimeError(f"expected {made} rows of {name} as {other} has, was {count}")
                others[other][0].append(total / (sum(times) / _PREFIXES * total / _BATCH))
                others[other][1].append(total / times[-1])
        for place, what in ((0, "rows_per_s"), (1, "once.rows_per_s")):
            reference = max(others, key=lambda each: statistics.median(others[each][place]))
            text = f"{reference}, again at each barrier" if place == 0 else f"{reference}, once"
            records.append(record(f"streams.{name}.{what}", ours, "rows/s", text, others[reference][place]))
    return records


def _feed(rows: int) -> Mapping[str, pa.Table]:
    random = np.random.default_rng(7)
    symbols = np.array([f"SYM{number:03}" for number in range(_SYMBOLS)])
    made = {}
    for name, schema in (("trades", _TRADES), ("quotes", _QUOTES)):
        times = np.cumsum(random.integers(0, 4, rows)) * 10_000
        keys = pa.array(symbols[random.integers(0, _SYMBOLS, rows)])
        numbers = [pa.array(random.integers(1, 1_000, rows)) for _ in range(2)]
        made[name] = pa.Table.from_arrays([pa.array(times), keys, *numbers], schema=schema)
    made["names"] = pa.table({"symbol": symbols.tolist(), "sector": [f"sector {n % 7}" for n in range(_SYMBOLS)]})
    return made


def _derived(sql: str, tables: Mapping[str, pa.Table]) -> tuple[int, float, int]:
    """Return the number of input rows, the seconds and the number of output rows."""
    space = ObjectSpace(MemoryStore())
    query = DerivedQuery(NamedSelect("bench", sql), _INPUTS, space, "bench")
    streams = [name for name in ("trades", "quotes") if name in query.reads]
    batches = {name: tables[name].to_batches(max_chunksize=_BATCH // len(streams)) for name in streams}
    times = {name: [batch.column(0)[-1].as_py() for batch in batches[name]] for name in streams}
    names = tables["names"].append_column("weight", pa.array([1] * _SYMBOLS)).to_batches()[0]
    start, count = time.perf_counter(), 0
    if "names" in query.reads:
        query.add("names", names)
    for number in range(len(batches[streams[0]])):
        for name in streams:
            query.add(name, batches[name][number])
        count += sum(batch.num_rows for batch in query.close({name: times[name][number] for name in streams}))
        space.commit()
    count += sum(batch.num_rows for batch in query.close({}, streams))
    return sum(tables[name].num_rows for name in streams), time.perf_counter() - start, count


def _duckdb(sql: str, tables: Mapping[str, pa.Table]) -> tuple[float, int]:
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return _timed(lambda: connection.sql(sql).to_arrow_table().num_rows)


def _polars(name: str, tables: Mapping[str, pa.Table]) -> tuple[float, int]:
    frames = {each: pl.DataFrame(table) for each, table in tables.items()}
    return _timed(lambda: _POLARS[name](frames).height)


def _timed(query: Callable[[], int]) -> tuple[float, int]:
    start = time.perf_counter()
    count = query()
    return time.perf_counter() - start, count


def _bars(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    price = pl.col("price")
    return tables["trades"].group_by("symbol", pl.col("t") // _SECOND * _SECOND).agg(
        price.first().alias("o"), price.max().alias("h"), price.min().alias("l"), price.last().alias("c"),
        pl.col("volume").sum(), pl.len().alias("n"),
    )  # fmt: skip


_POLARS: Final[Mapping[str, Callable[[Mapping[str, pl.DataFrame]], pl.DataFrame]]] = {
    "asof": lambda tables: tables["trades"].join_asof(
        tables["quotes"], on="t", by="symbol", strategy="backward", check_sortedness=False
    ).drop_nulls("bid"),
    "tumble": _bars,
    "lookup": lambda tables: tables["trades"].join(tables["names"], on="symbol"),
    "merge": lambda tables: tables["trades"].join(tables["quotes"], on=["t", "symbol"]),
}  # fmt: skip
