"""View of a symbol for agents, and their requests."""

from __future__ import annotations

from typing import Protocol

import msgspec

from deltabook.wire.symbols import Instrument
from exchange_server.matching.book import Book
from exchange_server.matching.inputs import AnyInput, Cancel, Enter, Replace
from exchange_server.matching.order import Order

__all__ = ["Batch", "Owner", "View"]


class View:
    """One symbol at the beginning of a batch."""

    __slots__ = ("ask", "bid", "book", "last", "mid", "reference", "step", "symbol", "taken_lots")

    def __init__(self, book: Book, instrument: Instrument, step_bps: float) -> None:
        self.book = book
        self.symbol = instrument.symbol
        self.reference = instrument.reference_price_ticks
        """Ticks, as all prices here."""
        self.step = max(1, round(instrument.reference_price_ticks * step_bps / 10_000))
        """Step of prices."""
        self.taken_lots = 0
        """Lots of all orders so far that agents sent to take what is offered."""
        self.bid = self.ask = self.last = 0
        self.mid = 0.0
        """What the middle is, or would be: the last price it could be told from, at first the reference."""
        self.look()

    def look(self) -> None:
        """Take in what the book shows now."""
        book = self.book
        self.bid = bid = book.best("B") or 0
        self.ask = ask = book.best("S") or 0
        """The best prices, 0 where a side is empty."""
        self.last = book.last_trade_ticks
        """The last trade's price, 0 before the first."""
        if bid and ask:
            self.mid = (bid + ask) / 2
        elif not self.mid:
            self.mid = float(bid or ask or self.last or self.reference)


class Owner(Protocol):
    """Trader that is notified where its order came to rest."""

    def rested(self, order_id: int, /) -> None:
        """The order is in the book under this id."""


class Batch:
    """Requests of agents that are submitted together, at times one nanosecond apart."""

    __slots__ = ("_time_ns", "first_ns", "inputs", "owners", "settled_ns", "view")

    view: View
    """Whose symbol the next requests are for."""

    def __init__(self, first_ns: int, settled_ns: int | None = None) -> None:
        self.first_ns = first_ns
        """Time of the first request, later than that of every batch before."""
        self.settled_ns = first_ns - 1 if settled_ns is None else settled_ns
        """Batches up to this `first_ns` were carried out: where their orders are is known."""
        self._time_ns = first_ns - 1
        self.inputs: list[AnyInput] = []
        self.owners: list[Owner | None] = []
        """By request: the owner of the order that it leaves in the book."""

    def enter(self, owner: Owner, broker_id: int, side: str, volume: int, price_ticks: int) -> None:
        """A limit order, whose owner is told if it rests."""
        self._time_ns = time_ns = self._time_ns + 1
        self.inputs.append(Enter(time_ns, 0, broker_id, 0, self.view.symbol, side, volume, price_ticks))
        self.owners.append(owner)

    def take(self, broker_id: int, side: str, volume: int, price_ticks: int, flags: int) -> None:
        """An order that never rests, as the flags say."""
        self.view.taken_lots += volume
        self._time_ns = time_ns = self._time_ns + 1
        self.inputs.append(Enter(time_ns, 0, broker_id, 0, self.view.symbol, side, volume, price_ticks, flags))
        self.owners.append(None)

    def cancel(self, order: Order) -> None:
        """An order ends."""
        self._time_ns = time_ns = self._time_ns + 1
        self.inputs.append(Cancel(time_ns, 0, order.broker_id, 0, order.order_id, self.view.symbol))
        self.owners.append(None)

    def replace(self, owner: Owner, order: Order, volume: int, price_ticks: int) -> None:
        """An order becomes another, whose owner is told if it rests."""
        self._time_ns = time_ns = self._time_ns + 1
        self.inputs.append(
            Replace(time_ns, 0, order.broker_id, 0, order.order_id, volume, price_ticks, self.view.symbol)
        )
        self.owners.append(owner)

    def inputs_from(self, first_ns: int) -> list[AnyInput]:
        """Return the requests as they arrive, the first of them at this time."""
        replaced = msgspec.structs.replace
        return [replaced(item, time_ns=first_ns + at) for at, item in enumerate(self.inputs)]
