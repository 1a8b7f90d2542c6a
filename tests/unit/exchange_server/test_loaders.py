"""Recorded files become records, exactly; what cannot be used is counted with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from exchange_server.errors import ReplayFileError
from exchange_server.inputs import REMAIN
from exchange_server.replay import BitstampLoader, DbtoasterLoader
from exchange_server.replay.bitstamp import HEADER


def bitstamp(path: Path, *rows: str) -> BitstampLoader:
    (path / "orders.csv").write_text("\n".join([HEADER, *rows, ""]))
    return BitstampLoader(path / "orders.csv")


def test_a_trace_gives_broker_time_and_letters(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("5,36721,B,100,10000\n7,36721,E,40,0\r\n6,0,X,9,12\n8,3,C,1,1\n")
    assert [tuple(record) for record in DbtoasterLoader(tmp_path / "t.csv").records()] == [
        (1, 5_000_000, 36721, 1, "B", 100, 10000),
        (2, 7_000_000, 36721, 1, "E", 40, 0),
        (3, 7_000_000, 0, 0, "T", 9, 12),
        (4, 8_000_000, 3, 3, "C", 1, 1),
    ]


@pytest.mark.parametrize("line", ["1,2,B,3", "1,2,Q,3,4", "x,2,B,3,4", "1,2,B,-3,4", f"1,2,B,3,{2**63}", ""])
def test_a_bad_line_of_a_trace_is_counted_and_the_next_one_is_read(tmp_path: Path, line: str) -> None:
    (tmp_path / "t.csv").write_text(f"{line}\n1,2,B,3,4\n")
    loader = DbtoasterLoader(tmp_path / "t.csv")
    assert [record.position for record in loader.records()] == [2]
    assert loader.errors == 1


def test_a_capture_is_converted_exactly_and_a_change_keeps_no_price(tmp_path: Path) -> None:
    loader = bitstamp(
        tmp_path,
        "2002347637329922,1777689383201,1777689380521,78318.0,1.53453667,created,bid",
        "11,1777689383202,1777689380521,78318.01,1e-05,created,ask",
        "11,1777689383203,1777689380521,1.23,5e-06,changed,ask",
        "11,1777689383204,1777689380521,1.23,0.0,deleted,ask",
        "12,1777689383204,1777689380521,1.23,0.5,deleted,ask",
    )
    assert [tuple(record)[2:] for record in loader.records()] == [
        (2002347637329922, 2, "B", 153453667, 7831800),
        (11, 1, "S", 1000, 7831801),
        (11, 1, REMAIN, 500, 0),
        (11, 1, REMAIN, 0, 0),
        (12, 2, "D", 50000000, 0),
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
    ],
)  # fmt: skip
def test_a_bad_row_of_a_capture_is_counted_and_the_next_one_is_read(tmp_path: Path, row: str) -> None:
    loader = bitstamp(tmp_path, row, "7,2,3,5.0,1.0,created,bid")
    assert [record.order_id for record in loader.records()] == [7]
    assert loader.errors == 1


def test_a_compressed_capture_is_read_and_a_broken_one_is_an_error_with_its_path(tmp_path: Path) -> None:
    data = gzip.compress(f"{HEADER}\n1,900,1,5.0,1.0,created,bid\n".encode())
    (tmp_path / "orders.csv.gz").write_bytes(data)
    assert len(list(BitstampLoader(tmp_path / "orders.csv.gz").records())) == 1
    (tmp_path / "orders.csv.gz").write_bytes(data[:-9])
    with pytest.raises(ReplayFileError, match=r"orders\.csv\.gz"):
        list(BitstampLoader(tmp_path / "orders.csv.gz").records())
    (tmp_path / "orders.csv").write_text("a,b\n")
    with pytest.raises(ReplayFileError, match="expected the header"):
        list(BitstampLoader(tmp_path / "orders.csv").records())
    with pytest.raises(ReplayFileError, match="No such file"):
        list(DbtoasterLoader(tmp_path / "nowhere.csv").records())
