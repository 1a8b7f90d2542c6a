"""Context for composite orders whose exchange answers when a test says so, so that every interleaving is possible."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from algo_engine.desk.memories import Recovered
from algo_engine.desk.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.execution import Composite, CompositeOrders
from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import Quote
from deltabook.wire.text import PLAIN, OrderOptions

__all__ = ["CompositeRig"]


class CompositeRig:
    """The part of `algo_engine.Context` that composite orders use, and an exchange with pending requests.

    Requests wait in `requests` until `deliver`; events wait in `events` until `hear`. So cancellations cross executions
    in every way that a real connection allows.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.orders: dict[int, Order] = {}
        self.requests: deque[tuple[str, int]] = deque()
        self.events: deque[OrderEvent] = deque()
        self.timers: dict[str, int] = {}
        self.quotes: dict[str, Quote] = {}
        self.rows: list[dict[str, Any]] = []
        self.refusals = 0
        """Number of the next orders that a limit of the engine refuses."""
        self.book: dict[int, Order] = {}
        """Orders as the exchange has them."""
        self.sent: list[Order] = []
        """All orders that were sent, as sent."""
        self.heard: list[OrderEvent] = []
        """All events that the strategy has received, or that were recovered after a crash."""
        self.memories: dict[str, tuple[bytes, int]] = {}
        """Remembered data by name, each with the number of events received by then."""
        self.composites = CompositeOrders(self)  # type: ignore[arg-type]

    # -- calls of composite orders

    def buy(self, symbol: str, volume_lots: int, price_ticks: int = 0, *, options: OrderOptions = PLAIN) -> int:
        return self._submit(Side.BUY, symbol, volume_lots, price_ticks, options)

    def sell(self, symbol: str, volume_lots: int, price_ticks: int = 0, *, options: OrderOptions = PLAIN) -> int:
        return self._submit(Side.SELL, symbol, volume_lots, price_ticks, options)

    def _submit(self, side: Side, symbol: str, lots: int, price: int, options: OrderOptions) -> int:
        assert lots > 0
        order = Order(len(self.orders) + 1, symbol, side, lots, price, options=options)
        self.sent.append(order)
        if self.refusals:
            self.refusals -= 1
            order = order.ended(OrderStatus.REFUSED, "a limit")
            self.events.append(OrderEvent(EventKind.REFUSED, order, reason="a limit"))
        else:
            self.requests.append(("new", order.client_id))
        self.orders[order.client_id] = order
        return order.client_id

    def cancel(self, client_id: int) -> None:
        self.requests.append(("cancel", client_id))

    def order(self, client_id: int) -> Order | None:
        return self.orders.get(client_id)

    def quote(self, symbol: str) -> Quote | None:
        return self.quotes.get(symbol)

    def set_timer(self, name: str, delay_ms: int, *, repeat: bool = False) -> None:
        assert delay_ms >= 1
        assert not repeat
        self.timers[name] = self.now_ns + delay_ms * 1_000_000

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def view(self, name: str) -> CompositeRig:
        assert name == "trades_1s"
        return self

    def select(self, symbol: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["symbol"] == symbol]

    def remember(self, name: str, data: bytes) -> None:
        if data:
            self.memories[name] = data, len(self.heard)
        else:
            self.memories.pop(name, None)

    def recovered(self) -> list[Recovered]:
        return [Recovered(name, data, tuple(self.heard[at:])) for name, (data, at) in self.memories.items()]

    # -- actions of a test

    def crash(self, *, adopt: bool, arrives: bool) -> list[Composite]:
        """Restart the engine after its death; return the restored orders.

        With ``arrives``, pending requests arrive nevertheless; with ``adopt``, orders in the market stay there.
        """
        while self.requests and arrives:
            self.deliver()
        for what, client_id in self.requests:
            order = self.orders[client_id]
            if what == "new":
                self._say(EventKind.NEVER_SENT, order.ended(OrderStatus.NEVER_SENT, "never reached the exchange"))
            else:
                self._say(EventKind.CANCEL_REFUSED, order)
        self.requests.clear()
        for client_id in [] if adopt else list(self.book):
            self._end(client_id, "user")
        while self.events:
            self._next_event()
        self.timers.clear()
        self.composites = CompositeOrders(self)  # type: ignore[arg-type]
        return list(self.composites.restore())

    def deliver(self) -> None:
        """Let the exchange process the next request, if there is one."""
        if not self.requests:
            return
        what, client_id = self.requests.popleft()
        if what == "new":
            order = self.orders[client_id].accepted(1000 + client_id)
            self.book[client_id] = order
            self._say(EventKind.ACCEPTED, order)
            if order.options.immediate or (not order.price_ticks and order.options.stop_ticks is None):
                self._execute_now(order)
        elif client_id in self.book:
            self._end(client_id, "user")
        else:
            self._say(EventKind.CANCEL_REFUSED, self.orders[client_id])

    def _execute_now(self, order: Order) -> None:
        """Execute as much of an order as the volume at the best price allows, and cancel the rest of it."""
        quote = self.quotes[order.symbol]
        lots = quote.ask_volume_lots if order.side is Side.BUY else quote.bid_volume_lots
        price = quote.ask_price_ticks if order.side is Side.BUY else quote.bid_price_ticks
        is_within = not order.price_ticks or (price is not None and (order.price_ticks - price) * order.side.sign >= 0)
        if lots and price is not None and is_within:
            self.fill(order.client_id, lots, price)
        if order.client_id in self.book:
            self._end(order.client_id, "immediate")

    def fill(self, client_id: int, lots: int, price: int) -> None:
        """Execute ``lots`` of an order, at most all."""
        order = self.book.get(client_id)
        if order is None:
            return
        lots = min(lots, order.remaining_lots)
        order = order.executed(lots, last=lots == order.remaining_lots)
        self.book[client_id] = order
        kind = EventKind.PARTIALLY_FILLED if order.is_open else EventKind.FILLED
        if not order.is_open:
            del self.book[client_id]
        self._say(kind, order, volume_lots=lots, price_ticks=price)

    def trigger(self, client_id: int) -> None:
        """Trigger a stop: it becomes a market order."""
        order = self.book.get(client_id)
        if order is not None and order.options.stop_ticks is not None:
            self._say(EventKind.TRIGGERED, order)
            self._execute_now(order)

    def _end(self, client_id: int, reason: str) -> None:
        self._say(EventKind.CANCELLED, self.book.pop(client_id).cancelled(reason), reason=reason)

    def _say(self, kind: EventKind, order: Order, **fields: Any) -> None:
        self.events.append(OrderEvent(kind, order, self.now_ns, **fields))

    def hear(self) -> None:
        """Pass the next event to the strategy."""
        if self.events:
            self.composites.on_order_event(self._next_event())

    def _next_event(self) -> OrderEvent:
        event = self.events.popleft()
        if event.kind is EventKind.CANCEL_REFUSED:
            # The event leaves the order unchanged: executions before it have been received by now.
            event = msgspec.structs.replace(event, order=self.orders[event.order.client_id])
        self.orders[event.order.client_id] = event.order
        self.heard.append(event)
        return event

    def settle(self) -> None:
        """Deliver all pending requests and events."""
        for _ in range(10_000):
            if not (self.requests or self.events):
                return
            self.deliver()
            self.hear()
        raise AssertionError("requests without end")

    def touch(self, bid: int | None, ask: int | None, lots: int = 100, symbol: str = "ACME") -> None:
        """Set the best bid and ask."""
        self.quotes[symbol] = Quote(symbol, bid, lots if bid else 0, ask, lots if ask else 0, 10)
        self.composites.on_view_change(ViewChange("best_quote", False, 0, 1, ({"symbol": symbol},), ()))

    def trade(self, second: int, volume: int, symbol: str = "ACME") -> None:
        """Report the volume of trades in a second."""
        row = {"symbol": symbol, "second": second, "volume": volume}
        self.composites.on_view_change(ViewChange("trades_1s", False, 0, 1, (row,), ()))

    def pass_time(self, ms: int) -> None:
        """Advance the time, and call the timers that become due."""
        end_ns = self.now_ns + ms * 1_000_000
        while due := [(at, name) for name, at in self.timers.items() if at <= end_ns]:
            self.now_ns, name = min(due)
            del self.timers[name]
            self.composites.on_timer(name)
        self.now_ns = end_ns

    def filled(self, side: Side) -> int:
        """Return the number of executed lots of a side at the exchange."""
        lots = dict.fromkeys(self.orders, 0)
        for order in (*self.orders.values(), *self.book.values(), *(event.order for event in self.events)):
            lots[order.client_id] = max(lots[order.client_id], order.filled_lots)
        return sum(n for client_id, n in lots.items() if self.orders[client_id].side is side)

    def live(self, side: Side) -> list[Order]:
        """Return the orders of a side at the exchange or on their way to it."""
        coming = [self.orders[client_id] for what, client_id in self.requests if what == "new"]
        return [order for order in (*self.book.values(), *coming) if order.side is side]
