"""The engine: hosts, their desks, the mirror of the views, and when each strategy may act."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from twisted.logger import Logger

from algo_engine.clocks import Clock
from algo_engine.errors import StrategiesFailed
from algo_engine.host import StrategyHost
from algo_engine.requested import NoViewLink, RequestedViews, ViewLink
from algo_engine.stages import OrderStages
from algo_engine.strategy import Lane
from algo_engine.views.contents import ViewChange
from algo_engine.views.mirror import ViewMirror
from algo_engine.views.quotes import QUOTE_VIEW, Quotes
from deltabook.wire.results import Frame
from deltabook.wire.strategies import StrategyState

__all__ = ["Engine"]


class Engine:
    """Starts each strategy when its views and its orders are known, passes changes to the strategy, and stops it.

    With ``adopt``, orders that an earlier run left in the market are kept and shown to the strategy; otherwise they are
    cancelled before the strategy starts.
    """

    _log = Logger()

    def __init__(
        self,
        *,
        hosts: Sequence[StrategyHost],
        mirror: ViewMirror,
        quotes: Quotes,
        clock: Clock,
        adopt: bool,
        stale_s: float,
        on_failure: Callable[[Exception], None],
        on_synchronised: Callable[[], None],
        view_link: ViewLink | None = None,
        keep_views: bool = False,
        stages: OrderStages | None = None,
    ) -> None:
        self.hosts = tuple(hosts)
        self._mirror, self._quotes, self._clock = mirror, quotes, clock
        self._adopt, self._stale_s = adopt, stale_s
        self._on_failure, self._on_synchronised = on_failure, on_synchronised
        self._fresh: set[str] = set()
        self._losses: dict[str, int] = {}
        """Views that are lost now, each with the number of the loss at which it was lost."""
        self._last_loss = 0
        self._is_stopping = False
        self.view_changes = 0
        """Number of view changes that have arrived."""
        self._stages = stages or OrderStages(clock.seconds)
        self._requested = RequestedViews(view_link or NoViewLink(), mirror, is_kept=keep_views)
        self._declared = {view for host in hosts for view in (QUOTE_VIEW, *host.loaded.strategy.views)}
        for host in hosts:
            host.desk.on_synchronised = self._synchronised(host)
            host.on_failed = partial(self._host_failed, host)
            host.on_view_wanted = partial(self._view_wanted, host)

    def start(self) -> None:
        """Request the strategies' own views; the caller subscribes to the declared ones."""
        for host in self.hosts:
            for view, sql in host.queries.items():
                self._view_wanted(host, view, sql, "express")

    def frame(self, frame: Frame) -> None:
        """Process one frame of the change stream."""
        header = frame.header
        if header.kind == "error":
            self._view_ended(header.view, header.reason)
            return
        change = self._mirror.apply(frame)
        if change is None:
            self.start_ready()
            return
        self._stages.strategies_called()
        self.change(change)
        self._stages.strategies_returned()

    def change(self, change: ViewChange | None) -> None:
        """Pass on the change that the mirror made of a frame, if any; then start strategies that are ready."""
        if change is not None:
            self.view_changes += 1
            self._requested.changed(change)
            self._freshen(change.view)
            if change.view == QUOTE_VIEW:
                self._quotes.apply(change)
            for host in self.hosts:
                host.change(change)
        for host in self.hosts:
            if not host.is_started:
                self.start_ready()
                break

    def views_lost(self, views: Iterable[str] | None = None) -> None:
        """Mark some views, or all, as lost; orders of strategies whose views are lost for ``stale_s`` are cancelled."""
        lost = set(self._fresh if views is None else views)
        self._fresh -= lost
        self._last_loss += 1
        self._losses = {**dict.fromkeys(lost, self._last_loss), **self._losses}
        self._clock.callLater(self._stale_s, self._cancel_if_stale, self._last_loss)

    def start_ready(self) -> None:
        """Start every strategy whose views and orders are known."""
        for host in self.hosts:
            if host.is_started or host.failure or self._is_stopping or not host.desk.is_synchronised:
                continue
            has_views = all(view in self._mirror and view in self._fresh for view in host.views)
            if has_views and (self._adopt or not host.desk.blotter.open_orders()):
                host.start()

    def stop(self) -> None:
        """Stop all strategies; their resting orders are cancelled."""
        self._is_stopping = True
        for host in self.hosts:
            host.stop()
            self._requested.release(host)

    def kill(self, reason: str, hosts: Iterable[StrategyHost] | None = None) -> None:
        """Trigger the kill switch of all strategies or of ``hosts``: cancel resting orders, and refuse new ones."""
        for host in self.hosts if hosts is None else hosts:
            self._log.warn("kill switch of {name}: {reason}", name=host.name, reason=reason)
            host.desk.kill(reason)

    @property
    def has_views(self) -> bool:
        """True if all views of all strategies are followed."""
        return all(host.views <= self._fresh for host in self.hosts)

    def standing(self, host: StrategyHost) -> tuple[StrategyState, str]:
        """Return the state of a strategy, and the reason for it."""
        desk = host.desk
        if host.failure:
            return "failed", host.failure
        if self._is_stopping:
            return "stopped", ""
        if desk.is_killed:
            return "killed", desk.kill_reason
        if desk.suspended:
            return "suspended", desk.suspended
        if host.is_started:
            return "running", ""
        missing = sorted(view for view in host.views if not (view in self._mirror and view in self._fresh))
        if missing:
            return "waiting", f"for the views {', '.join(missing)}"
        if not desk.is_synchronised:
            return "waiting", "for the exchange"
        return "waiting", "for the end of orders that an earlier run left"

    def open_orders(self) -> int:
        """Return the number of orders of all strategies that may still trade."""
        return sum(len(host.desk.blotter.open_orders()) for host in self.hosts)

    def unanswered_requests(self) -> int:
        """Return the number of requests of all strategies that the exchange has not answered."""
        return sum(len(list(host.desk.blotter.pending())) for host in self.hosts)

    def figures(self) -> dict[str, int | float | str | None]:
        """Return the figures of the process, summed over strategies."""
        blotters = [host.desk.blotter for host in self.hosts]
        return {
            "orders_sent": sum(blotter.sent for blotter in blotters),
            "orders_filled": sum(blotter.filled_orders for blotter in blotters),
            "orders_open": self.open_orders(),
            "fills": sum(blotter.fills for blotter in blotters),
            "position_lots": sum(
                holding.position_lots for host in self.hosts for holding in host.desk.portfolio.holdings.values()
            ),
            "pnl": sum(host.profit().total for host in self.hosts),
            "view_changes": self.view_changes,
        }

    def _synchronised(self, host: StrategyHost) -> Callable[[], None]:
        def synchronised() -> None:
            if not host.is_started and not self._adopt:
                host.desk.cancel_all()
            self._on_synchronised()
            self.start_ready()

        return synchronised

    def _cancel_if_stale(self, loss: int) -> None:
        """Suspend the strategies that read a view which was lost at this loss or earlier and is still lost."""
        stale = {view for view, number in self._losses.items() if number <= loss}
        for host in self.hosts:
            if host.is_started and not host.views.isdisjoint(stale):
                self._log.warn("{name}: views are stale; its orders are cancelled", name=host.name)
                host.desk.suspended = "views: expected to be connected to the runtime, was not"
                host.desk.cancel_all()

    def _freshen(self, view: str) -> None:
        if view in self._fresh:
            return
        self._fresh.add(view)
        self._losses.pop(view, None)
        self._resume()

    def _resume(self) -> None:
        """Accept orders of strategies whose views are all current."""
        for host in self.hosts:
            if host.views <= self._fresh:
                host.desk.suspended = ""

    def _view_wanted(self, host: StrategyHost, view: str, sql: str, lane: Lane) -> None:
        self._requested.add(host, view, sql, lane, self._declared.__contains__)

    def _view_ended(self, view: str, reason: str) -> None:
        if view not in self._declared:
            self._fresh.discard(view)
            self._losses.pop(view, None)
            self._requested.ended(view, reason)
            self._resume()
            return
        for host in self.hosts:
            if view in host.views and not host.failure:
                host.fail(f"view {view} ended: {reason}")

    def _host_failed(self, host: StrategyHost) -> None:
        self._requested.release(host)
        if all(host.failure for host in self.hosts):
            reasons = "; ".join(f"{host.name}: {host.failure}" for host in self.hosts)
            expected = "a strategy to run, was none left"
            if self._is_stopping:
                expected = "a strategy to stop without an error, was none"
            self._on_failure(StrategiesFailed(f"expected {expected}: {reasons}"))
