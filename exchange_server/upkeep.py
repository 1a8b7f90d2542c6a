"""Upkeep of a running exchange's journal: syncs at an interval, and snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.logger import Logger
from twisted.python.failure import Failure

from exchange_server.errors import ExchangeError

__all__ = ["JournalUpkeep"]

_CHECK_S: Final = 1.0
_LEAST_REST: Final = 50
"""Smallest ratio of the time between two snapshots to the time for which taking one stops the market."""


class JournalUpkeep:
    """Syncs the journal, and takes snapshots between two turns of the reactor; threads wait for the disk.

    A sync that fails ends the exchange, through `stop`. If a snapshot cannot be written, the log says so, and the next
    snapshot is taken when it is due: the journal is complete without the missing snapshot.
    """

    _log = Logger()

    def __init__(
        self,
        exchange: Any,
        timers: Any,
        stop: Callable[[str], None],
        in_thread: Callable[[Callable[[], None]], Any],
        *,
        sync_interval_s: float | None,
        snapshot_inputs: int,
        snapshot_interval_s: float,
    ) -> None:
        """Create the upkeep.

        ``in_thread`` calls a function in a thread and returns a `Deferred`; a limit of 0 or None means no limit.
        """
        self._exchange = exchange
        self._timers = timers
        self._stop = stop
        self._in_thread = in_thread
        self._sync_interval_s = sync_interval_s
        self._snapshot_inputs = snapshot_inputs
        self._snapshot_interval_s = snapshot_interval_s
        self._inputs = exchange.snapshot_inputs
        self._since_s = self._written_s = timers.seconds()
        self._taken_s = 0.0
        self._calls: dict[str, Any] = {}
        self._is_over = False
        self.snapshots = 0
        """Number of snapshots written so far."""

    def start(self) -> None:
        """Start the syncs and snapshots."""
        if self._sync_interval_s is not None:
            self._later("sync", self._sync_interval_s, self._sync)
        if self._snapshot_inputs or self._snapshot_interval_s:
            self._later("check", _CHECK_S, self._check)

    def stop(self) -> None:
        """Stop the regular syncs and snapshots."""
        self._is_over = True
        for call in self._calls.values():
            if call.active():
                call.cancel()

    def _later(self, name: str, delay_s: float, function: Callable[[], None]) -> None:
        if not self._is_over:
            self._calls[name] = self._timers.callLater(delay_s, function)

    @property
    def snapshot_age_s(self) -> float | None:
        """Seconds since the latest written snapshot was taken; None before one was written."""
        return self._timers.seconds() - self._written_s if self.snapshots else None

    def _sync(self) -> None:
        done = self._in_thread(self._exchange.journal.sync)
        done.addCallbacks(lambda _: self._later("sync", self._sync_interval_s or 0.0, self._sync), self._failed)

    def _failed(self, failure: Failure) -> None:
        self._stop(failure.getErrorMessage())

    def _check(self) -> None:
        inputs = self._exchange.inputs - self._inputs
        age_s = self._timers.seconds() - self._since_s
        is_due = (self._snapshot_inputs and inputs >= self._snapshot_inputs) or (
            self._snapshot_interval_s and age_s >= self._snapshot_interval_s
        )
        if inputs and is_due and age_s >= self._taken_s * _LEAST_REST:
            self._begin_snapshot()
        else:
            self._later("check", _CHECK_S, self._check)

    def _begin_snapshot(self) -> None:
        """Take a snapshot between two requests, and write it in a thread while the market continues."""
        begin_s = self._timers.seconds()
        try:
            write = self._exchange.begin_snapshot()
        except ExchangeError as error:
            self._stop(str(error))
            return
        taken_s = self._timers.seconds()
        self._inputs, self._since_s, self._taken_s = self._exchange.inputs, taken_s, taken_s - begin_s

        def written(_: object) -> None:
            self._has_written(taken_s, self._taken_s)

        self._in_thread(write).addCallbacks(written, self._log_failure).addBoth(
            lambda _: self._later("check", _CHECK_S, self._check)
        )

    def _has_written(self, at_s: float, duration_s: float) -> None:
        self.snapshots += 1
        self._written_s = at_s
        self._log.info(
            "snapshot after {inputs} requests, taken in {seconds:.3f} s",
            inputs=self._exchange.snapshot_inputs,
            seconds=duration_s,
        )

    def _log_failure(self, failure: Failure) -> None:
        self._log.error("no snapshot: {reason}", reason=failure.getErrorMessage())

    def snapshot(self) -> None:
        """Write a snapshot now, while the market waits; raise `ExchangeError` if it cannot be written."""
        begin_s = self._timers.seconds()
        self._exchange.snapshot()
        self._inputs, self._since_s = self._exchange.inputs, self._timers.seconds()
        self._has_written(self._since_s, self._since_s - begin_s)

    def finish(self) -> None:
        """Write a last snapshot after the last request, if there was a request since the latest one."""
        self.stop()
        if self._exchange.inputs > self._exchange.snapshot_inputs:
            try:
                self.snapshot()
            except ExchangeError as error:
                self._log.error("no snapshot: {reason}", reason=str(error))
