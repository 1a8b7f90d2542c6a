"""A small exchange: random requests, the sequenced messages that follow, and their bytes on the wire."""

from __future__ import annotations

import random

import msgspec

from deltabook.wire.text import FeedMessage, encode_feed_message

__all__ = ["SESSION", "Market", "MarketShape"]

SESSION = "S1"
_SYMBOLS = ("ACME", "BOLT")


class MarketShape(msgspec.Struct, frozen=True):
    """Random properties of a seed's messages."""

    brokers: int = 3
    """Number of brokers."""
    prices: int = 8
    """Number of different prices; small, so that levels are shared."""
    malformed: float = 0.0
    """Share of messages that cannot be parsed."""
    unknown: float = 0.05
    """Share of requests for unknown orders."""


class Market:
    """All messages of the session, as records (None: malformed) and as lines."""

    def __init__(self, chance: random.Random, shape: MarketShape) -> None:
        self._chance = chance
        self._shape = shape
        self._live: list[int] = []
        self._next_id = 1
        self._time_ns = 1_000
        self.messages: list[FeedMessage | None] = []
        self.lines: list[bytes] = []

    @property
    def count(self) -> int:
        """Number of messages so far, which is the number of the last one."""
        return len(self.messages)

    def request(self) -> None:
        """Make one request, whose messages share a time."""
        chance = self._chance
        self._time_ns += chance.randint(1, 50)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            self._message()

    def heartbeat(self) -> bytes:
        """Return the line that shows that every request so far is complete."""
        return encode_feed_message(FeedMessage(self.count + 1, self._time_ns, 0, 0, "H", 0, 0, ""))

    def _message(self) -> None:
        chance, shape = self._chance, self._shape
        if shape.malformed and chance.random() < shape.malformed:
            self.messages.append(None)
            self.lines.append(f"{self.count},{self._time_ns},oops\n".encode())
            return
        action = chance.choice("BSBSBSBEFXDT" if len(self._live) < 12 else "BSEFXDFDEX")
        broker, order = chance.randint(1, shape.brokers), 0
        volume, price = chance.randint(1, 9), chance.randint(1, shape.prices) + 90
        if action in "BS":
            order = self._next_id
            if self._live and chance.random() < shape.unknown:
                order = chance.choice(self._live)  # an add of an order that exists, or an id that is used again
            else:
                self._next_id += 1
                self._live.append(order)
        elif action in "EFXD":
            order = self._one_of_live() if chance.random() >= shape.unknown else chance.randint(1, self._next_id + 3)
            if action in "FD" and order in self._live:
                self._live.remove(order)
        message = FeedMessage(
            self.count + 1, self._time_ns, order, broker, action, volume, price, chance.choice(_SYMBOLS)
        )
        self.messages.append(message)
        self.lines.append(encode_feed_message(message))

    def _one_of_live(self) -> int:
        return self._chance.choice(self._live) if self._live else self._next_id
