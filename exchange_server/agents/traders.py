"""Kinds of agents: noise, market makers, momentum traders, informed traders, and a large trader that slices its orders.

Noise follows Farmer, Patelli and Zovko, *The predictive power of zero intelligence in financial markets* (2005): limit
orders at random prices, cancels and market orders at random times give a book most of its shape. A price moves because
some traders are better informed: Glosten and Milgrom, *Bid, ask and transaction prices in a specialist market with
heterogeneously informed traders* (1985). Clusters of volatility are modelled in the value (a log-normal stochastic
volatility: Taylor, *Modelling financial time series*, 1986) and reach prices through trades only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import exp, log, sqrt
from random import Random
from typing import Final

from exchange_server.agents.settings import LargeSettings, MakerSettings, MomentumSettings, NoiseSettings, ValueSettings
from exchange_server.agents.view import RequestBatch, View
from exchange_server.matching.order import IOC, MARKET, Order, Side

__all__ = ["Informed", "Large", "Maker", "Momentum", "Noise", "Trader", "Value"]


class Trader(ABC):
    """One kind of background trader in one symbol.

    A trader decides from the view, its own memory and the given random numbers only: the same journal, seed and times
    give the same orders. It never blocks, and makes a handful of requests per turn at most.
    """

    def __init__(self, brokers: range) -> None:
        self.brokers = brokers
        """Broker ids of the trader's orders."""

    @abstractmethod
    def act(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Take a turn: make requests, or pass."""

    def adopt(self, order: Order) -> bool:
        """Adopt an order of the trader's own from a recovered book; return True if the trader has a place for it."""
        del order
        return False

    def some_broker(self, random: Random) -> int:
        """Return a random broker id of the trader."""
        return self.brokers[int(random.random() * len(self.brokers))]


class Resting:
    """Ids of one trader's orders in the book; some of the orders may be gone."""

    __slots__ = ("ids", "rested")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.rested = self.ids.append
        """Function that adds the id of an order in the book."""

    def __len__(self) -> int:
        return len(self.ids)

    def cancel_oldest(self, view: View, batch: RequestBatch) -> None:
        """Cancel the oldest order that is still in the book."""
        ids, orders = self.ids, view.book.orders
        while ids:
            order = orders.get(ids.pop(0))
            if order is not None:
                batch.cancel(order)
                return

    def cancel_any(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Cancel a random order that is still in the book, each with equal probability."""
        ids, orders = self.ids, view.book.orders
        while ids:
            at = int(random.random() * len(ids))
            ids[at], ids[-1] = ids[-1], ids[at]
            order = orders.get(ids.pop())
            if order is not None:
                batch.cancel(order)
                return


def some_lots(random: Random, median_lots: float, spread: float) -> int:
    """Return a log-normal size, at least a lot.

    The logarithm is at most three standard deviations above its mean, so that one market order in a million does not
    empty a book.
    """
    return max(1, round(median_lots * exp(spread * min(3.0, random.gauss(0.0, 1.0)))))


class Noise(Trader):
    """Noise trader: fleeting orders at the best price, patient ones in the depth, and market orders."""

    def __init__(self, settings: NoiseSettings, brokers: range, clip_lots: int) -> None:
        super().__init__(brokers)
        self._settings = settings
        self._clip_lots = clip_lots
        self._market_from = settings.fleeting
        self._patient_from = settings.fleeting + settings.market
        self._nearest, self._range = log(settings.nearest_steps), log(settings.farthest_steps / settings.nearest_steps)
        self.fleeting = Resting()
        """Fleeting orders of the trader."""
        self.patient = Resting()
        """Patient orders of the trader."""

    def adopt(self, order: Order) -> bool:
        """Count an order of a recovered book as patient, whatever trader entered it."""
        self.patient.rested(order.order_id)
        return True

    def act(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Place an order, or cancel one."""
        draw = random.random()
        if draw < self._market_from:
            self._place_fleeting(view, random, batch)
        elif draw < self._patient_from:
            lots = some_lots(random, self._settings.market_clips * self._clip_lots, self._settings.size_spread)
            batch.take(self.some_broker(random), "B" if random.random() < 0.5 else "S", lots, 0, MARKET)
        elif random.random() * 2 * self._settings.patient_orders < len(self.patient):
            self.patient.cancel_any(view, random, batch)
        else:
            self.wait(view, random, batch)

    def wait(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Place a patient order."""
        away = exp(self._nearest + random.random() * self._range) * view.step
        lots = some_lots(random, self._settings.patient_clips * self._clip_lots, self._settings.size_spread)
        broker_id = self.some_broker(random)
        if random.random() < 0.5:
            batch.enter(self.patient, broker_id, "B", lots, max(1, int(view.mid - away)))
        else:
            batch.enter(self.patient, broker_id, "S", lots, int(view.mid + away) + 1)

    def _place_fleeting(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Place a fleeting order at or inside the best prices, or cancel the oldest one if there are enough."""
        if len(self.fleeting) >= self._settings.fleeting_orders:
            self.fleeting.cancel_oldest(view, batch)
            return
        bid, ask, step = view.bid, view.ask, view.step
        if not (bid and ask):
            return
        inside = 0
        if ask - bid > step and random.random() < self._settings.inside:
            inside = (1 + int(random.random() * ((ask - bid - 1) // step))) * step
        size = random.random()
        size = size * size if random.random() < self._settings.odd else 0.85 + 0.25 * size
        lots = max(1, int(self._clip_lots * size))
        broker_id = self.some_broker(random)
        if random.random() < 0.5:
            batch.enter(self.fleeting, broker_id, "B", lots, bid + inside)
        else:
            batch.enter(self.fleeting, broker_id, "S", lots, ask - inside)


_CHECKED_QUOTES: Final = 6
"""Largest number of quotes that are checked in a turn."""


class _Quote:
    """One quote of a ladder."""

    __slots__ = ("asked_ns", "away_steps", "lots", "order_id", "side")

    def __init__(self, side: Side, away_steps: float, lots: int) -> None:
        self.side = side
        self.away_steps = away_steps
        self.lots = lots
        self.order_id = 0
        self.asked_ns = 0
        """Time of the batch in which the quote was last placed or moved.

        Until that batch is carried out, it is unknown whether the quote rests in the book.
        """

    def rested(self, order_id: int) -> None:
        self.order_id = order_id


class Maker(Trader):
    """Market maker: learns the price from trades, and moves one quote after the other to its intended price.

    A quote is placed behind the view's best price of the other side, so it takes liquidity only if the book has changed
    since. The maker checks its quotes in turn. After a trade at a price beyond its best quotes, it starts again with
    the best quotes.
    """

    def __init__(self, settings: MakerSettings, broker_id: int, clip_lots: int) -> None:
        super().__init__(range(broker_id, broker_id + 1))
        self._settings = settings
        self._believed = 0.0
        away, self.quotes = settings.half_spread_steps, []
        """Quotes of the maker, best first, bid and ask in turn."""
        for _ in range(settings.levels):
            lots = max(1, round(clip_lots * (settings.clips + settings.clips_per_step * away)))
            self.quotes += [_Quote("B", away, lots), _Quote("S", away, lots)]
            away *= settings.growth
        self._next = 0

    def adopt(self, order: Order) -> bool:
        """Assign an order of a recovered book to the first quote on the same side that has no order."""
        for quote in self.quotes:
            if quote.side == order.side and not quote.order_id:
                quote.order_id = order.order_id
                return True
        return False

    def act(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Move the next misplaced quote, or place it again if it was executed."""
        settings, step, orders, quotes = self._settings, view.step, view.book.orders, self.quotes
        self._learn(view)
        opinion = self._believed + random.gauss(0.0, settings.jitter_steps) * step
        settled_ns, count, tolerance = batch.settled_ns, len(quotes), settings.tolerance
        for _ in range(_CHECKED_QUOTES):
            quote = quotes[self._next]
            self._next = (self._next + 1) % count
            if quote.asked_ns > settled_ns:
                continue
            away = quote.away_steps * step
            if quote.side == "B":
                price = int(opinion - away) // step * step
                if view.ask and price >= view.ask:
                    price = view.ask - step
            else:
                price = -(int(-opinion - away) // step) * step
                if price <= view.bid:
                    price = view.bid + step
            price = max(price, step)
            if quote.side == "B" and 0 < view.ask <= price:  # no price is left below an ask of one step
                continue
            order = orders.get(quote.order_id)
            if order is None:
                quote.asked_ns = batch.first_ns
                batch.enter(quote, self.brokers[0], quote.side, quote.lots, price)
                return
            if abs(order.price_ticks - price) > tolerance * away:
                quote.asked_ns = batch.first_ns
                batch.replace(quote, order, quote.lots, price)
                return

    def _learn(self, view: View) -> None:
        """Move the believed price towards the last trade if that trade was beyond the maker's best quotes.

        A trade beyond these quotes is ascribed to a better informed trader; trades between them are noise, from which a
        maker earns. The middle is ignored, since any trader can move it for free.
        """
        if not self._believed:
            self._believed = view.mid
        if view.last:
            known = self._settings.half_spread_steps * view.step
            surprise = view.last - self._believed
            if abs(surprise) > known:
                self._believed += self._settings.learning * (surprise - (known if surprise > 0 else -known))
                self._next = 0


class Momentum(Trader):
    """Compares a fast average of the middle with a slow one, and follows the fast one with market orders."""

    def __init__(self, settings: MomentumSettings, brokers: range, clip_lots: int) -> None:
        super().__init__(brokers)
        self._settings = settings
        self._lots = max(1, round(settings.clips * clip_lots))
        self._fast = self._slow = 0.0

    def act(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Update the averages; trade if their difference exceeds the threshold."""
        if not self._slow:
            self._fast = self._slow = view.mid
        self._fast += (view.mid - self._fast) * self._settings.fast
        self._slow += (view.mid - self._slow) * self._settings.slow
        change = self._fast - self._slow
        if abs(change) > self._settings.threshold_steps * view.step:
            batch.take(self.some_broker(random), "B" if change > 0 else "S", self._lots, 0, MARKET)


_FARTHEST: Final = 4.0
"""The value stays between the reference price divided by this factor and multiplied by it."""


class Value:
    """Value of an instrument, in ticks: a random walk with stochastic volatility and jumps, drawn back to the
    reference price.
    """

    def __init__(self, settings: ValueSettings, ticks: float, reference_ticks: int, step_ticks: int) -> None:
        self.ticks = ticks
        """Present value, in ticks."""
        self._settings = settings
        self._reference = reference_ticks
        self._step = step_ticks
        self._least, self._most = reference_ticks / _FARTHEST, reference_ticks * _FARTHEST
        self._heat = 0.0
        """Logarithm of the ratio of volatility to its median."""
        self._passing: dict[int, tuple[float, float, float, float]] = {}
        """Coefficients by number of turns: decay and spread of the volatility, square root of the turns, and return
        to the reference price. The size of a batch bounds the number of turns, and so the number of entries.
        """

    def advance(self, turns: int, random: Random) -> None:
        """Advance the value by ``turns`` turns."""
        s, gauss = self._settings, random.gauss
        passing = self._passing.get(turns)
        if passing is None:
            fade = exp(-turns / s.volatility_turns)
            spread = s.volatility_spread * sqrt(1 - fade * fade)
            passing = self._passing[turns] = fade, spread, sqrt(turns), 1 - exp(-turns / s.return_turns)
        fade, spread, root, way_back = passing
        self._heat = heat = self._heat * fade + spread * gauss(0.0, 1.0)
        move = gauss(0.0, 1.0) * s.volatility_steps * root * exp(heat)
        if random.random() < s.jumps * turns:
            move += random.expovariate(1.0 / s.jump_steps) * (1 if random.random() < 0.5 else -1)
        back = (self._reference - self.ticks) * way_back
        ticks = self.ticks + move * self._step + back
        self.ticks = min(self._most, max(self._least, ticks))


class Informed(Trader):
    """Informed trader: buys below the value and sells above it, more lots for a greater gain."""

    def __init__(self, settings: ValueSettings, brokers: range, clip_lots: int, value: Value) -> None:
        super().__init__(brokers)
        self._edge = settings.edge_steps
        self._lots = settings.clips * clip_lots
        self._value = value

    def act(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Trade if the best price offers enough gain."""
        edge = self._edge * view.step
        if view.ask and self._value.ticks - view.ask > edge:
            side, limit = "B", int(self._value.ticks - edge)
            gain = self._value.ticks - view.ask
        elif view.bid and view.bid - self._value.ticks > edge:
            side, limit = "S", max(1, int(self._value.ticks + edge) + 1)
            gain = view.bid - self._value.ticks
        else:
            return
        lots = max(1, int(random.random() * self._lots * gain / view.step))
        batch.take(self.some_broker(random), side, lots, limit, IOC)


class Large(Trader):
    """Large trader: works one big order after another, slice by slice, each against the best price only."""

    def __init__(self, settings: LargeSettings, brokers: range, clip_lots: int) -> None:
        super().__init__(brokers)
        self._settings = settings
        self._clip_lots = clip_lots
        self._side = "B"
        self._left = self._slice = 0
        self._every = max(1, settings.turns // settings.slices)
        self._wait = 0
        self._seen_lots = 0

    def act(self, view: View, random: Random, batch: RequestBatch) -> None:
        """Send a slice if one is due; begin another order if the last is done and the rest is over."""
        if self._wait > 0:
            self._wait -= 1
            return
        if not self._left:
            self._begin(random)
            self._seen_lots = view.taken_lots
            return
        price = view.ask if self._side == "B" else view.bid
        lots = min(self._left, self._slice if self._settings.style == "twap" else self._share(view))
        if not price or not lots:
            return
        self._left -= lots
        batch.take(self.some_broker(random), self._side, lots, price, IOC)
        self._wait = self._every - 1 if self._left else int(random.expovariate(1.0 / self._settings.turns)) + 1

    def _begin(self, random: Random) -> None:
        self._side = "B" if random.random() < 0.5 else "S"
        lots = random.expovariate(1.0 / (self._settings.clips * self._clip_lots))
        self._left = max(1, round(lots))
        self._slice = max(1, round(lots / self._settings.slices))

    def _share(self, view: View) -> int:
        """Return the trader's share of the lots that others took since its last slice; 0 while the share is less than
        a lot.
        """
        lots = int((view.taken_lots - self._seen_lots) * self._settings.participation)
        if lots:
            # The slice itself is counted as soon as it is sent.
            self._seen_lots = view.taken_lots + min(lots, self._left)
        return lots
