"""Interface of strategies: the base class of a strategy, and the context that the engine passes to it.

A strategy reacts to events and never waits. It uses no sockets and no reactor, and its only clock is
`Context.now_ns`. So the same file runs live, on a replay and in a backtest. Prices are integers in ticks, volumes
integers in lots, and money is ticks × lots. `Strategy` has an example; docs/strategies.md has the events, limits and
restarts. docs/algo.md has the life of an order.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from algo_engine.desk.memories import Recovered
from algo_engine.desk.order import Order, OrderEvent
from algo_engine.desk.portfolio import ProfitAndLoss
from algo_engine.views.contents import ViewChange, ViewContents
from algo_engine.views.quotes import Quote
from deltabook.wire.text import PLAIN, OrderOptions

__all__ = ["Context", "Lane", "NoParameters", "Strategy"]

Lane = Literal["express", "spark"]
"""Lane of the runtime in which a view is kept."""


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a strategy that has none."""


P = TypeVar("P", bound=msgspec.Struct)


class Context(abc.ABC):
    """Interface of the engine for a strategy. Every call returns at once; its consequences arrive as events.

    ```
    orders     buy, sell, replace, reduce, cancel, cancel_all     ▶ Strategy.on_order_event
               order, open_orders, position_lots, profit
    market     quote, symbols, view, add_view                     ▶ Strategy.on_view_change, on_view_error
    time       now_ns, set_timer, cancel_timer                    ▶ Strategy.on_timer
    restarts   remember, recovered
    itself     name, broker_id, parameters, log
    ```

    If the exchange or a limit refuses a request, or if the request comes too late, the strategy gets an event, not an
    exception. Calls raise `TypeError` for lots, ticks or client ids that are not integers, `OverflowError` for lots or
    ticks of new and replaced orders beyond 64 bits, and the errors that their docstrings name.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name under which the strategy runs."""

    @property
    @abc.abstractmethod
    def broker_id(self) -> int:
        """Broker number of the strategy: in views that name brokers, its own orders have this number."""

    @property
    @abc.abstractmethod
    def parameters(self) -> msgspec.Struct:
        """The strategy's parameters, the same as `Strategy.parameters`."""

    @property
    @abc.abstractmethod
    def now_ns(self) -> int:
        """Time of the engine in nanoseconds since the UTC epoch; in a backtest the simulated time."""

    @abc.abstractmethod
    def buy(self, symbol: str, volume_lots: int, price_ticks: int = 0, *, options: OrderOptions = PLAIN) -> int:
        """Send a limit order to buy, or with price 0 a market order; return its client id, also for a refused order.

        The client id is the number of the order in all other calls, and in its events. ``options`` make the order
        immediate (``OrderOptions(immediate=True)``), post-only, an iceberg, and so on. Raise `ValueError` for options
        that cannot be encoded.
        """

    @abc.abstractmethod
    def sell(self, symbol: str, volume_lots: int, price_ticks: int = 0, *, options: OrderOptions = PLAIN) -> int:
        """Send an order to sell; see `buy`."""

    @abc.abstractmethod
    def cancel(self, client_id: int) -> None:
        """Cancel the rest of an order as soon as requests can be sent; ignored if the order is not open."""

    @abc.abstractmethod
    def cancel_all(self, symbol: str | None = None) -> None:
        """Cancel all own orders, or those of one symbol."""

    @abc.abstractmethod
    def reduce(self, client_id: int, volume_lots: int) -> None:
        """Reduce an order by ``volume_lots`` lots; it keeps its priority.

        The call is refused, by an event, in these cases: ``volume_lots`` is below 1, the exchange has not accepted the
        order yet, the order has ended, or no request can be sent now. It is ignored for a client id for which `order`
        returns None.
        """

    @abc.abstractmethod
    def replace(self, client_id: int, volume_lots: int, price_ticks: int) -> None:
        """Replace the open rest of an order by ``volume_lots`` lots at this price.

        The order keeps its client id; it keeps its priority only if the price is the same and the lots are not more.
        Lots that are executed before the request arrives are not part of ``volume_lots``. The call is refused, by an
        event, while the exchange has not accepted the order, while a cancellation or another replacement of it is
        pending, and if the order's lots and ``volume_lots`` together exceed 64 bits. It is ignored for a client id for
        which `order` returns None.
        """

    @abc.abstractmethod
    def order(self, client_id: int) -> Order | None:
        """Return an open order, or one of the last thousand that ended; None for any other client id."""

    @abc.abstractmethod
    def open_orders(self, symbol: str | None = None) -> list[Order]:
        """Return all own orders that may still trade, oldest first."""

    @abc.abstractmethod
    def position_lots(self, symbol: str) -> int:
        """Return the lots held; negative for a short position, 0 for a symbol without executions."""

    @abc.abstractmethod
    def profit(self, symbol: str | None = None) -> ProfitAndLoss:
        """Return the profit and the fees of one symbol or of all, in ticks × lots.

        Open positions are valued at the price that would close them.
        """

    @abc.abstractmethod
    def quote(self, symbol: str) -> Quote | None:
        """Return the latest best bid and ask of a symbol, None before the first."""

    @abc.abstractmethod
    def symbols(self) -> list[str]:
        """Return all symbols quoted so far, sorted."""

    @abc.abstractmethod
    def view(self, name: str) -> ViewContents:
        """Return the current rows of a view that was declared or added. The caller must not change them.

        Raise `LookupError` for another view, and for an added one before its snapshot.
        """

    @abc.abstractmethod
    def add_view(self, name: str, sql: str, lane: Lane = "express") -> None:
        """Add a view to the runtime and follow it.

        `Strategy.on_view_change` receives a snapshot first, or `Strategy.on_view_error` a refusal. A view that
        another strategy has added under this name is shared if it has the same SQL. When the last strategy that wants
        it stops, the view is dropped. Raise `TypeError` for a name or SQL that is not text, `ValueError` for a lane
        that does not exist.
        """

    @abc.abstractmethod
    def set_timer(self, name: str, delay_ms: int, *, repeat: bool = False) -> None:
        """Call `Strategy.on_timer` after this delay, or repeatedly. A timer of the same name is replaced.

        Raise `ValueError` for a delay below 1 ms, and for more than 256 timers at once.
        """

    @abc.abstractmethod
    def cancel_timer(self, name: str) -> None:
        """Cancel a timer; a name that is not set is ignored."""

    @abc.abstractmethod
    def remember(self, name: str, data: bytes) -> None:
        """Write data into the strategy's journal under a name, in place of earlier data; empty data removes it.

        Orders that are sent in the same call of the strategy wait until the data is on disk. Without such orders, the
        data survives the end of the process, but a loss of power may remove it. Raise `TypeError` for data that is not
        bytes, and `ValueError` for more than 16 MiB under all names together, the names included.
        """

    @abc.abstractmethod
    def recovered(self) -> list[Recovered]:
        """Return the data that an earlier run has remembered, with the events of own orders since.

        Call it in `Strategy.on_start`: later the list is empty. If it is not called there, the data is discarded.
        """

    @abc.abstractmethod
    def log(self, message: str, **fields: Any) -> None:
        """Write one line to the log, with the strategy's name."""


class Strategy(Generic[P]):
    """Base class of all strategies; a strategy file contains exactly one subclass.

    The engine calls one method at a time; a method that is not overridden does nothing. Events that a call of the
    context causes are delivered after the method has returned. An exception in a method stops this strategy alone:
    its orders are cancelled, and new ones are refused.

    A mock in place of the engine is enough to test a strategy:

    >>> class BuyTheLean(Strategy):
    ...     views = ("lean",)
    ...
    ...     def on_view_change(self, change):
    ...         for row in change.added if change.view == "lean" else ():
    ...             if row["bid"] > 3 * row["ask"] and self.context.position_lots(row["symbol"]) < 10:
    ...                 self.context.buy(row["symbol"], volume_lots=1)
    >>> from unittest.mock import create_autospec
    >>> strategy = BuyTheLean(NoParameters())
    >>> strategy.context = create_autospec(Context, instance=True)
    >>> strategy.context.position_lots.return_value = 9
    >>> row = {"symbol": "ACME", "bid": 40, "ask": 10}
    >>> strategy.on_view_change(ViewChange("lean", False, 6, 7, added=(row,), removed=()))
    >>> strategy.context.buy.call_args
    call('ACME', volume_lots=1)
    """

    views: tuple[str, ...] = ()
    """Views that the strategy needs in addition to ``best_quote``. A strategy may choose them in its constructor."""
    queries: Mapping[str, str] = MappingProxyType({})
    """SQL of the strategy's own views, by name. They are added, in the express lane, before the strategy starts."""
    parameters_type: ClassVar[type[msgspec.Struct]] = NoParameters
    """Frozen struct with a default for every field; ``--param NAME.field=value`` sets one."""

    context: Context
    """Context of the strategy; set before `on_start`."""

    def __init__(self, parameters: P) -> None:
        self.parameters: P = parameters

    def on_start(self, context: Context) -> None:
        """Start to trade: all declared views have a snapshot, and the state of all earlier orders is known.

        Called first.
        """

    def on_view_change(self, change: ViewChange) -> None:
        """Process changed rows of a declared view or of ``best_quote``; `Context.view` has the result."""

    def on_view_error(self, view: str, reason: str) -> None:
        """Process the refusal or the end of a view of `Context.add_view`."""

    def on_order_event(self, event: OrderEvent) -> None:
        """Process an event of an own order, open or not: the exchange may declare an old trade void."""

    def on_timer(self, name: str) -> None:
        """Process a timer that is due."""

    def on_stop(self) -> None:
        """Stop; resting orders are cancelled afterwards. Called last."""
