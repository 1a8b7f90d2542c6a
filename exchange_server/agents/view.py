"""View of a symbol for agents, and their requests."""

from __future__ import annotations

from typing import Protocol

import msgspec

from deltabook.wire.symbols import Instrument
from exchange_server.matching.book import Book
from exchange_server.matching.inputs import AnyInput, Cancel, Enter, Replace
from exchange_server.matching.order import Order

__all__ = ["Owner", "RequestBatch", "View"]


class View:
    """State of one symbol at the beginning of a batch; all prices in ticks."""

    __slots__ = ("ask", "bid", "book", "last", "mid", "reference", "step", "symbol", "taken_lots")

    def __init__(self, book: Book, instrument: Instrument, step_bps: float) -> None:
        self.book = book
        self.symbol = instrument.symbol
        self.reference = instrument.reference_price_ticks
        """Reference price, in ticks."""
        self.step = max(1, round(instrument.reference_price_ticks * step_bps / 10_000))
        """Price step, in ticks."""
        self.taken_lots = 0
        """Total lots of the orders that agents have sent to take liquidity so far."""
        self.bid = self.ask = self.last = 0
        self.mid = 0.0
        """Middle of the best prices. If a side is empty, it is the previous value; if there is none yet, it is the
        other side's best price, the last trade's or the reference price.
        """
        self.look()

    def look(self) -> None:
        """Read the present state of the book."""
        book = self.book
        self.bid = bid = book.best("B") or 0
        self.ask = ask = book.best("S") or 0
        """Best ask; `bid` is the best bid. Each is 0 for an empty side."""
        self.last = book.last_trade_ticks
        """Price of the last trade, 0 before the first."""
        if bid and ask:
            self.mid = (bid + ask) / 2
        elif not self.mid:
            self.mid = float(bid or ask or self.last or self.reference)


class Owner(Protocol):
    """Trader that is notified when its order comes to rest in the book."""

    def rested(self, order_id: int, /) -> None:
        """Note that the order rests in the book under this id."""


class RequestBatch:
    """Requests of agents that are submitted together, at times one nanosecond apart."""

    __slots__ = ("_time_ns", "first_ns", "inputs", "owners", "settled_ns", "view")

    view: View
    """View of the symbol that the next requests are for."""

    def __init__(self, first_ns: int, settled_ns: int | None = None) -> None:
        self.first_ns = first_ns
        """Time of the first request, later than every time of earlier batches."""
        self.settled_ns = first_ns - 1 if settled_ns is None else settled_ns
        """`first_ns` of the latest batch that was carried out.

        For orders of later batches it is unknown whether they rest in the book.
        """
        self._time_ns = first_ns - 1
        self.inputs: list[AnyInput] = []
        self.owners: list[Owner | None] = []
        """For each request, the owner of the order that the request leaves in the book, or None."""

    def enter(self, owner: Owner, broker_id: int, side: str, volume: int, price_ticks: int) -> None:
        """Add a limit order; its owner is notified if it comes to rest."""
        self._time_ns = time_ns = self._time_ns + 1
        self.inputs.append(Enter(time_ns, 0, broker_id, 0, self.view.symbol, side, volume, price_ticks))
        self.owners.append(owner)

    def take(self, broker_id: int, side: str, volume: int, price_ticks: int, flags: int) -> None:
        """Add an order that never rests, with these flags."""
        self.view.taken_lots += volume
        self._time_ns = time_ns = self._time_ns + 1
        self.inputs.append(Enter(time_ns, 0, broker_id, 0, self.view.symbol, side, volume, price_ticks, flags))
        self.owners.append(None)

    def cancel(self, order: Order) -> None:
        """Add the cancel of an order."""
        self._time_ns = time_ns = self._time_ns + 1
        self.inputs.append(Cancel(time_ns, 0, order.broker_id, 0, order.order_id, self.view.symbol))
        self.owners.append(None)

    def replace(self, owner: Owner, order: Order, volume: int, price_ticks: int) -> None:
        """Add the replacement of an order; the owner is notified if the new order comes to rest."""
        self._time_ns = time_ns = self._time_ns + 1
        self.inputs.append(
            Replace(time_ns, 0, order.broker_id, 0, order.order_id, volume, price_ticks, self.view.symbol)
        )
        self.owners.append(owner)

    def inputs_from(self, first_ns: int) -> list[AnyInput]:
        """Return the requests with new times, from ``first_ns`` on."""
        replaced = msgspec.structs.replace
        return [replaced(item, time_ns=first_ns + at) for at, item in enumerate(self.inputs)]
