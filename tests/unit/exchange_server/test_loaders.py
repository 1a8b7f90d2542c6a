"""Recorded files become records, exactly; what cannot be used is counted with its place."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from twisted.logger import formatEvent, globalLogPublisher

from exchange_server.errors import ExchangeConfigurationError, ReplayFileError
from exchange_server.matching.inputs import REMAIN
from exchange_server.replay import BitstampLoader, DbtoasterLoader, LobsterLoader, Record, open_recording
from exchange_server.replay.bitstamp import HEADER

DAY_NS = 15_512 * 86_400 * 10**9
"""2012-06-21."""


def bitstamp(path: Path, *rows: str) -> BitstampLoader:
    (path / "orders.csv").write_text("\n".join([HEADER, *rows, ""]))
    return BitstampLoader(path / "orders.csv", "BTC")


def dbtoaster(path: Path, text: str) -> DbtoasterLoader:
    (path / "t.csv").write_bytes(text.encode())
    return DbtoasterLoader(path / "t.csv", "R")


def lobster(path: Path, text: str, day: str = "") -> LobsterLoader:
    file = path / "AAPL_2012-06-21_34200000_57600000_message_10.csv"
    file.write_bytes(text.encode())
    return LobsterLoader(file, "AAPL", day=day)


def rows(records: Iterable[Record]) -> list[tuple[object, ...]]:
    return [msgspec.structs.astuple(record) for record in records]


def test_a_trace_gives_broker_time_and_letters(tmp_path: Path) -> None:
    loader = dbtoaster(tmp_path, "5,36721,B,100,10000\n7,36721,E,40,0\r\n6,0,X,9,12\n8,3,C,1,1\n")
    assert rows(loader.records()) == [
        (1, 5_000_000, 36721, 1, "B", 100, 10000, "R", 0),
        (2, 7_000_000, 36721, 1, "E", 40, 0, "R", 0),
        (3, 7_000_000, 0, 0, "T", 9, 12, "R", 0),
        (4, 8_000_000, 3, 3, "C", 1, 1, "R", 0),
    ]


@pytest.mark.parametrize(
    "line",
    ["1,2,B,3", "1,2,Q,3,4", "x,2,B,3,4", "1,2,B,-3,4", f"1,2,B,3,{2**63}", "", "1, 2,B,3,4", "1_0,2,B,3,4", "ÿ"],
)
def test_a_bad_line_of_a_trace_is_counted_and_skipped(tmp_path: Path, line: str) -> None:
    loader = dbtoaster(tmp_path, f"{line}\n1,2,B,3,4\n")
    assert [record.position for record in loader.records()] == [2]
    assert loader.errors == 1


def test_a_bad_line_is_named_in_the_log(tmp_path: Path) -> None:
    heard: list[str] = []

    def observer(event: Any) -> None:
        heard.append(formatEvent(event))

    globalLogPublisher.addObserver(observer)  # type: ignore[arg-type]
    try:
        list(dbtoaster(tmp_path, "1,2,B,3,4\n1,2\n").records())
    finally:
        globalLogPublisher.removeObserver(observer)  # type: ignore[arg-type]
    assert heard == [f"replay: {tmp_path / 't.csv'} line 2: expected t,id,action,volume,price, was b'1,2\\n'"]


def test_a_capture_is_converted_exactly(tmp_path: Path) -> None:
    loader = bitstamp(
        tmp_path,
        "2002347637329922,1777689383201,1777689380521,78318.0,1.53453667,created,bid",
        "11,1777689383202,1777689380521,78318.01,1e-05,created,ask",
        "11,1777689383203,1777689380521,1.23,5e-06,changed,ask",
        "11,1777689383204,1777689380521,1.23,0.0,deleted,ask",
        "12,1777689383204,1777689380521,1.23,0.5,deleted,ask",
    )
    assert [row[2:] for row in rows(loader.records())] == [
        (2002347637329922, 2, "B", 153453667, 7831800, "BTC", 0),
        (11, 1, "S", 1000, 7831801, "BTC", 0),
        (11, 1, REMAIN, 500, 0, "BTC", 0),
        (11, 1, REMAIN, 0, 0, "BTC", 0),
        (12, 2, "D", 50000000, 0, "BTC", 0),
    ]


def test_a_captures_time_never_steps_back(tmp_path: Path) -> None:
    loader = bitstamp(tmp_path, "1,900,1,5.0,1.0,created,bid", "2,700,1,5.0,1.0,created,bid")
    assert [record.time_ns for record in loader.records()] == [900_000_000, 900_000_000]


def test_only_the_artificial_deletes_at_the_end_are_left_out(tmp_path: Path) -> None:
    loader = bitstamp(
        tmp_path,
        "1,900,900,5.0,1.0,deleted,bid",
        "2,900,900,5.0,1.0,deleted,bid",
        "3,901,900,5.0,1.0,created,bid",
        "4,905,905,5.0,1.0,deleted,bid",
        "5,907,907,5.0,1.0,deleted,bid",
        "6,907,907,5.0,1.0,deleted,bid",
    )
    assert [record.order_id for record in loader.records()] == [1, 2, 3, 4]
    assert loader.skipped == 2


@pytest.mark.parametrize(
    "row",
    [
        "1,2,3,5.0,1.0,created", "x,2,3,5.0,1.0,created,bid", "1,2,3,5.001,1.0,created,bid",
        "1,2,3,5.0,0.000000001,created,bid", "1,2,3,nan,1.0,created,bid", "1,2,3,inf,1.0,created,bid",
        "1,2,3,5.0,1.0,created,up", "1,2,3,5.0,1.0,made,bid", "1,2,3,1e300,1.0,created,bid",
        "1_0,2,3,5.0,1.0,created,bid", "ÿ,2,3,5.0,1.0,created,bid",
    ],
)  # fmt: skip
def test_a_bad_row_of_a_capture_is_counted_and_skipped(tmp_path: Path, row: str) -> None:
    loader = bitstamp(tmp_path, row, "7,2,3,5.0,1.0,created,bid")
    assert [record.order_id for record in loader.records()] == [7]
    assert loader.errors == 1


def test_compressed_captures_are_read_and_broken_ones_refused(tmp_path: Path) -> None:
    data = gzip.compress(f"{HEADER}\n1,900,1,5.0,1.0,created,bid\n".encode())
    (tmp_path / "orders.csv.gz").write_bytes(data)
    assert len(list(BitstampLoader(tmp_path / "orders.csv.gz", "R").records())) == 1
    (tmp_path / "orders.csv.gz").write_bytes(data[:-9])
    with pytest.raises(ReplayFileError, match=r"orders\.csv\.gz"):
        list(BitstampLoader(tmp_path / "orders.csv.gz", "R").records())
    (tmp_path / "orders.csv.gz").write_bytes(data[:12] + b"\xff\xff\xff" + data[15:])
    with pytest.raises(ReplayFileError, match=r"orders\.csv\.gz"):
        list(BitstampLoader(tmp_path / "orders.csv.gz", "R").records())
    (tmp_path / "orders.csv").write_text("a,b\n")
    with pytest.raises(ReplayFileError, match=r"^expected the header"):
        list(BitstampLoader(tmp_path / "orders.csv", "R").records())
    with pytest.raises(ReplayFileError, match="No such file"):
        list(DbtoasterLoader(tmp_path / "nowhere.csv", "R").records())


def test_the_seven_types_of_lobster_become_actions(tmp_path: Path) -> None:
    loader = lobster(
        tmp_path,
        "34200.004241176,1,16113575,18,5853300,1\n"
        "34200.1,1,16113584,18,5853300,-1\r\n"
        "34200.1,2,16113575,8,5853300,1\n"
        "34201,4,16113575,5,5853300,1\n"
        "34201,3,16113584,18,5853300,-1\n"
        "34201.5,5,0,100,5853400,-1\n"
        "34202,6,-1,2000,5853500,-1\n"
        "34203,7,0,0,-1,-1\n"
        "34204,1,12,5,5853300,1,GSCO\n",
    )
    ns = DAY_NS + 34_200 * 10**9
    assert rows(loader.records()) == [
        (1, ns + 4_241_176, 16113575, 5, "B", 18, 5853300, "AAPL", 0),
        (2, ns + 100_000_000, 16113584, 4, "S", 18, 5853300, "AAPL", 0),
        (3, ns + 100_000_000, 16113575, 5, "X", 8, 5853300, "AAPL", 0),
        (4, ns + 10**9, 16113575, 5, "E", 5, 5853300, "AAPL", 0),
        (5, ns + 10**9, 16113584, 4, "D", 18, 5853300, "AAPL", 0),
        (6, ns + 1_500_000_000, 0, 0, "T", 100, 5853400, "AAPL", 0),
        (7, ns + 2 * 10**9, -1, 9, "T", 2000, 5853500, "AAPL", 0),
        (9, ns + 4 * 10**9, 12, 326680, "B", 5, 5853300, "AAPL", 0),
    ]
    assert (loader.errors, loader.skipped) == (0, 1)


@pytest.mark.parametrize(
    "line",
    [
        "34200.0,1,1,18,5853300", "34200.0,8,1,18,5853300,1", "34200.0,1,1,0,5853300,1", "34200.0,1,1,18,0,1",
        "34200.0,1,1,18,-5,1", "34200.0,1,1,18,5853300,0", "34200.0000000001,1,1,18,5853300,1", "1e4,1,1,18,5,1",
        f"34200.0,1,{2**63},18,5853300,1", "34200.0,1,1,1_8,5853300,1", "", "34200.0,1,-2,18,5853300,1",
    ],
)  # fmt: skip
def test_a_bad_line_of_lobster_is_counted_and_skipped(tmp_path: Path, line: str) -> None:
    loader = lobster(tmp_path, f"{line}\n34200.0,1,1,18,5853300,1\n")
    assert [record.position for record in loader.records()] == [2]
    assert loader.errors == 1


def test_the_day_is_that_of_the_file_name_unless_it_is_given(tmp_path: Path) -> None:
    line = "0.000000001,1,1,18,5853300,1\n"
    assert next(lobster(tmp_path, line).records()).time_ns == DAY_NS + 1
    assert next(lobster(tmp_path, line, "2012-06-22").records()).time_ns == DAY_NS + 86_400 * 10**9 + 1
    with pytest.raises(ExchangeConfigurationError, match="expected a day"):
        lobster(tmp_path, line, "yesterday")


def test_a_recording_is_opened_by_the_name_of_its_format(tmp_path: Path) -> None:
    path = tmp_path / "file"
    kinds = [type(open_recording(form, path, ["R"])) for form in ("dbtoaster", "bitstamp", "lobster", "itch")]
    assert [kind.__name__ for kind in kinds] == ["DbtoasterLoader", "BitstampLoader", "LobsterLoader", "ItchLoader"]
    assert open_recording("itch", path, ["A", "B"]).symbols == ("A", "B")
    with pytest.raises(ExchangeConfigurationError, match="expected one symbol for a file of lobster, was A, B"):
        open_recording("lobster", path, ["A", "B"])
    with pytest.raises(ExchangeConfigurationError, match="expected no day"):
        open_recording("bitstamp", path, ["A"], day="2012-06-21")


def test_a_capture_of_the_r_package_has_satoshi(tmp_path: Path) -> None:
    """Its header names the exchange's time with a point; volumes are whole satoshi, actions also `modified`."""
    path = tmp_path / "orders.csv.xz"
    lines = [
        '"","id","timestamp","exchange.timestamp","price","volume","action","direction"',
        '"1","65609107","1430438400267","1430438400000","236.50","2280000000","created","ask"',
        '"2","65609107","1430438400269","1430438400000","236.50","1e+08","modified","ask"',
        '"3","65609107","1430438400270","1430438400000","236.50","0","deleted","ask"',
        '"4","65609108","1430438400270","1430438400000","236.50","0.5","created","ask"',
        '"5","65609108"',
    ]
    path.write_bytes(lzma.compress("\n".join([*lines, ""]).encode()))
    loader = BitstampLoader(path, "BTC")
    assert [row[1:] for row in rows(loader.records())] == [
        (1430438400267000000, 65609107, 7, "S", 2280000000, 23650, "BTC", 0),
        (1430438400269000000, 65609107, 7, REMAIN, 100000000, 0, "BTC", 0),
        (1430438400270000000, 65609107, 7, REMAIN, 0, 0, "BTC", 0),
    ]
    assert loader.errors == 2, "half a satoshi, and a line that is cut off"


def test_the_columns_of_a_capture_may_have_any_order(tmp_path: Path) -> None:
    """Values go by the header's names; a header with another name is refused."""
    path = tmp_path / "orders.csv"
    path.write_text("direction,id,timestamp,exchange_timestamp,volume,price,action\nbid,1,900,1,2.0,5.0,created\n")
    assert rows(BitstampLoader(path, "R").records()) == [(2, 900_000_000, 1, 1, "B", 200_000_000, 500, "R", 0)]
    for header in (
        "id,timestamp,price,volume,action,direction",
        "id,id,exchange_timestamp,price,volume,action,direction",
    ):
        path.write_text(f"{header}\n")
        with pytest.raises(ReplayFileError, match=r"^expected the header id,timestamp"):
            list(BitstampLoader(path, "R").records())


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_compression_is_recognised_by_the_first_bytes(tmp_path: Path, compress: Any) -> None:
    """Whatever the name ends with; what is cut off is an error with its path."""
    data = compress(b"1,2,B,3,4\n" * 500)
    for name in ("t.csv", "t.csv.gz", "t.csv.xz"):
        (tmp_path / name).write_bytes(data)
        assert len(list(DbtoasterLoader(tmp_path / name, "R").records())) == 500
        assert len(DbtoasterLoader(tmp_path / name, "R").columns()) == 500
    if compress is not bytes:
        (tmp_path / "t.csv").write_bytes(data[:-9])
        with pytest.raises(ReplayFileError, match=r"^expected a readable file, was .*, at .*t\.csv$"):
            list(DbtoasterLoader(tmp_path / "t.csv", "R").records())


@pytest.mark.parametrize(
    ("start", "what"),
    [(b"PK\x03\x04", "a zip archive"), (b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (b"\x28\xb5\x2f\xfd", "Zstandard")],
)
def test_archives_are_refused_by_name(tmp_path: Path, start: bytes, what: str) -> None:
    """They would otherwise be a file of bad lines."""
    (tmp_path / "t.csv").write_bytes(start + b"rest")
    with pytest.raises(ReplayFileError, match=what):
        list(DbtoasterLoader(tmp_path / "t.csv", "R").records())


@pytest.mark.parametrize(
    "day",
    ["20120621", "2012-W25-4", "2012-6-21", "2012-02-30", "1969-12-31", "2200-01-01", "9999-12-31", " 2012-06-21"],
)
def test_a_day_that_is_not_written_as_one_is_refused(tmp_path: Path, day: str) -> None:
    """Python reads more forms of a date, and years that nanoseconds of 64 bits do not reach."""
    for form in ("dbtoaster", "lobster", "itch"):
        with pytest.raises(
            ExchangeConfigurationError, match=r"^expected a day (as in 2012-06-21|from 1970 to 2199), was"
        ):
            open_recording(form, tmp_path / "t.csv", ["R"], day=day)


def test_a_time_behind_the_end_of_its_day_is_bad(tmp_path: Path) -> None:
    """Seconds after midnight end with the day; a line that says more is not one of the next day."""
    loader = lobster(tmp_path, "86401.0,1,1,5,100,1\n99999.0,1,2,5,100,1\n86400.5,1,3,5,100,1\n")
    assert [record.order_id for record in loader.records()] == [3]
    assert loader.errors == 2


def test_an_order_book_file_is_lobsters(tmp_path: Path) -> None:
    """No other format has one."""
    with pytest.raises(ExchangeConfigurationError, match="expected an order book file for LOBSTER only"):
        open_recording("bitstamp", tmp_path / "t.csv", ["R"], orderbook=tmp_path / "b.csv")
