"""The real market and the model, side by side."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from exchange_server.matching.inputs import AnyInput, MarketRules
from exchange_server.matching.market import Market
from exchange_server.matching.order import Account, Order
from exchange_server.matching.outputs import Now
from tests.generators.exchange_requests import START_NS, RequestFlow, opening_requests, random_rules
from tests.model.market import ModelMarket
from tests.model.said import Said, SaidFeed, SaidProtocol

__all__ = ["Pair", "run_flow"]


class Pair:
    """Applies each request to both, and asserts that both say the same and hold the same."""

    def __init__(self, rules: MarketRules) -> None:
        now, model_now = Now(), Now()
        self.feed, self._model_feed = SaidFeed(now), SaidFeed(model_now)
        self.protocol, self._model_protocol = SaidProtocol(), SaidProtocol()
        self.market = Market(rules, [self.feed], [self.protocol], now)
        self.model = ModelMarket(rules, self._model_feed, {"said": self._model_protocol}, model_now)
        self.said = 0
        """Events that were compared."""

    def apply(self, item: AnyInput) -> None:
        """One request to both."""
        result, expected = self.market.apply(item), self.model.apply(item)
        where = f"{item} in {self.market.rules}"
        _expect_same(f"feed of {where}", self.feed.said, self._model_feed.said)
        self.said += len(self.feed.said)
        self.feed.said, self._model_feed.said = [], []
        for name, teller in self._model_protocol.tellers.items():
            real = self.protocol.tellers[name]
            if real.said or teller.said:
                _expect_same(f"what {name} is told of {where}", real.said, teller.said)
                self.said += len(real.said)
                real.said, teller.said = [], []
        assert result == expected, f"expected {expected} from {where}, was {result}"

    def check(self) -> None:
        """Both hold the same, and the real one its invariants."""
        market, model = self.market, self.model
        market._check()
        for book in model.books:
            real = market.books[book.instrument.symbol]
            assert real.phase == book.phase
            assert real.last_trade_ticks == book.last_trade_ticks
            resting = book.by_priority("B") + book.by_priority("S")
            _expect_same(f"book of {real.symbol}", list(map(_words, real.resting())), list(map(_words, resting)))
            waiting = sorted(book.waiting, key=lambda order: order.order_id)
            _expect_same(
                f"what waits in {real.symbol}", list(map(_words, real.waiting.values())), list(map(_words, waiting))
            )
        _expect_same("accounts", _accounts(market), _model_accounts(model))
        figures = (market.live_orders, market.next_order_id, market.next_match_id, market.trades, market.inputs)
        live = sum(1 for _ in model.live())
        assert figures == (live, model.next_order_id, model.next_match_id, model.trades, model.inputs)
        assert market.last_time_ns == model.now.time_ns
        assert market.replay_position == model.recording.position
        assert {name: n for name, n in market.replay_counts.items() if n} == dict(model.recording.counts)


def run_flow(seed: int, requests: int, *, every: int = 1, on_step: Callable[[Pair], None] | None = None) -> Pair:
    """A seed's market and requests; both are compared in full every so many of them."""
    chance = random.Random(seed)
    rules = random_rules(chance)
    pair = Pair(rules)
    accounts = opening_requests(chance, START_NS)
    flow = RequestFlow(chance, rules, accounts, START_NS + 1_000)
    try:
        for item in accounts:
            pair.apply(item)
        for number in range(requests):
            pair.apply(flow.next(list(pair.model.live())))
            if number % every == 0:
                pair.check()
                if on_step is not None:
                    on_step(pair)
        pair.check()
    except Exception as error:
        error.add_note(f"seed {seed}, request {pair.model.inputs}")
        raise
    return pair


def _words(order: Order) -> Said:
    """All that an order is, but for what never changes in it."""
    return (
        order.order_id, order.feed_id, order.side, order.price_ticks, order.volume, order.reserve, order.broker_id,
        order.account, order.ref, order.flags, order.display, order.stop_ticks, order.expire_ns, order.executed,
    )  # fmt: skip


def _accounts(market: Market) -> list[Said]:
    return [
        (a.name, a.broker_id, a.limits, a.self_trade, a.killed, a.last_ref, _ids(a), a.bucket, a.bucket_ns)
        for a in market.accounts[1:]
    ]


def _ids(account: Account) -> dict[int | bytes, int]:
    return {ref: order.order_id for ref, order in account.orders.items()}


def _model_accounts(model: ModelMarket) -> list[Said]:
    live: dict[int, dict[int | bytes, int]] = {}
    for order in model.live():
        live.setdefault(order.account, {})[order.ref] = order.order_id
    return [
        (
            a.name,
            a.broker_id,
            a.limits,
            a.self_trade,
            a.killed,
            a.last_ref,
            live.get(a.index, {}),
            a.bucket,
            a.bucket_ns,
        )
        for a in model.accounts
    ]


def _expect_same(what: str, real: Sequence[Said], expected: Sequence[Said]) -> None:
    if real == expected:
        return
    at = next((n for n, (one, other) in enumerate(zip(real, expected, strict=False)) if one != other), None)
    at = min(len(real), len(expected)) if at is None else at
    ours, theirs = "\n    ".join(map(str, real)), "\n    ".join(map(str, expected))
    raise AssertionError(f"{what}: differs from {at} on\n  market\n    {ours}\n  model\n    {theirs}")
