"""Exits from a position: a target and a stop that exclude each other, a trailing stop, and an entry with both."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, cast

import msgspec

from algo_engine.desk.order import EventKind, OrderEvent, Side
from algo_engine.execution.composite import ChildOrder, Composite, CompositeState
from algo_engine.strategy import Context
from algo_engine.views.quotes import Quote
from deltabook.wire.text import PLAIN, OrderOptions

__all__ = ["Bracket", "Entry", "OneCancelsOther", "TrailingStop"]

_NOW: Final = OrderOptions(immediate=True)


def _near_ticks(side: Side, quote: Quote) -> int | None:
    """Return the price at which an order of this side would trade at once; None if the other side is empty."""
    if side is Side.BUY:
        return quote.ask_price_ticks if quote.ask_volume_lots else None
    return quote.bid_price_ticks if quote.bid_volume_lots else None


class _Stopping(Composite):
    """Base class of stops: the stop order rests at the exchange, which watches the trades.

    While the exchange cannot watch, because the stop order is not there yet or is being moved, the best prices are
    watched here.
    """

    memory_fields = MappingProxyType({**Composite.memory_fields, "stop_ticks": int, "is_stopped": bool})

    def __init__(self, context: Context, side: Side, symbol: str, lots: int, stop_ticks: int) -> None:
        super().__init__(context, side, symbol, lots)
        self.stop_ticks = stop_ticks
        """Stop price in ticks; reaching it triggers an exit at any price."""
        self.is_stopped = False
        """True once the stop price was reached."""

    def _is_reached(self, quote: Quote) -> bool:
        near = _near_ticks(self.side, quote)
        return near is not None and (near - self.stop_ticks) * self.side.sign >= 0

    def _is_watched_by_exchange(self) -> bool:
        child = self._child
        return child is not None and child.options.stop_ticks is not None and not self._is_leaving

    def _watch(self, quote: Quote) -> None:
        # Without lots there is nothing to stop: before the entry of a bracket, the market may be beyond its stop price.
        if self.remaining_lots and not self._is_watched_by_exchange() and self._is_reached(quote):
            self.is_stopped = True

    def _child_event(self, event: OrderEvent) -> None:
        if event.kind is EventKind.TRIGGERED:
            self.is_stopped = True

    def _stop_order(self) -> ChildOrder:
        if self.is_stopped and not self._is_watched_by_exchange():
            return ChildOrder(self.remaining_lots, 0, PLAIN)
        # A triggered stop is a market order on its way: it is still the wanted order.
        return ChildOrder(self.remaining_lots, 0, OrderOptions(stop_ticks=self.stop_ticks))


class OneCancelsOther(_Stopping):
    """A target and a stop for the same lots: no lot trades through both.

    Only one of the two orders is in the market at a time. With ``rests="stop"`` the stop waits at the exchange, where
    it stays effective without the engine. When the best price reaches the target, the stop is cancelled, and the target
    is sent as an immediate order. With ``rests="target"`` the target keeps its place in the queue, and the engine
    compares the stop with the best prices: the stop needs a running engine.
    """

    memory_fields = MappingProxyType(
        {
            **_Stopping.memory_fields, "target_ticks": int, "_rests": Literal["stop", "target"],
            "_is_at_target": bool, "_is_final": bool,
        }
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - the terms of the pair
        self,
        context: Context,
        side: Side,
        symbol: str,
        lots: int,
        target_ticks: int,
        stop_ticks: int,
        *,
        rests: Literal["stop", "target"] = "stop",
    ) -> None:
        """Create an order; ``side`` is the side of both orders: SELL for the exit from a long position.

        Raise `ValueError` if the target is not better than the stop, or a price is below 1 tick.
        """
        super().__init__(context, side, symbol, lots, stop_ticks)
        if (stop_ticks - target_ticks) * side.sign <= 0 or min(stop_ticks, target_ticks) <= 0:
            order = "a target below the stop" if side is Side.BUY else "a target above the stop"
            raise ValueError(
                f"expected {order}, both above 0, was a target of {target_ticks} and a stop of {stop_ticks}"
            )
        self.target_ticks = target_ticks
        self._rests = rests
        self._is_at_target = False
        self._is_final = True

    def hold(self, lots: int, *, is_final: bool) -> None:
        """Set the total number of lots to exit; unless ``is_final``, more lots may follow, and the order does not
        end.
        """
        self.lots, self._is_final = lots, is_final
        self._settle()

    def _is_complete(self) -> bool:
        return self._is_final and super()._is_complete()

    def _quoted(self, quote: Quote) -> None:
        near = _near_ticks(self.side, quote)
        self._is_at_target = near is not None and (self.target_ticks - near) * self.side.sign >= 0
        self._watch(quote)

    def _watch(self, quote: Quote) -> None:
        # The target rests, so that the stop is watched here at all times.
        if self._rests == "target":
            self.is_stopped = self.is_stopped or (self.remaining_lots > 0 and self._is_reached(quote))
        else:
            super()._watch(quote)

    def _wanted(self) -> ChildOrder | None:
        if self.is_stopped:
            return self._stop_order() if self._rests == "stop" else ChildOrder(self.remaining_lots, 0, PLAIN)
        if self._rests == "target":
            return ChildOrder(self.remaining_lots, self.target_ticks)
        if self._is_at_target:
            return ChildOrder(self.remaining_lots, self.target_ticks, _NOW)
        return self._stop_order()


class TrailingStop(_Stopping):
    """A stop that follows favourable moves of the best price at a distance, and never moves back.

    The stop order rests at the exchange. It is moved when the new stop price is at least ``step_ticks`` better; while
    it is moved, the best price is watched here.
    """

    memory_fields = MappingProxyType({**_Stopping.memory_fields, "trail_ticks": int, "step_ticks": int})

    def __init__(
        self, context: Context, side: Side, symbol: str, lots: int, trail_ticks: int, *, step_ticks: int = 1
    ) -> None:
        """Create an order; raise `ValueError` for distances below 1 tick."""
        if trail_ticks < 1 or step_ticks < 1:
            raise ValueError(f"expected distances of 1 tick or more, was {trail_ticks} and {step_ticks}")
        super().__init__(context, side, symbol, lots, 0)
        self.trail_ticks, self.step_ticks = trail_ticks, step_ticks

    def _quoted(self, quote: Quote) -> None:
        near = _near_ticks(self.side, quote)
        if near is None or self.is_stopped:
            return
        stop = near + self.side.sign * self.trail_ticks
        if not self.stop_ticks or (self.stop_ticks - stop) * self.side.sign >= self.step_ticks:
            self.stop_ticks = max(1, stop)
        self._watch(quote)

    def _wanted(self) -> ChildOrder | None:
        return self._stop_order() if self.stop_ticks else None


class Entry(msgspec.Struct, frozen=True):
    """Entry into a position."""

    lots: int
    """Number of lots to trade."""
    price_ticks: int = 0
    """Limit price in ticks; 0 for a market order."""
    options: OrderOptions = PLAIN
    """Options of the entry's order."""


class _EntryOrder(Composite):
    """Entry of a bracket: one order, sent once."""

    memory_fields = MappingProxyType({**Composite.memory_fields, "_entry": Entry, "_is_sent": bool})

    def __init__(self, context: Context, side: Side, symbol: str, entry: Entry) -> None:
        super().__init__(context, side, symbol, entry.lots)
        self._entry = entry
        self._is_sent = False

    def _wanted(self) -> ChildOrder | None:
        if self._is_sent and not self._child_id:
            return None
        return ChildOrder(self.remaining_lots, self._entry.price_ticks, self._entry.options)

    def _child_event(self, event: OrderEvent) -> None:
        self._is_sent = True
        if not event.order.is_open and self.remaining_lots and self.state is CompositeState.WORKING:
            self.cancel(event.order.reason or str(event.order.status))


class Bracket(Composite):
    """An entry, with an exit for each executed lot: a target and a stop that exclude each other.

    The exit begins with the first executed lots of the entry, and grows with the entry. As soon as the exit trades, the
    rest of the entry is cancelled. Lots of the exit never exceed those of the entry: ``exit.filled_lots`` + its open
    lots ≤ ``entry.filled_lots``.

    `filled_lots` counts the entry; the bracket ends when the exit has closed all entered lots.
    """

    def __init__(  # noqa: PLR0917 - the terms of the bracket
        self,
        context: Context,
        side: Side,
        symbol: str,
        entry: Entry,
        target_ticks: int,
        stop_ticks: int,
        *,
        rests: Literal["stop", "target"] = "stop",
    ) -> None:
        """Create a bracket; ``side`` is the entry's. Raise `ValueError` as `OneCancelsOther` does."""
        super().__init__(context, side, symbol, entry.lots)
        out = Side.SELL if side is Side.BUY else Side.BUY
        self.entry: Composite = _EntryOrder(context, side, symbol, entry)
        """Composite order of the entry."""
        self.exit = OneCancelsOther(context, out, symbol, 0, target_ticks, stop_ticks, rests=rests)
        """Composite order of the exit."""

    def memory(self) -> dict[str, Any]:
        """Return the memories of the bracket and of its parts."""
        return {**super().memory(), "entry": self.entry.memory(), "exit": self.exit.memory()}

    @classmethod
    def remembered(cls, context: Context, memory: Mapping[str, Any]) -> Composite:
        """See `Composite.remembered`."""
        bracket = cast(Bracket, super().remembered(context, memory))
        bracket.entry = _EntryOrder.remembered(context, memory["entry"])
        bracket.exit = cast(OneCancelsOther, OneCancelsOther.remembered(context, memory["exit"]))
        return bracket

    def wake(self) -> None:
        """See `Composite.wake`."""
        self.entry.wake()
        self.exit.wake()
        self._is_asleep = False
        self._settle()

    @property
    def _entered_by_stop(self) -> bool:
        entry = cast(_EntryOrder, self.entry)
        return entry._entry.options.stop_ticks is not None

    @property
    def child_id(self) -> int:
        """Client id of an order of either part that may still trade, 0 if there is none."""
        return self.entry.child_id or self.exit.child_id

    def cancel(self, reason: str = "cancelled by the strategy") -> None:
        """Cancel the rest of the entry, and the exit: the entered lots are then held without an exit."""
        if self.state is CompositeState.WORKING:
            self.state, self.reason = CompositeState.ENDING, reason
            self.entry.cancel(reason)
            self.exit.cancel(reason)
            self._settle()
            self.on_cancelled()

    def start(self, number: int) -> None:
        """Start the entry."""
        self._number = number
        self.exit.hold(0, is_final=False)
        quote = self._context.quote(self.symbol)
        if quote is not None:
            self.exit.quote_changed(quote)
        self.entry.start(number)
        self._settle()

    def owns(self, client_id: int) -> bool:
        """Return True if an order is the entry's or the exit's."""
        return self.entry.owns(client_id) or self.exit.owns(client_id)

    def order_event(self, event: OrderEvent) -> None:
        """Process an event of an order of either part."""
        part = self.entry if self.entry.owns(event.order.client_id) else self.exit
        part.order_event(event)
        self._settle()

    def quote_changed(self, quote: Quote) -> None:
        """Process a change of the symbol's best prices."""
        self.entry.quote_changed(quote)
        self.exit.quote_changed(quote)
        self._settle()

    def _wanted(self) -> ChildOrder | None:
        return None

    def _settle(self) -> None:
        if self._is_asleep:
            return
        entry, out = self.entry, self.exit
        self.filled_lots, self.notional = entry.filled_lots, entry.notional
        if out.filled_lots or out.is_stopped or out.is_done:
            entry.cancel("the exit has begun" if not out.is_done else f"the exit has ended: {out.reason}")
        if self.state is CompositeState.WORKING and (out.lots, out._is_final) != (entry.filled_lots, entry.is_done):
            is_first = not out.lots and entry.filled_lots
            out.hold(entry.filled_lots, is_final=entry.is_done)
            quote = self._context.quote(self.symbol)
            # The quote is older than the execution. It may be far from the price that triggered a stop order.
            if is_first and quote is not None and not self._entered_by_stop:
                out.quote_changed(quote)
        if not (entry.is_done and (out.is_done or not entry.filled_lots)):
            return
        if self.state is CompositeState.WORKING:
            self.state = out.state if entry.filled_lots else entry.state
            self.reason = out.reason if entry.filled_lots else entry.reason
        elif self.state is CompositeState.ENDING:
            self.state = CompositeState.CANCELLED
        self._finish()

    def _finish(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            self.on_done(self)

    def _check(self) -> None:
        self.entry._check()
        self.exit._check()
        order = self._context.order(self.exit.child_id) if self.exit.child_id else None
        open_lots = order.remaining_lots if order is not None else 0
        assert self.exit.filled_lots + open_lots <= self.entry.filled_lots, "more lots on their way out than came in"
