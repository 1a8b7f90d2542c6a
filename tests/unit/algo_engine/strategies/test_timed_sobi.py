"""Timed SOBI trades when one side's best orders are much older, and not else."""

from __future__ import annotations

from tests.generators.strategy_rig import StrategyRig

MS = 1_000_000
T0 = 1_700_000_000_000 * MS


def level(side: str, price: int, *arrived_ms: int) -> tuple[str, str, int, int, int]:
    """Orders at a price, that came so long after T0."""
    return "ACME", side, price, sum(T0 + each * MS for each in arrived_ms), len(arrived_ms)


def timed(*parameters: str) -> StrategyRig:
    """The best two orders of a side count."""
    rig = StrategyRig("timed_sobi", "top_orders=2", *parameters)
    rig.quote()
    rig.view("book_ages", [level("B", 99, 0), level("S", 101, 0)])
    rig.start()
    return rig


def at(now_ms: int, *levels: tuple[str, str, int, int, int]) -> list[tuple[str, str, int, int, int]]:
    """Levels, and behind the best two of each side an order that has just come."""
    return [*levels, level("B", 50, now_ms), level("S", 150, now_ms)]


def test_it_stays_away_while_both_sides_are_as_old() -> None:
    rig = timed()
    rig.view("book_ages", at(2_000, level("B", 99, 0, 2_000), level("S", 101, 0, 2_000)))
    assert rig.orders() == []


def test_it_buys_at_the_ask_if_asks_are_four_times_as_old() -> None:
    rig = timed()
    # The asks are 2,000 old, the bids 500 on average.
    rig.view("book_ages", at(2_000, level("B", 99, 1_000, 2_000), level("S", 101, 0, 0)))
    assert rig.orders() == [("B", 25, 101)]


def test_it_sells_at_the_bid_if_bids_are_four_times_as_old() -> None:
    rig = timed("size_lots=7")
    rig.view("book_ages", at(2_000, level("B", 99, 0, 0), level("S", 101, 1_000, 2_000)))
    assert rig.orders() == [("S", 7, 99)]


def test_it_compares_exactly() -> None:
    """One nanosecond more, in the sum of the ages of two orders, is not four times as young."""
    for late_ns, orders in ((0, [("B", 25, 101)]), (1, [])):
        rig = timed()
        bids = ("ACME", "B", 99, 2 * T0 + 3_000 * MS - late_ns, 2)
        rig.view("book_ages", at(2_000, bids, level("S", 101, 0, 0)))
        assert rig.orders() == orders


def test_only_the_best_orders_count() -> None:
    """Old bids behind the best two are not looked at; with a third they are."""
    books = at(2_000, level("B", 99, 1_900), level("B", 98, 2_000), level("B", 97, 0), level("S", 101, 0, 0, 0))
    rig = timed()
    rig.view("book_ages", books)
    assert rig.orders() == [("B", 25, 101)]
    rig = timed("top_orders=3")
    rig.view("book_ages", books)
    assert rig.orders() == []


def test_the_time_is_that_of_the_newest_order_anywhere() -> None:
    rig = timed("least_age_ms=3000", "top_orders=1")
    rig.view("book_ages", at(2_999, level("B", 99, 2_950), level("S", 101, 0)))
    assert rig.orders() == []
    rig.view("book_ages", at(3_000, level("B", 99, 2_950), level("S", 101, 0)))
    assert rig.orders() == [("B", 25, 101)]


def test_the_time_never_goes_back_when_the_newest_order_leaves() -> None:
    rig = timed("top_orders=1")
    rig.view("book_ages", at(2_000, level("B", 99, 1_000), level("S", 101, 0)))
    rig.view("book_ages", [level("B", 99, 1_000), level("S", 101, 0)])
    rig.view("book_ages", [level("B", 99, 1_499), level("S", 101, 0)])
    assert rig.orders() == []  # 501 and 2,000 old; at 1,499 the bids would be new
    rig.view("book_ages", [level("B", 99, 1_501), level("S", 101, 0)])
    assert rig.orders() == [("B", 25, 101)]


def test_young_books_are_left_alone() -> None:
    rig = timed()
    rig.view("book_ages", [level("B", 99, 99), level("S", 101, 0)])
    assert rig.orders() == []
    rig.view("book_ages", [level("B", 99, 100), level("S", 101, 0)])
    assert rig.orders() == [("B", 25, 101)]


def test_one_empty_side_is_no_reason() -> None:
    rig = timed()
    rig.view("book_ages", [level("B", 99, 5_000)])
    assert rig.orders() == []
