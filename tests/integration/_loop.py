"""Exchange, runtime and strategies on one market, and the checks after any fault."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from deltabook.audit import audit
from deltabook.wire.text import Response
from queries import query_path
from tests.integration._oracle import Replayed
from tests.integration._processes import Figures, Results, Running, exchange, feed, feed_position, runtime
from tests.integration.algo_process import private_stream, trades
from tests.integration.test_algo_recovery import live, position

__all__ = ["BROKERS", "VIEWS", "Loop", "check_orders", "check_views", "is_trading", "wait_until_trading"]

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
    """The processes of the loop; tests replace those that were killed."""

    def __init__(self, directory: Path, *, spark: bool = True) -> None:
        """Create a loop; without ``spark`` all views are of the express lane."""
        self.directory = directory
        self._spark = spark
        self._started: list[Running] = []

    # Ports under which the processes reach each other; a test may put a relay in between.

    @property
    def feed_port(self) -> int:
        """Port of the exchange for the runtime."""
        return self.port

    @property
    def orders_port(self) -> int:
        """Port of the exchange for the strategies."""
        return self.port

    @property
    def results_port(self) -> int:
        """Port of the runtime for the strategies."""
        return self.engine.ready().ports["http"]

    def begin(self) -> None:
        """Start exchange and runtime."""
        self.market = self.start_exchange()
        self.port = self.market.ready().ports["text"]
        self.engine = self.start_runtime()
        self.results = Results(self.engine)

    def start_exchange(self, port: int = 0, *, clock_s: float = 0.0) -> Running:
        """Start an exchange with agents on three symbols."""
        options = ["--rate", "300", "--start-on", "1"]
        return self._noted(exchange(self.directory / "exchange", *options, port=port, clock_s=clock_s))

    def start_runtime(self, http_port: int = 0, *, clock_s: float = 0.0) -> Running:
        """Start a runtime on the same directory as before."""
        options = ["--http-port", str(http_port)]
        views = VIEWS if self._spark else []
        if not self._spark:
            options += ["--no-spark", "--express", ",".join(map(str, VIEWS))]
        where = self.directory / "runtime"
        return self._noted(runtime(where, self.feed_port, views, *options, clock_s=clock_s))

    def _noted(self, process: Running) -> Running:
        self._started.append(process)
        return process

    def start_strategies(self, *, clock_s: float = 0.0) -> Running:
        """Start both strategies on the same directory as before, with limits and parameters for many orders."""
        where = ["--results", f"127.0.0.1:{self.results_port}", "--orders", f"127.0.0.1:{self.orders_port}"]
        parameters = [part for name, value in EAGER.items() for part in ("--param", f"{name}={value}")]
        held = ["--dir", str(self.directory / "algo"), "--status-interval", "0.05"]
        return Running("algo", "run", *BROKERS.values(), *where, *held, *parameters, clock_s=clock_s)

    def kill_exchange(self, *, clock_s: float = 0.0) -> None:
        """Kill the exchange, and start another one on the same journal and port."""
        self.market.kill()
        self.market = self.start_exchange(self.port, clock_s=clock_s)
        self.market.ready()

    def kill_runtime(self, *, clock_s: float = 0.0) -> None:
        """Kill the runtime, and start another one on the same directory and port, which is not ready yet."""
        http_port = self.engine.ready().ports["http"]
        self.engine.kill()
        self.engine = self.start_runtime(http_port, clock_s=clock_s)

    def told(self) -> dict[int, list[Response]]:
        """Return all messages that the exchange ever sent to each broker."""
        return {broker_id: private_stream(self.port, broker_id) for broker_id in BROKERS}

    def close(self) -> None:
        """Kill the processes that run."""
        for process in self._started:
            process.kill()


def is_trading(more: int, figures: Figures | None = None) -> dict[str, int]:
    """Return the figures that are reached after ``more`` further orders, some of them executed."""
    begin = figures or {"orders_sent": 0, "fills": 0}
    return {"orders_sent": int(begin["orders_sent"]) + more, "fills": int(begin["fills"]) + 3}


def wait_until_trading(strategies: Running, target: dict[str, int]) -> Figures:
    """Wait until these numbers of orders are sent and executed, and some are in the market; return the figures."""
    return strategies.figures(
        lambda now: all(now[name] >= wanted for name, wanted in target.items()) and now["orders_open"] > 0,
        f"orders in the market and {target}",
    )


def check_orders(loop: Loop, figures: Figures) -> None:
    """Check after a clean end that strategies and exchange agree on every order and every lot, and nothing is left."""
    told = loop.told()
    for broker_id, stream in told.items():
        assert [message.sequence for message in stream] == list(range(1, len(stream) + 1))
        accepted = Counter(message.client_id for message in stream if message.action == "A")
        doubled = [client_id for client_id, times in accepted.items() if times > 1]
        assert doubled == [], f"an order of {broker_id} was doubled"
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
    """Check that up-to-date views equal the same SQL on the whole feed as a listener reads it."""
    version = loop.results.covering(NAMES, feed_position(loop.port))
    told = feed(loop.port, version.sequence)
    assert [message.sequence for message in told] == list(range(1, version.sequence + 1))
    assert {message.symbol for message in told} == SYMBOLS
    oracle = Replayed().feed(told)
    expected = oracle.answers(VIEWS)
    for name in NAMES:
        assert version.rows[name] == expected[name], name
    return oracle
