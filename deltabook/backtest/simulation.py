"""The loop of a backtest: passes records and own orders to the market, and the market's messages to views and
strategies, on one clock.

```
records ──▶ market ──▶ deltas ── feed latency ──▶ views ──changes──▶ engine ──▶ strategy
              ▲  └──── answers ── answer latency ────────────────────▶ desk ◀────────┘
              └─────── requests ◀─ order latency ────────────────────────┘
```

Events with the same market time happen in this order: first the calls that are due (timers and arriving messages), in
the order in which they were scheduled; then the next record. All consequences of a call happen before the next call.
The answers to a request come before the changes of views that the request causes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.deltas import Delta, DeltaEncoder
from deltabook.backtest.latency import Latency
from exchange_server.matching import AnyInput, Market, Recorded
from exchange_server.matching.order import Account
from exchange_server.replay import Record

__all__ = ["BacktestLoop"]


class NativeMarket(Protocol):
    """Market of a kernel that replaces the pure-Python one: `deltabook.backtest.native_loop.NativeLoop`."""

    def play(self, records: Iterator[Record], number: int = 0) -> int:
        """Play at most ``number`` records (0: all), and return how many were played."""
        ...

    def step(self) -> None:
        """Update the views after requests."""
        ...

    def takes(self, batch: Sequence[AnyInput]) -> bool:
        """Return True if the kernel supports all of these requests."""
        ...

    def hand_over(self) -> None:
        """Give the pure-Python market the state of the books, and call `BacktestLoop.leave_native`."""
        ...


class BacktestLoop:
    """One market and its clock. ``on_deltas`` receives the changes of the relations when they have reached the
    views.
    """

    def __init__(
        self,
        market: Market,
        encoder: DeltaEncoder,
        clock: SimulatedClock,
        feed: Latency,
        *,
        step_ns: int,
        on_deltas: Callable[[list[Delta]], None],
    ) -> None:
        self.market, self.clock = market, clock
        self.records = 0
        """Number of records played so far."""
        self.is_stopped = False
        """True if no more records are played."""
        self._encoder, self._feed, self._on_deltas = encoder, feed, on_deltas
        self._step_ns = step_ns
        self._waiting: list[Delta] = []
        self._in_flight: deque[list[Delta]] = deque()
        self._receivers: dict[int, Callable[[bytes], None]] = {}
        self.last_ns = 0
        """Latest time that was assigned to an input, in nanoseconds."""
        self._native: NativeMarket | None = None
        self._unplayed: list[Record] = []

    def join(self, account: Account, receive: Callable[[bytes], None]) -> None:
        """Set the function that receives an account's messages."""
        self._receivers[account.index] = receive

    def next_time_ns(self, count: int = 1) -> int:
        """Return the time of the next input: the present time, or a later time if an earlier input already has the
        present one. Reserve ``count`` times.
        """
        time_ns = max(self.clock.now_ns, self.last_ns + 1)
        self.last_ns = time_ns + count - 1
        return time_ns

    def submit(self, batch: Sequence[AnyInput]) -> None:
        """Have the market carry out requests, and publish their consequences together."""
        if self._native is not None and not self._native.takes(batch):
            self._native.hand_over()
        apply = self.market.apply
        for item in batch:
            apply(item)
        self._publish()

    def play(self, records: Iterable[Record], number: int = 0) -> None:
        """Play at most ``number`` records (0: all), with all their consequences."""
        if self._native is not None:
            played = self._native.play(iter(records), number)
            if self.is_native or played == number != 0:
                return
            number -= min(number, played)
        if self._unplayed:
            records, self._unplayed = chain(self._unplayed, records), []
        clock, market, deltas = self.clock, self.market, self._encoder.deltas
        apply, soon, touched = market.apply, clock.soon, market.touched
        for r in islice(records, number) if number else records:
            if self.is_stopped:
                return
            time_ns = r.time_ns
            if time_ns >= clock.next_ns:
                clock.advance(time_ns)
            last_ns = self.last_ns
            if time_ns <= last_ns:
                time_ns = last_ns + 1
            self.last_ns = clock.now_ns = time_ns
            apply(
                Recorded(
                    time_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, r.symbol, r.new_id
                )
            )
            self.records += 1
            if touched or deltas:
                self._publish()
            if soon:
                clock.run_turn()

    def finish(self, is_done: Callable[[], bool], longest_ns: int) -> None:
        """Advance time until ``is_done`` returns True and the views are up to date, by at most ``longest_ns``."""
        clock = self.clock
        clock.run_turn()
        end_ns = clock.now_ns + longest_ns
        while (self._in_flight or not is_done()) and clock.next_ns <= end_ns:
            clock.advance(clock.next_ns)
        self._step()
        clock.run_turn()

    def play_natively(self, market: NativeMarket) -> None:
        """Play records through a kernel, starting with the first record."""
        self._native = market

    @property
    def is_native(self) -> bool:
        """True while a kernel plays the records."""
        return self._native is not None

    def use_python(self) -> None:
        """Play records through the pure-Python market from now on."""
        if self._native is not None:
            self._native.hand_over()

    def leave_native(self, unplayed: list[Record]) -> None:
        """Return to the pure-Python market, which plays the unplayed records next."""
        self._native, self._unplayed = None, unplayed

    def _publish(self) -> None:
        """Publish the market's messages: first the private messages of each account, then the public ones."""
        self.notify_accounts()
        if self._native is not None:
            self._native.step()
            return
        deltas = self._encoder.deltas
        if not deltas:
            return
        self._encoder.end_epoch()
        batch = deltas[:]
        deltas.clear()
        if self._feed.is_zero:
            self._arrived(batch)
        else:
            self._in_flight.append(batch)
            self.clock.call_at(self._feed.arrival_ns(self.clock.now_ns), self._arrive)

    def notify_accounts(self) -> None:
        """Send each account the market's messages to it."""
        touched = self.market.touched
        if touched:
            tellers = touched[:]
            touched.clear()
            for teller in tellers:
                data, count = teller.take()
                receive = self._receivers.get(teller.account.index)
                if count and receive is not None:
                    receive(data)

    @property
    def unseen(self) -> list[Delta]:
        """Changes that the market has published and that have not reached the views yet."""
        return [*self._waiting, *(delta for batch in self._in_flight for delta in batch), *self._encoder.deltas]

    def _arrive(self) -> None:
        self._arrived(self._in_flight.popleft())

    def _arrived(self, deltas: list[Delta]) -> None:
        if not self._step_ns:
            self._on_deltas(deltas)
            return
        if not self._waiting:
            clock = self.clock
            clock.call_at(clock.now_ns - clock.now_ns % self._step_ns + self._step_ns, self._step)
        self._waiting += deltas

    def _step(self) -> None:
        deltas, self._waiting = self._waiting, []
        if deltas:
            self._on_deltas(deltas)
