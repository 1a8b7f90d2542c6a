"""Functions that DuckDB has for integers of 64 bits alone take the exact integers of a query, which are wider."""

from __future__ import annotations

import duckdb
import pytest

from runtime.compiler import MARKET_RELATIONS, NamedSelect, compile_program
from runtime.plan import Reevaluated

CALLS = (
    "MAKE_TIMESTAMP(t // 1000)",
    "EPOCH_MS(t // 1000000 + 1)",
    "REPEAT(symbol, volume % 3 + 1)",
    "ROUND(price, -1)",
    "CHR(CAST(65 + volume % 10 AS INTEGER))",
    "LPAD(symbol, CAST(volume AS INTEGER) % 7 + 1, '.')",
)
NARROW_CALLS = {
    "CHR(volume + 65)": "CHR(CAST(volume + 65 AS INTEGER))",
    "LPAD(symbol, volume, '.')": "LPAD(symbol, volume::INT, '.')",
}
"""Calls that DuckDB has for integers of 32 bits alone → the same with a CAST, as DuckDB wants it."""


@pytest.mark.parametrize("call", CALLS)
def test_narrow_function_takes_wide_integers(call: str) -> None:
    """The query as it is run equals the query as it was written."""
    (view,) = compile_program([NamedSelect("v", f"SELECT {call} AS x FROM trades")], MARKET_RELATIONS).views
    assert isinstance(view.body, Reevaluated)
    expect_same(view.body, call)


@pytest.mark.parametrize("call", NARROW_CALLS)
def test_narrow_function_needs_no_cast(call: str) -> None:
    """Columns of scripts are of 64 bits whatever they are declared as, so that nobody could do without a CAST."""
    (view,) = compile_program([NamedSelect("v", f"SELECT {call} AS x FROM trades")], MARKET_RELATIONS).views
    assert isinstance(view.body, Reevaluated)
    expect_same(view.body, NARROW_CALLS[call])


def expect_same(body: Reevaluated, call: str) -> None:
    """The view's rows are those of the call in DuckDB."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE trades (t BIGINT, match_id BIGINT, symbol VARCHAR, price BIGINT, volume BIGINT)")
    rows = [(1_700_000_000_123_456_789 + n, n, "ACME", 10_003 + n, 7 * n) for n in range(5)]
    connection.executemany("INSERT INTO trades VALUES (?, ?, ?, ?, ?)", rows)
    expected = connection.execute(f"SELECT {call} AS x FROM trades ORDER BY ALL").fetchall()
    assert connection.execute(f"SELECT * FROM ({body.query}) ORDER BY ALL").fetchall() == expected
