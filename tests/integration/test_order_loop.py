"""Exchange, runtime and strategies together, with one of them killed: no order and no message is lost or doubled.

The tests share one market and one runtime, which take long to start; each goes on where the one before it left them.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltabook.audit import audit
from deltabook.wire.text import Response
from queries import query_path
from tests.integration._oracle import Replayed
from tests.integration._processes import Figures, Results, Running, exchange, feed, feed_position, runtime
from tests.integration.algo_process import private_stream, trades
from tests.integration.test_algo_recovery import live, position
from tests.integration.test_runtime_recovery import check_epochs

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(400)]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "9"))
VIEWS = [
    query_path(name) for name in ("book_depth", "vwap_book", "best_quote", "imbalance", "broker_volume", "trades_1s")
]
NAMES = [view.stem for view in VIEWS]
BROKERS = {9001: "market_maker", 9002: "sobi"}
SYMBOLS = {"ACME", "GLOBEX", "INITECH"}
EAGER = {
    "market_maker.interval_ms": "20",
    "sobi.factor": "1.01",
    "sobi.cooldown_ms": "20",
    "sobi.order_life_ms": "300",
    "sobi.position_orders": "1000",
    "market_maker.position_orders": "1000",
}


class Loop:
    """The processes; those that were killed are replaced by the tests."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._started: list[Running] = []

    def begin(self) -> None:
        """Start exchange and runtime."""
        self.market = self.start_exchange()
        self.port = self.market.ready().ports["text"]
        self.engine = self.start_runtime()
        self.results = Results(self.engine)

    def start_exchange(self, port: int = 0) -> Running:
        """An exchange with agents on three symbols."""
        return self._noted(exchange(self.directory / "exchange", "--rate", "300", "--start-on", "1", port=port))

    def start_runtime(self, http_port: int = 0) -> Running:
        """A runtime on the directory of the last time."""
        return self._noted(runtime(self.directory / "runtime", self.port, VIEWS, "--http-port", str(http_port)))

    def _noted(self, process: Running) -> Running:
        self._started.append(process)
        return process

    def start_strategies(self) -> Running:
        """Both strategies on the directory of the last time, as eager as their limits let them be."""
        where = ["--results", f"127.0.0.1:{self.engine.ready().ports['http']}", "--orders", f"127.0.0.1:{self.port}"]
        parameters = [part for name, value in EAGER.items() for part in ("--param", f"{name}={value}")]
        held = ["--dir", str(self.directory / "algo"), "--status-interval", "0.05"]
        return Running("algo", "run", *BROKERS.values(), *where, *held, *parameters)

    def kill_exchange(self) -> None:
        """SIGKILL, and another one on the same journal and port."""
        self.market.kill()
        self.market = self.start_exchange(self.port)
        self.market.ready()

    def kill_runtime(self) -> None:
        """SIGKILL, and another one on the same directory and port, which is not ready yet."""
        http_port = self.engine.ready().ports["http"]
        self.engine.kill()
        self.engine = self.start_runtime(http_port)

    def told(self) -> dict[int, list[Response]]:
        """All that the exchange ever told each broker."""
        return {broker_id: private_stream(self.port, broker_id) for broker_id in BROKERS}

    def close(self) -> None:
        """End what runs."""
        for process in self._started:
            process.kill()


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    running = Loop(tmp_path_factory.mktemp("loop"))
    try:
        running.begin()
        yield running
    finally:
        running.close()


def is_trading(more: int, figures: Figures | None = None) -> dict[str, int]:
    """How far figures must be for so many orders more, some of them executed."""
    begin = figures or {"orders_sent": 0, "fills": 0}
    return {"orders_sent": int(begin["orders_sent"]) + more, "fills": int(begin["fills"]) + 3}


def wait_until_trading(strategies: Running, target: dict[str, int]) -> Figures:
    """Wait until that many orders are sent and executed, and some are in the market."""
    return strategies.figures(
        lambda now: all(now[name] >= wanted for name, wanted in target.items()) and now["orders_open"] > 0,
        f"orders in the market and {target}",
    )


def check_orders(loop: Loop, figures: Figures) -> None:
    """After a clean end: strategies and exchange agree on every order and every lot, and nothing is left."""
    told = loop.told()
    for broker_id, stream in told.items():
        assert [message.sequence for message in stream] == list(range(1, len(stream) + 1))
        accepted = Counter(message.client_id for message in stream if message.action == "A")
        assert set(accepted.values()) == {1}, f"an order of {broker_id} was doubled"
        assert live(stream) == {}, f"an order of {broker_id} was orphaned"
    fills = {broker_id: [m for m in stream if m.action in {"E", "F"}] for broker_id, stream in told.items()}
    assert figures["orders_open"] == 0
    assert figures["fills"] == sum(map(len, fills.values()))
    assert figures["position_lots"] == sum(map(position, told.values()))

    written = trades(loop.directory / "algo")
    for broker_id, messages in fills.items():
        own = [trade for trade in written if trade["broker_id"] == str(broker_id)]
        assert {trade["strategy"] for trade in own} <= {BROKERS[broker_id]}
        assert [int(trade["sequence"]) for trade in own] == [message.sequence for message in messages]
        for symbol in SYMBOLS:
            here = [(int(t["volume_lots"]), int(t["price_ticks"])) for t in own if t["symbol"] == symbol]
            there = [(m.volume, m.price) for m in messages if m.symbol == symbol]
            assert sum(volume for volume, _ in here) == sum(volume for volume, _ in there)
            assert sum(volume * price for volume, price in here) == sum(volume * price for volume, price in there)
    assert sum(map(len, fills.values())) == len(written)
    found = audit(loop.directory / "algo", loop.directory / "exchange", is_running=False)
    assert found.agrees, found


def check_views(loop: Loop) -> Replayed:
    """Views that cover everything up to now are the same SQL on the feed that a listener reads from its beginning."""
    version = loop.results.covering(NAMES, feed_position(loop.port))
    told = feed(loop.port, version.sequence)
    assert [message.sequence for message in told] == list(range(1, version.sequence + 1))
    assert {message.symbol for message in told} == SYMBOLS
    oracle = Replayed().feed(told)
    expected = oracle.answers(VIEWS)
    for name in NAMES:
        assert version.rows[name] == expected[name], name
    return oracle


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
def test_strategies_leave_the_market_while_a_killed_runtime_starts_again(loop: Loop) -> None:
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
