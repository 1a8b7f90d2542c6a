"""What market-data systems do with these operators: bars, trades with quotes, book snapshots, orders by their ids."""

from __future__ import annotations

import pyarrow as pa

from runtime.engine.operators import TableIndex, Task, plan_sql, run_plan, scan
from tests.generators.operator_lab import rows_of

TRADES = pa.schema([("symbol", pa.string()), ("t", pa.int64()), ("price", pa.int64()), ("volume", pa.int64())])
QUOTES = pa.schema([("symbol", pa.string()), ("t", pa.int64()), ("bid", pa.int64()), ("ask", pa.int64())])
SECOND_NS = 1_000_000_000


def batch(schema: pa.Schema, *rows: tuple[object, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def test_bars_are_a_streaming_aggregation() -> None:
    """OHLCV bars of a second; the trades of each epoch come in the order of symbol and time."""
    second = f"t - t % {SECOND_NS} AS second"
    trades = scan("trades", TRADES, order=["symbol", "t"])
    bars = trades.project("symbol", second, "price", "volume").sort("symbol", "second").aggregate(
        ["symbol", "second"],
        ["FIRST(price) AS open", "MAX(price) AS high", "MIN(price) AS low", "LAST(price) AS close",
         "SUM(volume) AS volume", "SUM(price * volume) / SUM(volume) AS vwap"],
    )  # fmt: skip
    assert "streaming aggregation by symbol, second" in str(bars)
    given = batch(TRADES, ("ACME", 1, 100, 5), ("ACME", 2, 103, 1), ("ACME", 3, 99, 4),
                  ("ACME", SECOND_NS + 1, 101, 2), ("ZETA", 7, 50, 1))  # fmt: skip
    assert rows_of(run_plan(bars, {"trades": [given.slice(0, 2), given.slice(2)]}).to_batches()) == [
        ("ACME", 0, 100, 103, 99, 99, 10, 99.9),
        ("ACME", SECOND_NS, 101, 101, 101, 101, 2, 101.0),
        ("ZETA", 0, 50, 50, 50, 50, 1, 50.0),
    ]


def test_trades_with_quotes_are_an_asof_join() -> None:
    tables = {"trades": scan("trades", TRADES, order=["t"]), "quotes": scan("quotes", QUOTES, order=["t"])}
    sql = """
        SELECT trades.symbol, price, (bid + ask) // 2 AS mid, CASE WHEN price >= ask THEN 'buy' ELSE 'sell' END AS side
        FROM trades ASOF LEFT JOIN quotes ON trades.symbol = quotes.symbol AND trades.t >= quotes.t
    """
    task = Task(plan_sql(sql, tables))
    task.add_input("trades", batch(TRADES, ("ACME", 5, 101, 1), ("ZETA", 5, 50, 1), ("ACME", 9, 99, 1)))
    task.add_input("quotes", batch(QUOTES, ("ACME", 1, 98, 100), ("ACME", 5, 99, 101), ("ZETA", 6, 49, 51)))
    assert rows_of(task.drain()) == [
        ("ACME", 101, 100, "buy"), ("ACME", 99, 100, "sell"), ("ZETA", 50, None, "sell"),
    ]  # fmt: skip


def test_book_snapshots_with_arrays_of_levels_are_an_unnest() -> None:
    levels = pa.list_(pa.int64())
    books = pa.schema([("symbol", pa.string()), ("prices", levels), ("volumes", levels)])
    ladder = scan("books", books).unnest("prices", "volumes", ordinality="level").filter("level <= 2")
    given = batch(books, ("ACME", [100, 99, 98], [5, 6, 7]), ("ZETA", [], []))
    assert rows_of(run_plan(ladder, {"books": [given]}).to_batches()) == [("ACME", 100, 5, 1), ("ACME", 99, 6, 2)]


def test_executions_with_their_orders_are_an_index_lookup_join() -> None:
    """Orders come and go by their ids; an execution names the id alone."""
    orders = pa.schema([("id", pa.int64()), ("symbol", pa.string()), ("price", pa.int64()), ("weight", pa.int64())])
    executions = pa.schema([("order_id", pa.int64()), ("volume", pa.int64())])
    index = TableIndex(pa.schema(list(orders)[:3]), ["id"])
    filled = scan("executions", executions).lookup(index, ["order_id"], "left", updates=scan("orders", orders))
    task = Task(filled)
    task.add_input("orders", batch(orders, (1, "ACME", 100, 1), (2, "ZETA", 50, 1)))
    task.drain()
    task.add_input("executions", batch(executions, (2, 10), (1, 20), (3, 30)))
    assert rows_of(task.drain()) == [(1, 20, "ACME", 100), (2, 10, "ZETA", 50), (3, 30, None, None)]
    task.add_input("orders", batch(orders, (2, "ZETA", 50, -1), (1, "ACME", 101, 1)))
    task.drain()
    task.add_input("executions", batch(executions, (1, 20), (2, 10)))
    assert rows_of(task.drain()) == [(1, 20, "ACME", 101), (2, 10, None, None)]
    assert len(index) == 1
