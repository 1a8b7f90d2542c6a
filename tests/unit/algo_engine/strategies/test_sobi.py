"""Simple SOBI trades when one side stands so much nearer to the last price, and not else."""

from __future__ import annotations

import pytest

from algo_engine.desk.order import Side
from tests.generators.strategy_rig import SECOND, StrategyRig


def sobi(*parameters: str) -> StrategyRig:
    """Of a balanced book around 100."""
    rig = StrategyRig("sobi", *parameters)
    rig.quote()
    rig.book((98, 100), (102, 100))
    rig.last(100)
    rig.start()
    return rig


def test_it_stays_away_from_a_balanced_book() -> None:
    rig = sobi()
    rig.book((98, 100), (103, 100))
    assert rig.orders() == []


def test_it_buys_at_the_ask_if_asks_stand_four_times_as_far() -> None:
    rig = sobi()
    rig.book((98, 700), (108, 300))
    assert rig.orders() == [("B", 25, 101)]


def test_it_sells_at_the_bid_if_bids_stand_four_times_as_far() -> None:
    rig = sobi("size_lots=ACME:7")
    rig.book((92, 300), (102, 700))
    assert rig.orders() == [("S", 7, 99)]


def test_it_compares_exactly() -> None:
    """One lot short of four times as far is not four times as far, at the prices and volumes of a coin."""
    rig = StrategyRig("sobi")
    rig.quote(7_831_900, 7_832_000, 10**8, "BTCUSD")
    last, lots = 7_831_950, 3 * 10**8 + 1
    rig.last(last, symbol="BTCUSD")
    below = lots * 100_000
    bids = ("BTCUSD", "B", last * lots - below, lots)
    rig.view("vwap_book", [bids, ("BTCUSD", "S", last * lots + 4 * below - 2, lots)])
    rig.start()
    rig.view("vwap_book", [bids, ("BTCUSD", "S", last * lots + 4 * below - 1, lots)])
    assert rig.orders() == []
    rig.view("vwap_book", [bids, ("BTCUSD", "S", last * lots + 4 * below, lots)])
    assert [(side, lots) for side, lots, _ in rig.orders()] == [("B", 25 * 10**6)]


def test_no_distance_at_all_is_no_reason() -> None:
    """Where the price has left both books behind it, none of them says anything."""
    rig = sobi()
    rig.book((101, 100), (99, 100))
    assert rig.orders() == []


def test_the_factor_is_a_parameter() -> None:
    rig = sobi("factor=1.5")
    rig.book((98, 100), (103, 100))
    assert rig.orders() == [("B", 25, 101)]


def test_it_cools_down_and_ends_orders_that_do_not_trade() -> None:
    rig = sobi()
    for ask in (108, 109, 108):
        rig.book((98, 100), (ask, 100))
    assert len(rig.orders()) == 1
    rig.later(2.1)
    assert rig.orders() == []
    rig.book((98, 100), (109, 100))
    assert len(rig.orders()) == 1


def test_no_timer_is_left_of_an_order_that_has_ended() -> None:
    rig = sobi()
    rig.book((98, 100), (108, 100))
    rig.fill(Side.BUY)
    assert not rig.clock.getDelayedCalls()


def test_it_stops_at_its_position_limit() -> None:
    rig = sobi("size_lots=10", "position_orders=3")
    for step in range(6):
        rig.book((98, 100), (108 + step % 2, 100))
        if rig.orders():
            rig.fill(Side.BUY)
        rig.later(1)
    assert rig.host.position_lots("ACME") == 30
    rig.book((92, 100), (102, 100))
    assert rig.orders() == [("S", 10, 99)]


def test_an_open_order_counts_as_held() -> None:
    rig = sobi("size_lots=10", "position_orders=1", "cooldown_ms=1")
    for ask in (108, 109):
        rig.book((98, 100), (ask, 100))
        rig.later(0.1)
    assert rig.orders() == [("B", 10, 101)]


def test_it_trades_only_its_symbols() -> None:
    rig = sobi("symbols=OTHER")
    rig.book((98, 100), (108, 100))
    assert rig.orders() == []


def test_it_takes_the_latest_price() -> None:
    rig = sobi()
    rig.last(90, SECOND - 5)
    rig.book((98, 100), (103, 100))
    assert rig.orders() == []


@pytest.mark.parametrize("missing", ["trade", "asks", "spread"])
def test_it_needs_a_last_price_two_sides_and_a_spread(missing: str) -> None:
    rig = StrategyRig("sobi")
    rig.quote(*((101, 99) if missing == "spread" else (99, 101)))
    rig.view("trades_1s", [])
    rig.book((98, 100), (102, 100))
    rig.start()
    if missing != "trade":
        rig.last(100)
    rig.book((98, 100), (108, 0 if missing == "asks" else 100))
    assert rig.orders() == []


def near(*parameters: str) -> StrategyRig:
    """SOBI that looks one percent far."""
    rig = StrategyRig("sobi", "depth_bps=100", *parameters)
    rig.quote(9_990, 10_010)
    rig.last(10_000)
    return rig


LEANS = [("ACME", "B", 9_990, 100, 1), ("ACME", "S", 10_010, 10, 1), ("ACME", "S", 10_090, 100, 1)]


def test_orders_beyond_the_depth_do_not_count() -> None:
    """A mass of bids far away turns the whole book, and nothing within one percent."""
    rig = near()
    rig.view("book_depth", [])
    rig.start()
    rig.view("book_depth", [*LEANS, ("ACME", "B", 9_899, 10**6, 1)])
    assert rig.orders() == [("B", 25, 10_010)]
    assert "vwap_book" not in rig.host.views


def test_orders_at_the_depth_count() -> None:
    rig = near()
    rig.view("book_depth", [])
    rig.start()
    rig.view("book_depth", [*LEANS, ("ACME", "B", 9_900, 10**6, 1)])
    assert rig.orders() == []


def test_the_window_moves_with_the_last_price() -> None:
    rig = near()
    rig.view("book_depth", [*LEANS, ("ACME", "B", 9_900, 10**6, 1)])
    rig.start()
    rig.last(10_000, SECOND + 1)
    assert rig.orders() == []
    rig.last(10_001, SECOND + 2)
    assert rig.orders() == [("B", 25, 10_010)]


def test_levels_that_change_are_counted_anew() -> None:
    rig = near()
    rig.view("book_depth", [*LEANS, ("ACME", "B", 9_900, 10**6, 1)])
    rig.start()
    rig.last(10_000, SECOND + 1)
    rig.view("book_depth", [*LEANS, ("ACME", "B", 9_900, 50, 1)])
    assert rig.orders() == []
    rig.view("book_depth", LEANS)
    assert rig.orders() == [("B", 25, 10_010)]


def test_many_symbols_set_no_more_timers_than_allowed() -> None:
    """A strategy may set 256 timers, and each order needs one until it ends."""
    symbols = [f"S{number}" for number in range(300)]
    rig = StrategyRig("sobi")
    rig.view("best_quote", [(symbol, 99, 100, 101, 100) for symbol in symbols])
    rig.view("trades_1s", [(symbol, SECOND, 100, 100, 100, 100, 1, 1) for symbol in symbols])
    rig.view("vwap_book", [])
    rig.start()
    rig.view(
        "vwap_book", [(symbol, side, price * 100, 100) for symbol in symbols for side, price in (("B", 98), ("S", 108))]
    )
    assert rig.host.failure == ""
    assert rig.orders()
