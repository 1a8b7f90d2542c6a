"""LOBSTER's messages of few levels, mended by the order book file, make the book that the file shows."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltabook.wire.symbols import Instrument
from exchange_server.errors import ReplayFileError
from exchange_server.matching import Market, MarketRules, Now, Recorded
from exchange_server.replay import LobsterLoader
from exchange_server.replay.lobster import BookFollower, parse_book_line
from tests.generators.lobster_levels import write_lobster
from tests.harness.examples import examples


class Book:
    """A market that follows a recording."""

    def __init__(self) -> None:
        rules = MarketRules(
            (Instrument("ACME"),), replay_symbols=("ACME",), replay_mode="as-recorded", first_order_id=10**17
        )
        self.market = Market(rules, (), (), Now())
        self._time_ns = 0

    def play(self, record: object) -> None:
        self._time_ns = max(self._time_ns + 1, record.time_ns)  # type: ignore[attr-defined]
        r = record
        self.market.apply(
            Recorded(self._time_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, r.symbol, 0)  # type: ignore[attr-defined]
        )

    def shown(self, levels: int) -> tuple[dict[int, int], dict[int, int]]:
        sides: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for order in self.market.books["ACME"].orders.values():
            side = sides[order.side == "S"]
            side[order.price_ticks] = side.get(order.price_ticks, 0) + order.volume
        return dict(sorted(sides[0].items(), reverse=True)[:levels]), dict(sorted(sides[1].items())[:levels])


@given(st.integers(0, 2**32), st.integers(1, 4))
@settings(max_examples=examples(60), deadline=None)
def test_every_level_equals_the_order_book_file(
    tmp_path_factory: pytest.TempPathFactory, seed: int, levels: int
) -> None:
    """Played as recorded, the mended messages show exactly the file's levels after each of them, and never cross."""
    folder = tmp_path_factory.mktemp("lobster")
    messages, book_file = write_lobster(folder, Random(seed), levels, 80)
    loader = LobsterLoader(messages, "ACME", orderbook=book_file)
    expected = [parse_book_line(line, "") for line in book_file.read_bytes().splitlines()]
    is_halt = [line.split(b",")[1] == b"7" for line in messages.read_bytes().splitlines()]
    expected = [row for row, halt in zip(expected, is_halt, strict=True) if not halt]
    book, rows = Book(), 0
    positions = []
    for record in loader.records():
        # A row ends where the follower has compared the next one: its figures count rows that have begun.
        figures = loader.book_figures
        assert figures is not None
        if figures.rows > rows + 1:
            for row in expected[rows : figures.rows - 1]:
                assert book.shown(levels) == (row.bids, row.asks)
            rows = figures.rows - 1
        book.play(record)
        bids, asks = book.shown(1)
        assert not bids or not asks or max(bids) < min(asks)
        positions.append(record.position)
    assert book.shown(levels) == (expected[-1].bids, expected[-1].asks)
    assert positions == list(range(1, len(positions) + 1))
    figures = loader.book_figures
    assert figures is not None
    assert figures.rows == len(expected)
    assert figures.agreed + figures.stale + figures.unannounced == figures.rows
    assert not figures.contradictions
    # Which of several hidden orders at a price is stale cannot be known; the one that is not may be missing later.
    assert set(book.market.replay_counts) <= {"unknown_orders"}


def test_without_the_order_book_file_stale_orders_stay(tmp_path: Path) -> None:
    """The fault that the order book file mends is there without it: the recording's book is crossed."""
    messages, book_file = write_lobster(tmp_path, Random(3), 1, 400)
    crossed = {}
    for orderbook in (None, book_file):
        book, crossed[orderbook] = Book(), 0
        for record in LobsterLoader(messages, "ACME", orderbook=orderbook).records():
            book.play(record)
            bids, asks = book.shown(1)
            crossed[orderbook] += bool(bids and asks and max(bids) >= min(asks))
    assert crossed[None] > 100
    assert crossed[book_file] == 0


def test_files_of_different_length_are_refused(tmp_path: Path) -> None:
    """An order book file of another day, or one that is cut off, is not compared as far as it goes."""
    messages, book_file = write_lobster(tmp_path, Random(1), 2, 20)
    lines = book_file.read_text().splitlines(keepends=True)
    for text in ("".join(lines[:-1]), "".join([*lines, lines[-1]]), ""):
        book_file.write_text(text)
        with pytest.raises(ReplayFileError, match="with a line for each of ACME_2012-06-21"):
            list(LobsterLoader(messages, "ACME", orderbook=book_file).records())


def test_a_line_that_is_no_book_is_refused_with_its_place(tmp_path: Path) -> None:
    """A message file in the place of the order book file is named, with its first line."""
    messages, _ = write_lobster(tmp_path, Random(1), 2, 20)
    with pytest.raises(ReplayFileError, match=r"^expected ask price, ask size, .* at line 1 of "):
        list(LobsterLoader(messages, "ACME", orderbook=messages).records())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"120,-5,90,7", "expected ask price, ask size, bid price, bid size"),
        (b"1_20,5,90,7", "expected ask price, ask size, bid price, bid size"),
        (b"120, 5,90,7", "expected ask price, ask size, bid price, bid size"),
        (b"120,5,90,7,110,5,80,7", "expected each side's levels from the best price on"),
        (b"120,5,90,7,130,5,95,7", "expected each side's levels from the best price on"),
        (b"120,5,90,7,120,6,80,7", "expected each side's levels from the best price on"),
    ],
)
def test_a_damaged_line_of_a_book_is_refused(line: bytes, words: str) -> None:
    """A negative size would be an empty level, and a level out of its place the best or the last one."""
    with pytest.raises(ReplayFileError, match=f"^{words}.*, at line 7$"):
        parse_book_line(line, "line 7")


def test_a_contradiction_is_counted() -> None:
    """An order that was shown all the time and is gone without a message is deleted, and counted."""
    from exchange_server.replay.lobster import BookChange

    follower = BookFollower()
    add = BookChange("B", 1, 5, 100)
    assert list(follower.step(parse_book_line(b"9999999999,0,100,5", ""), add, "B", 100)) == [add]
    second = BookChange("S", 2, 5, 120)
    changes = list(follower.step(parse_book_line(b"120,5,90,7", ""), second, "S", 120))
    assert [change.action for change in changes] == ["D", "S", "B"]
    assert follower.figures.contradictions == 1
    assert follower.figures.stale == 1
