"""Durability of a desk's requests: before their first byte is sent, or after it.

```
before   append ─▶ fsync ─▶ send
behind   append ─▶ write ─▶ send ─▶ fsync on another thread, one at a time, for all requests written meanwhile
```

A written request survives the end of the process. A power loss may remove requests that were written and sent. Three
properties hold nevertheless:

* *No number is used twice.* Request numbers are reserved on the disk, `RESERVED_REQUESTS` ahead, before any of them is
  sent. A restart continues above the reservation. The fence of the restart is therefore above every request that may
  still be on its way to the exchange (see `blotter`), and no late order of the earlier run can be mistaken for an order
  of the new run.
* *Every order at the exchange is known.* The private stream is requested from the last position on disk. The stream has
  the acceptance of each order, with side, lots and price, and the fills of each order.
* *Limits hold.* Answers to lost requests count toward the daily limit of the day of their reservation. A reservation
  serves one UTC day. A stop order is always synced before it is sent: its trigger price, which the limits of notional
  read, is in no answer.

A power loss may lose the other options of an accepted order (`OrderOptions`), although the exchange still acts on them.
It may also lose the events of requests that never arrived, and the count of rejected orders.

The reservation limits the number of requests that have been sent and are not on disk yet. `BEHIND_LIMIT_S` limits the
time: while an fsync has been running for longer, a request waits for the disk as in mode *before*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from algo_engine.clocks import Clock
from algo_engine.desk.journal import Journal
from algo_engine.desk.records import Intent, Reserved
from algo_engine.stages import OrderStages
from deltabook.wire.text import parse_options

__all__ = ["BEHIND_LIMIT_S", "RESERVED_REQUESTS", "Background", "OrderSync"]

RESERVED_REQUESTS: Final = 1024
"""Number of request numbers in one reservation: no more requests can be sent before the first of them is on disk."""
BEHIND_LIMIT_S: Final = 0.1
"""Duration of a running fsync, in seconds, above which a request waits for the disk."""
_DAY_NS: Final = 86_400 * 1_000_000_000

Background = Callable[[Callable[[], float], Callable[[float | OSError], None]], None]
"""Function of two callables. It calls the first one on another thread. Then it calls the second one on the reactor's
thread, with the result of the first one or the `OSError` that it raised.
"""


class _Reservation(NamedTuple):
    number: int
    """Ordinal number of the reservation in this run, from 1."""
    client_id: int
    """Highest request number that the reservation allows."""
    day: int
    """UTC day on which the reservation is valid."""


class OrderSync:
    """Durability of one desk's requests. Not thread-safe: called only on the reactor's thread."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        now_ns: Callable[[], int],
        stages: OrderStages,
        background: Background | None,
        reserve: Callable[[Reserved], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        """Create the state for the requests of a desk.

        ``background`` syncs requests after they are sent; None syncs before. ``reserve`` enters a reservation into the
        journal; ``on_failure`` receives an error of a later fsync.
        """
        self._journal, self._clock, self._now_ns, self._stages = journal, clock, now_ns, stages
        self._background, self._reserve, self._on_failure = background, reserve, on_failure
        self._written = self._durable = _Reservation(0, 0, -1)
        self._is_behind = False
        self._running_since_s: float | None = None

    def write_down(self, requests: Sequence[Intent], *, must_be_durable: bool = False) -> None:
        """Write requests, in the order of their numbers, to the journal as durably as is required before they are sent.

        With ``must_be_durable`` they are synced in either mode. Raise `OSError` on failure: then they must not be sent.
        """
        if self._background is None:
            self._sync()
            return
        last_id = requests[-1].client_id
        day = (requests[-1].time_ns or self._now_ns()) // _DAY_NS
        # The next reservation is written when half of this one is used, so that the fsync ends before the next one is
        # needed.
        if last_id + RESERVED_REQUESTS // 2 > self._written.client_id or day != self._written.day:
            self._written = _Reservation(self._written.number + 1, last_id + RESERVED_REQUESTS, day)
            self._reserve(Reserved(self._written.client_id, day))
        if must_be_durable or self._must_be_durable(requests, day):
            self._sync()
        else:
            self._journal.write()
            self._is_behind = True

    def sent(self) -> None:
        """Note that the requests are sent: begin to sync those that are only written, unless a sync is running."""
        if self._is_behind and self._running_since_s is None:
            self._begin()

    def made_durable(self) -> None:
        """Note that everything appended is durable: the journal was compacted or closed."""
        self._durable, self._is_behind = self._written, False

    def _must_be_durable(self, requests: Sequence[Intent], day: int) -> bool:
        if requests[-1].client_id > self._durable.client_id or day != self._durable.day:
            return True
        if any(request.time_ns and request.time_ns // _DAY_NS != day for request in requests):
            return True
        if any(request.options and parse_options(request.options, b"").stop_ticks for request in requests):
            return True
        since_s = self._running_since_s
        return since_s is not None and self._clock.seconds() - since_s > BEHIND_LIMIT_S

    def _sync(self) -> None:
        begun_s = self._clock.seconds()
        self._journal.sync()
        self._stages.fsync.add(self._clock.seconds() - begun_s)
        self._durable, self._is_behind = self._written, False

    def _begin(self) -> None:
        assert self._background is not None
        try:
            sync = self._journal.begin_sync()
        except OSError as error:
            self._on_failure(error)
            return
        covered, self._is_behind = self._written, False
        self._running_since_s = self._clock.seconds()

        def timed() -> float:
            begun_s = self._clock.seconds()
            sync()
            return self._clock.seconds() - begun_s

        def ended(result: float | OSError) -> None:
            self._running_since_s = None
            if isinstance(result, OSError):
                self._on_failure(result)
                return
            self._stages.fsync.add(result)
            self._durable = max(self._durable, covered)
            self.sent()

        self._background(timed, ended)
