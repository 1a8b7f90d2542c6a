"""Desks that trade with each other at a real exchange, one message at a time; their files are on disk."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from algo_engine.desk.desk import Desk
from algo_engine.desk.fees import FeeSchedule, parse_fees
from algo_engine.desk.journal import JOURNAL, FileJournal
from algo_engine.desk.order import Side
from algo_engine.desk.risk import RiskGate
from algo_engine.desk.trades import SPOOL, FileSpool
from algo_engine.views.quotes import Quotes
from deltabook.wire.symbols import Instrument
from deltabook.wire.text import Accepted, OrderOptions, parse_request, parse_response
from exchange_server.journal.streams import private_name
from exchange_server.matching.inputs import Bust, MarketRules, OpenAccount
from exchange_server.text.protocol import account_name, input_of
from tests.generators.exchange_requests import START_NS
from tests.generators.journals import open_exchange
from tests.generators.order_lab import LIMITS, quote_change

__all__ = ["FEES", "AuditFloor"]

FEES = parse_fees("maker=-1500,taker=3000;GLOBEX:taker_per_lot=2")
SYMBOLS = ("ACME", "GLOBEX")
DESKS = {"first": 9001, "second": 9002}


class AuditFloor:
    """An exchange in ``exchange`` and two strategies' desks in ``algo``."""

    def __init__(self, path: Path, seed: int, fees: FeeSchedule = FEES, compact_bytes: int = 1 << 30) -> None:
        self.path, self.chance = path, random.Random(seed)
        self.algo, self.market = path / "algo", path / "exchange"
        self.exchange = open_exchange(self.market, MarketRules(instruments=tuple(map(Instrument, SYMBOLS))))
        self.time_ns = START_NS
        self.clock: Any = Clock()
        self.heard = dict.fromkeys(DESKS, 0)
        self.desks = {name: self._desk(name, broker, fees, compact_bytes) for name, broker in DESKS.items()}
        for name, broker in DESKS.items():
            self.exchange.submit([OpenAccount(self._now(), account_name(broker), "text", broker)])
            self.desks[name].opened(Accepted("SESSION1", 1, 0), self._take)

    def trade(self, steps: int) -> None:
        """Make random requests, each carried out and answered at once."""
        for _ in range(steps):
            self._step(self.desks[self.chance.choice(list(DESKS))])
            self.clock.advance(0)
            self.hear()

    def declare_void(self, match: int) -> None:
        """Declare a match void, like an operator."""
        market = self.exchange.market
        parties = market.shared.parties(match)
        symbol = market.rules.instruments[parties[0].locate - 1].symbol
        self.exchange.submit([Bust(self._now(), match, symbol, parties)])
        self.hear()

    def hear(self) -> None:
        """Pass the exchange's new messages to the desks."""
        for name, desk in self.desks.items():
            path = self.market / private_name(account_name(desk.broker_id), "text")
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
            for line in lines[self.heard[name] :]:
                desk.receive(parse_response(line))
            self.heard[name] = len(lines)

    def close(self) -> None:
        """Write everything to disk and close."""
        for desk in self.desks.values():
            desk.close()
        self.exchange.close()

    def _step(self, desk: Desk) -> None:
        orders = desk.blotter.open_orders()
        what = self.chance.choice(["limit"] * 4 + ["market", "ioc", "cancel", "reduce", "replace", "replace"])
        symbol, lots = self.chance.choice(SYMBOLS), self.chance.randint(1, 9)
        side, price = self.chance.choice(list(Side)), self.chance.randint(96, 104)
        if what == "limit":
            desk.submit(side, symbol, lots, price)
        elif what == "market":
            desk.submit(side, symbol, lots, 0)
        elif what == "ioc":
            desk.submit(side, symbol, lots, price, OrderOptions(immediate=True))
        elif orders:
            target = self.chance.choice(orders).client_id
            if what == "cancel":
                desk.cancel(target)
            elif what == "reduce":
                desk.reduce(target, lots)
            else:
                desk.replace(target, lots, price)

    def _desk(self, name: str, broker: int, fees: FeeSchedule, compact_bytes: int) -> Desk:
        quotes = Quotes()
        for symbol in SYMBOLS:
            quotes.apply(quote_change(symbol))
        folder = self.algo / name
        return Desk(
            broker_id=broker,
            journal=FileJournal(folder / JOURNAL),
            spool=FileSpool(folder / SPOOL, name, broker),
            gate=RiskGate(LIMITS, lambda: self.time_ns),
            quotes=quotes,
            clock=self.clock,
            listener=lambda event: None,
            on_failure=_raise,
            fees=fees,
            compact_bytes=compact_bytes,
        )

    def _take(self, data: bytes) -> None:
        for line in data.splitlines(keepends=True):
            request = parse_request(line)
            account = self.exchange.market.account_named(account_name(request.broker_id))
            assert account is not None
            self.exchange.submit([input_of(request, account, self._now())])

    def _now(self) -> int:
        self.time_ns += 1_000
        return self.time_ns


def _raise(error: Exception) -> None:
    raise error
