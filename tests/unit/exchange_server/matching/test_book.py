"""A book by itself: limit orders, matched and cancelled."""

from __future__ import annotations

import sys
from collections import OrderedDict

import pytest

from exchange_server.matching import Book, Now, Order, Side
from exchange_server.matching.order import IOC
from tests.model.said import SaidFeed


@pytest.fixture
def feed() -> SaidFeed:
    return SaidFeed(Now())


@pytest.fixture
def book(feed: SaidFeed) -> Book:
    return Book(1, "ACME", feed)


def order(order_id: int, side: Side, volume: int, price: int) -> Order:
    return Order(order_id, order_id, 1, side, price, volume, 7)


def names(feed: SaidFeed) -> list[tuple[object, object]]:
    return [(name, fields[0]) for name, _, *fields in feed.said]


def test_an_order_executes_to_its_limit_and_then_rests(book: Book, feed: SaidFeed) -> None:
    for order_id, price in enumerate((101, 100, 102, 100), 1):
        book.enter(order(order_id, "S", 5, price))
    book.enter(order(5, "B", 18, 101))
    book._check()
    assert names(feed)[4:] == [("executed", 2), ("executed", 4), ("executed", 1), ("added", 5)]
    assert (book.bid_edge, book.ask_edge, book.last_trade_ticks, book.shared.trades) == (101, 102, 101, 3)
    assert book.orders[5].volume == 3
    assert book.orders[5].executed == 15


def test_a_partly_executed_order_keeps_its_place(book: Book, feed: SaidFeed) -> None:
    book.enter(order(1, "B", 5, 100))
    book.enter(order(2, "B", 5, 100))
    book.enter(order(3, "S", 2, 100))
    book.enter(order(4, "S", 4, 99))
    assert names(feed)[2:] == [("executed", 1), ("executed", 1), ("executed", 2)]
    assert [(each.order_id, each.volume, each.executed) for each in book.resting()] == [(2, 4, 1)]


def test_a_cancel_takes_an_order_out_and_answers_its_lots(book: Book, feed: SaidFeed) -> None:
    book.enter(order(1, "B", 5, 100))
    book.enter(order(2, "B", 7, 99))
    assert book.cancel(1) == 5
    book._check()
    assert names(feed)[-1] == ("deleted", 1)
    assert (book.best("B"), len(book)) == (99, 1)
    with pytest.raises(KeyError):
        book.cancel(1)


def test_what_it_looks_like(book: Book) -> None:
    assert (book.mid_ticks(), book.best("B"), book.best("S")) == (None, None, None)
    book.enter(order(1, "B", 5, 100))
    assert book.mid_ticks() == 100
    book.enter(order(2, "S", 5, 103))
    book.enter(order(3, "S", 6, 103))
    assert book.mid_ticks() == 101
    assert list(book.levels("S")) == [(103, 11, 2)]


def test_the_head_of_a_queue_is_found_at_once_after_removals(book: Book) -> None:
    for order_id in range(1, 1_001):
        book.enter(order(order_id, "B", 1, 100))
    book.enter(order(2_000, "S", 1, 100))
    assert isinstance(book.bids[100], OrderedDict), "it is walked"
    for order_id in range(2, 971):
        book.cancel(order_id)
    book.enter(order(2_001, "S", 1, 100))
    book.enter(order(2_002, "B", 1, 100))
    book._check()
    assert [each.order_id for each in book.resting()] == [*range(972, 1_001), 2_002]
    assert type(book.bids[100]) is dict
    assert sys.getsizeof(book.bids[100]) < 10_000, "made anew when it was short again"


def test_prices_of_an_empty_side_never_cross(book: Book) -> None:
    book.enter(order(1, "B", 1, 2**63 - 1))
    book.cancel(1)
    book.enter(order(2, "S", 1, 1))
    book._check()
    assert list(book.orders) == [2]


def test_a_book_by_itself_refuses_orders_with_attributes(book: Book, feed: SaidFeed) -> None:
    special = order(1, "B", 5, 100)
    special.flags = IOC
    with pytest.raises(ValueError, match="expected an order without attributes for the book of ACME by itself, was"):
        book.enter(special)
    book._check()
    assert (names(feed), len(book)) == ([], 0)


def test_the_rules_of_special_orders_are_plugged_in(feed: SaidFeed) -> None:
    entered: list[Order] = []
    book = Book(1, "ACME", feed, special=lambda _, order: entered.append(order))
    special = order(1, "B", 5, 100)
    special.flags = IOC
    book.enter(special)
    assert entered == [special]


def test_a_book_by_itself_counts_its_live_orders(book: Book) -> None:
    book.enter(order(1, "B", 5, 100))
    assert book.shared.live_orders == 1
