"""Each strategy in a real market, over its real views and the real bytes of orders: its trades, no others.

The flow is written down order by order; time and latency are the backtest's.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from algo_engine.loader import BUILT_IN
from deltabook.backtest import Backtest, BacktestConfig, Result
from deltabook.wire.symbols import Instrument
from exchange_server.replay import Record

MS = 1_000_000
BEGIN = 1_700_000_000_000 * MS
MAKER, TAKER = 1, 2
Line = tuple[int, int, str, int, int]
"""Milliseconds since the beginning, broker, side, lots, price."""


def play(strategy: str, lines: Sequence[Line], *parameters: str, latency: str = "fixed:feed=1ms,order=1ms") -> Result:
    """The lines as orders, in the order given; numbers are those of the lines."""
    flow = [
        Record(number, BEGIN + at_ms * MS, number, broker, side, lots, price, "ACME")
        for number, (at_ms, broker, side, lots, price) in enumerate(lines, start=1)
    ]
    config = BacktestConfig((strategy,), parameters=tuple(f"{strategy}.{each}" for each in parameters), latency=latency)
    result = Backtest(config, records=flow, instruments=(Instrument("ACME"),)).run()
    assert not result.failure
    assert not result.strategies[0].failure
    return result


def fills(result: Result) -> list[tuple[str, int, int, str]]:
    return [(trade.side, trade.volume_lots, trade.price_ticks, trade.liquidity) for trade in result.fills]


BALANCED: list[Line] = [
    (0, MAKER, "B", 100, 9_990),
    (0, MAKER, "B", 300, 9_980),
    (0, MAKER, "S", 100, 10_010),
    (0, MAKER, "S", 300, 10_020),
]
TRADE: list[Line] = [(10, MAKER, "S", 1, 10_000), (10, TAKER, "B", 1, 10_000)]
"""The last price is 10,000 from then on."""


def test_sobi_buys_once_at_the_ask_when_the_asks_move_away() -> None:
    lean = (1_000, MAKER, "S", 1_500, 10_100)
    result = play("sobi", [*BALANCED, *TRADE, lean, (1_100, MAKER, "B", 1, 9_000)], "size_lots=10")
    assert fills(result) == [("B", 10, 10_010, "taker")]
    assert result.strategies[0].position_lots == {"ACME": 10}


def test_volatile_sobi_buys_in_a_calm_market_alone() -> None:
    lean = [(1_000, MAKER, "S", 1_500, 10_100), (1_100, MAKER, "B", 1, 9_000)]
    for swing, found in ((20, [("B", 10, 10_010, "taker")]), (80, [])):
        prices = [10_000 + (swing if n % 2 else -swing) for n in range(20)]
        # Before the book is there: trades so far away would take it with them.
        trades = [line for n, p in enumerate(prices) for line in ((n, MAKER, "S", 1, p), (n, TAKER, "B", 1, p))]
        last = [(25, MAKER, "S", 1, 10_000), (25, TAKER, "B", 1, 10_000)]
        book = [(50, *line[1:]) for line in BALANCED]
        result = play("volatile_sobi", [*trades, *last, *book, *lean], "size_lots=10")
        assert fills(result) == found


def test_timed_sobi_buys_on_renewed_bids_and_old_asks() -> None:
    fresh = [(2_000, MAKER, "B", 100, 9_991), (2_010, MAKER, "B", 100, 9_992), (2_100, MAKER, "B", 1, 9_000)]
    result = play("timed_sobi", [*BALANCED, *fresh], "size_lots=10", "top_orders=2", "cooldown_ms=60000")
    assert fills(result) == [("B", 10, 10_010, "taker")]


PLAYER: list[Line] = [(100, 7, "S", 10, 10_012), (100, 7, "B", 500, 9_985)]


def test_market_players_steps_in_front_of_wall_and_small_offer() -> None:
    lines = [
        *BALANCED,
        *PLAYER,
        (1_000, TAKER, "S", 130, 9_985),  # eats the best bid, then us at 9,986, and a little of the wall
        (1_500, MAKER, "B", 100, 9_990),
        (2_000, TAKER, "B", 120, 10_011),  # eats the best ask, then us in front of the player's
    ]
    result = play("market_players", lines, "size_lots=10", "position_orders=1")
    assert fills(result) == [("B", 10, 9_986, "maker"), ("S", 10, 10_011, "maker")]
    assert result.strategies[0].profit == 250


def test_market_players_leaves_after_the_player() -> None:
    lines = [
        *BALANCED,
        *PLAYER,
        (1_000, TAKER, "S", 610, 9_985),  # us, and all of the wall: nobody holds the price any more
        (1_500, MAKER, "B", 100, 9_981),
        (3_000, MAKER, "B", 1, 9_000),
    ]
    result = play("market_players", lines, "size_lots=10", "position_orders=1")
    assert fills(result) == [("B", 10, 9_986, "maker"), ("S", 10, 9_980, "taker")]


def test_the_market_maker_earns_the_spread_after_earlier_orders() -> None:
    lines = [
        *BALANCED,
        (1_000, TAKER, "S", 110, 9_990),  # the recorded 100 come first, then 10 of ours
        (2_000, TAKER, "B", 120, 10_010),
    ]
    result = play("market_maker", lines, "size_lots=20", "skew_percent=0")
    assert fills(result) == [("B", 10, 9_990, "maker"), ("S", 20, 10_010, "maker")]
    assert result.strategies[0].realised == 10 * 20


@pytest.mark.parametrize("strategy", sorted(set(BUILT_IN) - {"market_maker"}))
def test_nobody_trades_where_there_is_no_reason(strategy: str) -> None:
    flow = [*BALANCED, *TRADE, (20, MAKER, "B", 100, 9_980), (20, MAKER, "S", 100, 10_020)]
    assert play(strategy, flow).fills == []


@pytest.mark.parametrize("strategy", sorted(BUILT_IN))
def test_nobody_minds_a_market_that_is_empty_on_one_side(strategy: str) -> None:
    flow = [line for line in BALANCED if line[2] == "B"] + [(50, TAKER, "S", 400, 9_000), (60, MAKER, "S", 5, 9_000)]
    assert play(strategy, flow).fills == []
