"""One strategy in a simulation: its engine, its connection to the exchange, its latencies and its computation time.

```
Publication ──view changes── feed latency ──▶ inbox ──▶ Engine ──▶ StrategyHost ──▶ Desk
Venue ◀─ requests ─ order latency ◀─ computation delay ◀──────────────────────────────┘
  └──── answers ── answer latency ──────────▶ inbox ──▶ Desk
```

An event that arrives while the strategy computes waits in the inbox. The strategy's requests leave when the computation
ends. Without a computation delay nothing waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from algo_engine.clocks import ScheduledCall
from algo_engine.desk.fees import FeeSchedule
from algo_engine.errors import AlgoError
from algo_engine.loader import LoadedStrategy
from algo_engine.views.mirror import ViewMirror
from algo_engine.views.quotes import Quotes
from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.deltas import Delta
from deltabook.backtest.hosting import simulated_engine, simulated_host
from deltabook.backtest.latency import Latency, Way
from deltabook.backtest.recorder import Recorder
from deltabook.backtest.views import BacktestViews, RunViews
from deltabook.simulation.publication import Publication
from deltabook.simulation.venue import Venue
from deltabook.wire import text
from deltabook.wire.results import FrameHeader
from exchange_server.matching import OpenAccount
from exchange_server.matching.order import Account
from exchange_server.text.protocol import PROTOCOL, account_name, input_of

__all__ = ["Delays", "Participant"]

_INBOX_EVENTS: Final = 100_000
"""Greatest number of events that wait while a strategy computes."""


class Delays(msgspec.Struct, frozen=True):
    """Latencies and computation time of one participant."""

    latency: Mapping[Way, Callable[[], Latency]]
    """Function that returns a new `Latency`, for each of the directions ``feed``, ``order`` and ``answer``."""
    compute_ns: int = 0
    """Time that the strategy takes for each event, in nanoseconds."""


class _WaitingCall:
    """Scheduled call that enters the inbox when it is due; it can be cancelled until the function is called."""

    def __init__(self, receive: Callable[..., None], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._receive, self._function, self._arguments = receive, function, arguments
        self._is_active = True
        self.call: ScheduledCall | None = None
        """Scheduled call on the clock."""

    def due(self) -> None:
        """Enter the inbox."""
        if self._is_active:
            self._receive(self._make)

    def _make(self) -> None:
        if self._is_active:
            self._is_active = False
            self._function(*self._arguments)

    def active(self) -> bool:
        """See `algo_engine.clocks.ScheduledCall`."""
        return self._is_active

    def cancel(self) -> None:
        """See `algo_engine.clocks.ScheduledCall`."""
        self._is_active = False

    def reset(self, secondsFromNow: float) -> None:
        """See `algo_engine.clocks.ScheduledCall`."""
        assert self.call is not None
        self.call.reset(secondsFromNow)


class _ComputingClock:
    """Clock of a strategy with a computation delay: a due timer waits in the strategy's inbox like any other event."""

    def __init__(self, clock: SimulatedClock, receive: Callable[..., None]) -> None:
        self._clock, self._receive = clock, receive
        self.seconds = clock.seconds

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any) -> ScheduledCall:  # noqa: A002
        """See `algo_engine.clocks.Clock`."""
        if delay <= 0:
            return self._clock.callLater(0, callable, *args)
        waiting = _WaitingCall(self._receive, callable, args)
        waiting.call = self._clock.callLater(delay, waiting.due)
        return waiting


class Participant:
    """A strategy that trades at a venue with latencies of its own."""

    def __init__(
        self,
        loaded: LoadedStrategy,
        broker_id: int,
        *,
        venue: Venue,
        publication: Publication,
        clock: SimulatedClock,
        delays: Delays,
        fees: FeeSchedule,
        recorder: Recorder,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.clock = clock
        """Clock of the simulation."""
        self._publication = publication
        self._venue = venue
        self._feed = delays.latency["feed"]()
        self._order = delays.latency["order"]()
        self._answer = delays.latency["answer"]()
        self._compute_ns = delays.compute_ns
        self._busy_until_ns = 0
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._account: Account | None = None
        self._mirror = ViewMirror()
        quotes = Quotes()
        own_clock = _ComputingClock(clock, self._receive) if delays.compute_ns else clock
        self.host = simulated_host(
            loaded,
            broker_id,
            mirror=self._mirror,
            quotes=quotes,
            clock=own_clock,
            now_ns=self._now_ns,
            recorder=recorder,
            fees=fees,
            on_failure=on_failure,
        )
        self.engine = simulated_engine(
            [self.host],
            mirror=self._mirror,
            quotes=quotes,
            clock=own_clock,
            on_failure=on_failure,
            view_link=RunViews(self, self.host.views),
        )

    # -- the views -----------------------------------------------------------------------------------------------

    def seen_rows(self) -> list[Delta]:
        """See `deltabook.backtest.views.ViewedRun`."""
        encoder = self._publication.encoder
        encoder.gives_time = True
        unseen = [(relation, row, -number) for relation, row, number in self._publication.unseen]
        return [*encoder.rows(), *unseen]

    @property
    def views(self) -> BacktestViews:
        """See `deltabook.backtest.views.ViewedRun`."""
        return self._publication.views

    def show(self, name: str) -> None:
        """Send a snapshot of a view. It arrives after the latency of the feed, like the changes of the view."""
        columns, scales = self.views.columns[name]
        rows, weights = self.views.snapshot(name)
        header = self._header("snapshot", name, self._publication.step)
        self._over_feed(self._take_view, header, columns, rows, weights, scales)

    def view_changed(self, step: int, view: str, rows: list[tuple[Any, ...]], weights: list[int]) -> None:
        """See `deltabook.simulation.publication.Subscriber`."""
        header = self._header("changes", view, step)
        self._over_feed(self._take_view, header, self.views.columns[view][0], rows, weights, None)

    def _header(self, kind: str, view: str, step: int) -> FrameHeader:
        # A step of 0 would mean that frames are numbered by epochs.
        return FrameHeader(kind, view, 0, 0, {}, self.clock.now_ns, "", step + 1)  # type: ignore[arg-type]

    def _over_feed(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._feed.is_zero:
            self._receive(function, *arguments)
        else:
            clock = self.clock
            clock.call_at(self._feed.arrival_ns(clock.now_ns), self._receive, function, *arguments)

    def _take_view(
        self,
        header: FrameHeader,
        columns: tuple[str, ...],
        rows: list[tuple[Any, ...]],
        weights: list[int],
        scales: Mapping[str, int] | None,
    ) -> None:
        if header.kind == "snapshot" or header.view in self._mirror:
            self.engine.change(self._mirror.enter(header, columns, rows, weights, scales))

    # -- the inbox -----------------------------------------------------------------------------------------------

    def _receive(self, function: Callable[..., None], *arguments: Any) -> None:
        """Handle an event that has arrived; if the strategy is computing, put the event into the inbox instead."""
        if not self._compute_ns:
            function(*arguments)
        elif self._inbox or self.clock.now_ns < self._busy_until_ns:
            if len(self._inbox) >= _INBOX_EVENTS:
                self._inbox.clear()
                self.host.fail(f"expected a strategy that keeps up with its events, was {_INBOX_EVENTS:,} behind")
                return
            if not self._inbox:
                self.clock.call_at(self._busy_until_ns, self._drain)
            self._inbox.append((function, arguments))
        else:
            self._busy_until_ns = self.clock.now_ns + self._compute_ns
            function(*arguments)

    def _drain(self) -> None:
        if not self._inbox:
            return
        function, arguments = self._inbox.popleft()
        self._busy_until_ns = self.clock.now_ns + self._compute_ns
        function(*arguments)
        if self._inbox:
            self.clock.call_at(self._busy_until_ns, self._drain)

    # -- the exchange --------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Follow the views, then log in; the exchange opens an account."""
        self.engine.start()
        self._publication.subscribers.append(self)
        for name in self.views.columns:
            if name in self.host.views:
                self.show(name)
        login = self.host.desk.login()
        assert login.broker_id is not None
        name = account_name(login.broker_id)
        self._venue.submit([OpenAccount(self._venue.next_time_ns(), name, PROTOCOL, login.broker_id)])
        account = self._account = self._venue.market.account_named(name)
        assert account is not None
        self._venue.follow(account, self._answered)
        accepted = text.Accepted(self._venue.session, account.next_message, account.last_ref)
        self.host.desk.opened(accepted, self._send)

    def _send(self, data: bytes) -> None:
        clock = self.clock
        if self._order.is_zero and not self._compute_ns:
            clock.callLater(0, self._arrived, data)
        else:
            leaves_ns = max(clock.now_ns, self._busy_until_ns)
            clock.call_at(self._order.arrival_ns(leaves_ns), self._arrived, data)

    def _arrived(self, data: bytes) -> None:
        account = cast(Account, self._account)
        requests = [text.parse_request(line) for line in data.splitlines()]
        time_ns = self._venue.next_time_ns(count=len(requests))
        self._venue.submit([input_of(request, account, time_ns + n) for n, request in enumerate(requests)])

    def _answered(self, data: bytes) -> None:
        """Pass on bytes that the exchange wrote to the private stream; they arrive after the latency of answers."""
        clock = self.clock
        if self._answer.is_zero:
            self._receive(self._take_answers, data)
        else:
            clock.call_at(self._answer.arrival_ns(clock.now_ns), self._receive, self._take_answers, data)

    def _take_answers(self, data: bytes) -> None:
        receive = self.host.desk.receive
        for line in data.splitlines():
            try:
                receive(text.parse_response(line))
            except AlgoError as error:
                self.host.fail(str(error))
                return

    def _now_ns(self) -> int:
        return self.clock.now_ns
