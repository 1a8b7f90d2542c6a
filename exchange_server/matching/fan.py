"""Several forms of the feed at once."""

from __future__ import annotations

from collections.abc import Sequence

from exchange_server.matching.order import Order
from exchange_server.matching.outputs import FeedEncoder, Imbalance
from exchange_server.matching.silence import Silence

__all__ = ["FeedFan", "feed_of"]


class FeedFan(FeedEncoder):
    """Says everything to each of several encoders; their output is taken from themselves."""

    __slots__ = ("_encoders",)

    def __init__(self, encoders: Sequence[FeedEncoder]) -> None:
        self._encoders = tuple(encoders)

    def system(self, code: str) -> None:
        for encoder in self._encoders:
            encoder.system(code)

    def listed(self, locate: int) -> None:
        for encoder in self._encoders:
            encoder.listed(locate)

    def trading(self, locate: int, state: str, reason: str) -> None:
        for encoder in self._encoders:
            encoder.trading(locate, state, reason)

    def added(self, order: Order) -> None:
        for encoder in self._encoders:
            encoder.added(order)

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.executed(order, volume, price_ticks, match_id)

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.crossed(order, volume, price_ticks, match_id)

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        for encoder in self._encoders:
            encoder.cross(locate, volume, price_ticks, match_id, kind)

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.traded(order, volume, price_ticks, match_id)

    def reduced(self, order: Order, volume: int) -> None:
        for encoder in self._encoders:
            encoder.reduced(order, volume)

    def deleted(self, order: Order, volume: int) -> None:
        for encoder in self._encoders:
            encoder.deleted(order, volume)

    def replaced(self, old: Order, order: Order) -> None:
        for encoder in self._encoders:
            encoder.replaced(old, order)

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.printed(locate, broker_id, volume, price_ticks, match_id)

    def imbalance(self, found: Imbalance) -> None:
        for encoder in self._encoders:
            encoder.imbalance(found)

    def busted(self, locate: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.busted(locate, match_id)

    def take(self) -> tuple[bytes, int]:
        return b"", 0

    def state(self) -> object:
        return None

    def restore(self, state: object) -> None: ...


def feed_of(encoders: Sequence[FeedEncoder]) -> FeedEncoder:
    """What a market speaks to: one encoder itself, several through a fan, none through silence."""
    if not encoders:
        return Silence()
    return encoders[0] if len(encoders) == 1 else FeedFan(encoders)
