"""All agents of one symbol."""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Final

from deltabook.wire.symbols import Instrument
from exchange_server.agents.large import Large
from exchange_server.agents.makers import Maker
from exchange_server.agents.momentum import Momentum
from exchange_server.agents.noise import Noise
from exchange_server.agents.settings import AgentSettings
from exchange_server.agents.trader import Trader
from exchange_server.agents.value import Informed, Value
from exchange_server.agents.view import Batch, View
from exchange_server.matching.book import Book
from exchange_server.matching.order import Order

__all__ = ["Population"]

_AUCTIONS: Final = frozenset({"auction-open", "auction-close", "auction-halt"})


class Population:
    """Makers, momentum, large, informed and noise traders, with broker ids from 1 in this order.

    Takes over its orders of a recovered book. What is in no book begins anew: averages, the large trader's order, and
    the hidden value, at what the book believes it to be.
    """

    def __init__(self, book: Book, instrument: Instrument, settings: AgentSettings) -> None:
        self.view = View(book, instrument, settings.step_bps)
        clip = settings.clip_lots
        value = self._value = Value(settings.value, self.view.mid, self.view.reference, self.view.step)
        first = settings.makers.brokers + 1
        self._makers = [Maker(settings.makers, broker_id, clip) for broker_id in range(1, first)]
        momentum = [Momentum(settings.momentum, own, clip) for own in _each(first, settings.momentum.brokers)]
        first += settings.momentum.brokers
        large = [Large(settings.large, own, clip) for own in _each(first, settings.large.brokers)]
        first += settings.large.brokers
        informed = Informed(settings.value, range(first, first + settings.value.brokers), clip, value)
        first += settings.value.brokers
        self._noise = Noise(settings.noise, range(first, first + settings.noise.brokers), clip)
        weights = [(maker, settings.makers.weight / settings.makers.brokers) for maker in self._makers]
        others: list[tuple[Trader, float]] = [
            *((trader, settings.momentum.weight / len(momentum)) for trader in momentum),
            *((trader, settings.large.weight / len(large)) for trader in large),
            (informed, settings.value.weight),
            (self._noise, settings.noise.weight),
        ]
        # The likeliest first: most turns are found at the first comparison.
        chances = sorted([*weights, *others], key=lambda pair: -pair[1])
        total = sum(weight for _, weight in chances)
        bounds = accumulate(weight / total for _, weight in chances)
        self._turns = [(bound, trader) for bound, (trader, _) in zip(bounds, chances, strict=True)]
        self._adopt(book)

    def _adopt(self, book: Book) -> None:
        owners = {broker_id: trader for _, trader in self._turns for broker_id in trader.brokers}
        for order in sorted(book.orders.values(), key=_by_priority):
            if order.account:
                continue
            owner = owners.get(order.broker_id)
            # Orders that agents of other settings have left are noise: some day it cancels them.
            if owner is None or not owner.adopt(order):
                self._noise.adopt(order)

    def look(self, turns: int, random: Random) -> None:
        """A batch begins: so many turns have passed since the last."""
        self.view.look()
        self._value.advance(turns, random)

    def act(self, random: Random, batch: Batch) -> None:
        """One trader's turn."""
        view = self.view
        batch.view = view
        phase = view.book.phase
        if phase != "continuous":
            if phase in _AUCTIONS:
                self._noise.wait(view, random, batch)
            return
        if not (view.bid and view.ask):
            self._makers[int(random.random() * len(self._makers))].act(view, random, batch)
            return
        draw = random.random()
        for bound, trader in self._turns:
            if draw < bound:
                trader.act(view, random, batch)
                return


def _each(first: int, brokers: int) -> list[range]:
    """Broker ids of traders that have one each."""
    return [range(broker_id, broker_id + 1) for broker_id in range(first, first + brokers)]


def _by_priority(order: Order) -> tuple[int, int]:
    return (-order.price_ticks if order.side == "B" else order.price_ticks), order.order_id
