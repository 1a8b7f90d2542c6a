"""Files as one stream of records: by time, day after day, with ids of their own."""

from __future__ import annotations

import lzma
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deltabook.backtest import Backtest, BacktestConfig
from deltabook.backtest import flow as flow_module
from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError, CrossedDataError
from deltabook.backtest.flow import Flow, detect_format
from exchange_server.replay import Record, RecordColumns
from exchange_server.replay.parquet import RecordingInfo, write_parquet
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


def test_files_of_one_symbol_follow_one_another(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.csv", 5, 9), trace(tmp_path / "b.csv", 9, 20)
    records = [r for r in Flow([DataFile(a, symbol="A"), DataFile(b, symbol="A")]) if r.action != "D"]
    assert [r.time_ns // 10**6 for r in records] == [5, 9, 9, 20]
    assert len({r.order_id for r in records}) == 4, "the ids of one file are none of another's"


def test_a_file_that_overlaps_its_predecessor_is_refused(tmp_path: Path) -> None:
    """Two days whose files say no day would otherwise be played as one moment."""
    a, b = trace(tmp_path / "a.csv", 5, 9), trace(tmp_path / "b.csv", 8, 20)
    words = "expected files of A in the order of their times, was b.csv, which begins at 1970-01-01 00:00:00, behind a"
    with pytest.raises(ConfigurationError, match=words):
        list(Flow([DataFile(a, symbol="A"), DataFile(b, symbol="A")]))
    days = [DataFile(a, symbol="A", day="2012-06-21"), DataFile(b, symbol="A", day="2012-06-22")]
    assert [r.action for r in Flow(days)] == ["B", "B", "D", "D", "B", "B"]


def test_a_day_begins_without_the_orders_of_the_day_before(tmp_path: Path) -> None:
    """Their ids are none of its own, so no record of it could end them: they would trade with its orders."""
    first, empty, second = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    first.write_text("1,1,B,5,100\n2,2,S,5,110\n3,3,B,5,90\n4,3,D,0,0\n5,1,E,2,0\n6,4,S,3,120\n7,4,E,3,0\n")
    empty.write_text("no,record\n")
    second.write_text("1,1,B,5,50\n2,2,S,5,60\n")
    days = [DataFile(path, "dbtoaster", "A", f"2012-06-2{n}") for n, path in enumerate((first, empty, second))]
    records = list(Flow(days))
    begin_ns = records[-2].time_ns
    assert [(r.action, r.order_id, r.time_ns) for r in records[7:]] == [
        ("D", 1, begin_ns), ("D", 2, begin_ns),
        ("B", 1 + (2 << flow_module.FILE_SHIFT), begin_ns), ("S", 2 + (2 << flow_module.FILE_SHIFT), begin_ns + 10**6),
    ]  # fmt: skip
    figures = Backtest(BacktestConfig(("market_maker",), data=tuple(days))).run().figures
    assert figures.market_trades - figures.own_trades == 2, "those of the first day"


def test_files_that_share_some_symbols_are_refused(tmp_path: Path) -> None:
    """They would be merged by time, as if each had a symbol of its own, also where both have the same day."""
    both, one = tmp_path / "both.parquet", tmp_path / "one.parquet"
    for path, symbols in ((both, ("A", "B")), (one, ("A",))):
        records = [Record(n, n, n, 1, "B", 5, 100, symbol) for n, symbol in enumerate(symbols, 1)]
        table = RecordColumns.from_records(records, symbols)
        loader = SimpleNamespace(batches=lambda rows, table=table: [table])
        write_parquet(path, cast(Any, loader), RecordingInfo("dbtoaster", "0.0001", "1", symbols))
    words = "none in common, was A in both.parquet with A, B and in one.parquet with A; name one symbol for each file"
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        Flow([DataFile(both), DataFile(one)])
    merged = Flow([DataFile(both, symbol="B"), DataFile(one, symbol="A")])
    assert [(r.time_ns, r.symbol) for r in merged] == [(1, "A"), (2, "B")]


def crossing(path: Path, rows: int, crossed: int) -> DataFile:
    """A LOBSTER file of a bid, and an ask for each row, of which so many, the last ones, cross it."""
    lines = ["34200.0,1,1,5,1000,1"]
    lines += [f"34200.{n:06},1,{n + 2},5,{999 if n >= rows - 1 - crossed else 1001},-1" for n in range(rows - 1)]
    path.write_text("\n".join([*lines, ""]))
    return DataFile(path, format="lobster")


def test_a_book_crossed_too_often_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """The share, the file, the order book file that lies beside it and the option to play it all the same."""
    file = crossing(tmp_path / "A_2012-06-21_1_2_message_1.csv", 100, 6)
    (tmp_path / "A_2012-06-21_1_2_orderbook_1.csv").write_text("")
    words = r"^expected a book that is crossed after 5 % of the records at most, was 6\.0 % of 100 in A_2012.*csv: .*"
    with pytest.raises(CrossedDataError, match=words + r"--orderbook .*A_2012-06-21_1_2_orderbook_1\.csv corrects it"):
        list(Flow([file], max_crossed_percent=None))
    flow = Flow([file], max_crossed_percent=6)
    assert len(list(flow)) == 100
    assert (flow.sources()[0].crossed, flow.sources()[0].crossed_percent) == (6, 6.0)
    assert flow.sources()[0].begin_ns == 15_512 * 86_400 * 10**9 + 34_200 * 10**9


def test_a_long_file_is_refused_before_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first records that cross too often end a run that would take hours."""
    monkeypatch.setattr(flow_module, "_EARLY_RECORDS", 50)
    file = crossing(tmp_path / "A_message_.csv", 200, 199)
    with pytest.raises(CrossedDataError, match=r"was 98\.0 % of 50 in"):
        list(Flow([file], max_crossed_percent=None))


def test_orders_that_are_meant_to_trade_are_not_refused(tmp_path: Path) -> None:
    """A trace of orders is played by a market that matches them; its share is counted, and refused if asked for."""
    path = tmp_path / "a.csv"
    path.write_text("1,1,B,5,100\n2,2,S,5,100\n")
    flow = Flow([DataFile(path)], max_crossed_percent=None)
    assert len(list(flow)) == 2
    assert flow.sources()[0].crossed == 1
    with pytest.raises(CrossedDataError):
        list(Flow([DataFile(path)], max_crossed_percent=10))
    with pytest.raises(ConfigurationError, match="expected a share from 0 to 100 percent, was 101"):
        Flow([DataFile(path)], max_crossed_percent=101)


def test_a_limit_ends_the_stream(tmp_path: Path) -> None:
    flow = Flow([DataFile(trace(tmp_path / "a.csv", 1, 2, 3))], limit_records=2)
    assert len(list(flow)) == 2


def test_formats_are_found_by_name_or_first_line(tmp_path: Path) -> None:
    bitstamp = tmp_path / "orders.csv"
    bitstamp.write_text("id,timestamp,exchange_timestamp,price,volume,action,direction\n")
    quoted = tmp_path / "quoted.csv"
    quoted.write_bytes(
        lzma.compress(b'"","id","timestamp","exchange.timestamp","price","volume","action","direction"\n')
    )
    assert detect_format(DataFile(quoted)) == "bitstamp"
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


def test_an_order_or_a_tick_between_ticks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,1,B,5,1000100\n2,2,B,5,1000150\n")
    words = "expected orders at whole ticks, was a price of 1000150/100 ticks at line 2 of a.csv; a smaller tick fits"
    with pytest.raises(ConfigurationError, match=words):
        list(Flow([DataFile(path, tick="0.01")]))
    for tick in ("0.00015", "0.00001", "0", "-0.01", "NaN", "Infinity", "a cent"):
        with pytest.raises(ConfigurationError, match=r"expected a tick of whole 0\.0001 for a file of dbtoaster, was"):
            Flow([DataFile(path, tick=tick)])
