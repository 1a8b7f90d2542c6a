"""Exchange, runtime and strategies together, with one of them killed: no order and no message is lost or doubled.

The tests share one market and one runtime, which take long to start; each goes on where the one before it left them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.integration._loop import (
    BROKERS,
    Loop,
    check_orders,
    check_views,
    is_trading,
    wait_until_trading,
)
from tests.integration._processes import Figures, Results, feed
from tests.integration.test_algo_recovery import live
from tests.integration.test_runtime_recovery import check_epochs

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "9"))


@pytest.fixture(scope="module", params=["express", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def loop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    running = Loop(tmp_path_factory.mktemp("loop"), spark=request.param == "spark")
    try:
        running.begin()
        yield running
    finally:
        running.close()


def test_strategies_that_are_killed_double_and_orphan_no_order(loop: Loop) -> None:
    chance = random.Random(SEED)
    left: list[tuple[int, int]] = []
    figures: Figures | None = None
    for _ in range(2):
        with loop.start_strategies() as strategies:
            figures = wait_until_trading(strategies, is_trading(chance.randint(20, 60), figures))
        left += [(broker_id, order) for broker_id, stream in loop.told().items() for order in live(stream)]
    assert left, "they were killed with orders in the market"
    with loop.start_strategies() as strategies:
        wait_until_trading(strategies, is_trading(20, figures))
        figures = strategies.stop()
    check_orders(loop, figures)

    # What the market shows of it, to listeners and in the views.
    oracle = check_views(loop)
    assert not {order["broker"] for order in oracle.orders.values()} & BROKERS.keys()
    shown = [(broker, symbol, volume, price) for _, _, symbol, price, volume, *_, broker in oracle.trades]
    made = [
        (broker_id, message.symbol, message.volume, message.price)
        for broker_id, stream in loop.told().items()
        for message in stream
        if message.detail == "maker"
    ]
    assert [trade for trade in sorted(shown) if trade[0] in BROKERS] == sorted(made)


def test_an_exchange_that_is_killed_leaves_no_hole_in_the_feed(loop: Loop) -> None:
    chance = random.Random(SEED)
    sequence = int(loop.market.wait_for("sequence", 1)["sequence"])
    before = feed(loop.port, sequence)
    with loop.start_strategies() as strategies:
        figures = strategies.figures()
        for _ in range(2):
            figures = wait_until_trading(strategies, is_trading(chance.randint(5, 30), figures))
            loop.kill_exchange()
            sequence = int(loop.engine.wait_for("feed_sequence", 1)["feed_sequence"])
            loop.engine.wait_for("feed_sequence", sequence + chance.randint(100, 300))
            figures = strategies.figures()
        wait_until_trading(strategies, is_trading(10, figures))
        figures = strategies.stop()
    check_orders(loop, figures)
    check_views(loop)
    assert feed(loop.port, len(before)) == before
    assert check_epochs(loop.directory / "runtime") > sequence
    assert loop.engine.figures()["dead_letters"] == 0


@pytest.mark.slow
def test_strategies_leave_the_market_while_the_runtime_restarts(loop: Loop) -> None:
    with loop.start_strategies() as strategies:
        wait_until_trading(strategies, is_trading(20, strategies.figures()))
        loop.kill_runtime()
        strategies.figures(lambda now: now["orders_open"] == 0, "no order in the market without views")
        loop.results = Results(loop.engine)
        wait_until_trading(strategies, is_trading(20, strategies.figures()))
        figures = strategies.stop()
    check_orders(loop, figures)
    check_views(loop)
    check_epochs(loop.directory / "runtime")
