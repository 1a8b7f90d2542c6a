"""Many orders at a time, and changes outside the continuous trading."""

from __future__ import annotations

from typing import NoReturn

from exchange_server.matching import Book, MassCancel, Order
from exchange_server.matching.order import HIDDEN, OPENING
from tests.generators.order_desk import AGENT, OrderDesk


def deleted(desk: OrderDesk, who: str) -> list[int]:
    return [int(words.split()[1]) for words in desk.told(who) if words.startswith("canceled")]


def test_a_mass_cancel_goes_by_symbol_side_and_priority() -> None:
    desk = OrderDesk(("ACME", "GLOBEX"))
    desk.open("ann", "bob")
    desk.enter("ann", "B", 1, 100, symbol="GLOBEX")
    desk.enter("ann", "S", 1, 105)
    desk.enter("ann", "B", 1, 90, OPENING)
    desk.enter("ann", "B", 1, 99, HIDDEN)
    desk.enter("ann", "B", 1, 99)
    desk.enter("bob", "B", 1, 100)
    desk.enter("ann", "B", 1, 100)
    desk.enter("ann", "S", 1, 104)
    desk.enter("ann", "B", 1, stop=120)
    desk.mass_cancel("ann")
    assert deleted(desk, "ann") == [7, 5, 4, 8, 2, 3, 9, 1]
    assert deleted(desk, "bob") == []


def test_a_mass_cancel_of_one_symbol_and_of_everybody() -> None:
    desk = OrderDesk(("ACME", "GLOBEX"))
    desk.open("ann", "bob")
    desk.enter("ann", "B", 1, 100, symbol="GLOBEX")
    desk.enter("ann", "B", 1, 100)
    desk.enter("bob", "S", 1, 101)
    desk.enter(AGENT, "S", 1, 101)
    desk.mass_cancel("ann", "GLOBEX")
    assert deleted(desk, "ann") == [1]
    desk.feed()
    desk.mass_cancel()
    assert desk.feed() == ["deleted 2 1", "deleted 3 1", "deleted 4 1"]
    assert desk.market.live_orders == 0


def test_a_replaced_stop_waits_after_those_of_its_price() -> None:
    desk = OrderDesk()
    desk.open("ann", "bob")
    desk.enter("ann", "B", 2, stop=101)
    desk.enter("bob", "B", 1, stop=101)
    assert desk.replace("ann", 1, 3, 0) == 3
    assert desk.replace("ann", 3, 2, 0) == 3
    desk.enter(AGENT, "S", 2, 101)
    desk.enter(AGENT, "B", 1, 101)
    assert desk.told("bob")[-1] == "executed 2 1@101 R left 0"
    assert desk.told("ann")[-3:] == ["canceled 3 1 USER left 2", "triggered 3", "canceled 3 2 MARKET left 0"]


def test_a_hidden_order_or_one_that_is_replaced_in_an_auction() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.enter("ann", "B", 5, 100, HIDDEN)
    desk.replace("ann", 1, 5, 101)
    assert desk.feed() == []
    desk.enter(AGENT, "S", 5, 110)
    desk.phase("auction-halt")
    desk.enter("ann", "B", 5, 100)
    desk.feed()
    desk.replace("ann", 4, 5, 120)
    assert desk.feed() == ["replaced 4 5 5@120"]


def test_a_replacement_of_an_iceberg_shows_its_part_again() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.enter("ann", "B", 9, 100, show=4)
    desk.feed()
    desk.replace("ann", 1, 8, 101)
    assert desk.feed() == ["replaced 1 2 4@101"]
    desk.replace("ann", 2, 9_000, 101)
    assert desk.told("ann")[-1] == "refused BAD_DISPLAY"
    assert desk.resting() == [(2, "B", 4, 101)]


def test_what_was_executed_is_carried_on() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.enter("ann", "B", 9, 100)
    desk.enter(AGENT, "S", 4, 100)
    order = desk.market.books["ACME"].orders[desk.replace("ann", 1, 6, 100)]
    assert (order.executed, order.volume) == (4, 6)


def test_a_replacement_cancelled_on_entry_leaves_the_feed() -> None:
    desk = OrderDesk(collar_bps=100)
    desk.open("ann")
    desk.enter("ann", "B", 5, 99)
    desk.enter(AGENT, "S", 5, 110)
    desk.feed()
    assert desk.replace("ann", 1, 5, 110) == 0
    assert desk.feed() == ["deleted 1 5"]
    assert desk.told("ann")[1:] == ["replaced 1 3", "canceled 3 5 COLLAR left 0"]


def test_a_mass_cancel_does_not_look_at_the_orders_of_others() -> None:
    class Unseen(dict[int, Order]):
        def values(self) -> NoReturn:
            raise AssertionError("all orders of a price were looked at")

    desk = OrderDesk()
    desk.open("ann", "bob")
    for _ in range(100):
        desk.enter(AGENT, "B", 1, 100)
    mine = [
        desk.enter("ann", "B", 5, 100, show=2),
        desk.enter("ann", "B", 1, 100),
        desk.enter("ann", "B", 1, 90, OPENING),
    ]
    for _ in range(100):
        desk.enter(AGENT, "B", 1, 100)
    desk.enter(AGENT, "S", 102, 100)
    assert desk.told("ann")[-1].startswith("refreshed")
    book, market = desk.market.books["ACME"], desk.market
    book.bids.queues[100] = Unseen(book.bids.queues[100])
    book.waiting = Unseen(book.waiting)
    market.apply(MassCancel(desk.time_ns + 1, 1, "ACME"))
    assert deleted(desk, "ann") == [mine[1], mine[0], mine[2]]
    assert len(book.bids.queues[100]) == 100


def test_reached_stops_are_cancelled_at_their_queue_position() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.enter("ann", "B", 1, 100, stop=101)
    desk.enter("ann", "B", 1, 100)
    desk.enter(AGENT, "S", 1, 101)
    desk.enter(AGENT, "B", 1, 101)
    assert desk.resting() == [(2, "B", 1, 100), (1, "B", 1, 100)]
    desk.mass_cancel("ann")
    assert deleted(desk, "ann") == [2, 1]


def test_a_mass_cancel_does_not_look_at_the_symbols_of_others() -> None:
    class Unseen(dict[str, Book]):
        def values(self) -> NoReturn:
            raise AssertionError("all symbols were looked at")

    desk = OrderDesk(("ACME", "GLOBEX", "INITECH"))
    desk.open("ann")
    for symbol in ("INITECH", "GLOBEX"):
        desk.enter("ann", "B", 1, 100, symbol=symbol)
    desk.market.books = Unseen(desk.market.books)
    desk.market.apply(MassCancel(desk.time_ns + 1, 1))
    assert deleted(desk, "ann") == [2, 1]
