"""The feed as lines of text."""

from __future__ import annotations

from typing import cast

from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.market_state import INT64_MAX
from exchange_server.matching.order import Order
from exchange_server.matching.outputs import Now, Silence

__all__ = ["TextEncoder"]


class TextEncoder(Silence):
    """Writes the lines that docs/wire.md describes, one for each message; numbered from 1.

    Quantity that is displayed, and trades: what a symbol's state is, how an auction would end, and which trade is void
    has no line. A cross is one trade of nobody's orders; those that took part have lost their lots by then.
    """

    __slots__ = ("_append", "_lines", "_now", "_tails", "_taken", "next_sequence")

    def __init__(self, rules: MarketRules, now: Now) -> None:
        self._now = now
        self._tails = ("", *(f"{instrument.symbol}\n" for instrument in rules.instruments))
        self._lines: list[str] = []
        self._append = self._lines.append
        self._taken = 1
        self.next_sequence = 1
        """Number of the next line."""

    # One f-string a line, and nothing shared between them: a call costs a third of what the line does.

    def added(self, order: Order) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},{order.feed_id},{order.broker_id},{order.side},{order.volume},"
            f"{order.price_ticks},{self._tails[order.locate]}"
        )

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},{order.feed_id},{order.broker_id},{'E' if order.volume else 'F'},{volume},"
            f"{price_ticks},{self._tails[order.locate]}"
        )

    def reduced(self, order: Order, volume: int) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},{order.feed_id},{order.broker_id},X,{volume},"
            f"{order.price_ticks},{self._tails[order.locate]}"
        )

    def deleted(self, order: Order, volume: int) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},{order.feed_id},{order.broker_id},D,{volume},"
            f"{order.price_ticks},{self._tails[order.locate]}"
        )

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        if order.volume:
            self.reduced(order, volume)
        else:
            self.deleted(order, volume)

    def replaced(self, old: Order, order: Order) -> None:
        self.deleted(old, old.volume)
        self.added(order)

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        """Publish the trade of all orders together; a number of a line holds no more than an int64."""
        self._trade(locate, 0, min(volume, INT64_MAX), price_ticks)

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self._trade(order.locate, 0, volume, price_ticks)

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        self._trade(locate, broker_id, volume, price_ticks)

    def _trade(self, locate: int, broker_id: int, volume: int, price_ticks: int) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},0,{broker_id},T,{volume},{price_ticks},{self._tails[locate]}",
        )

    def take(self) -> tuple[bytes, int]:
        """The lines since the last call, and how many they are."""
        data, count = "".join(self._lines).encode("ascii"), self.next_sequence - self._taken
        self._lines.clear()
        self._taken = self.next_sequence
        return data, count

    def state(self) -> object:
        """The number of the next line; everything before must have been taken."""
        return self.next_sequence

    def restore(self, state: object) -> None:
        """Go on where `state` was taken."""
        self.next_sequence = self._taken = cast(int, state)
        self._lines.clear()
