"""Plays a recorded file into the market at a chosen speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from twisted.logger import Logger

from exchange_server.errors import ExchangeError
from exchange_server.exchange import Exchange
from exchange_server.inputs import RECORDING, Input
from exchange_server.replay.record import Loader, Record

__all__ = ["Player", "Receiver"]

_TURN_S: Final = 0.008
"""Longest stretch of a reactor turn that is spent on the file."""
_BATCH_RECORDS: Final = 500
_BEHIND_BYTES: Final = 4 * 1024 * 1024
_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 1.0


class Receiver(Protocol):
    """Who executes the records: the server that also knows its listeners."""

    def submit(self, batch: list[Input]) -> list[int]:
        """Execute a batch."""

    @property
    def farthest_behind_bytes(self) -> int:
        """How far the slowest listener is behind."""


class Player:
    """Submits the records of one file, in batches that never hold up the reactor for long.

    At a speed, a record is due when the market's clock shows its time. At full speed (`paced` false) the clock follows
    the records, and the file waits whenever a listener is too far behind: nobody is cut off for being slower than a
    file. Records up to the market's `replay_position` are skipped: they are in the journal.
    """

    _log = Logger()

    def __init__(
        self,
        loader: Loader,
        symbol: str,
        exchange: Exchange,
        receiver: Receiver,
        clock: Any,
        *,
        paced: bool,
        stop: Callable[[str], None],
    ) -> None:
        self._loader = loader
        self._symbol = symbol
        self._exchange = exchange
        self._receiver = receiver
        self._clock = clock
        self._paced = paced
        self._stop = stop
        self._records: Iterator[Record] = iter(())
        self._next: Record | None = None
        self._call: Any = None
        self.finished = False

    def start(self) -> None:
        """Begin, behind what the journal holds already."""
        self._records = self._loader.records()
        self._call = self._clock.callLater(0, self._skip, self._exchange.market.replay_position)

    def stop(self) -> None:
        """Submit nothing more."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._records = iter(())

    def _skip(self, position: int) -> None:
        until_s = self._clock.seconds() + _TURN_S
        while self._advance() and self._next is not None and self._next.position <= position:
            if not self._next.position % 256 and self._clock.seconds() > until_s:
                self._call = self._clock.callLater(0, self._skip, position)
                return
        self._turn()

    def _advance(self) -> bool:
        """Read the next record; False at the end (of a file that cannot be read further, too)."""
        try:
            self._next = next(self._records, None)
        except ExchangeError as error:
            self._next = None
            self._stop(str(error))
        return self._next is not None

    def _turn(self) -> None:
        until_s = self._clock.seconds() + _TURN_S
        wait_s = 0.0
        while self._next is not None and not wait_s:
            batch = self._batch()
            if batch:
                self._receiver.submit(batch)
            wait_s = self._wait_s()
            if self._clock.seconds() >= until_s:
                break
        if self._next is None:
            self._end()
        else:
            self._call = self._clock.callLater(wait_s, self._turn)

    def _batch(self) -> list[Input]:
        """The next records that are due; at full speed, as many as make a batch."""
        batch: list[Input] = []
        exchange, symbol = self._exchange, self._symbol
        now_ns = exchange.clock.now_ns()
        while len(batch) < _BATCH_RECORDS and (r := self._next) is not None:
            if self._paced and r.time_ns > now_ns:
                break
            time_ns = exchange.next_time_ns(r.time_ns)
            batch.append(
                Input(
                    RECORDING, time_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, symbol
                )
            )
            self._advance()
        if batch and not self._paced:
            exchange.clock.advance_to(batch[-1].time_ns)
        return batch

    def _wait_s(self) -> float:
        if self._next is None:
            return 0.0
        if self._paced:
            return min(_LONGEST_WAIT_S, self._exchange.clock.seconds_until(self._next.time_ns))
        return _WAIT_S if self._receiver.farthest_behind_bytes > _BEHIND_BYTES else 0.0

    def _end(self) -> None:
        self.finished = True
        counts = self._exchange.market.replay_counts
        self._log.info(
            "replay: {path} ended at line {position}; {errors} bad lines, {skipped} left out{counts}",
            path=str(self._loader.path),
            position=self._exchange.market.replay_position,
            errors=self._loader.errors,
            skipped=self._loader.skipped,
            counts="".join(f", {count} {name.replace('_', ' ')}" for name, count in sorted(counts.items())),
        )
