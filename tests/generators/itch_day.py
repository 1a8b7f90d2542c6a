"""Day of ITCH: valid orders with all 23 messages, as bytes and as the lines of the text feed."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from deltabook.wire.itch import MESSAGES, Kind, encode_message, frame
from deltabook.wire.text import FeedMessage

__all__ = ["TICK", "Day", "make_day", "random_message"]

TICK: Final = 100
"""Size of a tick of the text feed in ITCH's unit of 0.0001."""
_WEIGHTS: Final = {"A": 40, "F": 6, "D": 28, "U": 10, "E": 8, "C": 2, "X": 4, "P": 2, "Q": 3}
_OTHERS: Final = "SRHYLVWKJhBINO"


class Day(msgspec.Struct, frozen=True):
    """Messages of a day, as ITCH and as text."""

    messages: list[bytes]
    """ITCH messages without length prefix."""
    lines: list[FeedMessage]
    """Feed messages of the same day, numbered from 1; not every ITCH message has a line in the text feed."""
    numbers: list[int]
    """Number of the ITCH message of each line, from 0."""

    @property
    def data(self) -> bytes:
        """The messages as a file."""
        return b"".join(map(frame, self.messages))


class _Order:
    __slots__ = ("broker", "price", "shares", "side", "stock")

    def __init__(self, side: str, stock: int, shares: int, price: int, broker: int) -> None:
        self.side, self.stock, self.shares, self.price, self.broker = side, stock, shares, price, broker


def random_message(rng: random.Random, letter: str, time_ns: int, stock: str, locate: int) -> bytes:
    """Return a message of this type with random values in all other fields; alphas are letters or blank.

    System event C is left out: a reader may stop after the end of messages.
    """
    values: dict[str, int | str] = {}
    for field in MESSAGES[letter].fields:
        if field.kind is Kind.ALPHA:
            length = rng.randrange(field.width + 1)
            values[field.name] = "".join(chr(rng.randrange(65, 91)) for _ in range(length))
        else:
            values[field.name] = rng.randrange(1 << min(8 * field.width, 63))
    values |= {"stock_locate": locate, "timestamp": time_ns, "tracking_number": rng.randrange(4)}
    if "stock" in values:
        values["stock"] = stock
    if letter == "S":
        values["event_code"] = rng.choice("OSQME")
    return encode_message(letter, **values)


def make_day(
    seed: int, messages: int, *, stocks: int = 3, others: float = 0.1, step_ns: int = 5_000, brokers: int = 9
) -> Day:
    """Return a day of ``messages`` messages; ``others`` is the share of messages that change no book.

    Prices are drawn without regard to the book, so that it may be crossed. Several messages may share their time.
    """
    return _Maker(seed, stocks, others, step_ns, brokers).make(messages)


class _Maker:
    def __init__(self, seed: int, stocks: int, others: float, step_ns: int, brokers: int) -> None:
        self._rng = random.Random(seed)
        self._names = [f"S{i:03d}"[: 1 + i % 4 + 3] for i in range(stocks)]
        self._others, self._step_ns, self._brokers = others, step_ns, brokers
        self._orders: dict[int, _Order] = {}
        self._live: list[int] = []
        self._next_order, self._next_match = 1, 1
        self._day = Day([], [], [])
        self._time_ns = 34_200_000_000_000

    def make(self, count: int) -> Day:
        for number, name in enumerate(self._names):
            self._emit(random_message(self._rng, "R", self._time_ns, name, number))
        letters, weights = list(_WEIGHTS), list(_WEIGHTS.values())
        rng = self._rng
        while len(self._day.messages) < count:
            self._time_ns += rng.choice((0, 1, rng.randrange(self._step_ns)))
            if rng.random() < self._others:
                stock = rng.randrange(len(self._names))
                letter = rng.choice(_OTHERS)
                self._emit(random_message(rng, letter, self._time_ns, self._names[stock], stock))
            else:
                self._flow(rng.choices(letters, weights)[0])
        return self._day

    def _flow(self, letter: str) -> None:
        rng = self._rng
        if letter in "AF":
            self._add(letter, self._new())
        elif letter == "P":
            order = self._new()
            match = self._match()
            self._message("P", order, 0, buy_sell_indicator=order.side, shares=order.shares, match_number=match)
            self._line(0, _Order("", order.stock, order.shares, order.price, 0), "T", order.shares, order.price)
        elif letter == "Q":
            self._cross(self._new())
        elif self._live:
            at = rng.randrange(len(self._live))
            number = self._live[at]
            order = self._orders[number]
            if letter == "D":
                self._message("D", order, number)
                self._line(number, order, "D", order.shares, order.price)
                self._gone(at)
            elif letter == "U":
                self._replace(at)
            else:
                self._reduce(letter, at, rng.choice((order.shares, rng.randint(1, order.shares))))

    def _new(self) -> _Order:
        rng = self._rng
        stock = rng.randrange(len(self._names))
        price = TICK * (10_000 + 50 * stock + rng.randint(-200, 200))
        return _Order(rng.choice("BS"), stock, rng.choice((100, 200, rng.randint(1, 900))), price, 0)

    def _add(self, letter: str, order: _Order) -> None:
        number = self._next_order
        self._next_order += self._rng.randint(1, 3)
        attribution: dict[str, int | str] = {}
        if letter == "F":
            order.broker = self._rng.randint(1, self._brokers)
            attribution = {"attribution": str(order.broker)}
        self._orders[number] = order
        self._live.append(number)
        self._message(letter, order, number, shares=order.shares, buy_sell_indicator=order.side, **attribution)
        self._line(number, order, order.side, order.shares, order.price)

    def _cross(self, order: _Order) -> None:
        """Add an auction's trade, sometimes of no shares, after the executions of some orders in it."""
        rng = self._rng
        for _ in range(min(rng.randrange(3), len(self._live))):
            at = rng.randrange(len(self._live))
            number = self._live[at]
            part = self._orders[number]
            shares = rng.choice((part.shares, rng.randint(1, part.shares)))
            values: dict[str, int | str] = {"executed_shares": shares, "match_number": self._match()}
            self._message("C", part, number, **values, printable="N", execution_price=order.price)
            self._line(number, part, "X", shares, part.price)
            part.shares -= shares
            if not part.shares:
                self._gone(at)
        shares = rng.choice((0, order.shares))
        values = {"cross_shares": shares, "cross_price": order.price, "match_number": self._match()}
        self._message("Q", order, 0, **values, cross_type=rng.choice("OCH"))
        if shares:
            self._line(0, _Order("", order.stock, shares, order.price, 0), "T", shares, order.price)

    def _replace(self, at: int) -> None:
        number = self._live[at]
        old = self._orders[number]
        fresh = self._new()
        order = _Order(old.side, old.stock, fresh.shares, fresh.price, old.broker)
        new = self._next_order
        self._next_order += 1
        self._message("U", order, number, new_order_reference_number=new, shares=order.shares)
        self._line(number, old, "D", old.shares, old.price)
        self._line(new, order, order.side, order.shares, order.price)
        self._gone(at)
        self._orders[new] = order
        self._live.append(new)

    def _reduce(self, letter: str, at: int, shares: int) -> None:
        number = self._live[at]
        order = self._orders[number]
        price = order.price
        if letter == "X":
            self._message("X", order, number, canceled_shares=shares)
            self._line(number, order, "X", shares, price)
        elif letter == "E":
            self._message("E", order, number, executed_shares=shares, match_number=self._match())
            self._line(number, order, "E", shares, price)
        else:
            price += TICK * self._rng.randint(-3, 3)
            printable = self._rng.choice("YYN")
            values: dict[str, int | str] = {"executed_shares": shares, "match_number": self._match()}
            self._message("C", order, number, **values, printable=printable, execution_price=price)
            self._line(number, order, "E" if printable == "Y" else "X", shares, price)
        order.shares -= shares
        if not order.shares:
            self._gone(at)

    def _gone(self, at: int) -> None:
        del self._orders[self._live[at]]
        self._live[at] = self._live[-1]
        self._live.pop()

    def _match(self) -> int:
        self._next_match += 1
        return self._next_match

    def _message(self, letter: str, order: _Order, number: int, **values: int | str) -> None:
        names = {field.name for field in MESSAGES[letter].fields}
        known: dict[str, int | str] = {
            "stock_locate": order.stock,
            "timestamp": self._time_ns,
            "order_reference_number": number,
            "stock": self._names[order.stock],
            "price": order.price,
        }
        self._emit(encode_message(letter, **{k: v for k, v in known.items() if k in names}, **values))

    def _emit(self, message: bytes) -> None:
        self._day.messages.append(message)

    def _line(self, number: int, order: _Order, action: str, volume: int, price: int) -> None:
        day = self._day
        line = FeedMessage(
            sequence=len(day.lines) + 1,
            time_ns=self._time_ns,
            order_id=number,
            broker_id=order.broker,
            action=action,
            volume=volume,
            price=price // TICK,
            symbol=self._names[order.stock],
        )
        day.lines.append(line)
        day.numbers.append(len(day.messages) - 1)
