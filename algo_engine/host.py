"""Host of one strategy: delivers events one at a time, and implements the context, including named timers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, get_args

from twisted.logger import Logger

from algo_engine.clocks import Clock, ScheduledCall
from algo_engine.desk.desk import Desk
from algo_engine.desk.memories import Recovered
from algo_engine.desk.order import EventKind, Order, OrderEvent, Side
from algo_engine.desk.portfolio import ProfitAndLoss
from algo_engine.loader import LoadedStrategy
from algo_engine.strategy import Context, Lane
from algo_engine.views.contents import ViewChange, ViewContents
from algo_engine.views.mirror import ViewMirror
from algo_engine.views.quotes import QUOTE_VIEW, Quote, Quotes
from deltabook.wire.text import PLAIN, OrderOptions

__all__ = ["TIMERS_LIMIT", "StrategyHost", "Timers"]

TIMERS_LIMIT = 256
"""Largest number of timers that a strategy may have set at the same time."""


class Timers:
    """Named timers: at most one pending call per name."""

    def __init__(self, clock: Clock, on_due: Callable[[str], None]) -> None:
        self._clock, self._on_due = clock, on_due
        self._calls: dict[str, ScheduledCall] = {}

    def set(self, name: str, delay_ms: int, *, repeat: bool = False) -> None:
        """Set a timer, which calls back once after the delay, or repeatedly at that interval.

        Raise `ValueError` for a delay below 1 ms, and for more than `TIMERS_LIMIT` timers.
        """
        if delay_ms < 1:
            raise ValueError(f"expected a delay of 1 ms or more, was {delay_ms}")
        self.cancel(name)
        if len(self._calls) >= TIMERS_LIMIT:
            raise ValueError(f"expected at most {TIMERS_LIMIT} timers, was one more")
        self._calls[name] = self._clock.callLater(delay_ms / 1000, self._due, name, delay_ms if repeat else 0)

    def cancel(self, name: str) -> None:
        """Cancel a timer, if it is set."""
        call = self._calls.pop(name, None)
        if call is not None:
            call.cancel()

    def clear(self) -> None:
        """Cancel all timers."""
        for name in list(self._calls):
            self.cancel(name)

    def _due(self, name: str, again_ms: int) -> None:
        del self._calls[name]
        if again_ms:
            self.set(name, again_ms, repeat=True)
        self._on_due(name)


class StrategyHost(Context):
    """Host of one strategy, and its context.

    Events that a strategy causes while it handles an event are delivered after the strategy's method has returned.
    """

    _log = Logger()

    def __init__(
        self,
        *,
        loaded: LoadedStrategy,
        mirror: ViewMirror,
        quotes: Quotes,
        clock: Clock,
        now_ns: Callable[[], int],
        make_desk: Callable[[Callable[[OrderEvent], None]], Desk],
    ) -> None:
        self.loaded = loaded
        self.queries: Mapping[str, str] = dict(loaded.strategy.queries)
        """The strategy's own views: SQL by name."""
        self.views = {QUOTE_VIEW, *loaded.strategy.views, *self.queries}
        """Names of the views that the strategy reads; grows with added views."""
        self.on_view_wanted: Callable[[str, str, Lane], None] = lambda view, sql, lane: None
        """Callback for the name, SQL and lane of a view that the strategy adds."""
        self.is_started = False
        """True while events are delivered to the strategy."""
        self.failure = ""
        """Reason why the strategy was stopped permanently; empty if it was not."""
        self.error: BaseException | None = None
        """Error that the strategy raised, if any."""
        self.on_failed: Callable[[], None] = lambda: None
        """Callback, called once when the strategy has failed."""
        self.on_fill: Callable[[OrderEvent], None] = lambda event: None
        """Callback for every execution and every void trade, also before the start."""
        self._strategy = loaded.strategy
        self._mirror, self._quotes, self._now_ns = mirror, quotes, now_ns
        self._timers = Timers(clock, self._timer_due)
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_busy = False
        self.desk = make_desk(self._order_event)

    # -- calls of the engine

    def start(self) -> None:
        """Start the strategy: all its views and the desk are ready."""
        self.is_started = True
        self._calls.clear()
        self._strategy.context = self
        self._notify(self._strategy.on_start, self)
        if not self.failure:
            self.desk.end_recovery()

    def change(self, change: ViewChange) -> None:
        """Notify the strategy of a change of a view that it reads."""
        if self.is_started and change.view in self.views:
            self._notify(self._strategy.on_view_change, change)
        if change.view == QUOTE_VIEW:
            self._limit_loss()

    def follow(self, view: str) -> None:
        """From now on, deliver the changes of a view that the strategy requested."""
        self.views.add(view)

    def view_refused(self, view: str, reason: str) -> None:
        """Notify the strategy of a refused or ended view; stop the strategy if the view is one of its `queries`."""
        if view in self.queries:
            self.fail(f"view {view}: {reason}")
            return
        if view not in self.loaded.strategy.views and view != QUOTE_VIEW:
            self.views.discard(view)
        if self.is_started:
            self._notify(self._strategy.on_view_error, view, reason)

    def stop(self) -> None:
        """Notify the strategy, then cancel all its orders and refuse new ones."""
        if self.is_started and not self.failure:
            self._notify(self._strategy.on_stop)
        self._timers.clear()
        self.is_started = False
        self.desk.kill("the engine stops")

    def fail(self, reason: str) -> None:
        """Stop this strategy permanently; the engine and other strategies continue."""
        if self.failure:
            return
        self._log.error("{name} is stopped: {reason}", name=self.name, reason=reason)
        self.failure = reason
        self._timers.clear()
        self._calls.clear()
        self.is_started = False
        self.desk.kill(reason)
        self.on_failed()

    def _notify(self, method: Callable[..., None], *arguments: Any) -> None:
        """Call a method of the strategy: at once, or, while another method runs, after that method has returned."""
        self._calls.append((method, arguments))
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._calls:
                method, arguments = self._calls.popleft()
                method(*arguments)
        except KeyboardInterrupt:
            raise  # Ctrl-C ends a backtest
        except BaseException as error:  # noqa: BLE001 - any exception of a strategy's code ends this strategy alone
            self._log.failure("strategy {name} failed", name=self.name)
            self.error = error
            # A failure in `on_stop` must not read like an early end: the strategy has received everything else.
            place = "on_stop: " if method == self._strategy.on_stop else ""
            self.fail(f"{place}{type(error).__name__}: {error}")
        finally:
            self._is_busy = False

    def _order_event(self, event: OrderEvent) -> None:
        if event.changes_position:
            self.on_fill(event)
            self._limit_loss()
        if event.kind is EventKind.TRADE_VOID:
            self._log.warn(
                "{name}: match {match} is void: {lots} lots of {symbol} at {price} ticks, order {order}",
                name=self.name,
                match=event.reason,
                lots=event.volume_lots,
                symbol=event.order.symbol,
                price=event.price_ticks,
                order=event.order.client_id,
            )
        if self.is_started:
            self._notify(self._strategy.on_order_event, event)

    def _timer_due(self, name: str) -> None:
        if self.is_started:
            self._notify(self._strategy.on_timer, name)

    def _limit_loss(self) -> None:
        most = self.desk.gate.limits.max_loss
        if most and not self.desk.is_killed and self.profit().total < -most:
            reason = f"loss: expected at most {most} ticks × lots, was {-self.profit().total}"
            self._log.warn("kill switch of {name}: {reason}", name=self.name, reason=reason)
            self.desk.kill(reason)

    # -- calls of the strategy; the docstrings are in `algo_engine.strategy.Context`

    @property
    def name(self) -> str:
        """See `Context.name`."""
        return self.loaded.name

    @property
    def broker_id(self) -> int:
        """See `Context.broker_id`."""
        return self.desk.broker_id

    @property
    def parameters(self) -> Any:
        """See `Context.parameters`."""
        return self._strategy.parameters

    @property
    def now_ns(self) -> int:
        """See `Context.now_ns`."""
        return self._now_ns()

    def buy(self, symbol: str, volume_lots: int, price_ticks: int = 0, *, options: OrderOptions = PLAIN) -> int:
        """See `Context.buy`."""
        return self.desk.submit(Side.BUY, symbol, volume_lots, price_ticks, options)

    def sell(self, symbol: str, volume_lots: int, price_ticks: int = 0, *, options: OrderOptions = PLAIN) -> int:
        """See `Context.sell`."""
        return self.desk.submit(Side.SELL, symbol, volume_lots, price_ticks, options)

    def replace(self, client_id: int, volume_lots: int, price_ticks: int) -> None:
        """See `Context.replace`."""
        self.desk.replace(client_id, volume_lots, price_ticks)

    def cancel(self, client_id: int) -> None:
        """See `Context.cancel`."""
        self.desk.cancel(client_id)

    def cancel_all(self, symbol: str | None = None) -> None:
        """See `Context.cancel_all`."""
        self.desk.cancel_all(symbol)

    def reduce(self, client_id: int, volume_lots: int) -> None:
        """See `Context.reduce`."""
        self.desk.reduce(client_id, volume_lots)

    def order(self, client_id: int) -> Order | None:
        """See `Context.order`."""
        return self.desk.blotter.order(client_id)

    def open_orders(self, symbol: str | None = None) -> list[Order]:
        """See `Context.open_orders`."""
        return [order for order in self.desk.blotter.open_orders() if symbol is None or order.symbol == symbol]

    def position_lots(self, symbol: str) -> int:
        """See `Context.position_lots`."""
        return self.desk.portfolio.holding(symbol).position_lots

    def profit(self, symbol: str | None = None) -> ProfitAndLoss:
        """See `Context.profit`."""
        symbols = self.desk.portfolio.holdings if symbol is None else [symbol]
        parts = [
            self.desk.portfolio.profit(each, self._quotes.mark_ticks(each, self.position_lots(each)))
            for each in symbols
        ]
        return ProfitAndLoss(
            realised=sum(part.realised for part in parts),
            unrealised=sum(part.unrealised for part in parts),
            fees=sum(part.fees for part in parts),
        )

    def quote(self, symbol: str) -> Quote | None:
        """See `Context.quote`."""
        return self._quotes.get(symbol)

    def symbols(self) -> list[str]:
        """See `Context.symbols`."""
        return self._quotes.symbols()

    def view(self, name: str) -> ViewContents:
        """See `Context.view`; raise `LookupError` for a view that was not declared."""
        if name not in self.views:
            raise LookupError(f"expected a declared view out of {', '.join(sorted(self.views))}, was {name}")
        if name not in self._mirror:
            raise LookupError(f"expected a snapshot of the view {name} by now, was none")
        return self._mirror.contents(name)

    def add_view(self, name: str, sql: str, lane: Lane = "express") -> None:
        """See `Context.add_view`."""
        for given in (name, sql):
            if not isinstance(given, str):
                raise TypeError(f"expected the name and the SQL of a view as str, was {given!r:.80}")
        if lane not in get_args(Lane):
            raise ValueError(f"expected a lane out of {', '.join(get_args(Lane))}, was {lane!r:.80}")
        self.on_view_wanted(str(name), str(sql), lane)

    def set_timer(self, name: str, delay_ms: int, *, repeat: bool = False) -> None:
        """See `Context.set_timer`."""
        self._timers.set(name, delay_ms, repeat=repeat)

    def cancel_timer(self, name: str) -> None:
        """See `Context.cancel_timer`."""
        self._timers.cancel(name)

    def remember(self, name: str, data: bytes) -> None:
        """See `Context.remember`."""
        self.desk.remember(name, data)

    def recovered(self) -> list[Recovered]:
        """See `Context.recovered`."""
        return self.desk.recovered()

    def log(self, message: str, **fields: Any) -> None:
        """See `Context.log`."""
        text = " ".join([message, *(f"{key}={value}" for key, value in fields.items())])
        self._log.info("{name}: {text}", name=self.name, text=text)
