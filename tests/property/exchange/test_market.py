"""The market says and holds exactly what a slow, obvious one does, whatever it is asked."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltabook.wire.symbols import Instrument
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules, OpenAccount
from exchange_server.matching.market import Market
from exchange_server.matching.outputs import Now
from tests.generators.exchange_requests import (
    START_NS,
    Request,
    RequestFlow,
    inputs_of,
    opening_requests,
    random_rules,
    request_lists,
)
from tests.harness.examples import examples
from tests.model.market import ModelMarket
from tests.model.said import Said, SaidFeed, SaidProtocol
from tests.property.exchange.driving import Pair, run_flow

FEW_SEEDS, FEW_REQUESTS = 50, 400
MANY_SEEDS, MANY_REQUESTS, PARTS = 2_600, 500, 13


def test_20_000_requests_of_every_kind_equal_the_model() -> None:
    said = sum(run_flow(seed, FEW_REQUESTS, every=4).said for seed in range(FEW_SEEDS))
    assert said > FEW_SEEDS * FEW_REQUESTS / 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_more_than_a_million_requests(part: int) -> None:
    size = MANY_SEEDS // PARTS
    for seed in range(1_000 + part * size, 1_000 + (part + 1) * size):
        run_flow(seed, MANY_REQUESTS, every=25)


@pytest.mark.parametrize("self_trade", ["allow", "newest", "oldest", "both", "decrement"])
@given(
    requests=request_lists,
    collar_bps=st.sampled_from([0, 0, 100]),
    opens_with_auction=st.booleans(),
    brokers=st.sampled_from([(1, 2, 3), (1, 1, 2)]),
)
@settings(max_examples=examples(150), deadline=None)
def test_short_lists_of_requests(
    self_trade: str, requests: list[Request], collar_bps: int, opens_with_auction: bool, brokers: tuple[int, ...]
) -> None:
    rules = MarketRules(
        instruments=(Instrument("ACME", reference_price_ticks=100),),
        collar_bps=collar_bps,
        opens_with_auction=opens_with_auction,
    )
    pair = Pair(rules)
    accounts = [
        OpenAccount(START_NS + number, f"text:{number}", "said", broker, self_trade=self_trade)  # type: ignore[arg-type]
        for number, broker in enumerate(brokers, 1)
    ]
    for item in [*accounts, *inputs_of(requests, START_NS + 1_000, brokers)]:
        pair.apply(item)
        pair.check()


def requests_of_seed(seed: int, count: int) -> tuple[MarketRules, list[AnyInput]]:
    """The requests of a seed without a real market: the model knows which orders there are."""
    chance = random.Random(seed)
    rules, now = random_rules(chance), Now()
    model = ModelMarket(rules, SaidFeed(now), {"said": SaidProtocol()}, now)
    inputs: list[AnyInput] = list(opening_requests(chance, START_NS))
    flow = RequestFlow(chance, rules, [item for item in inputs if isinstance(item, OpenAccount)], START_NS + 1_000)
    for item in inputs:
        model.apply(item)
    for _ in range(count):
        inputs.append(flow.next(list(model.live())))
        model.apply(inputs[-1])
    return rules, inputs


class Listened:
    """A market and all that it says."""

    def __init__(self, rules: MarketRules, state: bytes = b"") -> None:
        now = Now()
        self.feed, self.protocol = SaidFeed(now), SaidProtocol()
        if state:
            self.market = Market.restore(rules, state, [self.feed], [self.protocol], now)
        else:
            self.market = Market(rules, [self.feed], [self.protocol], now)

    def apply(self, items: list[AnyInput]) -> list[int | str]:
        return [self.market.apply(item) for item in items]

    def said(self) -> tuple[list[Said], dict[str, list[Said]]]:
        return self.feed.said, {name: teller.said for name, teller in self.protocol.tellers.items()}


@pytest.mark.parametrize("seed", range(40))
def test_a_restored_market_has_the_same_future(seed: int) -> None:
    rules, inputs = requests_of_seed(seed, 300)
    at = random.Random(seed).randrange(len(inputs))
    whole = Listened(rules)
    whole.apply(inputs[:at])
    restored = Listened(rules, whole.market.state())
    restored.market._check()
    assert restored.market.state_hash() == whole.market.state_hash()
    assert restored.market.state() == whole.market.state()
    feed, told = whole.said()
    feed.clear()
    for said in told.values():
        said.clear()
    assert restored.apply(inputs[at:]) == whole.apply(inputs[at:])
    assert restored.said() == whole.said()
    assert restored.market.state_hash() == whole.market.state_hash()
    restored.market._check()


@pytest.mark.parametrize("seed", range(40, 60))
def test_the_state_hash_follows_from_the_requests_alone(seed: int) -> None:
    rules, inputs = requests_of_seed(seed, 200)
    listened = Listened(rules)
    hashes = set()
    for item in inputs:
        listened.market.apply(item)
        hashes.add(listened.market.state_hash())
    assert len(hashes) > len(inputs) * 0.9
    again = Market(rules, [], [SaidProtocol()])
    for item in inputs:
        again.apply(item)
    assert again.state_hash() == listened.market.state_hash()


def test_the_generator_asks_for_everything() -> None:
    kinds, flags = set(), 0
    for seed in range(30):
        for item in requests_of_seed(seed, 200)[1]:
            kinds.add(type(item).__name__)
            flags |= item.flags if isinstance(item, Enter) else 0
    assert kinds == {
        "OpenAccount", "Enter", "Reduce", "Cancel", "Replace", "MassCancel", "Kill", "Phase", "Tick", "Bust",
        "Recorded", "Wire",
    }  # fmt: skip
    assert flags == (1 << 11) - 1 - (1 << 1)
