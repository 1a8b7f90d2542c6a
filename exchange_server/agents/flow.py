"""Background flow: submits the requests of the agents of several symbols, at an average rate and in bursts.

A seed determines all decisions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import exp, sqrt
from random import Random
from typing import Any, Final, Protocol

from deltabook.wire.symbols import Instrument
from exchange_server.agents.settings import ActivitySettings, AgentSettings
from exchange_server.agents.traders import Informed, Large, Maker, Momentum, Noise, Trader, Value
from exchange_server.agents.view import RequestBatch, View
from exchange_server.errors import ExchangeConfigurationError, ExchangeError
from exchange_server.matching.book import Book
from exchange_server.matching.inputs import AnyInput
from exchange_server.matching.market import Market
from exchange_server.matching.order import Order

__all__ = ["AgentFlow", "Population", "Venue"]

_AUCTIONS: Final = frozenset({"auction-open", "auction-close", "auction-halt"})


class Population:
    """Agents of one symbol: makers, momentum, large, informed and noise traders, with broker ids from 1 in this
    order.

    The population adopts its own orders from a recovered book. State that no book contains is initialised again: the
    averages, the large trader's order, and the hidden value, which starts at the value implied by the book.
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
        # Sorted by falling probability, so that most turns are decided at the first comparison.
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
            # Orders left by agents with other settings go to the noise traders, who cancel them at some time.
            if owner is None or not owner.adopt(order):
                self._noise.adopt(order)

    def look(self, turns: int, random: Random) -> None:
        """Begin a batch, ``turns`` turns after the previous one: read the book and advance the hidden value."""
        self.view.look()
        self._value.advance(turns, random)

    def act(self, random: Random, batch: RequestBatch) -> None:
        """Let one trader take its turn."""
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
    """Return a range with a single broker id for each of ``brokers`` traders."""
    return [range(broker_id, broker_id + 1) for broker_id in range(first, first + brokers)]


def _by_priority(order: Order) -> tuple[int, int]:
    return (-order.price_ticks if order.side == "B" else order.price_ticks), order.order_id


class Activity:
    """Pace of all agents together: log-normal with a mean of 1, and correlated over time.

    The pace is drawn from a random generator of its own, so that the agents' decisions do not depend on the pace.
    Without bursts no numbers are drawn.
    """

    def __init__(self, settings: ActivitySettings, random: Random) -> None:
        self._settings, self._random = settings, random
        self._heat = random.gauss(0.0, settings.spread) if settings.spread else 0.0

    def pace(self, turns: float) -> float:
        """Return the pace after ``turns`` turns at the usual pace have passed."""
        spread = self._settings.spread
        if not spread:
            return 1.0
        fade = exp(-turns / self._settings.turns)
        self._heat = self._heat * fade + spread * sqrt(1.0 - fade * fade) * self._random.gauss(0.0, 1.0)
        return exp(self._heat - spread * spread / 2.0)


_PERIOD_S: Final = 0.01
_BURST_ORDERS: Final = 500
"""Largest number of requests in one period: after a long pause the flow does not make up for all the missed requests.
"""
_BATCH: Final = 64
"""Approximate number of requests that are decided on one reading of the books."""
_TURNS_PER_REQUEST: Final = 4
"""Largest number of turns per wanted request: agents may pass, and all agents pass during a halt."""


class Venue(Protocol):
    """Venue of the agents: an exchange, or a market in a backtest."""

    market: Market
    inputs: int
    """Number of inputs so far."""

    def next_time_ns(self, at_least_ns: int = 0, count: int = 1) -> int:
        """Return the first of ``count`` consecutive times, all later than every earlier time."""

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        """Apply a batch; return the answer of `Market.apply` to each input."""


_MOST_REFERENCE_TICKS: Final = 1 << 53
"""Greatest reference price of an instrument with agents, who compute in floats and may bid multiples of that price."""


class AgentFlow:
    """Submits the agents' requests, `rate_per_s` of them on average, in batches every 10 ms.

    The requests are determined by the seed, the number of earlier inputs and the books: the same journal and the same
    times give the same requests. After a restart the flow continues with the orders that rest in the books.

    ``delay_s`` returns a random duration: the time between a reading of the books and the arrival of the batch that
    was decided on it. Batches arrive in the order of their decisions; without ``delay_s`` they arrive at once.
    """

    def __init__(
        self,
        exchange: Venue,
        instruments: Sequence[Instrument],
        clock: Any,
        *,
        settings: AgentSettings,
        seed: int,
        rate_per_s: float,
        stop: Callable[[str], None],
        delay_s: Callable[[], float] | None = None,
    ) -> None:
        """Create the flow; ``clock`` is a reactor, and ``stop`` ends the exchange with a reason.

        Raise `ExchangeConfigurationError` for settings that contradict each other, and for a reference price above
        2^53 ticks.
        """
        settings.check()
        for instrument in instruments:
            if instrument.reference_price_ticks > _MOST_REFERENCE_TICKS:
                raise ExchangeConfigurationError(
                    f"expected a reference price of up to {_MOST_REFERENCE_TICKS} ticks for agents, was "
                    f"{instrument.reference_price_ticks} of {instrument.symbol}"
                )
        self._exchange = exchange
        self._clock = clock
        self._rate_per_s = rate_per_s
        self._stop = stop
        self._delay_s = delay_s
        self._under_way: deque[RequestBatch] = deque()
        self._settled_ns = 0
        self._arrival_s = 0.0
        self._random = Random(f"{seed}:{exchange.inputs}")
        self._activity = Activity(settings.activity, Random(f"{seed}:{exchange.inputs}:activity"))
        books = exchange.market.books
        self.populations = [Population(books[instrument.symbol], instrument, settings) for instrument in instruments]
        """Population of each instrument, in the order of the instruments."""
        self.turns = 0
        """Number of turns that traders have taken."""
        self._due_orders = 0.0
        self._last_s = 0.0
        self._call: Any = None

    def start(self) -> None:
        """Start to submit requests."""
        self._last_s = self._clock.seconds()
        self._call = self._clock.callLater(_PERIOD_S, self._turn)

    def stop(self) -> None:
        """Stop submitting requests."""
        if self._call is not None and self._call.active():
            self._call.cancel()

    @property
    def rate_per_s(self) -> float:
        """Average number of requests per second."""
        return self._rate_per_s

    def _turn(self) -> None:
        now_s = self._clock.seconds()
        turns = (now_s - self._last_s) * self._rate_per_s
        self._due_orders = min(_BURST_ORDERS, self._due_orders + turns * self._activity.pace(turns))
        self._last_s = now_s
        due = int(self._due_orders)
        self._due_orders -= due
        step = self.step if self._delay_s is None else self._send
        try:
            while due > 0:
                step(min(due, _BATCH))
                due -= _BATCH
        except ExchangeError as error:
            self._stop(str(error))
            return
        self._call = self._clock.callLater(_PERIOD_S, self._turn)

    def step(self, orders: int) -> int:
        """Submit up to ``orders`` requests decided on one reading of the books.

        Return their number, smaller if agents pass. Raise `JournalError` if the requests cannot be journalled.
        """
        batch = RequestBatch(self._exchange.next_time_ns(count=orders))
        self._decide(batch, orders)
        self._submit(batch, batch.inputs)
        return len(batch.inputs)

    def _decide(self, batch: RequestBatch, orders: int) -> None:
        """Fill a batch with up to ``orders`` requests of the agents; fewer if agents pass."""
        random, populations = self._random, self.populations
        wanted, count = batch.inputs, len(populations)
        turns = math.ceil(orders / count)
        for population in populations:
            population.look(turns, random)
        taken = 0
        most = orders * _TURNS_PER_REQUEST
        while taken < most and len(wanted) < orders:
            populations[int(random.random() * count)].act(random, batch)
            taken += 1
        self.turns += taken

    def _submit(self, batch: RequestBatch, inputs: Sequence[AnyInput]) -> None:
        for owner, order_id in zip(batch.owners, self._exchange.submit(inputs), strict=True):
            if owner is not None and order_id:
                owner.rested(order_id)  # type: ignore[arg-type]  # only `Wire` inputs are answered with text

    def _send(self, orders: int) -> None:
        """Decide on requests now and submit them after the delay."""
        assert self._delay_s is not None
        decided = self._under_way[-1].first_ns if self._under_way else self._settled_ns
        batch = RequestBatch(decided + orders, self._settled_ns)
        self._decide(batch, orders)
        now_s = self._clock.seconds()
        self._arrival_s = max(self._arrival_s, now_s + self._delay_s())
        self._under_way.append(batch)
        self._clock.callLater(self._arrival_s - now_s, self._arrive)

    def _arrive(self) -> None:
        batch = self._under_way.popleft()
        self._settled_ns = batch.first_ns
        try:
            self._submit(batch, batch.inputs_from(self._exchange.next_time_ns(count=len(batch.inputs))))
        except ExchangeError as error:
            self._stop(str(error))
