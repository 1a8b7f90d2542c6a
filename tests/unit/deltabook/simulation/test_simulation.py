"""A simulation is a live exchange without the waiting: same bytes, same rules, and the same again.

Sweeps of simulations: a point is the simulation with its values, wherever it is run.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from twisted.internet.testing import MemoryReactor

import deltabook
from algo_engine import Context, NoParameters, OrderEvent, Strategy, ViewChange
from deltabook.backtest import Backtest, BacktestConfig, ConfigurationError, DataFile, SweepError
from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.replaying import Replay
from deltabook.simulation import Simulation, SimulationConfig, SimulationError
from deltabook.simulation.simulation import SimulationExperiment
from exchange_server import app as live_app
from exchange_server.app import App
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.journal.history import History
from exchange_server.matching import Now
from exchange_server.nasdaq.mold import framed_messages
from exchange_server.outputs import all_outputs, encoders_of, protocols_of
from runtime.formats import InputFormatter, RawBuffer
from runtime.relations import FEED_SCHEMA, FeedAdaptor, Retention
from runtime.state import MemoryStore, ObjectSpace

replace = msgspec.structs.replace
BUSY = SimulationConfig(
    ("market_maker", "sobi"), hours=0.004, seed=5, agents="lively", opening_s=2, closing_s=1,
    halts=("5s+1s+500ms",), latency="lognormal:feed=200us~2,order=300us~2,answer=100us~2",
    computes={"market_maker": "30us"}, agent_delay="500us",
)  # fmt: skip


class LiveReactor(MemoryReactor):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    """The reactor of a live exchange, on simulated time and without sockets."""

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's own code has no types here
        self.seconds, self.callLater = clock.seconds, clock.callLater

    def getThreadPool(self) -> None:
        """None is used."""


def contents(directory: Path) -> dict[str, str]:
    """Digest of every file of an exchange's directory, but for the lock, which names a process."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def test_agents_write_what_they_write_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the live exchange, on the same clock: journal, feed and snapshot are equal byte for byte."""
    config = SimulationConfig(hours=0.01, seed=3, rate_per_s=700, opening_s=2, closing_s=1, collar_bps=500)
    simulation = Simulation(config, directory=tmp_path / "simulated")
    simulation.run()
    clock = SimulatedClock(config.begin_ns)
    monkeypatch.setattr(time, "time_ns", lambda: config.begin_ns)
    monkeypatch.setattr(live_app, "freeze_objects", lambda: None)
    given = replace(simulation._exchange_config, directory=str(tmp_path / "live"), status_interval_s=0)
    app = App(given, LiveReactor(clock), io.BytesIO())
    app.start()
    clock.advance(simulation.clock.now_ns)
    app.stop("test")
    app.finish()
    found = contents(tmp_path / "live")
    assert found == contents(tmp_path / "simulated")
    assert {"feed.lines", "inputs/000000000000001.inputs"} <= found.keys()
    assert (tmp_path / "live/feed.lines").stat().st_size > 1_000_000


def test_a_journal_changes_no_result(tmp_path: Path) -> None:
    assert Simulation(BUSY, directory=tmp_path / "d").run().to_json() == Simulation(BUSY).run().to_json()


_DIGEST = """
import hashlib, msgspec, sys
from pathlib import Path
from deltabook.simulation import Simulation, SimulationConfig
config = msgspec.convert(msgspec.json.decode(sys.argv[1]), SimulationConfig)
data = Simulation(config, directory=Path(sys.argv[2])).run().to_json()
print(hashlib.sha256(data).hexdigest())
"""


@pytest.mark.process
def test_same_seed_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Two processes with different hash seeds write the same result, journal, feed and private streams as this one."""
    here = Simulation(BUSY, directory=tmp_path / "here").run()
    expected = hashlib.sha256(here.to_json()).hexdigest()
    for seed in ("1", "2"):
        arguments = [sys.executable, "-c", _DIGEST, msgspec.json.encode(BUSY).decode(), str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
        assert found.stdout.split()[-1:] == [expected], found.stderr
        assert contents(tmp_path / seed) == contents(tmp_path / "here")
    other = Simulation(replace(BUSY, seed=6)).run()
    assert other.curve != here.curve


def test_other_tools_read_a_simulated_directory(tmp_path: Path) -> None:
    """The exchange goes on from it, the runtime's adaptor reads its feed, a backtest and a replay read it as ITCH."""
    directory = tmp_path / "d"
    # A day that is not over, so that there is a book to go on with.
    config = replace(BUSY, halts=(), closing_s=0.0, hours=1.0)
    simulation = Simulation(config, directory=directory)
    simulation.begin()
    simulation.advance(config.begin_ns + 20_000_000_000)
    market = simulation.venue.market
    books = {symbol: [*book.levels("B"), *book.levels("S")] for symbol, book in market.books.items()}
    assert books["ACME"]
    state, rules = market.state_hash(), market.rules
    simulation.close()

    now = Now()
    journal = Journal(directory, rules, lambda: "OTHER", "never")
    clock = MarketClock(lambda: 0.0, 0)
    exchange = Exchange(
        journal, clock, encoders_of(rules, now, simulation._exchange_config.forms), protocols_of(rules), now
    )
    assert exchange.market.state_hash() == state
    assert exchange.session == config.session
    exchange.close()

    adaptor = FeedAdaptor(ObjectSpace(MemoryStore()), "feed", Retention())
    data = (directory / "feed.lines").read_bytes()
    lots: dict[tuple[str, int], int] = {}
    for batch in InputFormatter(FEED_SCHEMA).format([RawBuffer(1, 1, data, 0)]).batches:
        for name, table in adaptor.apply(adaptor.prepare(batch.rows, batch.row_ends)).items():
            for row in table.to_pylist():
                if name != "trades":
                    key = ("B" if name == "bids" else "S", row["price"])
                    lots[key] = lots.get(key, 0) + row["volume"] * row["weight"]
    assert sorted((price, volume) for (_, price), volume in lots.items() if volume) == sorted(
        (price, volume) for price, volume, _ in books["ACME"]
    )

    itch = tmp_path / "day.itch"
    walk = History(directory, all_outputs).walk(lambda _: False)
    with itch.open("wb") as out:

        def write(name: str, data: bytes) -> None:
            if name == "feed.itch":
                out.write(b"".join(framed_messages(data)))

        walk.on_output = write
        for _ in walk.each():
            pass
    file = DataFile(itch, "itch", "ACME", "2026-01-05")
    result = Backtest(BacktestConfig(("market_maker",), (file,))).run()
    assert result.sources[0].errors == 0
    assert result.figures.market_trades > 0
    (last,) = list(Replay([file], ["best_quote"], epoch_ms=3_600_000))[-1:]
    (quote,) = last["best_quote"].result().to_pylist()
    bid, ask = market.books["ACME"].best("B"), market.books["ACME"].best("S")
    # ITCH has prices in ten-thousandths, the market in hundredths.
    assert (quote["bid_price"], quote["ask_price"]) == (100 * (bid or 0), 100 * (ask or 0))


class Pinger(Strategy[NoParameters]):
    """Sends one order far from the market at each quote, and notes when."""

    def __init__(self, parameters: NoParameters) -> None:
        super().__init__(parameters)
        self.sent: list[int] = []
        self.heard: list[tuple[int, int]] = []
        self.quotes: list[int] = []

    def on_view_change(self, change: ViewChange) -> None:
        self.quotes.append(self.context.now_ns)
        if not self.context.open_orders() and len(self.sent) < 20:
            self.sent.append(self.context.now_ns)
            self.context.buy("ACME", 1, 9_500)

    def on_order_event(self, event: OrderEvent) -> None:
        if str(event.kind) == "accepted":
            self.heard.append((event.time_ns, self.context.now_ns))
            self.context.cancel(event.order.client_id)


def pinged(config: SimulationConfig, **others: type[Strategy[Any]]) -> tuple[Pinger, Simulation]:
    simulation = Simulation(replace(config, strategies=("Pinger", *others)), classes={"Pinger": Pinger, **others})
    simulation.run()
    pinger = simulation.hosts[0]._strategy
    assert isinstance(pinger, Pinger)
    return pinger, simulation


QUIET = SimulationConfig(hours=0.002, seed=2, rate_per_s=300)


def test_latencies_are_those_that_were_asked_for() -> None:
    """An order arrives after its latency, and its answer is heard after that of answers."""
    pinger, simulation = pinged(replace(QUIET, latency="fixed:feed=1ms,order=300us,answer=40us"))
    arrived = [accepted for accepted, _ in pinger.heard]
    assert len(arrived) > 3
    assert [at - sent for at, sent in zip(arrived, pinger.sent, strict=False)] == [300_000] * len(arrived)
    assert {heard - at for at, heard in pinger.heard} == {40_000}
    # Agents act every ten milliseconds: what they do is seen a millisecond later.
    agents = [at for at in pinger.quotes if (at - simulation.config.begin_ns) % 10_000_000 == 1_000_000]
    assert len(agents) > len(pinger.quotes) // 2


def test_a_strategy_that_computes_acts_later() -> None:
    pinger, _ = pinged(replace(QUIET, compute="2ms"))
    assert len(pinger.heard) > 3
    assert {at - sent for (at, _), sent in zip(pinger.heard, pinger.sent, strict=False)} == {2_000_000}
    assert min(b - a for a, b in zip(pinger.quotes, pinger.quotes[1:], strict=False)) >= 2_000_000


def test_a_strategy_that_cannot_keep_up_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltabook.simulation.participant._INBOX_EVENTS", 5)
    _, simulation = pinged(replace(QUIET, computes={"Pinger": "1s"}))
    assert "keeps up with its events" in simulation.hosts[0].failure


def test_strategies_compete_and_each_has_its_own_feed() -> None:
    """The strategy that is nearer hears first; the market is one."""

    class Far(Pinger):
        pass

    pinger, simulation = pinged(replace(QUIET, latencies={"Far": "distance:4000km"}, latency="distance:10km"), Far=Far)
    far = simulation.hosts[1]._strategy
    assert isinstance(far, Far)
    assert far.quotes[5] - pinger.quotes[5] > 0
    assert {heard - at for at, heard in far.heard} == {4000 * 4_897}
    assert {heard - at for at, heard in pinger.heard} == {10 * 4_897}


class Counting(Strategy[NoParameters]):
    """Adds a view when it starts; the sum of its changes must be its content."""

    total = 0
    counts = 0

    def on_start(self, context: Context) -> None:
        context.add_view("resting", "SELECT COUNT(*) AS orders FROM bids")

    def on_view_change(self, change: ViewChange) -> None:
        if change.view == "resting":
            self.counts += 1
            self.total += sum(row["orders"] for row in change.added) - sum(row["orders"] for row in change.removed)
            assert [row["orders"] for row in self.context.view("resting").rows()] == [self.total]


def test_strategies_may_add_the_same_view() -> None:
    class Other(Counting):
        pass

    classes: dict[str, type[Strategy[Any]]] = {"Counting": Counting, "Other": Other}
    simulation = Simulation(replace(QUIET, strategies=tuple(classes)), classes=classes)
    simulation.run()
    first, second = (host._strategy for host in simulation.hosts)
    assert isinstance(first, Counting)
    assert isinstance(second, Counting)
    assert [host.failure for host in simulation.hosts] == ["", ""]
    assert first.counts > 100
    assert (second.counts, second.total) == (first.counts, first.total)


def test_each_strategy_draws_latencies_of_its_own() -> None:
    """Whether the model is shared, or given for one strategy or for both, in the same words."""

    class Far(Pinger):
        pass

    model = "normal:feed=1ms~100us,order=1ms~100us"
    for given in ({}, {"Far": model}, {"Pinger": model, "Far": model}):
        config = replace(QUIET, strategies=("Pinger", "Far"), latency=model, latencies=given)
        near, far = Simulation(config, classes={"Pinger": Pinger, "Far": Far}).participants
        for one, other in ((near._feed, far._feed), (near._order, far._order)):
            assert [one.arrival_ns(10**9 * n) for n in range(5)] != [other.arrival_ns(10**9 * n) for n in range(5)]


def test_agents_react_to_a_strategy() -> None:
    """A strategy that sweeps the book moves the price: this market is no recording."""

    class Buyer(Strategy[NoParameters]):
        def on_view_change(self, change: ViewChange) -> None:
            if len(self.context.open_orders()) < 3:
                self.context.buy("ACME", 300)

    plain = Simulation(replace(QUIET, hours=0.01)).run()
    bought = Simulation(
        replace(QUIET, hours=0.01, strategies=("Buyer",), parameters=("risk.max_position_touches=100000",)),
        classes={"Buyer": Buyer},
    ).run()
    last = [sample.quotes[0] for sample in plain.curve if None not in sample.quotes[0]][-1]
    moved = [sample.quotes[0] for sample in bought.curve if None not in sample.quotes[0]][-1]
    assert bought.strategies[0].position_lots["ACME"] > 1_000
    assert (moved[0] or 0) > (last[1] or 0) + 5


def test_a_market_without_strategies_has_a_result() -> None:
    result = Simulation(replace(QUIET, opening_s=1, closing_s=1, halts=("2s+1s",))).run()
    assert result.strategies == []
    assert result.figures.market_trades > 10
    assert result.orders.num_rows == 0
    assert result.stats().total.profit == 0
    assert "no strategies" in repr(result)
    assert len(result.curve) > 100


def test_phases_of_the_day() -> None:
    """Auction, halt and end come when they were asked for, as the feed says."""
    config = replace(QUIET, opening_s=1, closing_s=1, halts=("ACME:2s+1s+500ms",))
    simulation = Simulation(config)
    phases: list[tuple[float, str]] = []
    simulation.begin()
    book = simulation.venue.market.books["ACME"]
    for step in range(105):
        simulation.advance(config.begin_ns + step * 100_000_000)
        if not phases or phases[-1][1] != book.phase:
            phases.append((step / 10, book.phase))
    assert phases == [
        (0.0, "auction-open"), (1.0, "continuous"), (3.0, "halted"), (4.0, "auction-halt"), (4.5, "continuous"),
        (8.2, "auction-close"), (9.2, "closed"),
    ]  # fmt: skip
    simulation.end()


class Failing(Strategy[NoParameters]):
    """Raises at its first quote."""

    def on_view_change(self, change: ViewChange) -> None:
        raise RuntimeError("no idea")


def test_the_last_failure_ends_the_simulation() -> None:
    classes: dict[str, type[Strategy[Any]]] = {"Failing": Failing}
    alone = Simulation(replace(QUIET, strategies=("Failing",)), classes=classes).run()
    assert "no idea" in alone.failure
    assert alone.figures.end_ns < QUIET.begin_ns + 2_000_000_000
    both = Simulation(replace(QUIET, strategies=("Failing", "market_maker")), classes=classes).run()
    assert both.failure == ""
    assert "no idea" in both.strategies[0].failure
    assert both.strategies[1].orders.submitted > 0


def test_a_file_of_agents_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "agents.json"
    file.write_bytes(b'{"large": {"style": "\xff"}}')
    with pytest.raises(ConfigurationError, match="expected a JSON file of settings of agents"):
        Simulation(replace(QUIET, agents=str(file)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"agents": "dya"}, "did you mean 'day'"),
        ({"agents": "nowhere.json"}, "nowhere.json"),
        ({"settings": ("noise.lots=1",)}, "out of step_bps"),
        ({"settings": ("noise.market=2",)}, "<= 1"),
        ({"settings": ("makers.weight=0",)}, "fill an empty book"),
        ({"agents": "none", "settings": ("noise.market=0",)}, "without agents"),
        ({"hours": 0.0}, "hours"),
        ({"hours": 25.0}, "at most 24 hours"),
        ({"rate_per_s": -1.0}, "rate above 0"),
        ({"rate_per_s": math.nan}, "rate above 0, was nan"),
        ({"opening_s": math.nan}, "expected an opening auction of 0 to 86400 seconds, was nan"),
        ({"closing_s": math.inf}, "expected a closing auction of 0 to 86400 seconds, was inf"),
        ({"warm_up_s": 1e300}, "expected a warm-up of 0 to 86400 seconds"),
        ({"agent_delay": "25h"}, "expected a time of at most 24 hours, was '25h'"),
        ({"agent_delay": f"{'9' * 5_000}us"}, "20us"),
        ({"agent_delay": "٣us"}, "20us"),
        ({"start": "0001-01-01"}, "expected a start from 1970 to 2199, was '0001-01-01'"),
        ({"start": "9999-12-31T23:59:59"}, "expected a start from 1970 to 2199"),
        ({"start": "2262-05-01"}, "expected a start from 1970 to 2199"),
        ({"start": "tomorrow"}, "2026-01-05T09:30:00"),
        ({"halts": ("soon",)}, "expected a halt"),
        ({"halts": ("1s+1s",), "hours": 0.0002}, "within 0.72 s"),
        ({"halts": ("OTHER:1s+1s",)}, "was of OTHER"),
        ({"latency": "distance:far"}, "1200km"),
        ({"latencies": {"someone": "zero"}}, "no strategies"),
        ({"compute": "1 day", "strategies": ("sobi",)}, "20us"),
        ({"agent_delay": "-1ms"}, "20us"),
        ({"instruments": ()}, "symbols"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Simulation(replace(QUIET, **given))


def test_a_directory_must_be_new(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="expected a new directory"):
        Simulation(QUIET, directory=tmp_path)


def test_a_disk_that_fails_ends_the_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(QUIET, directory=tmp_path / "d")

    def full(data: bytes, count: int) -> None:
        from exchange_server.errors import JournalError

        raise JournalError("expected to write, was no space")

    simulation.begin()
    monkeypatch.setattr(simulation.venue.feeds["text"].records, "append", full)  # type: ignore[union-attr]
    with pytest.raises((SimulationError, RuntimeError), match="no space"):
        simulation.advance(QUIET.begin_ns + 10**9)
    simulation.close()


GRID: dict[str, list[Any]] = {"seed": [1, 2], "agents.noise.market": [0.01, 0.2], "replace_ticks": [1, 3]}
SHORT: dict[str, Any] = {"hours": 0.001, "agents": "lively"}


def test_points_are_simulations(tmp_path: Path) -> None:
    """Also in another process, with files that say the same."""
    found = deltabook.sweep_simulations("market_maker", GRID, folder=tmp_path, **SHORT)
    assert [point.values for point in found.points][:3] == [
        ("1", "0.01", "1"), ("1", "0.01", "3"), ("1", "0.2", "1")
    ]  # fmt: skip
    assert {point.error for point in found.points} == {""}
    config = SimulationConfig(
        ("market_maker",), hours=0.001, seed=2, agents="lively", settings=("noise.market=0.01",),
        parameters=("replace_ticks=3",),
    )  # fmt: skip
    data = Simulation(config).run().to_json()
    assert (tmp_path / "00006.json").read_bytes() == data
    assert found.points[5].sha256 == hashlib.sha256(data).hexdigest()
    assert "Simulation of market_maker" in (tmp_path / "00006.html").read_text()


@pytest.mark.process
def test_processes_give_the_same_points() -> None:
    grid = {"seed": range(3)}
    here = deltabook.sweep_simulations("market_maker", grid, **SHORT)
    assert deltabook.sweep_simulations("market_maker", grid, jobs=2, **SHORT).points == here.points


def test_agents_alone_are_swept() -> None:
    found = deltabook.sweep_simulations((), {"rate": [50, 100]}, **SHORT)
    assert [(point.orders, point.error) for point in found.points] == [(0, ""), (0, "")]
    assert found.points[0].sha256 != found.points[1].sha256


def test_a_point_that_cannot_be_says_why() -> None:
    found = deltabook.sweep_simulations((), {"agents.noise.market": [0.1, 7]}, **SHORT)
    assert found.points[0].error == ""
    assert "<= 1" in found.points[1].error
    with pytest.raises(SweepError, match="expected a point that can be run"):
        deltabook.sweep_simulations((), {"agents": ["none such"]}, **SHORT)
    with pytest.raises(ConfigurationError, match="expected a configuration of a simulation"):
        deltabook.sweep_simulations((), {"seed": ["x"]}, **SHORT)
    with pytest.raises(ConfigurationError, match="was hour"):
        deltabook.sweep_simulations((), {"seed": [1]}, hour=1)


def test_axes_of_the_configuration() -> None:
    config = SimulationExperiment.at(SimulationConfig(), [("latency", "distance:5km"), ("rate", "99")])
    assert (config.latency, config.rate_per_s) == ("distance:5km", 99.0)
