"""NASDAQ's daily files become records of the stocks that are wanted."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest

from deltabook.wire.itch import MESSAGES, encode_message, frame
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.replay import ItchLoader, Record
from exchange_server.replay import itch as module

NS = 34_200 * 10**9
DAY_NS = 18_291 * 86_400 * 10**9
"""2020-01-30."""


def message(kind: str, locate: int = 7, **values: int | str) -> bytes:
    return encode_message(kind, stock_locate=locate, timestamp=NS, **values)


def add(reference: int, stock: str = "ACME", locate: int = 7, **values: int | str) -> bytes:
    fields: dict[str, int | str] = {"buy_sell_indicator": "B", "shares": 100, "price": 10_000, **values}
    return message("A", locate, order_reference_number=reference, stock=stock, **fields)


def loader(path: Path, *messages: bytes, stocks: tuple[str, ...] = ("ACME",), day: str = "") -> ItchLoader:
    file = path / "01302020.NASDAQ_ITCH50"
    file.write_bytes(b"".join(map(frame, messages)))
    return ItchLoader(file, stocks, day=day)


def short(record: Record) -> tuple[object, ...]:
    return record.order_id, record.action, record.volume, record.price_ticks, record.symbol


def test_every_message_that_changes_a_book_becomes_its_action(tmp_path: Path) -> None:
    found = list(
        loader(
            tmp_path,
            encode_message("S", event_code="O"),
            add(11),
            message(
                "F", order_reference_number=12, buy_sell_indicator="S", shares=300, stock="ACME", price=10_100,
                attribution="42",
            ),
            message("E", order_reference_number=11, executed_shares=10, match_number=1),
            message(
                "C", order_reference_number=12, executed_shares=20, match_number=2, printable="Y",
                execution_price=10_050,
            ),
            message(
                "C", order_reference_number=12, executed_shares=30, match_number=3, printable="N",
                execution_price=10_050,
            ),
            message("X", order_reference_number=11, canceled_shares=5),
            message("U", order_reference_number=12, new_order_reference_number=13, shares=40, price=10_200),
            message("D", order_reference_number=11),
            message(
                "P", order_reference_number=0, buy_sell_indicator="B", shares=7, stock="ACME", price=10_001,
                match_number=4,
            ),
            message("Q", cross_shares=900, stock="ACME", cross_price=10_002, match_number=5, cross_type="O"),
            message("B", match_number=5),
        ).records()
    )  # fmt: skip
    assert [short(record) for record in found] == [
        (11, "B", 100, 10_000, "ACME"),
        (12, "S", 300, 10_100, "ACME"),
        (11, "E", 10, 0, "ACME"),
        (12, "E", 20, 10_050, "ACME"),
        (12, "X", 30, 10_050, "ACME"),
        (11, "X", 5, 0, "ACME"),
        (12, "U", 40, 10_200, "ACME"),
        (11, "D", 0, 0, "ACME"),
        (0, "T", 7, 10_001, "ACME"),
        (0, "T", 900, 10_002, "ACME"),
    ]
    assert [record.new_id for record in found if record.action == "U"] == [13]
    assert {record.time_ns for record in found} == {DAY_NS + NS}
    assert [record.broker_id for record in found[:2]] == [1, 42]


def test_only_wanted_stocks_are_read(tmp_path: Path) -> None:
    directory = {field.name: 0 if field.kind != "alpha" else "N" for field in MESSAGES["R"].fields[3:]}
    found = loader(
        tmp_path,
        message("R", 3, **{**directory, "stock": "GLOBEX"}),
        message("E", 3, order_reference_number=1, executed_shares=1, match_number=1),
        message("E", 9, order_reference_number=1, executed_shares=1, match_number=1),
        add(2, "OTHER", 4),
        message("D", 4, order_reference_number=2),
        add(3, "ACME", 5),
        message("D", 5, order_reference_number=3),
        stocks=("ACME", "GLOBEX"),
    )
    assert [(record.symbol, record.action) for record in found.records()] == [
        ("GLOBEX", "E"), ("ACME", "B"), ("ACME", "D"),
    ]  # fmt: skip
    assert found.errors == 0


def test_a_position_is_that_of_the_first_byte_counted_from_one(tmp_path: Path) -> None:
    messages = [add(1), add(2, "OTHER", 8), message("D", order_reference_number=1), add(3)]
    assert [record.position for record in loader(tmp_path, *messages).records()] == [1, 77, 98]


@pytest.mark.parametrize("locate", [7, 0x0A0A, 0x2A2B, 0x5C5D, 0x7C7C])
def test_others_are_skipped_whatever_bytes_a_locate_is(tmp_path: Path, locate: int) -> None:
    others = [add(2, "OTHER", 8), message("D", 8, order_reference_number=2), encode_message("W", breached_level="1")]
    bad = b"A" * 35
    found = loader(
        tmp_path, add(1, locate=locate), *others * 3, add(3, locate=locate), bad, *others, add(4, locate=locate)
    )
    assert [record.order_id for record in found.records()] == [1, 3, 4]
    assert found.errors == 1


@pytest.mark.parametrize(
    "bad",
    [b"A" * 35, b"\x07" * 20, add(1)[:-1], add(1) + b"x", add(1, buy_sell_indicator="X"), add(1, shares=0),
     add(1, price=0), add(2**63), b"z"],
)  # fmt: skip
def test_a_bad_message_is_counted_and_the_next_one_is_read(tmp_path: Path, bad: bytes) -> None:
    found = loader(tmp_path, add(5), bad, add(6))
    assert [record.order_id for record in found.records()] == [5, 6]
    assert found.errors == 1


def test_an_error_says_its_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(
        ItchLoader, "_log", type("Log", (), {"warn": lambda self, text, **values: told.append(values)})()
    )
    assert len(list(loader(tmp_path, add(5), b"z12").records())) == 1
    assert [(one["unit"], one["position"]) for one in told] == [("byte", 39)]
    assert "expected a type" in str(told[0]["error"])


def test_a_file_cut_inside_a_message_ends_with_a_bad_one(tmp_path: Path) -> None:
    for cut in (1, 2, 10):
        found = loader(tmp_path, add(5), add(6))
        found.path.write_bytes(found.path.read_bytes()[: 38 + cut])
        assert [record.order_id for record in found.records()] == [5]
        assert found.errors == 1


def test_nothing_is_read_behind_the_end_of_the_session(tmp_path: Path) -> None:
    """What follows is counted; only further lengths of 0 are none."""
    found = loader(tmp_path, add(5), b"", add(6))
    assert [record.order_id for record in found.records()] == [5]
    assert found.errors == 1
    found = loader(tmp_path, add(5), b"", b"")
    assert len(list(found.records())) == 1
    assert found.errors == 0


def test_a_cross_without_a_trade_is_left_out(tmp_path: Path) -> None:
    found = loader(
        tmp_path, message("Q", cross_shares=0, stock="ACME", cross_price=0, match_number=5, cross_type="C"), add(1)
    )
    assert len(list(found.records())) == 1
    assert (found.errors, found.skipped) == (0, 1)


def test_messages_may_lie_across_the_pieces_that_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [msgspec.structs.astuple(record) for record in loader(tmp_path, *map(add, range(1, 50))).records()]
    for size in (1, 37, 38, 39, 100):
        monkeypatch.setattr(module, "_CHUNK_BYTES", size)
        again = loader(tmp_path, *map(add, range(1, 50)))
        assert [msgspec.structs.astuple(record) for record in again.records()] == whole


def test_a_compressed_file_and_a_day_that_is_given(tmp_path: Path) -> None:
    plain = loader(tmp_path, add(5))
    file = tmp_path / "feed.gz"
    file.write_bytes(gzip.compress(plain.path.read_bytes()))
    assert next(ItchLoader(file, ["ACME"]).records()).time_ns == NS
    assert next(ItchLoader(file, ["ACME"], day="2020-01-30").records()).time_ns == DAY_NS + NS


@pytest.mark.parametrize("stocks", [(), ("A", "A"), ("",), ("NINELONGS",), ("É",)])
def test_stocks_that_a_file_cannot_have_are_refused(tmp_path: Path, stocks: tuple[str, ...]) -> None:
    with pytest.raises(ExchangeConfigurationError, match="stock"):
        ItchLoader(tmp_path / "file", stocks)
