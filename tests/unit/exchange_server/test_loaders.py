"""Recorded files become records, exactly; what cannot be used is counted with its place."""

from __future__ import annotations

import gzip
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
def test_a_bad_line_of_a_trace_is_counted_and_the_next_one_is_read(tmp_path: Path, line: str) -> None:
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


def test_a_capture_is_converted_exactly_and_a_change_keeps_no_price(tmp_path: Path) -> None:
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


def test_the_made_up_deletes_at_the_end_are_left_out_and_only_those(tmp_path: Path) -> None:
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
def test_a_bad_row_of_a_capture_is_counted_and_the_next_one_is_read(tmp_path: Path, row: str) -> None:
    loader = bitstamp(tmp_path, row, "7,2,3,5.0,1.0,created,bid")
    assert [record.order_id for record in loader.records()] == [7]
    assert loader.errors == 1


def test_a_compressed_capture_is_read_and_a_broken_one_is_an_error_with_its_path(tmp_path: Path) -> None:
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


def test_the_seven_types_of_lobster_become_actions_and_a_halt_none(tmp_path: Path) -> None:
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
def test_a_bad_line_of_lobster_is_counted_and_the_next_one_is_read(tmp_path: Path, line: str) -> None:
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
