"""Agents: determined by seed, clock and journal, bounded, and at home in a market that halts and restarts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
import pytest

from exchange_server.agents import (
    PRESETS,
    ActivitySettings,
    AgentFlow,
    AgentSettings,
    LargeSettings,
    MomentumSettings,
    NoiseSettings,
    ValueSettings,
)
from exchange_server.agents.settings import MakerSettings
from exchange_server.agents.traders import Informed, Large, Maker, Momentum, Noise, Value
from exchange_server.agents.view import RequestBatch, View
from exchange_server.config import DEFAULT_INSTRUMENTS
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.matching.inputs import Cancel, Enter, MarketRules, Phase, Replace
from exchange_server.matching.market import Market
from exchange_server.matching.order import IOC, MARKET
from tests.generators.flow_run import FlowRun

RULES = MarketRules(instruments=DEFAULT_INSTRUMENTS)
replace = msgspec.structs.replace


class Stall:
    """A view of one book, and what a trader asks for."""

    def __init__(self, *orders: tuple[str, int, int]) -> None:
        self.market = Market(MarketRules(instruments=DEFAULT_INSTRUMENTS[:1]))
        for time, (side, volume, price) in enumerate(orders, 1):
            self.market.apply(Enter(time, 0, 99, 0, "ACME", side, volume, price))
        self.view = View(self.market.books["ACME"], DEFAULT_INSTRUMENTS[0], 2.0)
        self.random = Random(1)

    def batch(self) -> RequestBatch:
        self.view.look()
        batch = RequestBatch(self.market.last_time_ns + 1)
        batch.view = self.view
        return batch

    def submit(self, batch: RequestBatch) -> None:
        for item, owner in zip(batch.inputs, batch.owners, strict=True):
            order_id = self.market.apply(item)
            if owner is not None and order_id:
                assert isinstance(order_id, int)
                owner.rested(order_id)


def two_sided() -> Stall:
    return Stall(("B", 100, 9_990), ("S", 100, 10_010))


def agent_feed(path: Path, seed: int, settings: AgentSettings | None = None, seconds: int = 3) -> bytes:
    run = FlowRun(path, RULES)
    run.agents(seed, settings)
    run.clock.pump([0.01] * (seconds * 100))
    return run.close()


@pytest.mark.parametrize("preset", PRESETS)
def test_agents_keep_rate_and_two_sided_bounded_books(tmp_path: Path, preset: str) -> None:
    run = FlowRun(tmp_path, RULES)
    run.agents(settings=PRESETS[preset])
    for second in range(1, 9):
        run.clock.pump([0.01] * 100)
        run.market._check()
        for instrument in DEFAULT_INSTRUMENTS:
            book = run.market.books[instrument.symbol]
            bid, ask = book.best("B"), book.best("S")
            assert bid, (second, instrument.symbol)
            assert ask, (second, instrument.symbol)
            assert ask - bid < 0.02 * instrument.reference_price_ticks
            assert abs(bid - instrument.reference_price_ticks) < 0.2 * instrument.reference_price_ticks
            assert len(book) <= 500
    assert abs(run.exchange.inputs - 16_000) < 500
    assert run.market.trades > 300
    assert run.failed == []
    run.close()


def test_after_a_restart_agents_go_on_with_the_orders_they_have(tmp_path: Path) -> None:
    agent_feed(tmp_path, 1)
    run = FlowRun(tmp_path, RULES)
    live = run.market.live_orders
    flow = run.agents()
    kept = 0
    for population in flow.populations:
        for _, trader in population._turns:
            if isinstance(trader, Noise):
                kept += len(trader.patient) + len(trader.fleeting)
            elif isinstance(trader, Maker):
                kept += sum(quote.order_id > 0 for quote in trader.quotes)
    assert kept == live > 100
    run.clock.pump([0.01] * 500)
    run.market._check()
    assert run.market.live_orders < 1500
    run.close()


def test_orders_of_agents_with_other_settings_are_cancelled(tmp_path: Path) -> None:
    many = replace(AgentSettings(), makers=MakerSettings(brokers=9, levels=9))
    agent_feed(tmp_path, 1, many)
    run = FlowRun(tmp_path, RULES)
    orders = dict(run.market.books["ACME"].orders)
    run.agents()
    run.clock.pump([0.01] * 1_500)
    assert len(orders.keys() & run.market.books["ACME"].orders.keys()) < len(orders) / 2
    run.close()


def test_agents_are_quiet_in_a_halt_and_offer_in_an_auction(tmp_path: Path) -> None:
    run = FlowRun(tmp_path, RULES)
    run.agents()
    run.clock.pump([0.01] * 100)
    run.submit([Phase(run.exchange.next_time_ns(), "", "halted")])
    inputs = run.exchange.inputs
    run.clock.pump([0.01] * 100)
    assert run.exchange.inputs == inputs
    run.submit([Phase(run.exchange.next_time_ns(), "", "auction-halt")])
    run.clock.pump([0.01] * 100)
    assert run.exchange.inputs > inputs + 1000
    assert run.market.trades < run.market.orders
    run.submit([Phase(run.exchange.next_time_ns(), "", "continuous")])
    trades = run.market.trades
    run.clock.pump([0.01] * 100)
    assert run.market.trades > trades
    run.market._check()
    run.close()


def test_turns_are_counted_with_and_without_requests(tmp_path: Path) -> None:
    """In a halt every trader passes, until each wanted request has had four turns."""
    run = FlowRun(tmp_path, RULES)
    flow = run.agents()
    sent = flow.step(10)
    turns = flow.turns
    assert sent > 0
    assert turns > 0
    for symbol in run.market.books:
        run.exchange.submit([Phase(run.exchange.next_time_ns(), symbol, "halted")])
    assert flow.step(10) == 0
    assert flow.turns == turns + 40
    run.close()


def test_a_fleeting_order_goes_when_there_are_enough() -> None:
    stall = two_sided()
    noise = Noise(NoiseSettings(fleeting=1.0, market=0.0, fleeting_orders=2), range(4, 6), 100)
    asked = []
    for _ in range(6):
        batch = stall.batch()
        noise.act(stall.view, stall.random, batch)
        stall.submit(batch)
        asked += [type(item) for item in batch.inputs]
    assert asked == [Enter, Enter, Cancel, Enter, Cancel, Enter]
    assert len(noise.fleeting) == 2


def test_fleeting_orders_stand_inside_the_touch_and_never_trade() -> None:
    stall = two_sided()
    noise = Noise(NoiseSettings(fleeting=1.0, market=0.0, fleeting_orders=500), range(4, 6), 100)
    for _ in range(200):
        batch = stall.batch()
        noise.act(stall.view, stall.random, batch)
        for item in batch.inputs:
            assert isinstance(item, Enter)
            assert 9_990 <= item.price_ticks <= 10_010
            assert item.price_ticks < stall.view.ask if item.side == "B" else item.price_ticks > stall.view.bid
        stall.submit(batch)
    assert stall.market.trades == 0


def test_patient_orders_keep_their_number() -> None:
    stall = two_sided()
    noise = Noise(NoiseSettings(fleeting=0.0, market=0.0, patient_orders=20), range(4, 6), 100)
    for _ in range(2000):
        batch = stall.batch()
        noise.act(stall.view, stall.random, batch)
        stall.submit(batch)
    assert 10 < len(noise.patient) < 30


def test_a_maker_fills_its_ladder_and_moves_it_after_a_surprise() -> None:
    stall = two_sided()
    maker = Maker(MakerSettings(levels=3, half_spread_steps=20, jitter_steps=0.0), 1, 100)
    for _ in range(6):
        batch = stall.batch()
        maker.act(stall.view, stall.random, batch)
        stall.submit(batch)
    quotes = [stall.view.book.orders[quote.order_id] for quote in maker.quotes]
    assert [(order.side, order.price_ticks) for order in quotes] == [
        ("B", 9_960), ("S", 10_040), ("B", 9_940), ("S", 10_060), ("B", 9_910), ("S", 10_090),
    ]  # fmt: skip
    batch = stall.batch()
    maker.act(stall.view, stall.random, batch)
    assert batch.inputs == [], "nothing stands wrong"
    stall.view.book.last_trade_ticks = 10_200
    for _ in range(20):
        batch = stall.batch()
        maker.act(stall.view, stall.random, batch)
        stall.submit(batch)
        assert all(isinstance(item, Replace | Enter) for item in batch.inputs)
    assert stall.view.book.orders[maker.quotes[0].order_id].price_ticks > 9_960


def test_a_maker_asks_for_a_quote_once_in_a_batch() -> None:
    stall = two_sided()
    maker = Maker(MakerSettings(levels=2), 1, 100)
    batch = stall.batch()
    for _ in range(20):
        maker.act(stall.view, stall.random, batch)
    assert len(batch.inputs) == 4
    stall.submit(batch)
    assert {quote.order_id for quote in maker.quotes} == {3, 4, 5, 6}


def test_a_maker_never_takes() -> None:
    stall = two_sided()
    maker = Maker(MakerSettings(levels=2, half_spread_steps=1, jitter_steps=0.0), 1, 100)
    maker._believed = 10_500.0
    for _ in range(4):
        batch = stall.batch()
        maker.act(stall.view, stall.random, batch)
        stall.submit(batch)
    assert stall.market.trades == 0
    assert stall.market.live_orders == 6


def test_a_maker_bids_nothing_below_an_ask_of_one_step() -> None:
    stall = Stall(("S", 5, 1))
    maker = Maker(MakerSettings(levels=2, jitter_steps=0.0), 1, 100)
    for _ in range(6):
        batch = stall.batch()
        maker.act(stall.view, stall.random, batch)
        stall.submit(batch)
    assert stall.market.trades == 0
    assert {order.side for order in stall.view.book.orders.values()} == {"S"}


def test_momentum_follows_a_run_and_rests_without_one() -> None:
    stall = two_sided()
    momentum = Momentum(MomentumSettings(fast=0.5, slow=0.01, threshold_steps=3, clips=0.5), range(3, 4), 100)
    for _ in range(5):
        batch = stall.batch()
        momentum.act(stall.view, stall.random, batch)
        assert batch.inputs == []
    stall.view.mid = 10_100.0
    batch = RequestBatch(1)
    batch.view = stall.view
    momentum.act(stall.view, stall.random, batch)
    assert [(item.side, item.volume, item.flags) for item in batch.inputs if isinstance(item, Enter)] == [
        ("B", 50, MARKET)
    ]


@pytest.mark.parametrize(("value", "side", "limit"), [(10_050.0, "B", 10_048), (9_900.0, "S", 9_903)])
def test_informed_traders_take_up_to_the_value(value: float, side: str, limit: int) -> None:
    stall = two_sided()
    hidden = Value(ValueSettings(), value, 10_000, 2)
    informed = Informed(ValueSettings(edge_steps=1), range(5, 7), 100, hidden)
    batch = stall.batch()
    informed.act(stall.view, stall.random, batch)
    assert [(i.side, i.price_ticks, i.flags) for i in batch.inputs if isinstance(i, Enter)] == [(side, limit, IOC)]


def test_informed_traders_pass_when_there_is_nothing_to_gain() -> None:
    stall = two_sided()
    informed = Informed(ValueSettings(edge_steps=1), range(5, 7), 100, Value(ValueSettings(), 10_011.0, 10_000, 2))
    batch = stall.batch()
    informed.act(stall.view, stall.random, batch)
    assert batch.inputs == []


def test_the_value_moves_in_clusters_around_the_reference() -> None:
    random = Random(7)
    settings = ValueSettings(volatility_steps=0.5, volatility_spread=1.0, volatility_turns=500, return_turns=2_000)
    value, last, moves, seen = Value(settings, 10_000.0, 10_000, 2), 10_000.0, [], []
    for _ in range(20_000):
        value.advance(10, random)
        moves.append(abs(value.ticks - last))
        seen.append(value.ticks)
        last = value.ticks
    mean = sum(moves) / len(moves)
    spread = sum((move - mean) ** 2 for move in moves)
    memory = sum((a - mean) * (b - mean) for a, b in pairwise(moves)) / spread
    assert memory > 0.1
    assert abs(sum(seen) / len(seen) - 10_000) < 50
    value.ticks = 30_000.0
    for _ in range(2_000):
        value.advance(10, random)
    assert abs(value.ticks - 10_000) < 2_000


def large_slices(settings: LargeSettings, turns: int, taken_lots: int = 0) -> list[int]:
    stall = Stall(("B", 10**6, 9_990), ("S", 10**6, 10_010))
    large = Large(settings, range(4, 5), 100)
    slices = []
    for _ in range(turns):
        stall.view.taken_lots += taken_lots
        batch = stall.batch()
        large.act(stall.view, stall.random, batch)
        slices += [item.volume if isinstance(item, Enter) else -1 for item in batch.inputs]
        assert all(isinstance(item, Enter) and item.price_ticks in {9_990, 10_010} for item in batch.inputs)
        if slices and not large._left:
            break
    return slices


def test_a_large_order_is_sliced_equally_over_its_turns() -> None:
    slices = large_slices(LargeSettings(clips=100, slices=10, turns=50), 200)
    assert len(slices) in {10, 11}
    assert len(set(slices[:-1])) == 1
    waited = large_slices(LargeSettings(clips=100, slices=10, turns=50), 26)
    assert len(waited) == 5


def test_a_large_order_takes_its_part_of_the_volume() -> None:
    settings = LargeSettings(style="pov", clips=1_000, participation=0.1, turns=1, slices=1)
    slices = large_slices(settings, 20, taken_lots=500)
    assert set(slices) == {50}
    assert large_slices(settings, 20) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (replace(AgentSettings(), makers=MakerSettings(weight=0.0)), "expected makers"),
        (
            replace(AgentSettings(), noise=NoiseSettings(fleeting=0.7, market=0.7)),
            r"fleeting \+ market of at most 1, was 1.4",
        ),
        (replace(AgentSettings(), noise=NoiseSettings(nearest_steps=5, farthest_steps=4)), "farthest_steps"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: AgentSettings, words: str) -> None:
    with pytest.raises(ExchangeConfigurationError, match=words):
        settings.check()


@pytest.mark.parametrize("preset", PRESETS)
def test_settings_are_read_from_json_strictly(preset: str) -> None:
    data = msgspec.json.encode(PRESETS[preset])
    assert msgspec.json.decode(data, type=AgentSettings) == PRESETS[preset]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(data.replace(b'"clip_lots"', b'"clips_lot"'), type=AgentSettings)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"clip_lots": 0}', type=AgentSettings)


def delayed_run(path: Path, delay_s: float | None) -> tuple[FlowRun, AgentFlow]:
    """Five seconds of one symbol, whose agents' requests arrive later."""
    run = FlowRun(path, MarketRules(instruments=DEFAULT_INSTRUMENTS[:1]))
    flow = AgentFlow(
        run.exchange, DEFAULT_INSTRUMENTS[:1], run.clock, settings=PRESETS["calibrated"], seed=3, rate_per_s=1_000.0,
        stop=run.failed.append, delay_s=None if delay_s is None else lambda: delay_s,
    )  # fmt: skip
    flow.start()
    run.clock.pump([0.01] * 500)
    return run, flow


def test_agents_refuse_prices_beyond_exact_floats(tmp_path: Path) -> None:
    dear = replace(DEFAULT_INSTRUMENTS[0], reference_price_ticks=(1 << 53) + 1)
    run = FlowRun(tmp_path, MarketRules(instruments=(dear,)))
    with pytest.raises(
        ExchangeConfigurationError, match="up to 9007199254740992 ticks for agents, was 9007199254740993"
    ):
        AgentFlow(run.exchange, (dear,), run.clock, settings=PRESETS["lively"], seed=1, rate_per_s=1.0, stop=print)
    run.close()


def test_requests_arrive_when_their_delay_is_over(tmp_path: Path) -> None:
    """Later by it than those of the same agents without a delay, and in the order in which they were decided."""
    at_once, _ = delayed_run(tmp_path / "a", None)
    later, _ = delayed_run(tmp_path / "b", 0.03)
    at_once.close()
    later.close()
    assert later.failed == []
    first, first_later = at_once.inputs()[0].time_ns, later.inputs()[0].time_ns
    assert first_later - first == 30_000_000
    times = [item.time_ns for item in later.inputs()]
    assert times == sorted(set(times))
    assert len(times) > 4_000


def test_no_quote_is_sent_twice_while_it_is_under_way(tmp_path: Path) -> None:
    """A maker has no more orders in the book than it has rungs, however long its requests take."""
    run, _ = delayed_run(tmp_path, 0.05)
    makers = PRESETS["calibrated"].makers
    live: dict[int, int] = {}
    for order in run.market.books["ACME"].orders.values():
        live[order.broker_id] = live.get(order.broker_id, 0) + 1
    assert all(0 < live[broker_id] <= 2 * makers.levels for broker_id in range(1, makers.brokers + 1))
    run.close()


def test_each_large_trader_works_its_own_order(tmp_path: Path) -> None:
    settings = AgentSettings(
        large=LargeSettings(weight=0.3, brokers=3, turns=20), momentum=MomentumSettings(weight=0.3, brokers=2)
    )
    run = FlowRun(tmp_path, RULES)
    flow = run.agents(settings=settings)
    run.clock.pump([0.01] * 200)
    large = [trader for _, trader in flow.populations[0]._turns if isinstance(trader, Large)]
    assert len({id(trader) for trader in large}) == 3
    run.close()
    brokers = {item.broker_id for item in run.inputs() if isinstance(item, Enter)}
    # Two makers, two of momentum, three large, two informed, seven of noise.
    assert brokers == set(range(1, 17))


def test_bursts_change_the_pace_and_not_the_mean(tmp_path: Path) -> None:
    """Over a long time as many requests come, in some seconds many more."""
    counts: dict[float, list[int]] = {}
    for spread in (0.0, 1.0):
        run = FlowRun(tmp_path / str(spread), MarketRules(instruments=DEFAULT_INSTRUMENTS[:1]))
        flow = AgentFlow(
            run.exchange, DEFAULT_INSTRUMENTS[:1], run.clock, seed=1, rate_per_s=200.0, stop=run.failed.append,
            settings=AgentSettings(activity=ActivitySettings(spread=spread, turns=100)),
        )  # fmt: skip
        flow.start()
        seconds = []
        for _ in range(60):
            before = run.exchange.inputs
            run.clock.pump([0.01] * 100)
            seconds.append(run.exchange.inputs - before)
        counts[spread] = seconds
        run.close()
    assert max(counts[0.0]) - min(counts[0.0]) < 30
    assert max(counts[1.0]) > 400
    assert 0.7 < sum(counts[1.0]) / sum(counts[0.0]) < 1.4
