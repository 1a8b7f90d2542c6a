"""The newest trades are read from the end of either form of the feed, and are the same in both."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from deltabook.wire.admin import MOST_TRADES, LiveTrade
from deltabook.wire.symbols import Instrument
from exchange_server.admin import live as module
from exchange_server.admin.live import Tape
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.matching.inputs import Enter, MarketRules, Phase
from exchange_server.matching.order import HIDDEN
from exchange_server.matching.outputs import Now
from exchange_server.outputs import all_outputs
from tests.generators.exchange_requests import START_NS, RequestFlow, opening_requests

RULES = MarketRules(
    instruments=(Instrument("ACME"), Instrument("AC.E", "0.05", "10"), Instrument("BTC", "0.00000001", "0.001")),
)


class Floor:
    """An exchange whose feed is made in both forms."""

    def __init__(self, path: Path, rules: MarketRules = RULES) -> None:
        now = Now()
        encoders, protocols = all_outputs(rules, now)
        journal = Journal(path, rules, lambda: "SESSION1", "never")
        self.rules = rules
        self.exchange = Exchange(journal, MarketClock(Clock().seconds, START_NS), encoders, protocols, now)
        self.text = Tape({"text": self.exchange.feeds["text"]})
        self.itch = Tape({"itch": self.exchange.feeds["itch"]})

    def enter(self, side: str, volume: int, price: int, symbol: str = "ACME", flags: int = 0) -> None:
        self.exchange.submit([Enter(self.exchange.next_time_ns(), 0, 4, 0, symbol, side, volume, price, flags)])

    def trade(self, volume: int, price: int, symbol: str = "ACME") -> None:
        self.enter("B", volume, price, symbol)
        self.enter("S", volume, price, symbol)

    def trades(self, tape: Tape, symbol: str = "ACME", after: int = 0) -> list[LiveTrade]:
        book: Any = self.exchange.market.books[symbol]
        return tape.trades(self.rules.instruments[book.locate - 1], book, after)

    def both(self, symbol: str = "ACME") -> list[tuple[str | None, str]]:
        """Price and quantity of each trade, which both forms tell alike."""
        text, itch = self.trades(self.text, symbol), self.trades(self.itch, symbol)
        assert [(trade.day_ns, trade.price, trade.quantity) for trade in text] == [
            (trade.day_ns, trade.price, trade.quantity) for trade in itch
        ]
        return [(trade.price, trade.quantity) for trade in text]


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(tmp_path)
    yield floor
    floor.exchange.close()


def test_trades_are_the_symbols_in_decimals_oldest_first(floor: Floor) -> None:
    floor.trade(5, 10_000)
    floor.trade(3, 2_001, "AC.E")
    floor.trade(7, 9_999)
    assert floor.both() == [("100.00", "5"), ("99.99", "7")]
    assert floor.both("AC.E") == [("100.05", "30")]


def test_each_part_of_a_large_order_trades_at_the_resting_price(floor: Floor) -> None:
    floor.enter("S", 2, 100)
    floor.enter("S", 4, 102)
    floor.enter("S", 9, 101, flags=HIDDEN)
    floor.enter("B", 12, 102)
    assert floor.both() == [("1.00", "2"), ("1.01", "9"), ("1.02", "1")]


def test_an_auction_is_one_trade(floor: Floor) -> None:
    floor.exchange.submit([Phase(floor.exchange.next_time_ns(), "ACME", "auction-halt")])
    for volume in (1, 2, 3):
        floor.trade(volume, 100)
    floor.exchange.submit([Phase(floor.exchange.next_time_ns(), "ACME", "continuous")])
    assert floor.both() == [("1.00", "6")]


def test_an_instrument_that_itch_cannot_say_has_no_trades_in_it(floor: Floor) -> None:
    floor.trade(5, 6_000_000_000_000_000_001, "BTC")
    assert [(t.price, t.quantity) for t in floor.trades(floor.text, "BTC")] == [("60000000000.00000001", "0.005")]
    assert floor.trades(floor.itch, "BTC") == []


def test_trades_that_are_known_are_left_out(floor: Floor) -> None:
    floor.trade(5, 100)
    for tape in (floor.text, floor.itch):
        (known,) = floor.trades(tape)
        assert floor.trades(tape, after=known.number) == []
        assert floor.trades(tape, after=10**18) == []
    after = floor.text.messages, floor.itch.messages
    floor.trade(6, 100)
    for tape, number in zip((floor.text, floor.itch), after, strict=True):
        assert [trade.quantity for trade in floor.trades(tape, after=number)] == ["6"]


def test_counts_of_trades_and_of_messages_read_are_bounded(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    for volume in range(1, 71):
        floor.trade(volume, 100)
    assert [int(quantity) for _, quantity in floor.both()] == list(range(71 - MOST_TRADES, 71))
    monkeypatch.setattr(module, "MOST_LINES", 8)
    monkeypatch.setattr(module, "MOST_PACKETS", 8)
    assert [int(quantity) for _, quantity in floor.both()] == [67, 68, 69, 70]


def test_fields_absent_in_itch_executions_are_looked_up(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    floor.enter("B", 5, 100)
    floor.enter("S", 2, 100)
    monkeypatch.setattr(module, "MOST_PACKETS", 1)
    assert [(trade.price, trade.quantity) for trade in floor.trades(floor.itch)] == [("1.00", "2")]
    floor.enter("S", 3, 100)
    assert [(trade.price, trade.quantity) for trade in floor.trades(floor.itch)] == [(None, "3")]


@pytest.mark.parametrize("seed", range(6))
def test_both_forms_tell_the_same_trades_of_any_market(tmp_path: Path, seed: int) -> None:
    floor = Floor(tmp_path, MarketRules(instruments=RULES.instruments[:2]))
    chance, market = random.Random(seed), floor.exchange.market
    accounts = opening_requests(chance, START_NS, ("text",))
    floor.exchange.submit(accounts)
    flow = RequestFlow(chance, floor.rules, accounts, START_NS + 100)
    for _ in range(600):
        orders = [order for book in market.books.values() for order in book.orders.values()]
        floor.exchange.submit([flow.next(orders)])
    assert market.trades
    for symbol in market.books:
        floor.both(symbol)
    floor.exchange.close()


def test_an_exchange_without_a_feed_has_no_trades() -> None:
    tape = Tape({})
    assert (tape.messages, tape.trades(RULES.instruments[0], None)) == (0, [])
