"""Market with random requests of every kind, and books built from its ITCH feed only."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from itch_book import _core

from deltabook.wire.itch import LARGEST_BROKER
from deltabook.wire.symbols import Instrument
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules, OpenAccount, Phase
from exchange_server.matching.market import Market
from exchange_server.matching.outputs import Now
from exchange_server.nasdaq.itch import ItchEncoder
from exchange_server.nasdaq.mold import framed_messages
from tests.generators.exchange_requests import START_NS, RequestFlow, opening_requests
from tests.model.said import SaidFeed, SaidProtocol

__all__ = ["PEER_RULES", "ItchMarket", "PeerBook", "Touch"]

Touch = tuple[int, int, int, int, int, int]
"""Price in ten-thousandths, shares and number of orders of the best bid, then of the best ask; zeros for none."""

PEER_RULES = MarketRules(
    (
        Instrument("ACME", reference_price_ticks=100),
        Instrument("FINE", "0.0001", reference_price_ticks=100),
        Instrument("GLOBEX", "0.0025", "100", reference_price_ticks=100),
    ),
    replay_symbols=("FINE",),
    replay_mode="as-recorded",
    outlier_factor=3,
    first_order_id=1_000_000,
    opens_with_auction=True,
)
"""Rules with three scales; one symbol follows a recording, whose executions have prices of their own."""

_PRINTS = {"executed", "traded", "printed", "cross"}


class ItchMarket:
    """Market that writes ITCH, and the same events as tuples."""

    def __init__(self, seed: int, rules: MarketRules = PEER_RULES) -> None:
        now = Now()
        self.chance = random.Random(seed)
        self.rules = rules
        self.encoder = ItchEncoder(rules, now)
        self._said = SaidFeed(now)
        self.market = Market(rules, [self.encoder, self._said], [SaidProtocol()], now)
        self.accounts: list[OpenAccount] = opening_requests(self.chance, START_NS)
        self._flow = RequestFlow(self.chance, rules, self.accounts, START_NS + 1_000)
        self.trades: list[tuple[int, int, int, int]] = []
        """Locate, price in ten-thousandths, shares and match number of all printable trades."""
        for account in self.accounts:
            self.market.apply(account)

    def request(self) -> AnyInput:
        """Return a random request, sometimes of a broker without attribution."""
        item = self._flow.next([order for book in self.market.books.values() for order in book.resting()])
        while isinstance(item, Phase) and item.phase == "closed":  # closed is final: nothing would be left to compare
            item = self._flow.next(())
        if isinstance(item, Enter) and not item.account and self.chance.random() < 0.2:
            fields = {name: getattr(item, name) for name in item.__struct_fields__}
            item = Enter(**{**fields, "broker_id": LARGEST_BROKER + 1})
        return item

    def step(self) -> bytes:
        """Apply one random request; return its packets."""
        self.market.apply(self.request())
        packets, _ = self.encoder.take()
        for name, _, *fields in self._said.said:
            if name in _PRINTS:
                self._print(str(name), fields)
        self._said.said.clear()
        return packets

    def _print(self, name: str, fields: list[Any]) -> None:
        if name == "executed":
            _, locate, _, volume, price, match = fields
        elif name == "cross":
            locate, volume, price, match, _ = fields
        else:
            locate, _, volume, price, match = fields
        units, shares = self.scale(locate)
        if price >= 0:  # a recording may have negative prices; the fields have no sign
            self.trades.append((locate, price * units, volume * shares, match))

    def scale(self, locate: int) -> tuple[int, int]:
        """Return the ten-thousandths of a tick, and the shares of a lot."""
        stock = self.encoder.stocks[locate]
        assert stock is not None
        return stock.tick_units, stock.lot_shares

    def touch(self, locate: int) -> Touch:
        """Return the best prices that the market displays."""
        book = self.market.book_at[locate]
        assert book is not None
        units, shares = self.scale(locate)
        found: list[int] = []
        for levels in (book.bids, book.asks):
            best = levels.best()
            orders = [] if best is None else list(levels[best].values())
            found += [(best or 0) * units, sum(order.volume for order in orders) * shares, len(orders)]
        one, two, three, four, five, six = found
        return one, two, three, four, five, six

    def displayed(self) -> dict[int, dict[str, Any]]:
        """Return all displayed orders in the form of `ItchBook`."""
        return {order.feed_id: fields for order, fields in self._displayed()}

    def _displayed(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        for book in self.market.books.values():
            units, shares = self.scale(book.locate)
            for levels in (book.bids, book.asks):
                for order in levels.in_priority():
                    broker = order.broker_id
                    yield (
                        order,
                        {
                            "stock": book.symbol,
                            "side": order.side,
                            "shares": order.volume * shares,
                            "price": order.price_ticks * units,
                            "attribution": str(broker) if broker < 10_000 else "",
                        },
                    )


class PeerBook:
    """Book builder of `itch-book`, an independent C++ library, fed message by message."""

    def __init__(self) -> None:
        self._session = _core.Session(["bbo", "trades"], 0, [])
        self._touch: dict[int, Touch] = {}
        self.trades: list[tuple[int, int, int, int]] = []
        """Trades, as `ItchMarket.trades`."""

    def take(self, packets: bytes) -> None:
        """Process whole sequenced packets."""
        self._session.feed(b"".join(framed_messages(packets)))
        bbo = self._session.take_bbo()
        columns = [bbo[name].tolist() for name in ("bid_px", "bid_sz", "bid_ct", "ask_px", "ask_sz", "ask_ct")]
        for locate, *best in zip(bbo["locate"].tolist(), *columns, strict=True):
            one, two, three, four, five, six = best
            self._touch[locate] = one, two, three, four, five, six
        trades = self._session.take_trades()
        columns = [trades[name].tolist() for name in ("kind", "locate", "px", "size", "match")]
        for kind, locate, price, size, match in zip(*columns, strict=True):
            if kind != ord("B"):
                self.trades.append((locate, price, size, match))

    def touch(self, locate: int) -> Touch:
        """Return the best prices, with shares and orders there."""
        return self._touch.get(locate, (0, 0, 0, 0, 0, 0))

    @property
    def figures(self) -> dict[str, Any]:
        """Counters of the library."""
        return dict(self._session.stats())

    def flaws(self) -> dict[str, int]:
        """Return the number of messages that the library could not apply, by kind."""
        kinds = ("unknown", "malformed", "missing_ref", "dup_ref", "rejected", "clamped", "pending_bytes")
        return {kind: self.figures[kind] for kind in kinds if self.figures[kind]}
