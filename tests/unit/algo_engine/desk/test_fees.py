"""What executions cost, to the unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from algo_engine.desk.fees import FREE, Fees, FeeSchedule, parse_fees, read_fees
from algo_engine.desk.order import Side
from algo_engine.errors import ParameterError
from tests.generators.order_lab import OrderLab


@pytest.mark.parametrize(
    ("liquidity", "lots", "price", "fee"),
    [
        ("taker", 1, 1_000_000, 50),
        ("taker", 1, 1_000_001, 51),
        ("taker", 1, 1, 1),
        ("cross", 1, 1_000_000, 50),
        ("maker", 1, 1_000_000, -20),
        ("maker", 1, 1_000_001, -20),
        ("maker", 1, 49_999, 0),
        ("maker", 10**9, 10**9, -20 * 10**12),
    ],
)
def test_fees_round_up_and_rebates_round_down(liquidity: str, lots: int, price: int, fee: int) -> None:
    assert parse_fees("maker=-20,taker=50").fee("ACME", liquidity, lots, price) == fee


def test_a_symbol_has_its_own_fees_or_those_of_all_others() -> None:
    schedule = parse_fees("taker=10;ACME:taker_per_lot=3,maker_per_lot=-1")
    assert schedule.fee("ACME", "taker", 7, 10**6) == 21
    assert schedule.fee("ACME", "maker", 7, 10**6) == -7
    assert schedule.fee("GLOBEX", "taker", 7, 10**6) == 70
    assert FREE.fee("ACME", "taker", 7, 10**6) == 0


def test_a_file_says_the_same_as_a_text(tmp_path: Path) -> None:
    path = tmp_path / "fees.toml"
    path.write_text('["*"]\nmaker_millionths = -20\n[ACME]\ntaker_per_lot = 3\n')
    expected = FeeSchedule({"*": Fees(maker_millionths=-20), "ACME": Fees(taker_per_lot=3)})
    assert read_fees(str(path)) == expected == read_fees("maker=-20;ACME:taker_per_lot=3")


@pytest.mark.parametrize("text", ["maker", "maker=1.5", "maker=", "broker=3", "ACME:", "maker=--1"])
def test_what_is_no_fee_is_named(text: str) -> None:
    with pytest.raises(ParameterError, match="expected fees such as maker=-20"):
        parse_fees(text)


@pytest.mark.parametrize(
    "text", ["maker=1,maker=2", "maker=1;taker=2", "ACME:maker=1;maker=2;ACME:taker=3", "*:maker=1;maker=1"]
)
def test_what_is_said_twice_is_named(text: str) -> None:
    with pytest.raises(ParameterError, match="expected each symbol once, with each fee once, was"):
        parse_fees(text)


@pytest.mark.parametrize("content", ["x", "x = 1", "[ACME]\nmaker = 1", "[ACME]\nmaker_millionths = 1.5"])
def test_a_file_that_holds_no_fees_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "fees.toml"
    path.write_text(content)
    with pytest.raises(ParameterError, match=r"fees\.toml"):
        read_fees(str(path))
    with pytest.raises(ParameterError, match=r"no\.toml"):
        read_fees(str(tmp_path / "no.toml"))


def test_the_fee_of_the_moment_is_kept_with_the_fill() -> None:
    lab = OrderLab(fees=parse_fees("maker=100"))
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 1000, 100)
    lab.settle()
    lab.exchange.fill(1, 500, 100)
    lab.told()
    lab.settle()
    assert lab.events[-1].fee == 5
    lab.journal.sync()
    lab.fees = parse_fees("maker=100000")
    lab.crash()
    lab.exchange.fill(1, 500, 100)
    lab.settle()
    assert lab.desk.portfolio.holding("ACME").fees == 5 + 5000
    assert [fill.fee for fill in lab.spool.fills] == [5, 5000]
    assert lab.desk.portfolio.profit("ACME", 100).total == -5005
