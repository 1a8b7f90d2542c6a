"""What a strategy is and what it may ask for: the whole interface that a strategy file uses.

A strategy reacts to events and never waits. It sees no sockets, no reactor and no clock but `Context.now_ns`, so the
same file runs live, on a replay and in a backtest.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from algo_engine.contents import ViewChange, ViewContents
from algo_engine.order import Order, OrderEvent
from algo_engine.portfolio import ProfitAndLoss
from algo_engine.quotes import Quote
from algo_engine.view_link import Lane
from deltabook.wire.options import PLAIN, OrderOptions

__all__ = ["Context", "NoParameters", "Strategy"]


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a strategy that has none."""


P = TypeVar("P", bound=msgspec.Struct)


class Context(abc.ABC):
    """What the engine offers to a strategy. Every call returns at once; what follows from it comes as events."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name under which the strategy runs."""

    @property
    @abc.abstractmethod
    def broker_id(self) -> int:
        """As which broker it trades: its own orders are this one's in views that name brokers."""

    @property
    @abc.abstractmethod
    def parameters(self) -> msgspec.Struct:
        """The strategy's parameters, the same as `Strategy.parameters`."""

    @property
    @abc.abstractmethod
    def now_ns(self) -> int:
        """The engine's time, nanoseconds since the UTC epoch; in a backtest the simulated one."""

    @abc.abstractmethod
    def buy(self, symbol: str, volume_lots: int, price_ticks: int = 0, *, options: OrderOptions = PLAIN) -> int:
        """Send a limit order, or with price 0 a market order; returns our number of it, refused or not.

        ``options`` make it immediate (``OrderOptions(immediate=True)``), post-only, an iceberg, and so on.
        """

    @abc.abstractmethod
    def sell(self, symbol: str, volume_lots: int, price_ticks: int = 0, *, options: OrderOptions = PLAIN) -> int:
        """See `buy`."""

    @abc.abstractmethod
    def cancel(self, client_id: int) -> None:
        """Take the rest of an order out of the market."""

    @abc.abstractmethod
    def cancel_all(self, symbol: str | None = None) -> None:
        """Cancel all own orders, or those of one symbol."""

    @abc.abstractmethod
    def reduce(self, client_id: int, volume_lots: int) -> None:
        """Make an order smaller by so many lots; it keeps its priority."""

    @abc.abstractmethod
    def replace(self, client_id: int, volume_lots: int, price_ticks: int) -> None:
        """Have so many lots open at this price in place of what an order still has open.

        It keeps our number, and its priority only at the same price with no more lots. What executes meanwhile comes
        on top of it. It is refused, as an event, while another replacement of the order is on its way.
        """

    @abc.abstractmethod
    def order(self, client_id: int) -> Order | None:
        """An open order, or one of the last thousand that ended."""

    @abc.abstractmethod
    def open_orders(self, symbol: str | None = None) -> list[Order]:
        """All own orders that may still trade, oldest first."""

    @abc.abstractmethod
    def position_lots(self, symbol: str) -> int:
        """Lots held, negative for a short position."""

    @abc.abstractmethod
    def profit(self, symbol: str | None = None) -> ProfitAndLoss:
        """Profit in ticks × lots of one symbol or of all, after fees; open positions at the price that would close
        them."""

    @abc.abstractmethod
    def quote(self, symbol: str) -> Quote | None:
        """Best bid and ask."""

    @abc.abstractmethod
    def symbols(self) -> list[str]:
        """All symbols quoted so far, sorted."""

    @abc.abstractmethod
    def view(self, name: str) -> ViewContents:
        """Current rows of a view that is declared or was added; not to be changed."""

    @abc.abstractmethod
    def add_view(self, name: str, sql: str, lane: Lane = "express") -> None:
        """Have a view kept from now on, and follow it.

        It begins with a snapshot in `Strategy.on_view_change`; a refusal comes as `Strategy.on_view_error`. A view that
        another strategy has added under this name is shared if it has the same SQL. When the last strategy that wants
        it stops, the view is dropped.
        """

    @abc.abstractmethod
    def set_timer(self, name: str, delay_ms: int, *, repeat: bool = False) -> None:
        """Call `Strategy.on_timer` after this delay, or again and again; a name that is set already is set anew."""

    @abc.abstractmethod
    def cancel_timer(self, name: str) -> None:
        """Forget a timer; one that is not set is ignored."""

    @abc.abstractmethod
    def log(self, message: str, **fields: Any) -> None:
        """One line in the log, with the strategy's name."""


class Strategy(Generic[P]):
    """Base of all strategies; a strategy file holds exactly one subclass.

    The engine calls one method at a time. An exception out of any of them stops this strategy (its orders are
    cancelled and no new ones are taken) and no other.
    """

    views: tuple[str, ...] = ()
    """Views that must be there; ``best_quote`` always is. A strategy may choose them when it is made."""
    queries: Mapping[str, str] = MappingProxyType({})
    """Views that it brings along, name → SQL: they are added, in the express lane, before it starts."""
    parameters_type: ClassVar[type[msgspec.Struct]] = NoParameters
    """Frozen struct with a default for every field; ``--param NAME.field=value`` sets one."""

    context: Context
    """Set before `on_start`."""

    def __init__(self, parameters: P) -> None:
        self.parameters: P = parameters

    def on_start(self, context: Context) -> None:
        """All views hold a snapshot and the fate of all earlier orders is known."""

    def on_view_change(self, change: ViewChange) -> None:
        """Rows of a declared view (or of ``best_quote``) came and went; `Context.view` shows the result."""

    def on_view_error(self, view: str, reason: str) -> None:
        """A view that `Context.add_view` asked for is refused, or is no longer kept."""

    def on_order_event(self, event: OrderEvent) -> None:
        """Something happened to an own order."""

    def on_timer(self, name: str) -> None:
        """A timer is due."""

    def on_stop(self) -> None:
        """The last call; resting orders are cancelled after it."""
