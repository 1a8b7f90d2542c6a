"""Background flow: traders on several symbols, at a rate, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from deltabook.wire.symbols import Instrument
from exchange_server.agents.traders import Intent, Traders
from exchange_server.exchange import Exchange
from exchange_server.inputs import AGENT, Input

__all__ = ["AgentFlow"]

_PERIOD_S: Final = 0.01
_BURST_ORDERS: Final = 500
"""Most orders of one turn: after a long pause the flow does not try to make up for what it missed."""


class AgentFlow:
    """Submits the traders' orders, `rate_per_s` of them on average, in a batch every 10 ms.

    What they do follows from the seed, the number of inputs before and the books: with the same journal and the same
    times it is the same again. After a restart it goes on with the orders that rest in the books.
    """

    def __init__(
        self,
        exchange: Exchange,
        instruments: Sequence[Instrument],
        submit: Callable[[list[Input]], list[int]],
        clock: Any,
        *,
        seed: int,
        rate_per_s: float,
    ) -> None:
        self._exchange = exchange
        self._submit = submit
        self._clock = clock
        self._rate_per_s = rate_per_s
        self._random = Random(f"{seed}:{exchange.market.inputs}")
        books = exchange.market.books
        self._traders = [
            Traders(books[instrument.symbol], instrument.reference_price_ticks) for instrument in instruments
        ]
        self._due_orders = 0.0
        self._last_s = 0.0
        self._call: Any = None

    def start(self) -> None:
        """Begin."""
        self._last_s = self._clock.seconds()
        self._call = self._clock.callLater(_PERIOD_S, self._turn)

    def stop(self) -> None:
        """Submit nothing more."""
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _turn(self) -> None:
        now_s = self._clock.seconds()
        self._due_orders = min(_BURST_ORDERS, self._due_orders + (now_s - self._last_s) * self._rate_per_s)
        self._last_s = now_s
        if self._due_orders >= 1:
            self._due_orders -= self.step(int(self._due_orders))
        self._call = self._clock.callLater(_PERIOD_S, self._turn)

    def step(self, orders: int) -> int:
        """Submit about so many orders (a market maker quotes several at once); returns how many they were."""
        for traders in self._traders:
            traders.begin()
        batch: list[Input] = []
        owners: list[Traders] = []
        for _ in range(orders):
            if len(batch) >= orders:
                break
            traders = self._traders[self._random.randrange(len(self._traders))]
            for intent in traders.decide(self._random):
                batch.append(self._input(intent, traders.book.symbol))
                owners.append(traders)
        for traders, order_id in zip(owners, self._submit(batch), strict=True):
            order = traders.book.orders.get(order_id) if order_id else None
            if order is not None:
                traders.rested(order)
        return len(batch)

    def _input(self, intent: Intent, symbol: str) -> Input:
        time_ns = self._exchange.next_time_ns()
        return Input(
            AGENT,
            time_ns,
            0,
            intent.order_id,
            intent.broker_id,
            intent.action,
            intent.volume,
            intent.price_ticks,
            symbol,
        )
