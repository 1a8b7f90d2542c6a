"""Checks of every simulation's directory and result."""

from __future__ import annotations

from pathlib import Path

import msgspec

from deltabook.audit import Ledger, replay_private_streams
from deltabook.backtest import Result
from deltabook.wire.text import Response
from exchange_server.journal.history import History
from exchange_server.journal.verification import verify
from exchange_server.matching import AnyInput, Market, MarketRules, Now, OpenAccount, Silence
from exchange_server.matching.order import HIDDEN, Order
from exchange_server.outputs import all_outputs
from tests.property.exchange.driving import Pair

__all__ = ["check_accounts", "check_journal", "check_lots", "check_market", "inputs_of"]

_SAID = "said"


def inputs_of(directory: Path) -> tuple[MarketRules, list[AnyInput]]:
    """Return the rules and inputs of a journal."""
    reader = History(directory, all_outputs).reader
    return reader.head.rules, [item for _, batch in reader.batches(0) for item in batch]


def check_journal(directory: Path, result: Result) -> None:
    """Check that the streams and snapshots follow from the inputs, and that the result has the same counts."""
    found = verify(directory, all_outputs)
    assert found.problems == ()
    assert found.inputs == result.figures.records
    assert found.messages["text"] == result.figures.feed_messages


def check_market(rules: MarketRules, inputs: list[AnyInput]) -> None:
    """Check that the independent market has the same outputs, and at intervals the same state; and that times rise."""
    pair = Pair(rules)
    last_ns = 0
    for number, item in enumerate(inputs):
        assert item.time_ns > last_ns, f"expected a time after {last_ns}, was {item}"
        last_ns = item.time_ns
        given = msgspec.structs.replace(item, protocol=_SAID) if isinstance(item, OpenAccount) else item
        pair.apply(given)
        if number % 500 == 0:
            pair.check()
    pair.check()


class _Lots(Silence):
    """Adds up the displayed and the traded lots, from the calls of the feed."""

    def __init__(self) -> None:
        self.shown: dict[int, int] = {}

    def added(self, order: Order) -> None:
        assert order.feed_id not in self.shown, f"expected {order} once"
        self.shown[order.feed_id] = order.volume

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self._less(order, volume)

    def reduced(self, order: Order, volume: int) -> None:
        self._less(order, volume)

    def deleted(self, order: Order, volume: int) -> None:
        self._less(order, volume)

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self._less(order, volume)

    def replaced(self, old: Order, order: Order) -> None:
        self._less(old, old.volume)
        self.added(order)

    def _less(self, order: Order, volume: int) -> None:
        left = self.shown[order.feed_id] - volume
        assert left >= 0, f"expected {order} to have {volume} lots on display, was {left + volume}"
        if left:
            self.shown[order.feed_id] = left
        else:
            del self.shown[order.feed_id]


def check_lots(rules: MarketRules, inputs: list[AnyInput], *, is_over: bool) -> None:
    """Check that no lot is shown, executed or cancelled twice, and that none is left at the end of the day."""
    lots = _Lots()
    market = Market(rules, (lots,), (), Now())
    for item in inputs:
        market.apply(item)
    market._check()
    live = {
        order.feed_id: order.volume
        for book in market.books.values()
        for order in book.resting()
        if not order.flags & HIDDEN
    }
    assert lots.shown == live
    if is_over:
        assert all(book.phase == "closed" for book in market.books.values())
        assert live == {}
        assert market.live_orders == 0


def check_accounts(directory: Path, result: Result) -> None:
    """Check that each strategy's result agrees with the exchange's messages to it."""
    ledgers = {strategy.broker_id: Ledger() for strategy in result.strategies}

    def take(broker: int, message: Response) -> None:
        ledgers[broker].take(message)

    replay_private_streams(directory, ledgers, take)
    for strategy in result.strategies:
        ledger = ledgers[strategy.broker_id]
        assert ledger.problems == []
        assert ledger.live == {}
        assert ledger.fills == strategy.orders.fills
        held = {symbol: lots for symbol, lots in strategy.position_lots.items() if lots}
        assert held == {symbol: lots for symbol, lots in ledger.positions.items() if lots}
        orders = [order for order in result.order_lives if order.strategy == strategy.name]
        assert len(orders) == strategy.orders.submitted
        assert all(0 <= order.filled_lots <= order.volume_lots for order in orders)
        assert all(order.ended_ns for order in orders), "expected every order to have ended with the day"
        assert sum(order.filled_lots for order in orders) == strategy.orders.filled_lots
        assert strategy.profit == strategy.realised + strategy.unrealised - strategy.fees
