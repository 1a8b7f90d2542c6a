"""Damaged, foreign and strange recordings end in an error with its place, or are counted."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from twisted.logger import formatEvent, globalLogPublisher

from deltabook.wire.itch import encode_message
from exchange_server.errors import ExchangeError, RecordError, ReplayFileError
from exchange_server.replay import Loader, open_recording
from exchange_server.replay.bitstamp import HEADER, decimal_converter
from exchange_server.replay.depth import DepthLoader
from exchange_server.replay.parquet import RecordingInfo, write_parquet

LINES = [f"{1000 + place},{place + 1},B,5,{10_000 + place}" for place in range(40)]
DEPTH_HEADER = "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount"
TRADES_HEADER = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
BARS_HEADER = "open_time,open,high,low,close,volume"


def trace(path: Path, data: bytes | None = None) -> Loader:
    path.write_bytes("".join(f"{line}\n" for line in LINES).encode() if data is None else data)
    return open_recording("dbtoaster", path, ["R"])


def table(path: Path, header: str, *rows: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in (header, *rows)))
    return path


def itch(path: Path, *messages: bytes, stocks: tuple[str, ...] = ("ACME",)) -> Loader:
    path.write_bytes(b"".join(len(each).to_bytes(2, "big") + each for each in messages))
    return open_recording("itch", path, stocks)


def add(reference: int, stock: str = "ACME", locate: int = 7, timestamp: int = 10**9) -> bytes:
    return encode_message(
        "A", stock_locate=locate, timestamp=timestamp, order_reference_number=reference, buy_sell_indicator="B",
        shares=5, stock=stock, price=10_000,
    )  # fmt: skip


@pytest.fixture
def logged() -> Any:
    texts: list[str] = []

    def observe(event: Any) -> None:
        texts.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)  # type: ignore[arg-type]
    yield texts
    globalLogPublisher.removeObserver(observe)  # type: ignore[arg-type]


# Compression and encoding.


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_a_damaged_second_stream_is_an_error(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """Python's own readers of xz and bzip2 end before it, as if the file did."""
    stream = compress("".join(f"{line}\n" for line in LINES).encode())
    assert len(list(trace(tmp_path / "t.csv", stream + stream).records())) == 80
    assert len(list(trace(tmp_path / "t.csv", stream + b"\0" * 16 + stream).records())) == 80
    assert len(list(trace(tmp_path / "t.csv", stream + b"\0" * 16).records())) == 40
    for tail in (b"\x01" + stream[1:], b"garbage", b"x" + stream, stream[:12]):
        loader = trace(tmp_path / "t.csv", stream + tail)
        with pytest.raises(ReplayFileError, match=r"^expected a readable file, was .*, at .*t\.csv$"):
            list(loader.records())
        with pytest.raises(ReplayFileError, match=r"^expected a readable file, was .*, at .*t\.csv$"):
            loader.columns()


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_a_byte_order_mark_is_skipped(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """It is not part of the first field."""
    loader = trace(tmp_path / "t.csv", compress(b"\xef\xbb\xbf" + "\n".join([*LINES, ""]).encode()))
    assert len(list(loader.records())) == len(loader.columns()) == 40
    assert loader.errors == 0
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        loader = trace(tmp_path / "t.csv", compress(mark + "\n".join(LINES).encode("utf-16-le")))
        with pytest.raises(ReplayFileError, match=r"^expected text in ASCII or UTF-8, was UTF-16, at .*t\.csv$"):
            list(loader.records())


@pytest.mark.parametrize("form", ["dbtoaster", "bitstamp", "lobster", "itch", "depth", "trades", "bars", "parquet"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, form: Any) -> None:
    """A recording is read more than once."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReplayFileError, match=r"^expected a regular file, .* was a pipe, at .*pipe$"):
        list(open_recording(form, tmp_path / "pipe", ["R"]).records())
    with pytest.raises(ReplayFileError, match="was a device, at /dev/zero"):
        list(open_recording(form, Path("/dev/zero"), ["R"]).records())


def test_a_last_line_without_an_end_is_logged(tmp_path: Path, logged: list[str]) -> None:
    """A number that is cut off is a number."""
    cut = "\n".join(LINES)[:-2].encode()
    for read in (Loader.columns, lambda loader: list(loader.records())):
        logged.clear()
        read(trace(tmp_path / "t.csv", cut))
        assert [text for text in logged if "t.csv ends within a line" in text]
        logged.clear()
        read(trace(tmp_path / "t.csv"))
        read(trace(tmp_path / "t.csv", gzip.compress(cut)))
        assert not logged
    path = tmp_path / "d.csv"
    path.write_text(f"{DEPTH_HEADER}\nx,A,1,1,false,bid,100,15")
    list(DepthLoader(path, "R").records())
    assert [text for text in logged if "d.csv ends within a line" in text]


# Numbers and times.


@pytest.mark.parametrize(
    "text", ["9e999999", "1e999990", "1e99999999999", "nan", "inf", "1_000", "٣", "", ".", "+", "1e", "--1", "0x10"]
)
def test_a_text_that_is_no_decimal_is_bad(text: str) -> None:
    """Decimal reads some of them, for minutes or with an error of its own."""
    with pytest.raises(RecordError, match="to be a number, was"):
        decimal_converter("price", unit_of("0.01"))(text)


@pytest.mark.parametrize("text", ["1e900", "-1", "-0.01", "1e70"])
def test_a_decimal_out_of_range_is_bad(text: str) -> None:
    """Its exponent may be large."""
    with pytest.raises(RecordError, match="to be from 0 to"):
        decimal_converter("price", unit_of("0.01"))(text)


def test_a_decimal_is_converted_without_rounding() -> None:
    """Also where it has more digits than Python's decimals keep."""
    convert = decimal_converter("price", unit_of("0.01"))
    assert [convert(text) for text in ("1e5", "12.5", " .5 ", "5.", "+1.50", "1500e-3", "0e-900")] == [
        10_000_000, 1250, 50, 500, 150, 150, 0,
    ]  # fmt: skip
    for text in ("236.4" + "0" * 40 + "1", "0.001", "1e-900", "92233720368547758.08"):
        with pytest.raises(RecordError, match=r"to be a whole number of 0\.01"):
            convert(text)


def unit_of(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


def test_a_time_behind_2199_is_bad(tmp_path: Path) -> None:
    """One damaged digit would otherwise move all later records to it."""
    late_ms, late_us = 7_258_118_400_001, 7_258_118_400_000_001_000
    loader = trace(tmp_path / "t.csv", f"1,1,B,5,5\n{late_ms},2,B,5,5\n2,3,B,5,5\n".encode())
    assert [record.order_id for record in loader.records()] == [1, 3]
    assert loader.columns().order_id.tolist() == [1, 3]
    rows = [
        f"{number},{time},1,1.00,1.00,created,bid" for number, time in ((1, 5), (2, late_ms), (3, 2**63 - 1), (4, 6))
    ]
    capture = open_recording("bitstamp", table(tmp_path / "b.csv", HEADER, *rows), ["R"])
    assert [record.order_id for record in capture.records()] == [1, 4]
    rows = [f"x,A,{time},{time},false,bid,{price},1" for time, price in ((5, 100), (late_us, 101), (6, 102))]
    depth = open_recording("depth", table(tmp_path / "d.csv", DEPTH_HEADER, *rows), ["R"])
    assert [record.time_ns for record in depth.records()] == [5_000, 6_000]
    assert (capture.errors, depth.errors) == (2, 1)


def test_records_that_go_back_in_time_are_counted(tmp_path: Path) -> None:
    """They get the time of the record before; a file whose halves are exchanged must not seem to be in order."""
    loader = trace(tmp_path / "t.csv", "".join(f"{line}\n" for line in (*LINES[20:], *LINES[:20])).encode())
    assert len(list(loader.records())) == 40
    assert loader.earlier == 20
    columns = trace(tmp_path / "t.csv", (tmp_path / "t.csv").read_bytes())
    columns.columns()
    assert columns.earlier == 20
    lobster = tmp_path / "A_2012-06-21_1_2_message_1.csv"
    lobster.write_text("".join(f"{s}.5,1,{s},5,100,1\n" for s in (10, 9, 11, 8)))
    capture = table(
        tmp_path / "b.csv",
        HEADER,
        *(f"{number},{time},1,1.00,1.00,created,bid" for number, time in ((1, 5), (2, 4), (3, 6))),
    )
    depth = table(tmp_path / "d.csv", DEPTH_HEADER, *(f"x,A,{t},{t},false,bid,{t},1" for t in (5, 4, 6)))
    trades = table(tmp_path / "p.csv", TRADES_HEADER, *(f"x,A,{t},{t},1,buy,{t},1" for t in (5, 4, 6)))
    for form, path, count in (
        ("lobster", lobster, 2),
        ("bitstamp", capture, 1),
        ("depth", depth, 1),
        ("trades", trades, 1),
    ):
        loader = open_recording(form, path, ["R"])  # type: ignore[arg-type]
        times = [record.time_ns for record in loader.records()]
        assert times == sorted(times)
        assert loader.earlier == count, form
    stock = itch(tmp_path / "i", add(1), add(2, timestamp=5), add(3, timestamp=2 * 10**9))
    assert len(list(stock.records())) == 3
    assert stock.earlier == 1


def test_a_parquet_recording_out_of_order_is_refused(tmp_path: Path) -> None:
    """Two days whose folders were exchanged."""
    loader = trace(tmp_path / "t.csv")
    write_parquet(tmp_path / "a.parquet", loader, RecordingInfo("dbtoaster", "0.0001", "1", ("R",)))
    rows = parquet.read_table(tmp_path / "a.parquet")
    parquet.write_table(rows.take(pa.array(np.arange(40)[::-1])), tmp_path / "b.parquet")
    with pytest.raises(
        ReplayFileError, match=r"^expected records in the order of their times, was others, at .*b\.parquet"
    ):
        list(open_recording("parquet", tmp_path / "b.parquet", ["R"]).records())
    for day, file in (("2020-01-01", "a"), ("2020-01-02", "c")):
        if file == "c":
            early = trace(tmp_path / "e.csv", b"1,1,B,5,5\n")
            write_parquet(tmp_path / "c.parquet", early, RecordingInfo("dbtoaster", "0.0001", "1", ("R",)))
        folder = tmp_path / "days" / f"day={day}" / "symbol=R"
        folder.mkdir(parents=True)
        (tmp_path / f"{file}.parquet").rename(folder / "part-0.parquet")
    with pytest.raises(ReplayFileError, match="expected records in the order of their times"):
        list(open_recording("parquet", tmp_path / "days", ["R"]).records())


# Tables.


def test_trades_of_another_instrument_are_bad(tmp_path: Path, logged: list[str]) -> None:
    """Beside depth and alone; their own file and line are logged."""
    depth = table(tmp_path / "d.csv", DEPTH_HEADER, "x,BTC,5,5,false,bid,100,9", "x,BTC,9,9,false,ask,101,9")
    trades = table(tmp_path / "t.csv", TRADES_HEADER, "x,ETH,6,6,1,sell,100,1", "x,BTC,7,7,1,sell,100,1")
    loader = open_recording("depth", depth, ["R"], trades=trades)
    assert [record.action for record in loader.records()] == ["B", "E", "S"]
    assert loader.errors == 1
    assert f"replay: {trades} line 2: expected one instrument in a file, BTC, was ETH" in logged
    alone = open_recording("trades", trades, ["R"])
    list(alone.records())
    assert alone.errors == 1
    bars = table(tmp_path / "b.csv", f"{BARS_HEADER},symbol", "1,5,5,5,5,5,A", "2,5,5,5,5,5,B", "3,5,5,5,5,5,A")
    several = open_recording("bars", bars, ["R"])
    list(several.records())
    assert several.errors == 1


def test_a_bad_line_of_a_table_has_its_own_number(tmp_path: Path, logged: list[str]) -> None:
    """Behind blank lines, and behind lines with too few fields, which are bad themselves like all bad lines."""
    good, other = "x,BTC,{0},{0},false,bid,{0},9", "x,ETH,9,9,false,bid,9,9"
    depth = table(tmp_path / "d.csv", DEPTH_HEADER, good.format(5), "", other, "x,BTC", good.format(7), other)
    trades = table(tmp_path / "t.csv", TRADES_HEADER, "x,BTC,5,5,1,buy,5,1", "", "x,ETH,9,9,1,buy,5,1")
    bars = table(tmp_path / "b.csv", BARS_HEADER, "1,5,5,5,5,5", "", "1,2", "", "2,0,5,5,5,5", "3,5,5,5,5,5")
    for form, path, lines, records in (
        ("depth", depth, {3, 4, 5, 7}, 2),
        ("trades", trades, {3, 4}, 4),
        ("bars", bars, {3, 4, 5, 6}, 46),
    ):
        logged.clear()
        loader = open_recording(form, path, ["R"])  # type: ignore[arg-type]
        assert len(list(loader.records())) == records, form
        assert {int(text.split(f"{path} line ")[1].split(":")[0]) for text in logged} == lines
        assert loader.errors == len(lines)


def test_a_table_is_read_past_a_bad_byte(tmp_path: Path, logged: list[str]) -> None:
    """Only the row that has it cannot be used."""
    rows = [f"x,BTC,{time},{time},false,bid,{time},9".encode() for time in (5, 6, 7)]
    path = tmp_path / "d.csv"
    bad = [rows[1].replace(b"bid", b"\xffid"), b"\xff,1", rows[1].replace(b"BTC", "BTC€".encode())]
    path.write_bytes(b"\n".join([DEPTH_HEADER.encode(), rows[0], *bad, rows[2], b""]))
    loader = open_recording("depth", path, ["R"])
    assert [record.time_ns for record in loader.records()] == [5_000, 7_000]
    assert [text.removeprefix(f"replay: {path} ")[:80] for text in sorted(logged)] == [
        "line 3: expected side out of bid, ask, b, a, buy, sell, was '\ufffdid'",
        "line 4: expected 8 fields, was 2 in b'\\xff,1'",
        "line 5: expected one instrument in a file, BTC, was BTC€",
    ]


@pytest.mark.parametrize("place", range(8))
def test_a_quote_without_an_end_spoils_one_line(tmp_path: Path, logged: list[str], place: int) -> None:
    """Quotes around values are no part of them."""
    lines = [["x", "BTC", f"{n}", f"{n}", "false", "bid", f"{n}", "9"] for n in range(1, 9)]
    path = table(tmp_path / "d.csv", DEPTH_HEADER, *map(",".join, lines))
    plain = list(open_recording("depth", path, ["R"]).records())
    quoted = [",".join(f'"{field}"' for field in line) for line in (DEPTH_HEADER.split(","), *lines)]
    assert list(open_recording("depth", table(tmp_path / "q.csv", *quoted), ["R"]).records()) == plain
    lines[3][place] = f'"{lines[3][place]}'
    loader = open_recording("depth", table(tmp_path / "d.csv", DEPTH_HEADER, *map(",".join, lines)), ["R"])
    is_read = place in (0, 2)  # columns that are not used
    assert [record.time_ns for record in loader.records()] == [n * 1_000 for n in range(1, 9) if n != 4 or is_read]
    assert loader.errors == len([text for text in logged if f"{path} line 5: expected " in text]) == (not is_read)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_timestamp_has_the_unit_of_its_column(tmp_path: Path, logged: list[str], unit: Any) -> None:
    """Whatever its year: in 1970 its number alone could be one of another unit; another year is bad."""
    unit_ns = {"s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}[unit]
    numbers = [0, 3, 86_400, (2**63 - 1) // (1_000 if unit == "s" else 1), -1]  # Parquet has milliseconds, not seconds
    times = pa.array(numbers, pa.timestamp(unit))
    one, texts = pa.array([1.0] * len(numbers)), pa.array(["set", "set", "set", "set", "set"])
    depth = pa.table(
        {"timestamp": times, "update_type": texts, "side": ["b"] * 5, "price": one, "qty": [1, 2, 3, 4, 5]}
    )
    trades = pa.table({"time": times, "is_buyer_maker": [True] * 5, "price": one, "qty": one})
    bars = pa.table({"timestamp": times, "open": one, "high": one, "low": one, "close": one, "volume": one})
    for form, rows in (("depth", depth), ("trades", trades), ("bars", bars)):
        logged.clear()
        path = tmp_path / f"{form}.parquet"
        parquet.write_table(rows, path)
        loader = open_recording(form, path, ["R"])  # type: ignore[arg-type]
        begins = {record.time_ns for record in loader.records()}
        expected = {number * unit_ns for number in numbers if 0 <= number * unit_ns < 7_258_118_400 * 10**9}
        assert expected <= begins, form
        assert loader.errors == len(numbers) - len(expected)
        assert [text for text in logged if f"{path} row 5: expected a time from 1970 to 2199, was '-1" in text]


def test_a_column_of_two_columns_is_refused(tmp_path: Path) -> None:
    """It would be one of them, without a word."""
    path = table(tmp_path / "d.csv", f"{DEPTH_HEADER},price", "x,BTC,5,5,false,bid,100,9,7")
    with pytest.raises(ReplayFileError, match=r"^expected each column once, was price several times, at .*d\.csv$"):
        list(open_recording("depth", path, ["R"]).records())


def test_bars_of_too_few_lots_are_counted(tmp_path: Path) -> None:
    """They have not one lot for each of their prices, and are left out."""
    path = table(tmp_path / "b.csv", BARS_HEADER, "1,5,5,5,5,0.00000003", "2,5,5,5,5,0.00000004", "3,5,5,5,5,0")
    loader = open_recording("bars", path, ["R"])
    assert len({record.time_ns for record in loader.records()}) == 4
    assert (loader.skipped, loader.errors) == (2, 0)


# LOBSTER's order book file, and ITCH.


def test_an_order_book_file_has_one_number_of_levels(tmp_path: Path) -> None:
    """A line that is cut off at a level would be a book without the levels behind it."""
    messages, book = tmp_path / "A_2012-06-21_1_2_message_2.csv", tmp_path / "A_2012-06-21_1_2_orderbook_2.csv"
    messages.write_text("1.0,1,1,5,100,1\n2.0,1,2,5,99,1\n")
    line = "200,5,100,5,201,5,99,5\n"
    for second, error in (
        ("200,5,100,5\n", r"^expected 2 levels as in the first line, was 1 in .*, at line 2 of .*orderbook_2"),
        (f"200,{2**63},100,5,201,5,99,5\n", r"^expected numbers of 64 bits, was 9223372036854775808, at line 2"),
    ):
        book.write_text(line + second)
        with pytest.raises(ReplayFileError, match=error):
            list(open_recording("lobster", messages, ["A"], orderbook=book).records())
    book.write_bytes(gzip.compress((line * 2).encode())[:-9])
    with pytest.raises(ReplayFileError, match=r"^expected a readable file, .*orderbook_2\.csv$"):
        list(open_recording("lobster", messages, ["A"], orderbook=book).records())


def test_a_locate_of_another_stock_is_bad(tmp_path: Path) -> None:
    """Days that were concatenated have other locates."""
    loader = itch(tmp_path / "i", add(1), add(2, "OTHR", 8), add(3, "OTHR"), add(4))
    assert [record.order_id for record in loader.records()] == [1, 4]
    assert loader.errors == 1


def test_stocks_that_are_not_in_the_file_are_named(tmp_path: Path, logged: list[str]) -> None:
    """A file without any of them is refused, with the first of its own."""
    messages = [add(1), add(2, "OTHR", 8)]
    assert len(list(itch(tmp_path / "i", *messages, stocks=("ACME", "NOPE")).records())) == 1
    assert f"replay: {tmp_path / 'i'} has no messages of NOPE" in logged
    for stocks in (("acme",), ("REPLAY", "X")):
        with pytest.raises(ReplayFileError, match=r"was one without; its first stocks are: ACME , OTHR, at .*i$"):
            list(itch(tmp_path / "i", *messages, stocks=stocks).records())
    with pytest.raises(ReplayFileError, match="its first stocks are: none"):
        list(itch(tmp_path / "i").records())


# Conversion.


def test_a_conversion_of_no_records_writes_nothing(tmp_path: Path) -> None:
    """As one file and as a folder; the message has the numbers of bad records and of those left out."""
    for name in ("out.parquet", "out"):
        loader = trace(tmp_path / "t.csv", b"no\nrecord\n")
        with pytest.raises(ReplayFileError, match=r"^expected records to write, was none \(2 bad, 0 left out\), at"):
            write_parquet(tmp_path / name, loader, RecordingInfo("dbtoaster", "0.0001", "1", ("R",)))
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_the_rest_of_a_killed_conversion_is_no_part_of_the_next(tmp_path: Path) -> None:
    """Its days would be in the new folder."""
    (tmp_path / "out.part" / "day=1999-01-01").mkdir(parents=True)
    with pytest.raises(ExchangeError, match=r"^expected nothing at .*out\.part, was a conversion that did not end"):
        write_parquet(tmp_path / "out", trace(tmp_path / "t.csv"), RecordingInfo("dbtoaster", "0.0001", "1", ("R",)))
    assert (tmp_path / "out.part" / "day=1999-01-01").is_dir()
