"""Background traders of one symbol: two market makers, a momentum trader and noise."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final, NamedTuple

from exchange_server.book import Book, Order

__all__ = ["MAKERS", "MOMENTUM", "NOISE", "Intent", "Traders"]

MAKERS: Final = (1, 2)
"""Broker ids of the market makers."""
MOMENTUM: Final = 3
"""Broker id of the momentum trader."""
NOISE: Final = (4, 5, 6, 7, 8, 9, 10)
"""Broker ids of the noise traders."""

_NOISE_ORDERS: Final = 200
"""Most resting noise orders of a symbol; the oldest goes first."""
_MAKER_LEVELS: Final = 5
_MAKER_LOTS: Final = 300


class Intent(NamedTuple):
    """What a trader wants to do."""

    broker_id: int
    """Who."""
    action: str
    """B, S or D."""
    volume: int
    """Lots."""
    price_ticks: int
    """Limit, 0 for a market order."""
    order_id: int = 0
    """What to cancel."""


class Traders:
    """Decides from the book alone and its own orders in it, so that it can go on from any recovered book.

    Noise is zero-intelligence flow: limit orders scattered around the mid, market orders and cancels. The makers quote
    both sides around a fair price that is drawn back to the instrument's reference, so the book is never empty for
    long and its prices do not wander off. The momentum trader buys what has risen and sells what has fallen.
    """

    def __init__(self, book: Book, reference_ticks: int) -> None:
        self.book = book
        self._reference = reference_ticks
        self._unit = max(1, reference_ticks // 5_000)
        self._noise: deque[tuple[int, int]] = deque()
        self._quotes: dict[int, list[int]] = {broker: [] for broker in MAKERS}
        self._quoted: set[int] = set()
        self._slow_ticks = float(book.mid_ticks() or reference_ticks)
        for order in sorted(book.orders.values(), key=lambda order: order.order_id):
            self.rested(order)

    def rested(self, order: Order) -> None:
        """An order of one of these traders came to rest."""
        if order.client_id:
            return
        if order.broker_id in self._quotes:
            self._quotes[order.broker_id].append(order.order_id)
        elif order.broker_id in NOISE:
            self._noise.append((order.order_id, order.broker_id))

    def begin(self) -> None:
        """A new batch begins: the book shows what the last one did."""
        self._quoted.clear()

    def decide(self, random: Random) -> list[Intent]:
        """One trader's turn."""
        mid = self.book.mid_ticks()
        if mid is None or not self.book.bids or not self.book.asks:
            maker = next((broker for broker in MAKERS if broker not in self._quoted), None)
            if maker is not None:
                return self._requote(maker, mid or self._reference, random)
        mid = mid or self._reference
        draw = random.random()
        if draw < 0.03:
            maker = MAKERS[random.randrange(len(MAKERS))]
            if maker not in self._quoted:
                return self._requote(maker, mid, random)
        elif draw < 0.05:
            return self._follow(mid, random)
        return [self._make_noise(mid, random)]

    def _make_noise(self, mid: int, random: Random) -> Intent:
        draw = random.random()
        while self._noise and (draw < 0.35 or len(self._noise) >= _NOISE_ORDERS):
            order_id, broker_id = self._noise.popleft()
            if order_id in self.book.orders:
                return Intent(broker_id, "D", 0, 0, order_id)
        broker_id = NOISE[random.randrange(len(NOISE))]
        side = "B" if random.random() < 0.5 else "S"
        if draw > 0.88:
            return Intent(broker_id, side, 10 * random.randint(1, 8), 0)
        away = int(random.expovariate(1.0 / (6 * self._unit))) - self._unit
        price = mid - away if side == "B" else mid + 1 + away
        return Intent(broker_id, side, 10 * random.randint(1, 10), max(1, price))

    def _requote(self, broker_id: int, mid: int, random: Random) -> list[Intent]:
        self._quoted.add(broker_id)
        intents = [
            Intent(broker_id, "D", 0, 0, order_id)
            for order_id in self._quotes[broker_id]
            if order_id in self.book.orders
        ]
        self._quotes[broker_id] = []
        fair = mid + round((self._reference - mid) * 0.01 + random.gauss(0.0, self._unit))
        for level in range(1, _MAKER_LEVELS + 1):
            away = (level * broker_id + 1) * self._unit
            intents.extend(
                (
                    Intent(broker_id, "B", _MAKER_LOTS, max(1, fair - away)),
                    Intent(broker_id, "S", _MAKER_LOTS, max(2, fair + away)),
                )
            )
        return intents

    def _follow(self, mid: int, random: Random) -> list[Intent]:
        change = mid - self._slow_ticks
        self._slow_ticks += change * 0.1
        if abs(change) < self._unit:
            return []
        return [Intent(MOMENTUM, "B" if change > 0 else "S", 10 * random.randint(1, 5), 0)]
