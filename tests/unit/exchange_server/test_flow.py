"""Agents and replays: determined by seed, clock and file, and continued after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from exchange_server.agents import AgentFlow
from exchange_server.clock import MarketClock
from exchange_server.config import DEFAULT_INSTRUMENTS
from exchange_server.exchange import Exchange
from exchange_server.inputs import Input, MarketRules
from exchange_server.journal import Journal
from exchange_server.replay import DbtoasterLoader, Player

AGENT_RULES = MarketRules(instruments=DEFAULT_INSTRUMENTS)


class Run:
    """An exchange with a flow, on a clock that a test moves."""

    behind_bytes = 0

    def __init__(self, path: Path, rules: MarketRules = AGENT_RULES, **clock: Any) -> None:
        self.path = path
        self.clock = Clock()
        anchor_ns = clock.pop("anchor_ns", 1_000_000_000)
        self.market_clock = MarketClock(self.clock.seconds, anchor_ns, **clock)
        self.exchange = Exchange(Journal(path, rules, lambda: "S"), self.market_clock)
        self.batches: list[int] = []
        self.failed: list[str] = []

    @property
    def farthest_behind_bytes(self) -> int:
        return self.behind_bytes

    def submit(self, batch: list[Input]) -> list[int]:
        self.batches.append(len(batch))
        return self.exchange.submit(batch)

    def agents(self, seed: int = 1) -> AgentFlow:
        flow = AgentFlow(
            self.exchange, DEFAULT_INSTRUMENTS, self.submit, self.clock, seed=seed, rate_per_s=2000.0
        )  # fmt: skip
        flow.start()
        return flow

    def close(self) -> bytes:
        self.exchange.close()
        return (self.path / "feed.lines").read_bytes()


def agent_feed(path: Path, seed: int, seconds: int = 3) -> bytes:
    run = Run(path)
    run.agents(seed)
    run.clock.pump([0.01] * (seconds * 100))
    return run.close()


def test_the_same_seed_and_clock_give_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    first = agent_feed(tmp_path / "a", 1)
    assert first == agent_feed(tmp_path / "b", 1)
    assert (tmp_path / "a" / "inputs").read_bytes() == (tmp_path / "b" / "inputs").read_bytes()
    assert first != agent_feed(tmp_path / "c", 2)


def test_agents_keep_their_rate_and_every_book_two_sided_bounded_and_near_its_reference(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.agents()
    for second in range(1, 21):
        run.clock.pump([0.01] * 100)
        run.exchange.market._check()
        for instrument in DEFAULT_INSTRUMENTS:
            book = run.exchange.market.books[instrument.symbol]
            bid, ask = book.best("B"), book.best("S")
            assert bid is not None, (second, instrument.symbol)
            assert ask is not None, (second, instrument.symbol)
            assert ask - bid < 0.02 * instrument.reference_price_ticks
            assert abs(bid - instrument.reference_price_ticks) < 0.2 * instrument.reference_price_ticks
            assert len(book) <= 400
    assert abs(run.exchange.market.inputs - 40_000) < 500
    assert run.exchange.market.trades > 1000
    run.close()


def test_after_a_restart_agents_go_on_with_the_orders_they_have(tmp_path: Path) -> None:
    agent_feed(tmp_path, 1)
    run = Run(tmp_path)
    live = run.exchange.market.live_orders
    flow = run.agents()
    assert sum(len(t._noise) + sum(map(len, t._quotes.values())) for t in flow._traders) == live
    run.clock.pump([0.01] * 500)
    run.exchange.market._check()
    assert run.exchange.market.live_orders < 1200
    run.close()


REPLAY_RULES = MarketRules(
    instruments=DEFAULT_INSTRUMENTS[:1], replay_symbol="ACME", replay_mode="as-recorded", first_order_id=10**17
)


def trace(path: Path, count: int) -> Path:
    file = path / "trace.csv"
    file.write_text("".join(f"{1000 * n},{n},B,5,{100 + n}\n" for n in range(1, count + 1)))
    return file


def player_run(path: Path, **clock: Any) -> Run:
    return Run(path / "journal", REPLAY_RULES, anchor_ns=1_000_000_000, **clock)


def play(run: Run, file: Path, *, paced: bool) -> Player:
    player = Player(DbtoasterLoader(file), "ACME", run.exchange, run, run.clock, paced=paced, stop=run.failed.append)
    player.start()
    return player


def test_a_paced_replay_plays_each_record_when_the_market_clock_shows_its_time(tmp_path: Path) -> None:
    run = player_run(tmp_path, speed=10.0, running=False)
    play(run, trace(tmp_path, 30), paced=True)
    run.clock.advance(0)
    run.market_clock.start()
    run.clock.pump([0.1] * 10)
    assert run.exchange.market.orders in {10, 11}
    run.clock.pump([0.1] * 20)
    assert run.exchange.market.orders == 30
    times = [int(line.split(b",")[1]) for line in run.close().splitlines()]
    assert times == [n * 1_000_000_000 for n in range(1, 31)]


def test_a_replay_goes_on_behind_its_last_journalled_record(tmp_path: Path) -> None:
    file = trace(tmp_path, 2000)
    run = player_run(tmp_path)
    run.behind_bytes = 10**9
    player = play(run, file, paced=False)
    while run.exchange.market.replay_position < 700:
        run.clock.advance(0.02)
    player.stop()
    run.close()
    again = player_run(tmp_path)
    assert 700 <= again.exchange.market.replay_position < 2000
    player = play(again, file, paced=False)
    again.clock.pump([0.0] * 50)
    assert player.finished
    assert again.exchange.market.replay_counts == {}, "records were played twice"
    ids = [int(line.split(b",")[2]) for line in again.close().splitlines()]
    assert ids == list(range(1, 2001))


def test_a_replay_at_full_speed_waits_for_listeners_that_are_far_behind(tmp_path: Path) -> None:
    run = player_run(tmp_path)
    run.behind_bytes = 10**9
    player = play(run, trace(tmp_path, 2000), paced=False)
    run.clock.advance(0)
    assert len(run.batches) == 1
    run.behind_bytes = 0
    run.clock.pump([0.02] * 5)
    assert player.finished
    run.close()


def test_a_file_that_ends_badly_stops_the_exchange_with_a_reason(tmp_path: Path) -> None:
    run = player_run(tmp_path)
    (tmp_path / "trace.csv").write_bytes(b"1,1,B,5,100\n" + b"\xff\xfe")
    play(run, tmp_path / "trace.csv", paced=False)
    run.clock.pump([0.0] * 5)
    assert len(run.failed) == 1
    run.close()
