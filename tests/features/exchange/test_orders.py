"""Rows 1 to 11, 15 and 16 of docs/features/exchange.md: kinds of orders, changes to them, and their bounds."""

from __future__ import annotations

import pytest

from exchange_server.matching.order import HIDDEN, IOC, POST_ONLY
from tests.generators.order_desk import AGENT, OrderDesk
from tests.generators.ouch_desk import Desk as OuchDesk
from tests.generators.ouch_desk import enter as ouch_order


@pytest.fixture
def desk() -> OrderDesk:
    desk = OrderDesk(("ACME", "GLOBEX"))
    desk.open("ann", "bob", "cid")
    return desk


def test_row_01_limit_executes_by_price_and_time_then_rests(
    desk: OrderDesk,
) -> None:
    desk.enter("ann", "S", 5, 101)
    desk.enter("bob", "S", 5, 100)
    desk.enter("cid", "S", 5, 100)
    desk.feed()
    assert desk.enter(AGENT, "B", 12, 101) == 0
    assert desk.feed() == ["executed 2 5@100", "executed 3 5@100", "executed 1 2@101"]
    assert desk.enter(AGENT, "B", 9, 101) == 5
    assert desk.feed() == ["executed 1 3@101", "added 5 B 6@101"]
    assert desk.told("ann") == ["accepted 1", "executed 1 2@101 A left 3", "executed 1 3@101 A left 0"]


def test_row_01_limit_never_executes_beyond_its_price(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 5, 101)
    desk.enter(AGENT, "B", 5, 100)
    assert desk.feed() == ["added 1 S 5@101", "added 2 B 5@100"]
    desk.enter(AGENT, "S", 5, 100)
    desk.enter(AGENT, "S", 5, 100)
    desk.feed()
    desk.enter(AGENT, "B", 7, 100)
    assert desk.feed() == ["executed 4 5@100", "added 5 B 2@100"]


def test_row_02_market_executes_at_any_price_and_never_rests(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 2, 100)
    desk.enter(AGENT, "S", 2, 5_000)
    desk.enter("ann", "B", 5)
    assert desk.told("ann") == [
        "accepted 3", "executed 3 2@100 R left 3", "executed 3 2@5000 R left 1", "canceled 3 1 MARKET left 0",
    ]  # fmt: skip
    assert desk.resting() == []


def test_row_03_ioc_cancels_what_it_cannot_execute(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 2, 100)
    desk.enter(AGENT, "S", 2, 102)
    desk.feed()
    desk.enter("ann", "B", 5, 101, IOC)
    assert desk.told("ann") == ["accepted 3", "executed 3 2@100 R left 3", "canceled 3 3 IMMEDIATE left 0"]
    assert desk.feed() == ["executed 1 2@100"]


def test_row_04_fok_executes_wholly_or_not_at_all(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 2, 100)
    desk.enter(AGENT, "S", 2, 101)
    desk.feed()
    desk.enter("ann", "B", 5, 101, IOC, minimum=5)
    assert desk.told("ann") == ["accepted 3", "canceled 3 5 MINIMUM left 0"]
    assert desk.feed() == []
    desk.enter("ann", "B", 4, 101, IOC, minimum=4)
    assert desk.feed() == ["executed 1 2@100", "executed 2 2@101"]


def test_row_04_fok_counts_what_is_not_displayed(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 9, 100, show=1)
    desk.enter(AGENT, "S", 3, 100, HIDDEN)
    desk.enter("ann", "B", 12, 100, IOC, minimum=12)
    assert desk.told("ann")[-1] == "executed 3 3@100 R left 0"


def test_row_04_a_minimum_below_the_volume_lets_the_rest_go(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 3, 100)
    desk.enter("ann", "B", 5, 100, IOC, minimum=3)
    assert desk.told("ann") == ["accepted 2", "executed 2 3@100 R left 2", "canceled 2 2 IMMEDIATE left 0"]


def test_row_05_post_only_rests_or_is_cancelled_and_never_takes(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 3, 100)
    assert desk.enter("ann", "B", 5, 100, POST_ONLY) == 0
    assert desk.told("ann") == ["accepted 2", "canceled 2 5 POST_ONLY left 0"]
    assert desk.enter("ann", "B", 5, 99, POST_ONLY) == 3
    assert desk.resting() == [(3, "B", 5, 99), (1, "S", 3, 100)]


def test_row_05_post_only_meets_hidden_orders_too(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 3, 100, HIDDEN)
    assert desk.enter("ann", "B", 5, 100, POST_ONLY) == 0


def test_row_06_hidden_is_in_no_feed_until_it_trades(desk: OrderDesk) -> None:
    order = desk.enter("ann", "S", 5, 100, HIDDEN)
    assert desk.feed() == []
    assert desk.market.books["ACME"].best("S") is None
    desk.enter(AGENT, "B", 3, 100)
    assert desk.feed() == ["traded S 3@100"]
    desk.cancel("ann", order)
    assert desk.feed() == []
    assert desk.told("ann")[1:] == ["executed 1 3@100 J left 2", "canceled 1 2 USER left 0"]


def test_row_06_hidden_ranks_after_displayed_at_its_price(desk: OrderDesk) -> None:
    desk.enter("ann", "S", 5, 100, HIDDEN)
    desk.enter("bob", "S", 5, 100)
    desk.enter("bob", "S", 5, 101)
    desk.feed()
    desk.enter(AGENT, "B", 11, 101)
    assert desk.feed() == ["executed 2 5@100", "traded S 5@100", "executed 3 1@101"]


def test_row_07_iceberg_parts_queue_after_all_others(desk: OrderDesk) -> None:
    desk.enter("ann", "S", 7, 100, show=3)
    desk.enter("bob", "S", 4, 100)
    assert desk.feed() == ["added 1 S 3@100", "added 2 S 4@100"]
    desk.enter(AGENT, "B", 3, 100)
    assert desk.feed() == ["executed 1 3@100", "added 4 S 3@100"]
    assert desk.told("ann")[1:] == ["executed 1 3@100 A left 4", "refreshed 1 as 4 3+1"]
    desk.enter(AGENT, "B", 8, 100)
    assert desk.feed() == ["executed 2 4@100", "executed 4 3@100", "added 6 S 1@100", "executed 6 1@100"]


def test_row_07_iceberg_executes_wholly_on_entry(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 6, 100)
    desk.feed()
    desk.enter("ann", "B", 10, 100, show=3)
    assert desk.feed() == ["executed 1 6@100", "added 2 B 3@100"]
    assert desk.told("ann") == ["accepted 2", "executed 2 6@100 R left 4"]


def test_row_07_iceberg_is_reduced_where_it_is_not_seen_first(desk: OrderDesk) -> None:
    order = desk.enter("ann", "S", 7, 100, show=3)
    desk.feed()
    desk.reduce("ann", order, 4)
    assert desk.feed() == []
    desk.reduce("ann", order, 1)
    assert desk.feed() == ["reduced 1 1"]
    assert desk.told("ann")[1:] == ["canceled 1 4 USER left 3", "canceled 1 1 USER left 2"]


def test_row_08_stop_enters_after_the_request_that_fired_it(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 4, 105)
    desk.enter("ann", "B", 3, stop=105)
    desk.enter("bob", "B", 3, 106, stop=106)
    assert desk.resting() == [(1, "S", 4, 105)]
    desk.feed()
    desk.enter(AGENT, "B", 2, 104)
    assert desk.feed() == ["added 4 B 2@104"]
    desk.enter(AGENT, "B", 1, 105)
    assert desk.feed() == ["executed 1 1@105", "executed 1 3@105"]
    assert desk.told("ann") == ["accepted 2", "triggered 2", "executed 2 3@105 R left 0"]
    assert desk.told("bob") == ["accepted 3"]


def test_row_08_stops_enter_by_price_then_arrival(desk: OrderDesk) -> None:
    for price in (98, 97, 96, 95):
        desk.enter(AGENT, "B", 1, price)
    desk.enter("cid", "S", 1, stop=97)
    desk.enter("ann", "S", 1, stop=99)
    desk.enter("bob", "S", 1, 90, stop=100)
    desk.feed()
    desk.enter(AGENT, "S", 1, 98)
    assert desk.feed() == [f"executed {order_id} 1@{99 - order_id}" for order_id in (1, 2, 3, 4)]
    assert desk.told("bob")[-1] == "executed 7 1@97 R left 0"
    assert desk.told("ann")[-1] == "executed 6 1@96 R left 0"
    assert desk.told("cid")[-1] == "executed 5 1@95 R left 0"


def test_row_08_a_trade_before_the_stop_came_does_not_reach_it(desk: OrderDesk) -> None:
    desk.enter(AGENT, "S", 2, 105)
    desk.enter(AGENT, "B", 1, 105)
    desk.enter("ann", "B", 1, stop=105)
    assert desk.told("ann") == ["accepted 3"]


@pytest.mark.parametrize(
    ("volume", "price", "feed", "queue"),
    [
        (4, 100, ["reduced 1 1"], [1, 2]),
        (5, 100, [], [1, 2]),
        (6, 100, ["replaced 1 3 6@100"], [2, 3]),
        (5, 101, ["replaced 1 3 5@101"], [3, 2]),
        (4, 99, ["replaced 1 3 4@99"], [2, 3]),
    ],
)
def test_row_09_replace_keeps_its_place_only_if_it_shrinks(
    desk: OrderDesk, volume: int, price: int, feed: list[str], queue: list[int]
) -> None:
    desk.enter("ann", "B", 5, 100)
    desk.enter("bob", "B", 5, 100)
    desk.feed()
    assert desk.replace("ann", 1, volume, price) == (1 if 1 in queue else 3)
    assert desk.feed() == feed
    assert [order_id for order_id, *_ in desk.resting()] == queue


def test_row_09_replace_executes_at_a_crossing_price(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 5, 99)
    desk.enter("bob", "S", 3, 101)
    desk.feed()
    desk.replace("ann", 1, 7, 102)
    assert desk.feed() == ["deleted 1 5", "executed 2 3@101", "added 3 B 4@102"]
    assert desk.told("ann")[1:] == ["replaced 1 3", "executed 3 3@101 R left 4"]


def test_row_09_replace_of_a_foreign_order_is_refused(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 5, 99)
    desk.replace("bob", 1, 5, 100)
    desk.replace("bob", 7, 5, 100)
    assert desk.told("bob") == ["refused FOREIGN_ORDER", "refused UNKNOWN_ORDER"]


def test_row_10_cancel_in_part_keeps_the_place(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 5, 100)
    desk.enter("bob", "B", 5, 100)
    desk.feed()
    desk.reduce("ann", 1, 2)
    desk.enter(AGENT, "S", 4, 100)
    assert desk.feed() == ["reduced 1 2", "executed 1 3@100", "executed 2 1@100"]
    desk.cancel("bob", 2)
    assert desk.feed() == ["deleted 2 4"]
    assert desk.told("bob")[-1] == "canceled 2 4 USER left 0"
    assert desk.resting() == []


def test_row_10_reduction_to_nothing_is_a_cancel(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 5, 100)
    desk.feed()
    desk.reduce("ann", 1, 9)
    assert desk.feed() == ["deleted 1 5"]
    assert desk.told("ann")[-1] == "canceled 1 5 USER left 0"


@pytest.mark.parametrize(
    ("policy", "entering", "resting", "feed"),
    [
        (
            "allow",
            ["executed 2 3@100 R left 4"],
            ["executed 1 3@100 A left 0"],
            ["executed 1 3@100", "added 2 B 4@100"],
        ),
        ("newest", ["prevented 2 7 of 3 left 0"], [], []),
        ("oldest", [], ["prevented 1 3 of 3 left 0"], ["deleted 1 3", "added 2 B 7@100"]),
        ("both", ["prevented 2 7 of 3 left 0"], ["prevented 1 3 of 3 left 0"], ["deleted 1 3"]),
        (
            "decrement",
            ["prevented 2 3 of 3 left 4"],
            ["prevented 1 3 of 3 left 0"],
            ["deleted 1 3", "added 2 B 4@100"],
        ),
    ],
)
def test_row_11_self_trade_prevention(policy: str, entering: list[str], resting: list[str], feed: list[str]) -> None:
    desk = OrderDesk()
    desk.open("rests", broker_id=5)
    desk.open("enters", broker_id=5, self_trade=policy)
    desk.enter("rests", "S", 3, 100)
    desk.feed()
    desk.enter("enters", "B", 7, 100)
    assert desk.told("enters") == ["accepted 2", *entering]
    assert desk.told("rests") == ["accepted 1", *resting]
    assert desk.feed() == feed


def test_row_11_prevention_allows_trades_with_others(desk: OrderDesk) -> None:
    desk.open("own", self_trade="newest")
    desk.enter(AGENT, "S", 3, 100)
    desk.enter("own", "B", 3, 100)
    assert desk.told("own")[-1] == "executed 2 3@100 R left 0"


def test_row_11_prevention_does_not_count_for_a_minimum(desk: OrderDesk) -> None:
    desk.open("own", self_trade="decrement")
    desk.enter("own", "S", 3, 100)
    desk.enter(AGENT, "S", 3, 100)
    desk.enter("own", "B", 5, 100, IOC, minimum=4)
    assert desk.told("own")[-1] == "canceled 3 5 MINIMUM left 0"


def test_row_15_prices_are_whole_ticks_and_volumes_whole_lots() -> None:
    desk = OuchDesk()
    desk.open("ouch:A")
    # LOTS has ticks of 0.05 and lots of 10; a price of OUCH is in units of 0.0001.
    for ref, quantity, price in ((1, 100, 1_001), (2, 105, 1_000), (3, 100, 1_000)):
        desk.send("ouch:A", ouch_order(ref, "B", quantity, price, symbol="LOTS"))
    assert [reply.type for reply in desk.take("ouch:A")] == ["J", "J", "A"]
    assert [(o.volume, o.price_ticks) for o in desk.market.books["LOTS"].orders.values()] == [(10, 2)]


def test_row_16_symbols_are_independent(desk: OrderDesk) -> None:
    desk.enter("ann", "S", 5, 100)
    desk.enter("bob", "B", 5, 100, symbol="GLOBEX")
    assert desk.resting("ACME") == [(1, "S", 5, 100)]
    assert desk.resting("GLOBEX") == [(2, "B", 5, 100)]
    desk.phase("halted", "GLOBEX")
    desk.enter("cid", "B", 5, 100)
    assert desk.told("cid") == ["accepted 3", "executed 3 5@100 R left 0"]
    desk.enter("cid", "B", 5, 100, symbol="NOPE")
    assert desk.told("cid") == ["refused UNKNOWN_SYMBOL"]


def test_row_16_thousands_of_symbols_in_one_market() -> None:
    symbols = tuple(f"S{number}" for number in range(3_000))
    desk = OrderDesk(symbols)
    desk.enter(AGENT, "B", 5, 100, symbol=symbols[-1])
    assert desk.feed() == ["added 1 B 5@100"]
    assert [symbol for symbol, book in desk.market.books.items() if book.orders] == [symbols[-1]]
