"""A result as Arrow tables: exact decimals, NULL for what has not happened, the same rows in pandas and polars."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.backtest import Backtest, BacktestConfig, DataFile, Result
from deltabook.backtest.grid import Point
from deltabook.backtest.presentation import digits_of
from deltabook.backtest.recorder import OrderLife
from deltabook.backtest.sweep import SweepResult
from deltabook.backtest.tables import decimals
from deltabook.wire.symbols import Instrument
from queries import QUERIES_DIR
from tests.generators.results import fill, result_of, sample

COINS = Instrument("COINS", "0.01", "0.00000001")
BOTH = (Instrument("ACME", "0.5", "100"), COINS)


@pytest.fixture(scope="module")
def played() -> Result:
    """A run with trades."""
    file = DataFile(QUERIES_DIR / "trace-5000.csv", symbol="ACME", day="2012-06-21")
    return Backtest(BacktestConfig(("market_maker",), (file,), ("interval_ms=100",), fees="maker=-20,taker=50")).run()


@given(st.lists(st.one_of(st.none(), st.integers(-(10**38) + 1, 10**38 - 1))), st.integers(0, 12))
def test_decimals_have_all_their_digits(values: list[int | None], digits: int) -> None:
    found = decimals(values, digits)
    assert found.type == pa.decimal128(38, digits)
    assert found.to_pylist() == [None if value is None else Decimal(f"{value}E-{digits}") for value in values]


@pytest.mark.parametrize(("unit", "digits"), [("1", 0), ("0.0001", 4), ("0.50", 1), ("100", 0), ("1E-8", 8)])
def test_digits_behind_the_point(unit: str, digits: int) -> None:
    assert digits_of(Decimal(unit)) == digits


def test_trades_of_two_scales_share_columns_exactly() -> None:
    fills = [fill(1, "B", 3, 7, fee=2), fill(2, "S", 123_456_789, 5_000_001, fee=-1, symbol="COINS")]
    table = result_of([sample(0, [[0, 0]])], fills, instruments=BOTH).trades
    assert table.column("side").to_pylist() == ["buy", "sell"]
    assert table.column("price").to_pylist() == [Decimal("3.50"), Decimal("50000.01")]
    assert table.column("quantity").to_pylist() == [Decimal(300), Decimal("1.23456789")]
    assert table.column("fee").to_pylist() == [Decimal(100), Decimal("-0.0000000001")]
    assert table.schema.field("price").type == pa.decimal128(38, 2)
    assert table.schema.field("fee").type == pa.decimal128(38, 10)


def test_what_has_not_happened_is_null() -> None:
    refused = OrderLife("one", 1, "NONE", "B", 5, 100, 10**18, status="refused", reason="no such symbol")
    rests = OrderLife("one", 2, "ACME", "S", 5, 3, 10**18, order_id=9, accepted_ns=10**18 + 1, status="accepted")
    table = result_of([sample(0, [[0, 0]])], instruments=BOTH, orders=[refused, rests]).orders
    assert table.column("symbol").to_pylist() == ["NONE", "ACME"]
    assert table.column("price").to_pylist() == [None, Decimal("1.50")]
    assert table.column("order_id").to_pylist() == [None, 9]
    assert table.column("ended").null_count == 2
    assert table.column("accepted").cast(pa.int64()).to_pylist() == [None, 10**18 + 1]
    assert table.column("price_ticks").to_pylist() == [100, 3]


def test_profits_and_positions_are_by_strategy_and_symbol() -> None:
    moment = sample(5, [[1, 20], [300, 4000]], [(7, 8), (None, 9)], [[2, -1], [0, 3]])
    result = result_of([moment], names=("one", "two"), instruments=BOTH)
    profits = zip(*[result.pnl.column(name).to_pylist() for name in ("strategy", "symbol", "profit")], strict=True)
    assert list(profits) == [
        ("one", "ACME", Decimal(50)),
        ("one", "COINS", Decimal("2E-9")),
        ("two", "ACME", Decimal(15_000)),
        ("two", "COINS", Decimal("4E-7")),
    ]
    columns = [result.positions.column(name).to_pylist() for name in ("position_lots", "bid", "ask", "exposure")]
    assert list(zip(*columns, strict=True)) == [
        (2, Decimal("3.5"), Decimal(4), Decimal(2 * 7 * 50)),
        (-1, None, Decimal("0.09"), Decimal("-9E-10")),
        (0, Decimal("3.5"), Decimal(4), Decimal(0)),
        (3, None, Decimal("0.09"), Decimal("27E-10")),
    ]


def test_tables_have_what_the_result_counts(played: Result) -> None:
    (figures,) = played.strategies
    assert played.trades.num_rows == played.figures.own_trades == figures.orders.fills > 100
    assert played.orders.num_rows == figures.orders.submitted
    assert played.pnl.num_rows == played.positions.num_rows == len(played.curve)
    unit = played.instruments[0].notional(1)
    assert played.pnl.column("profit").to_pylist()[-1] == figures.profit * unit
    assert sum(played.trades.column("fee").to_pylist()) == figures.fees * unit
    assert played.positions.column("position_lots").to_pylist()[-1] == figures.position_lots["ACME"]
    assert played.trades.column("time").to_pylist()[0].date() == datetime(2012, 6, 21, tzinfo=UTC).date()


def test_a_table_is_made_once(played: Result) -> None:
    assert played.trades is played.trades
    assert played.statistics is played.statistics


def test_pandas_and_polars_have_the_same_rows(played: Result) -> None:
    for table in (played.trades, played.orders, played.pnl, played.positions, played.statistics.to_arrow()):
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        assert frame.height == table.num_rows == len(table.to_pandas())
        for name in table.column_names:
            if pa.types.is_decimal(table.schema.field(name).type):
                assert frame[name].to_list() == table.column(name).to_pylist() == list(table.to_pandas()[name])


def test_days_add_up_to_the_profit() -> None:
    """A day has what it added, also one with executions and no sample; positions are those at its end."""
    day = 86_400 * 10**9
    curve = [
        sample(0, [[0, 0]]), sample(day - 1, [[500, 7]], positions=[[4, 0]]), sample(3 * day, [[300, 7]]),
    ]  # fmt: skip
    fills = [fill(5, "B", 4, 100), fill(2 * day, "S", 1, 100), fill(3 * day, "S", 3, 100)]
    rows = result_of(curve, fills, instruments=BOTH).daily.to_pylist()
    assert [(str(r["day"]), r["symbol"], r["profit"], r["fills"], r["traded"], r["position"]) for r in rows] == [
        ("1970-01-01", "ACME", 25_000, 1, 400, 400), ("1970-01-01", "COINS", Decimal("7E-10"), 0, 0, 0),
        ("1970-01-03", "ACME", 0, 1, 100, 400), ("1970-01-03", "COINS", 0, 0, 0, 0),
        ("1970-01-04", "ACME", -10_000, 1, 300, 0), ("1970-01-04", "COINS", 0, 0, 0, 0),
    ]  # fmt: skip


def test_the_days_of_a_run_add_up(played: Result) -> None:
    """One day of a recording is the whole profit, and every execution is in it."""
    rows = played.daily.to_pylist()
    assert [str(row["day"]) for row in rows] == ["2012-06-21"]
    assert rows[0]["profit"] == played.pnl.column("profit").to_pylist()[-1]
    assert rows[0]["fills"] == len(played.fills)


def test_a_sweep_is_a_table_of_its_points() -> None:
    points = [Point(1, ("1", "x"), profit=5, sharpe=1.5), Point(2, ("2", "x"), error="no figures")]
    result = SweepResult(BacktestConfig(("one",)), (("a", ("1", "2")), ("b", ("x",))), points)
    rows = result.to_arrow().to_pylist()
    assert [(row["a"], row["b"], row["number"], row["profit"], row["sharpe"], row["error"]) for row in rows] == [
        ("1", "x", 1, 5, 1.5, ""),
        ("2", "x", 2, None, None, "no figures"),
    ]
    assert result.parameters_of(points[1]) == {"a": "2", "b": "x"}
