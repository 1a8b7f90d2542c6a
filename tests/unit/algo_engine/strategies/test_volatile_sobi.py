"""Volatile SOBI trades when one side stands farther by more than the price's standard deviation, and not else."""

from __future__ import annotations

from tests.generators.strategy_rig import StrategyRig

CALM = [99, 101] * 10
"""Twenty prices with a standard deviation of 1."""


def volatile(*prices: int, parameters: tuple[str, ...] = ()) -> StrategyRig:
    rig = StrategyRig("volatile_sobi", *parameters)
    rig.quote()
    rig.book((98, 100), (102, 100))
    rig.last(100)
    rig.trades(*prices)
    rig.start()
    return rig


def test_it_stays_away_where_the_difference_is_one_deviation() -> None:
    rig = volatile(*CALM)
    rig.book((98, 100), (103, 100))
    assert rig.orders() == []


def test_it_buys_if_asks_stand_farther_by_over_a_deviation() -> None:
    rig = volatile(*CALM)
    rig.view("vwap_book", [("ACME", "B", 9_800, 100), ("ACME", "S", 10_301, 100)])
    assert rig.orders() == [("B", 25, 101)]


def test_it_sells_if_bids_stand_farther_by_over_a_deviation() -> None:
    rig = volatile(*CALM)
    rig.view("vwap_book", [("ACME", "B", 9_699, 100), ("ACME", "S", 10_200, 100)])
    assert rig.orders() == [("S", 25, 99)]


def test_a_restless_market_hides_what_a_calm_one_shows() -> None:
    rig = volatile(*[90, 110] * 10)
    rig.book((98, 100), (108, 100))
    assert rig.orders() == []
    rig.trades(*CALM)  # alone it is no reason to look: the next change of the book is
    rig.book((98, 100), (109, 100))
    assert rig.orders() == [("B", 25, 101)]


def test_the_number_of_deviations_is_a_parameter() -> None:
    rig = volatile(*CALM, parameters=("deviations=5",))
    rig.book((98, 100), (107, 100))
    assert rig.orders() == []
    rig.book((98, 100), (108, 100))
    assert rig.orders() == [("B", 25, 101)]


def test_it_compares_exactly_at_the_prices_of_a_coin() -> None:
    """n² times the variance has twenty-five digits here: the last of them decides."""
    prices = [7_831_000, 7_832_000] * 10
    rig = StrategyRig("volatile_sobi")
    rig.quote(7_831_400, 7_831_600, symbol="BTCUSD")
    rig.last(7_831_500, symbol="BTCUSD")
    rig.trades(*prices, symbol="BTCUSD")
    lots = 10**8
    bids = ("BTCUSD", "B", 7_831_500 * lots - 500 * lots, lots)
    rig.view("vwap_book", [bids])
    rig.start()
    rig.view("vwap_book", [bids, ("BTCUSD", "S", 7_831_500 * lots + 1_000 * lots, lots)])
    assert rig.orders() == []
    rig.view("vwap_book", [bids, ("BTCUSD", "S", 7_831_500 * lots + 1_000 * lots + 1, lots)])
    assert [side for side, _, _ in rig.orders()] == ["B"]


def test_it_does_nothing_before_enough_trades() -> None:
    rig = volatile(*CALM[:19])
    rig.book((98, 100), (108, 100))
    assert rig.orders() == []


def test_equal_distances_are_no_signal_at_a_fixed_price() -> None:
    rig = volatile(*[100] * 20)
    rig.book((97, 100), (103, 100))
    assert rig.orders() == []
    rig.book((97, 100), (104, 100))
    assert rig.orders() == [("B", 25, 101)]
