"""Base class of all kinds of agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import exp
from random import Random

from exchange_server.agents.view import Batch, View
from exchange_server.matching.order import Order

__all__ = ["Resting", "Trader", "some_lots"]


class Trader(ABC):
    """One kind of background trader in one symbol.

    Decides from the view, its own memory and the random numbers that it is given, and from nothing else: the same
    journal, seed and times give the same orders. Never blocks, and asks for a handful of requests at most.
    """

    def __init__(self, brokers: range) -> None:
        self.brokers = brokers
        """Broker ids of its orders."""

    @abstractmethod
    def act(self, view: View, random: Random, batch: Batch) -> None:
        """Its turn: ask for something, or pass."""

    def adopt(self, order: Order) -> bool:
        """An order of its own is in a recovered book; whether it has a place for it."""
        del order
        return False

    def some_broker(self, random: Random) -> int:
        """One of its broker ids."""
        return self.brokers[int(random.random() * len(self.brokers))]


class Resting:
    """Orders of one trader, by id; some of them may have gone since."""

    __slots__ = ("ids", "rested")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.rested = self.ids.append
        """An order is in the book under this id."""

    def __len__(self) -> int:
        return len(self.ids)

    def cancel_oldest(self, view: View, batch: Batch) -> None:
        """Cancel the oldest one that is still there."""
        ids, orders = self.ids, view.book.orders
        while ids:
            order = orders.get(ids.pop(0))
            if order is not None:
                batch.cancel(order)
                return

    def cancel_any(self, view: View, random: Random, batch: Batch) -> None:
        """Cancel one that is still there, each with equal chance."""
        ids, orders = self.ids, view.book.orders
        while ids:
            at = int(random.random() * len(ids))
            ids[at], ids[-1] = ids[-1], ids[at]
            order = orders.get(ids.pop())
            if order is not None:
                batch.cancel(order)
                return


def some_lots(random: Random, median_lots: float, spread: float) -> int:
    """A log-normal size, a lot at least, and no farther out than three standard deviations: one market order in a
    million should not empty a book."""
    return max(1, round(median_lots * exp(spread * min(3.0, random.gauss(0.0, 1.0)))))
