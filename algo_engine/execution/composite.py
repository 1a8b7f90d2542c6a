"""Base of all composite orders: one child order at a time, counted lots, and the events that drive them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

from algo_engine.desk.order import OrderEvent, OrderStatus, Side
from algo_engine.strategy import Context
from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import QUOTE_VIEW, Quote
from deltabook.wire.text import PLAIN, OrderOptions

__all__ = ["ChildOrder", "Composite", "CompositeOrders", "CompositeState"]

_PREFIX: Final = "composite order "
"""Beginning of the names of timers and memories of composite orders; the order's number follows."""
_MOST_FAILURES: Final = 10
"""A composite order fails when this number of child orders in a row have failed, for example by a refusal."""
_MOST_WORKING: Final = 200
"""Largest number of working composite orders of one strategy; each may need a timer."""


class CompositeState(StrEnum):
    """State of a composite order."""

    WORKING = "working"
    """The order has a child order in the market, or waits to send one."""
    ENDING = "ending"
    """The order was cancelled, and the cancellation of its child order is pending."""
    FILLED = "filled"
    """All its lots have traded."""
    CANCELLED = "cancelled"
    """The order was cancelled, or its time was over, before all lots had traded."""
    FAILED = "failed"
    """Too many child orders in a row failed; `Composite.reason` has the reason."""


class ChildOrder(msgspec.Struct, frozen=True, gc=False):
    """Order that a composite order wants to have in the market now."""

    lots: int
    """Number of lots; never more than the composite order has left."""
    price_ticks: int
    """Limit price in ticks; 0 for a market order."""
    options: OrderOptions = PLAIN
    """Options of the order, such as immediate or a stop."""


class Composite(abc.ABC):
    """Base class of composite orders.

    `_wanted` of a subclass returns the child order that should be in the market now; this class sends and cancels child
    orders accordingly. A child order that differs from the wanted one is cancelled. The next child order is sent when
    the exchange has reported how many lots of the cancelled one have traded. A replacement would be quicker, but lots
    that the old order executes meanwhile are additional, so that the composite order could trade too much.

    Invariant, at all times: ``filled_lots`` + open lots of the child ≤ ``lots``.

    A subclass with attributes that must survive a restart lists them in `memory_fields`.
    """

    memory_fields: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "side": Side, "symbol": str, "lots": int, "filled_lots": int, "notional": int, "state": CompositeState,
            "reason": str, "_child_id": int, "_child": ChildOrder | None, "_is_leaving": bool, "_number": int,
        }
    )  # fmt: skip
    """Attribute → type of the values remembered over a restart, including those of the base classes."""
    loose_fields: ClassVar[frozenset[str]] = frozenset()
    """Names in `memory_fields` whose changes alone do not cause the memory to be written."""

    def __init__(self, context: Context, side: Side, symbol: str, lots: int) -> None:
        """Create an order; raise `ValueError` for lots below 0."""
        if lots < 0:
            raise ValueError(f"expected 0 lots or more, was {lots}")
        self.side, self.symbol, self.lots = side, symbol, lots
        self.filled_lots = 0
        """Lots traded so far."""
        self.notional = 0
        """Sum of price × lots of all executions, in ticks × lots."""
        self.state = CompositeState.WORKING
        self.reason = ""
        """Reason of the cancellation or failure, or of the latest refusal of a child order; else empty."""
        self.on_done: Callable[[Composite], None] = lambda composite: None
        """Callback, called once when the order has ended."""
        self.on_cancelled: Callable[[], None] = lambda: None
        """Callback for `CompositeOrders`, called when the strategy has cancelled the order."""
        self._context = context
        self._child_id = 0
        self._child: ChildOrder | None = None
        self._is_leaving = False
        self._is_paused = False
        """True from a failed child to the next quote or timer, so that nothing is repeated at once."""
        self._failures = 0
        self._number = 0
        self._is_asleep = False
        """True during a restore: the order counts events, and sends nothing."""
        self._is_finished = False

    @property
    def is_done(self) -> bool:
        """True once nothing more can trade."""
        return self.state not in {CompositeState.WORKING, CompositeState.ENDING}

    @property
    def remaining_lots(self) -> int:
        """Number of lots still to trade."""
        return self.lots - self.filled_lots

    @property
    def child_id(self) -> int:
        """Client id of the child order that may still trade, 0 if there is none."""
        return self._child_id

    def average_ticks(self) -> float | None:
        """Return the mean execution price in ticks, None before the first execution."""
        return self.notional / self.filled_lots if self.filled_lots else None

    def cancel(self, reason: str = "cancelled by the strategy") -> None:
        """Cancel the child order and end; executions until then still count."""
        if self.state is CompositeState.WORKING:
            self.state, self.reason = CompositeState.ENDING, reason
            self._settle()
            self.on_cancelled()

    @abc.abstractmethod
    def _wanted(self) -> ChildOrder | None:
        """Return the child order to have in the market now, None for none.

        Called often; it must not change anything.
        """

    def _quoted(self, quote: Quote) -> None:  # noqa: B027 - most have no use for it
        """Process a quote of the symbol; called before `_wanted`."""

    def _due(self) -> None:  # noqa: B027 - most have no use for it
        """Process the timer of `_set_timer`; called before `_wanted`."""

    def _view_changed(self, change: ViewChange) -> None:  # noqa: B027 - most have no use for it
        """Process a change of a view of the strategy other than quotes."""

    def _child_event(self, event: OrderEvent) -> None:  # noqa: B027 - most have no use for it
        """Process an event of a child order, after it was counted."""

    def _is_complete(self) -> bool:
        """Return True if there is nothing left to trade, now or later."""
        return self.filled_lots >= self.lots

    # -- calls of CompositeOrders

    def start(self, number: int) -> None:
        """Start the order; ``number`` is unique in the strategy."""
        self._number = number
        quote = self._context.quote(self.symbol)
        if quote is not None:
            self._quoted(quote)
        self._settle()

    def owns(self, client_id: int) -> bool:
        """Return True if an order is the child of this order, or of a part of it."""
        return client_id == self._child_id != 0

    def order_event(self, event: OrderEvent) -> None:
        """Process an event of the child order."""
        order = event.order
        if event.is_fill:
            self.filled_lots += event.volume_lots
            self.notional += event.volume_lots * event.price_ticks
            self._failures = 0
        if not order.is_open:
            child, self._child_id, self._child = self._child, 0, None
            was_leaving, self._is_leaving = self._is_leaving, False
            self._ended(order.status, order.reason, child, was_leaving=was_leaving)
        elif event.kind == "cancel_refused":
            self._is_leaving, self._is_paused = False, True
        self._child_event(event)
        self._settle()

    def quote_changed(self, quote: Quote) -> None:
        """Process a change of the symbol's best prices."""
        self._is_paused = False
        self._quoted(quote)
        self._settle()

    def timer_due(self) -> None:
        """Process the timer."""
        self._is_paused = False
        self._due()
        self._settle()

    def view_changed(self, change: ViewChange) -> None:
        """Process a change of another view."""
        self._view_changed(change)
        self._settle()

    # -- restarts

    def memory(self) -> dict[str, Any]:
        """Return the values of `memory_fields`."""
        return {name: getattr(self, name) for name in self.memory_fields}

    @classmethod
    def remembered(cls, context: Context, memory: Mapping[str, Any]) -> Composite:
        """Return an order from its memory, asleep; raise `msgspec.ValidationError` for the memory of another class."""
        composite = cls.__new__(cls)
        Composite.__init__(composite, context, Side.BUY, "", 0)
        for name, kind in cls.memory_fields.items():
            setattr(composite, name, msgspec.convert(memory.get(name), kind))
        composite._is_asleep = True
        return composite

    def wake(self) -> None:
        """Resume after a restart, once the events since the order's memory was written have been counted."""
        order = self._context.order(self._child_id)
        if order is None or not order.is_open:
            # A limit of the engine refused the child: refusals are in no journal.
            self._child_id, self._child, self._is_leaving = 0, None, False
        self._resumed()
        self._is_asleep = self._is_paused = False
        quote = self._context.quote(self.symbol)
        if quote is not None:
            self._quoted(quote)
        self._settle()

    def _resumed(self) -> None:  # noqa: B027 - most have no use for it
        """Prepare to resume after a restart: set the timer, and catch up."""

    # -- helpers of subclasses

    def _set_timer(self, delay_ms: int) -> None:
        self._context.set_timer(f"{_PREFIX}{self._number}", max(1, delay_ms))

    def _ended(self, status: OrderStatus, reason: str, child: ChildOrder | None, *, was_leaving: bool) -> None:
        if status is OrderStatus.FILLED:
            return
        if status in {OrderStatus.REFUSED, OrderStatus.REJECTED, OrderStatus.NEVER_SENT}:
            self._failures += 1
            self._is_paused = True
            self.reason = reason
        elif not was_leaving:
            # The rest of an immediate order, or lots that the exchange removed.
            is_immediate = child is not None and (child.options.immediate or not child.price_ticks)
            self._failures += not is_immediate
            self._is_paused = True
        if self._failures >= _MOST_FAILURES and self.state is CompositeState.WORKING:
            self.state, self.reason = CompositeState.FAILED, reason or str(status)

    def _settle(self) -> None:
        if self._is_asleep:
            return
        if self.is_done:
            self._finish()
            return
        if self.state is CompositeState.ENDING:
            if not self._child_id:
                self.state = CompositeState.CANCELLED if self.remaining_lots else CompositeState.FILLED
                self._finish()
            else:
                self._leave()
            return
        if self._is_complete() and not self._child_id:
            self.state, self.reason = CompositeState.FILLED, ""
            self._finish()
            return
        wanted = self._wanted()
        if wanted is not None and min(wanted.lots, self.remaining_lots) <= 0:
            wanted = None
        if not self._child_id:
            if wanted is not None and not self._is_paused:
                self._send(wanted)
        elif (wanted is None or not self._is_as_wanted(wanted)) and not self._is_immediate():
            self._leave()

    def _is_as_wanted(self, wanted: ChildOrder) -> bool:
        child, order = self._child, self._context.order(self._child_id)
        if child is None or order is None or (child.price_ticks, child.options) != (wanted.price_ticks, wanted.options):
            return False
        return order.remaining_lots == min(wanted.lots, self.remaining_lots)

    def _is_immediate(self) -> bool:
        """Return True if the child ends by itself: a limit order that does not rest, or a market order."""
        child = self._child
        return child is not None and (
            child.options.immediate or (not child.price_ticks and child.options.stop_ticks is None)
        )

    def _send(self, wanted: ChildOrder) -> None:
        lots = min(wanted.lots, self.remaining_lots)
        submit = self._context.buy if self.side is Side.BUY else self._context.sell
        self._child = wanted
        client_id = submit(self.symbol, lots, wanted.price_ticks, options=wanted.options)
        order = self._context.order(client_id)
        # A refusal by the engine's limits is already known, and its event comes after the strategy has returned.
        self._child_id = client_id
        if order is None:
            self._child_id, self._child = 0, None

    def _leave(self) -> None:
        if not self._is_leaving and not self._is_paused:
            self._is_leaving = True
            self._context.cancel(self._child_id)

    def _finish(self) -> None:
        if self._is_finished or self._child_id:
            return
        self._is_finished = True
        self._context.cancel_timer(f"{_PREFIX}{self._number}")
        self.on_done(self)

    def _check(self) -> None:
        """Assert every invariant."""
        order = self._context.order(self._child_id) if self._child_id else None
        open_lots = order.remaining_lots if order is not None else 0
        assert 0 <= self.filled_lots <= self.lots, f"{self.filled_lots} of {self.lots} lots filled"
        assert self.filled_lots + open_lots <= self.lots, f"{self.filled_lots} filled, {open_lots} open, {self.lots}"
        assert self.state is not CompositeState.FILLED or self.filled_lots == self.lots


def _kinds(base: Any = Composite) -> Iterator[type[Composite]]:
    """Yield the direct and indirect subclasses in this package."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith(f"{__package__}."):
            yield kind
            yield from _kinds(kind)


class CompositeOrders:
    """Composite orders of one strategy, to which the strategy passes its events.

    Call `on_order_event`, `on_view_change` and `on_timer` from the strategy's methods of the same names. Call `restore`
    from `on_start`: the journal contains the composite orders of an earlier run, and they are discarded unless they are
    restored.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._working: dict[int, Composite] = {}
        self._numbers = 0
        self._written: dict[int, dict[str, Any]] = {}
        """Last written memory by number, without loose fields."""

    def restore(
        self, on_done: Callable[[Composite], None] | None = None, kinds: Sequence[type[Composite]] = ()
    ) -> Sequence[Composite]:
        """Resume the composite orders of an earlier run; return them, oldest first.

        ``on_done`` becomes the `Composite.on_done` of each order before any order resumes; ``kinds`` are the strategy's
        own classes. Raise `ValueError` for an order of another class.
        """
        known = {kind.__name__: kind for kind in (*_kinds(), *kinds)}
        for recovered in self._context.recovered():
            if not recovered.name.startswith(_PREFIX):
                continue
            name, memory = msgspec.msgpack.decode(recovered.data, type=tuple[str, dict[str, Any]])
            if name not in known:
                raise ValueError(f"expected a composite order out of {', '.join(known)}, was {name} in the journal")
            composite = known[name].remembered(self._context, memory)
            composite.on_done = on_done or composite.on_done
            for event in recovered.events:
                if composite.owns(event.order.client_id):
                    composite.order_event(event)
            number = int(recovered.name.removeprefix(_PREFIX))
            self._numbers = max(self._numbers, number)
            self._working[number] = composite
        restored = self.working
        for composite in restored:
            composite.wake()
            composite.on_cancelled = self._save_changed
        self._save_changed()
        return restored

    @property
    def working(self) -> Sequence[Composite]:
        """Composite orders that have not ended, oldest first."""
        return list(self._working.values())

    def add(self, composite: Composite) -> None:
        """Start a composite order; raise `ValueError` above the limit of working orders."""
        if len(self._working) >= _MOST_WORKING:
            raise ValueError(f"expected at most {_MOST_WORKING} composite orders at once, was one more")
        self._numbers += 1
        self._working[self._numbers] = composite
        composite.on_cancelled = self._save_changed
        composite.start(self._numbers)
        self._save_changed()

    def cancel_all(self, symbol: str | None = None) -> None:
        """Cancel all composite orders, or those of one symbol."""
        for composite in self.working:
            if symbol is None or composite.symbol == symbol:
                composite.cancel()

    def on_order_event(self, event: OrderEvent) -> bool:
        """Pass on an event of an own order; return True if the order belongs to a composite order."""
        for composite in self.working:
            if composite.owns(event.order.client_id):
                composite.order_event(event)
                self._save_changed()
                return True
        return False

    def on_view_change(self, change: ViewChange) -> None:
        """Pass on a change of a view."""
        if change.view == QUOTE_VIEW:
            symbols = {row["symbol"] for row in (*change.added, *change.removed)}
            for composite in self.working:
                quote = self._context.quote(composite.symbol) if composite.symbol in symbols else None
                if quote is not None and not composite.is_done:
                    composite.quote_changed(quote)
        else:
            for composite in self.working:
                composite.view_changed(change)
        self._save_changed()

    def on_timer(self, name: str) -> bool:
        """Pass on a timer; return True if it belongs to a composite order."""
        if not name.startswith(_PREFIX):
            return False
        composite = self._working.get(int(name.removeprefix(_PREFIX)))
        if composite is not None and not composite.is_done:
            composite.timer_due()
            self._save_changed()
        return True

    def _save_changed(self) -> None:
        """Write the memories of changed orders, and drop ended orders."""
        for number, composite in list(self._working.items()):
            if composite.is_done and not composite.child_id:
                del self._working[number]
                self._written.pop(number, None)
                self._context.remember(f"{_PREFIX}{number}", b"")
                continue
            memory = composite.memory()
            compared = {name: value for name, value in memory.items() if name not in composite.loose_fields}
            if compared != self._written.get(number):
                self._written[number] = compared
                data = msgspec.msgpack.encode((type(composite).__name__, memory))
                self._context.remember(f"{_PREFIX}{number}", data)
