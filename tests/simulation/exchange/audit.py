"""Checks of everything that the exchange has ever published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from deltabook.wire import ouch5, ouch42, text
from deltabook.wire.soupbin import PacketSplitter
from exchange_server.exchange import Exchange
from exchange_server.journal import NumberedFile
from exchange_server.matching.inputs import AnyInput, MarketRules
from exchange_server.matching.market import Market
from exchange_server.matching.outputs import Now
from exchange_server.nasdaq.itch import ItchEncoder
from exchange_server.nasdaq.ouch.protocol5 import Ouch5
from exchange_server.nasdaq.ouch.protocol42 import Ouch42
from exchange_server.text.protocol import TextEncoder, TextProtocol
from tests.simulation.exchange.traders import UNITS_PER_TICK

__all__ = ["AuditError", "Ledger", "Shadow", "check_accounts", "check_feed", "text_ledger"]


class AuditError(AssertionError):
    """A check of the audit failed."""


def expect(condition: bool, text: str, *values: object) -> None:
    """Raise `AuditError` with the formatted text unless the condition holds."""
    if not condition:
        raise AuditError(text.format(*values))


class Shadow:
    """Model that applies the same inputs once, without faults: the expected contents of every stream."""

    def __init__(self, rules: MarketRules) -> None:
        now = Now()
        self._encoders = {"text": TextEncoder(rules, now), "itch": ItchEncoder(rules, now)}
        protocols = [TextProtocol(rules), Ouch5(rules), Ouch42(rules)]
        self.market = Market(rules, tuple(self._encoders.values()), protocols, now)
        self.feeds = {name: bytearray() for name in self._encoders}
        self.private: dict[str, bytearray] = defaultdict(bytearray)
        """Private streams by account."""
        self.inputs = 0

    def apply(self, history: list[AnyInput]) -> None:
        """Apply the new inputs of the history."""
        for item in history[self.inputs :]:
            expect(item.time_ns > self.market.last_time_ns, "{} is not later than what was before it", item)
            self.market.apply(item)
            for name, encoder in self._encoders.items():
                self.feeds[name] += encoder.take()[0]
            for teller in self.market.touched:
                self.private[teller.account.name] += teller.take()[0]
            self.market.touched.clear()
        self.inputs = len(history)

    def compare(self, exchange: Exchange, when: str) -> None:
        """Check that an exchange with the same inputs has the same state and streams, to the byte."""
        ours, theirs = exchange.market.state_hash(), self.market.state_hash()
        expect(ours == theirs, "{}: expected state {}, was {}", when, theirs, ours)
        for name, stream in exchange.feeds.items():
            _expect_records(f"{when}: feed {name}", stream.records, self.feeds[name])
        for account in exchange.market.accounts[1:]:
            records = exchange.stream(account).records
            _expect_records(f"{when}: stream of {account.name}", records, self.private[account.name])
        exchange.market._check()


def _expect_records(what: str, records: NumberedFile, wanted: bytearray) -> None:
    data = b""
    while len(data) < records.size_bytes and (more := records.read(len(data), 1 << 20)):
        data += more
    at = next((n for n, (one, other) in enumerate(zip(data, wanted, strict=False)) if one != other), None)
    expect(data == wanted, "{}: {} bytes, expected {}, differ at {}", what, len(data), len(wanted), at)


def check_feed(lines: bytes) -> tuple[int, int]:
    """Check a feed for trade-throughs and for priority within a price; return the traded lots and their value.

    A feed of lines shows the displayed lots; a replacement that keeps its place keeps its id.
    """
    books: dict[str, dict[str, dict[int, dict[int, int]]]] = defaultdict(lambda: {"B": {}, "S": {}})
    where: dict[int, tuple[str, str, int]] = {}
    volume = worth = 0
    for raw in lines.splitlines():
        message = text.parse_feed_message(raw)
        action, order_id = message.action, message.order_id
        if action in {"E", "F", "T"}:
            volume += message.volume
            worth += message.volume * message.price
        if action == "T":
            continue
        if action in {"B", "S"}:
            expect(order_id not in where, "expected a new order, was {}", raw)
            books[message.symbol][action].setdefault(message.price, {})[order_id] = message.volume
            where[order_id] = (message.symbol, action, message.price)
            continue
        expect(order_id in where, "expected a displayed order, was {}", raw)
        symbol, side, price = where[order_id]
        levels = books[symbol][side]
        left = levels[price][order_id] - message.volume
        if action in {"E", "F"}:
            best = max(levels) if side == "B" else min(levels)
            expect(price == best, "trade-through: {} while {} is the best {}", raw, best, side)
            expect(message.price == price, "expected price {}, was {}", price, raw)
            expect(next(iter(levels[price])) == order_id, "not the first in its queue: {}", raw)
        expect(left >= 0, "more lots than the order has: {}", raw)
        expect((left == 0) == (action in {"F", "D"}), "{} lots remain after {}", left, raw)
        levels[price][order_id] = left
        if not left:
            del levels[price][order_id], where[order_id]
            if not levels[price]:
                del levels[price]
    return volume, worth


class Ledger:
    """Orders and executions of one account by its messages."""

    def __init__(self) -> None:
        self.open: dict[object, int] = {}
        """Open lots, by the owner's reference of the order."""
        self.sides: dict[object, int] = {}
        self.position = self.bought = self.money = 0

    def accepted(self, key: object, side: str, lots: int) -> None:
        expect(key not in self.sides, "{} was accepted twice", key)
        self.open[key] = lots
        self.sides[key] = 1 if side == "B" else -1

    def replaced(self, old: object, new: object, lots: int) -> None:
        self.open[old] = 0
        self.open[new] = lots
        self.sides[new] = self.sides[old]

    def executed(self, key: object, lots: int, price: int) -> None:
        sign = self.sides[key]
        self.position += sign * lots
        self.bought += lots if sign > 0 else 0
        self.money -= sign * lots * price
        self.removed(key, lots)

    def removed(self, key: object, lots: int) -> None:
        self.open[key] -= lots
        expect(self.open[key] >= 0, "{} lots too many were taken off {}", -self.open[key], key)

    def live(self) -> dict[object, int]:
        return {key: lots for key, lots in self.open.items() if lots}


def text_ledger(lines: bytes) -> Ledger:
    """Return the ledger of a text broker by its messages."""
    ledger = Ledger()
    for number, raw in enumerate(lines.splitlines(), 1):
        response = text.parse_response(raw)
        expect(response.sequence == number, "expected number {}, was {}", number, raw)
        if response.action == "A":
            ledger.accepted(response.order_id, response.detail, response.volume)
        elif response.action in {"E", "F"}:
            ledger.executed(response.order_id, response.volume, response.price)
        elif response.action in {"X", "D"}:
            ledger.removed(response.order_id, response.volume)
        elif response.action == "U" and int(response.detail) != response.order_id:
            ledger.replaced(int(response.detail), response.order_id, response.volume)
    return ledger


def _messages(packets: bytes) -> Iterator[bytes]:
    for packet in PacketSplitter().split(packets):
        yield packet.payload


def _ouch_ledger(packets: bytes, *, is_5: bool) -> Ledger:
    ledger = Ledger()
    decode = ouch5.decode_reply if is_5 else ouch42.decode_reply
    key, old, new = (
        ("user_ref_num", "orig_user_ref_num", "user_ref_num")
        if is_5
        else ("order_token", "previous_order_token", "replacement_order_token")
    )
    side = "side" if is_5 else "buy_sell_indicator"
    lots = "quantity" if is_5 else "shares"
    for message in _messages(packets):
        reply = decode(message)
        fields = reply.fields
        if reply.type == "A":
            ledger.accepted(fields[key], str(fields[side]), int(fields[lots]))
        elif reply.type == "U":
            ledger.replaced(fields[old], fields[new], int(fields[lots]))
        elif reply.type == "E":
            executed = int(fields["quantity" if is_5 else "executed_shares"])
            price = int(fields["price" if is_5 else "execution_price"]) // UNITS_PER_TICK
            ledger.executed(fields[key], executed, price)
        elif reply.type == "C":
            ledger.removed(fields[key], int(fields["quantity" if is_5 else "decrement_shares"]))
        elif reply.type == "D":
            ledger.removed(fields[key], int(fields["decrement_shares"]))
    return ledger


def check_accounts(shadow: Shadow, traded: tuple[int, int]) -> None:
    """Check that lots and money over all accounts balance, and that open orders agree with the private streams."""
    position = money = bought = 0
    market = shadow.market
    for account in market.accounts[1:]:
        assert account is not None
        stream = bytes(shadow.private[account.name])
        is_text = account.protocol == "text"
        ledger = text_ledger(stream) if is_text else _ouch_ledger(stream, is_5=account.protocol == "ouch5")
        position += ledger.position
        money += ledger.money
        bought += ledger.bought
        live = {}
        for ref, order in account.orders.items():
            key = order.order_id if is_text else ref.decode().rstrip() if isinstance(ref, bytes) else ref
            live[key] = order.volume + order.reserve
        expect(live == ledger.live(), "{} has the orders {}, its messages give {}", account.name, live, ledger.live())
    expect(position == 0, "{} lots too many exist", position)
    expect(money == 0, "{} ticks times lots too many exist", money)
    expect(bought == traded[0], "the accounts bought {} lots, the feed has {}", bought, traded[0])
