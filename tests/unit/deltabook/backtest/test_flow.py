"""Files as one stream of records: by time, day after day, with ids of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.flow import Flow, detect_format
from queries import QUERIES_DIR

TRACE = QUERIES_DIR / "trace-5000.csv"


def trace(path: Path, *times: int) -> Path:
    """A trace of bids at these milliseconds, with ids from 1."""
    path.write_text("".join(f"{t},{n},B,5,100\n" for n, t in enumerate(times, 1)))
    return path


def test_files_of_different_symbols_are_merged_by_time(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.csv", 1, 4), trace(tmp_path / "b.csv", 2, 3)
    flow = Flow([DataFile(a, symbol="A"), DataFile(b, symbol="B")])
    assert [(r.time_ns // 10**6, r.symbol) for r in flow] == [(1, "A"), (2, "B"), (3, "B"), (4, "A")]
    assert [instrument.symbol for instrument in flow.instruments] == ["A", "B"]
    assert [source.records for source in flow.sources()] == [2, 2]


def test_files_of_one_symbol_follow_one_another_and_time_does_not_step_back(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.csv", 5, 9), trace(tmp_path / "b.csv", 1, 20)
    records = list(Flow([DataFile(a, symbol="A"), DataFile(b, symbol="A")]))
    assert [r.time_ns // 10**6 for r in records] == [5, 9, 9, 20]
    assert len({r.order_id for r in records}) == 4, "the ids of one file are none of another's"


def test_a_limit_ends_the_stream(tmp_path: Path) -> None:
    flow = Flow([DataFile(trace(tmp_path / "a.csv", 1, 2, 3))], limit_records=2)
    assert len(list(flow)) == 2


def test_formats_are_found_by_name_or_first_line(tmp_path: Path) -> None:
    bitstamp = tmp_path / "orders.csv"
    bitstamp.write_text("id,timestamp,exchange_timestamp,price,volume,action,direction\n")
    unknown = tmp_path / "unknown.csv"
    unknown.write_text("what,is,this\n")
    assert detect_format(DataFile(TRACE)) == "dbtoaster"
    assert detect_format(DataFile(bitstamp)) == "bitstamp"
    assert detect_format(DataFile(Path("01302020.NASDAQ_ITCH50.gz"))) == "itch"
    assert detect_format(DataFile(Path("AAPL_2012-06-21_34200000_57600000_message_10.csv"))) == "lobster"
    with pytest.raises(ConfigurationError, match="expected a format"):
        detect_format(DataFile(unknown))
    with pytest.raises(ConfigurationError, match="expected a readable file"):
        detect_format(DataFile(tmp_path / "nothing.csv"))


def test_prices_are_in_ticks_of_the_size_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,1,B,5,1000100\n2,2,S,5,1000300\n3,2,E,5,0\n4,0,T,5,1000150\n")
    flow = Flow([DataFile(path, symbol="A", tick="0.01")])
    assert [r.price_ticks for r in flow] == [10_001, 10_003, 0, 10_002], "a trade between two ticks is rounded up"
    assert [(each.tick_size, each.lot_size) for each in flow.instruments] == [("0.01", "1")]


def test_an_order_between_two_ticks_and_a_tick_between_two_of_the_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,1,B,5,1000100\n2,2,B,5,1000150\n")
    words = "expected orders at whole ticks, was a price of 1000150/100 ticks at line 2 of a.csv; a smaller tick fits"
    with pytest.raises(ConfigurationError, match=words):
        list(Flow([DataFile(path, tick="0.01")]))
    for tick in ("0.00015", "0.00001", "0", "-0.01", "NaN", "Infinity", "a cent"):
        with pytest.raises(ConfigurationError, match=r"expected a tick of whole 0\.0001 for a file of dbtoaster, was"):
            Flow([DataFile(path, tick=tick)])
