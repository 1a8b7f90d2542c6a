"""Market players: a broker who hides what he wants has somebody in front of him, and nobody else has."""

from __future__ import annotations

import pytest

from algo_engine.desk.order import Side
from tests.generators.strategy_rig import StrategyRig

Level = tuple[str, int, str, int, int]
OTHERS: list[Level] = [("ACME", 1, "B", 9_990, 100), ("ACME", 2, "S", 10_010, 100)]


def buyer(broker: int = 7, shown: int = 10, wanted: int = 500, wall: int = 9_980, ask: int = 10_012) -> list[Level]:
    """Sells a little just above the market, bids much below it."""
    return [
        ("ACME", broker, "S", ask, shown),
        ("ACME", broker, "B", wall, wanted - 10),
        ("ACME", broker, "B", wall - 5, 10),
    ]


def seller() -> list[Level]:
    """Bids a little just below the market, sells much above it."""
    return [("ACME", 8, "B", 9_988, 10), ("ACME", 8, "S", 10_020, 500)]


def players(*levels: Level, parameters: tuple[str, ...] = ()) -> StrategyRig:
    rig = StrategyRig("market_players", *parameters)
    rig.quote(9_990, 10_010)
    rig.view("broker_levels", [*OTHERS, *levels])
    rig.start()
    return rig


def bought(*parameters: str) -> StrategyRig:
    """Somebody sold to us in front of the buyer's wall; 0.2 s have passed."""
    rig = players(*buyer(), parameters=("position_orders=1", *parameters))
    rig.fill(Side.BUY)
    assert rig.host.position_lots("ACME") == 25
    rig.later(0.2)
    return rig


def test_it_steps_in_front_of_a_buyer_if_little_is_for_sale() -> None:
    assert players(*buyer()).orders() == [("B", 25, 9_981)]


def test_it_steps_in_front_of_a_seller_if_little_is_wanted() -> None:
    assert players(*seller()).orders() == [("S", 25, 10_019)]


def test_it_takes_the_player_nearest_to_the_market() -> None:
    assert players(*buyer(), *buyer(broker=6, wall=9_985, ask=10_013)).orders() == [("B", 25, 9_986)]


@pytest.mark.parametrize(
    "levels",
    [
        pytest.param([], id="nobody"),
        pytest.param(buyer(shown=101), id="shows as much as a fifth"),
        pytest.param(buyer(wanted=299, shown=1), id="wants little"),
        pytest.param(buyer(ask=10_021), id="shows too far above the market"),
        pytest.param(buyer(wall=9_800), id="wants too far below it"),
        pytest.param(buyer(wall=9_990), id="wants it at the touch"),
        pytest.param(buyer()[1:], id="shows nothing"),
        pytest.param([*buyer(), ("ACME", 7, "S", 10_050, 200)], id="offers more farther away"),
        pytest.param(buyer(broker=9_001), id="is itself"),
    ],
)
def test_it_steps_in_front_of_nobody_who(levels: list[Level]) -> None:
    assert players(*levels).orders() == []


def test_bounds_belong_to_what_is_looked_for() -> None:
    assert players(*buyer(shown=100)).orders() == [("B", 25, 9_981)]
    assert players(*buyer(wanted=300)).orders() == [("B", 25, 9_981)]
    assert players(*buyer(ask=10_020)).orders() == [("B", 25, 9_981)]


def test_it_follows_his_wall_and_leaves_with_him() -> None:
    rig = players(*buyer())
    rig.later(0.2)
    rig.view("broker_levels", [*OTHERS, *buyer(wall=9_984)])
    assert rig.orders() == [("B", 25, 9_985)]
    rig.later(0.2)
    rig.view("broker_levels", OTHERS)
    assert rig.orders() == []


def test_it_looks_no_more_often_than_its_interval() -> None:
    rig = players(*buyer())
    rig.view("broker_levels", [*OTHERS, *buyer(wall=9_984)])
    assert rig.orders() == [("B", 25, 9_981)]
    rig.later(0.2)
    assert rig.orders() == [("B", 25, 9_985)]


def test_what_it_bought_is_offered_in_front_of_what_he_shows() -> None:
    assert bought().orders() == [("S", 25, 10_011)]


def test_a_wall_that_has_become_the_touch_still_holds() -> None:
    """There is nothing to step in front of any more, and no reason to run."""
    rig = bought()
    rig.quote(9_980, 10_010)
    rig.view("broker_levels", [OTHERS[1], *buyer()])
    rig.later(0.2)
    assert rig.orders() == [("S", 25, 10_011)]


def test_its_offer_never_meets_the_bids() -> None:
    rig = bought()
    rig.quote(10_011, 10_012)
    rig.later(0.2)
    rig.later(0.2)
    assert rig.orders() == [("S", 25, 10_012)]
    assert all(order.options.post_only for order in rig.host.open_orders())


def test_a_position_is_sold_once_after_the_player_left() -> None:
    rig = bought()
    rig.view("broker_levels", OTHERS)
    rig.later(0.2)
    assert rig.orders() == []  # the offer goes first
    rig.later(0.2)
    assert rig.orders() == [("S", 25, 9_990)]
    assert rig.open(Side.SELL).options.immediate
    for lots in (200, 300):
        rig.later(0.2)
        rig.view("broker_levels", [*OTHERS, ("ACME", 3, "B", 9_900, lots)])
    assert rig.orders() == [("S", 25, 9_990)]
    rig.fill(Side.SELL)
    rig.later(0.2)
    assert rig.orders() == []
    assert rig.host.position_lots("ACME") == 0


def test_it_buys_no_more_than_its_limit() -> None:
    rig = players(*buyer(), parameters=("position_orders=2", "size_lots=10"))
    for _ in range(2):
        rig.fill(Side.BUY)
        rig.later(0.2)
        rig.later(0.2)
    assert rig.host.position_lots("ACME") == 20
    assert all(side == "S" for side, _, _ in rig.orders())


def test_orders_of_an_earlier_run_go() -> None:
    rig = StrategyRig("market_players")
    rig.quote(9_990, 10_010)
    rig.view("broker_levels", OTHERS)
    rig.lab.desk.submit(Side.BUY, "ACME", 5, 9_900)
    rig.lab.settle()
    rig.start()
    assert rig.orders() == []


def test_it_does_nothing_without_a_spread_and_in_other_symbols() -> None:
    rig = players(*buyer(), parameters=("symbols=OTHER",))
    assert rig.orders() == []
    rig = StrategyRig("market_players")
    rig.quote(10_010, 9_990)
    rig.view("broker_levels", [*OTHERS, *buyer()])
    rig.start()
    assert rig.orders() == []
