"""Replays a recorded file into the market at a chosen speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from twisted.logger import Logger

from exchange_server.day import LATEST_NS
from exchange_server.errors import ExchangeError, OperationError
from exchange_server.matching.inputs import Recorded
from exchange_server.replay.crossing import CrossedRows
from exchange_server.replay.loader import Loader
from exchange_server.replay.lobster import LobsterLoader
from exchange_server.replay.record import Record

if TYPE_CHECKING:
    from exchange_server.exchange import Exchange

__all__ = ["Player"]

_TURN_S: Final = 0.008
"""Longest time of a reactor turn that is spent on the file, in seconds."""
_BATCH_RECORDS: Final = 500
_BEHIND_BYTES: Final = 4 * 1024 * 1024
_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 1.0
_NEVER: Final = 2**63 - 1


class Player:
    """Submits the records of one file, in batches that never block the reactor for long.

    With a speed, a record is due when the market's clock shows its time. At full speed (speed None) the clock follows
    the records, and the replay waits whenever a listener is too far behind, so that no listener is disconnected because
    the replay is too fast for it. While the replay is paused, the clock stands still, and live orders trade with the
    orders in the books. Records up to the market's `replay_position` are skipped: they are in the journal.

    The time of a record's input is the record's time, or one nanosecond after the previous input if that is later. The
    journal of a file that is replayed alone is therefore the same at every speed, with every pause and after every
    seek.
    """

    _log = Logger()

    def __init__(
        self,
        loader: Loader,
        exchange: Exchange,
        clock: Any,
        *,
        speed: float | None,
        stop: Callable[[str], None],
        behind_bytes: Callable[[], int] = lambda: 0,
        crossed: CrossedRows | None = None,
    ) -> None:
        """Create a player.

        ``clock`` is a reactor; ``stop`` ends the exchange with a reason; ``behind_bytes`` returns the lag of the
        slowest listener in bytes. The player alone sets the exchange's clock. ``crossed`` observes the records.
        """
        self.file = str(loader.path)
        self.symbol = ",".join(loader.symbols)
        """Symbols that are replayed."""
        self.finished = False
        self.is_paused = False
        """True while the replay is paused; a seek proceeds nevertheless."""
        self._loader = loader
        self._exchange = exchange
        self._clock = clock
        self._speed = speed
        self._stop = stop
        self._behind_bytes = behind_bytes
        self.crossed = crossed or CrossedRows()
        """Counter of crossed rows in the records read so far."""
        self._records: Iterator[Record] = iter(())
        self._next: Record | None = None
        self._call: Any = None
        self._is_ready = False
        """True once the records already in the journal were skipped."""
        self._seek_position = 0
        self._seek_ns = 0

    @property
    def position(self) -> int:
        """Position of the last replayed record, 0 before the first."""
        return self._exchange.market.replay_position

    @property
    def speed(self) -> float | None:
        """Recorded seconds replayed per real second; None: as fast as possible."""
        return self._speed

    @property
    def is_seeking(self) -> bool:
        """True while the replay runs as fast as possible to the target of a seek."""
        return bool(self._seek_position or self._seek_ns)

    def start(self) -> None:
        """Start the replay after the records already in the journal."""
        if self.is_paused:
            self._exchange.clock.stop()
        else:
            self._exchange.clock.start()
        self._records = self._loader.records()
        self._call = self._clock.callLater(0, self._skip, self.position)

    def stop(self) -> None:
        """Stop submitting records."""
        self._unschedule()
        self._is_ready = False
        self._records = iter(())

    def pause(self) -> None:
        """Pause the replay; a seek proceeds."""
        self.is_paused = True
        self._exchange.clock.stop()

    def resume(self) -> None:
        """Resume the replay."""
        self.is_paused = False
        if self._is_ready:
            self._exchange.clock.start()
            self._go()

    def set_speed(self, speed: float | None) -> None:
        """Continue at another speed, after the pause if there is one.

        Raise `OperationError` if the speed is not above 0.
        """
        if speed is not None and not (speed > 0 and math.isfinite(speed)):
            raise OperationError(f"expected a replay speed above 0, was {speed}")
        self._speed = speed
        self._exchange.clock.set_speed(speed or 1.0)
        self._go()

    def seek(self, position: int) -> None:
        """Replay as fast as possible until this record is the next one; then continue at the speed, or pause again.

        Raise `OperationError` for a record that was already replayed: a market cannot run backwards. To replay it
        again, start an exchange with a new journal.
        """
        if position <= self.position:
            raise OperationError(
                f"expected a record after {self.position}, was {position}: a replay only goes forward"
            )  # fmt: skip
        self._seek_position, self._seek_ns = position, 0
        self._go()

    def seek_time(self, time_ns: int) -> None:
        """Replay as fast as possible to the first record at or after this market time; the clock then shows this time.

        Raise `OperationError` for a time in the past.
        """
        now_ns = self._exchange.clock.now_ns()
        if time_ns <= now_ns:
            raise OperationError(f"expected a time after {now_ns}, was {time_ns}: a replay only goes forward")
        self._seek_position, self._seek_ns = 0, time_ns
        self._go()

    def _unschedule(self) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _go(self, wait_s: float = 0.0) -> None:
        if self._is_ready and not self.finished:
            self._unschedule()
            self._call = self._clock.callLater(wait_s, self._turn)

    def _skip(self, position: int) -> None:
        until_s = self._clock.seconds() + _TURN_S
        while self._advance() and self._next is not None and self._next.position <= position:
            if not self._next.position % 256 and self._clock.seconds() > until_s:
                self._call = self._clock.callLater(0, self._skip, position)
                return
        self._is_ready = True
        self._turn()

    def _advance(self) -> bool:
        """Read the next record; return False at the end of the file, or where it cannot be read further."""
        try:
            self._next = next(self._records, None)
        except ExchangeError as error:
            self._next = None
            self._stop(str(error))
        if self._next is None:
            return False
        self.crossed.observe(self._next)
        return True

    def _turn(self) -> None:
        until_s = self._clock.seconds() + _TURN_S
        wait_s = 0.0
        while self._next is not None and not wait_s and (self.is_seeking or not self.is_paused):
            batch = self._batch()
            if batch:
                try:
                    self._exchange.submit(batch)
                except ExchangeError as error:
                    self._stop(str(error))
                    return
            wait_s = self._wait_s()
            if self._clock.seconds() >= until_s:
                break
        if self._next is None:
            self._end()
        elif self.is_seeking or not self.is_paused:
            self._go(wait_s)

    def _batch(self) -> list[Recorded]:
        """Return the next due records; at full speed, as many as form a batch."""
        exchange = self._exchange
        if self.is_seeking:
            until_ns, until_position = self._seek_ns or _NEVER, self._seek_position or _NEVER
        else:
            until_ns, until_position = _NEVER if self._speed is None else exchange.clock.now_ns() + 1, _NEVER
        batch: list[Recorded] = []
        add, next_time_ns = batch.append, exchange.next_time_ns
        r = self._next
        while r is not None and len(batch) < _BATCH_RECORDS and r.time_ns < until_ns and r.position < until_position:
            time_ns = next_time_ns(r.time_ns)
            add(
                Recorded(
                    time_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, r.symbol, r.new_id
                )
            )
            self._advance()
            r = self._next
        if batch and (self._speed is None or self.is_seeking):
            exchange.clock.advance_to(batch[-1].time_ns)
        if self.is_seeking and (r is None or r.time_ns >= until_ns or r.position >= until_position):
            exchange.clock.advance_to(min(self._seek_ns, LATEST_NS))
            self._seek_position = self._seek_ns = 0
        return batch

    def _wait_s(self) -> float:
        if self._next is None:
            return 0.0
        if self._speed is None or self.is_seeking:
            return _WAIT_S if self._behind_bytes() > _BEHIND_BYTES else 0.0
        return min(_LONGEST_WAIT_S, self._exchange.clock.seconds_until(self._next.time_ns))

    def _end(self) -> None:
        self.finished = True
        self._log.info(
            "replay: {path} ended at {unit} {position}; {errors} bad, {skipped} left out{counts}{crossed}{book}",
            path=self.file,
            unit=self._loader.unit,
            position=self.position,
            errors=self._loader.errors,
            skipped=self._loader.skipped,
            counts="".join(
                f", {count} {name.replace('_', ' ')}"
                for name, count in sorted(self._exchange.market.replay_counts.items())
            ),
            crossed=_crossed_text(self.crossed),
            book=_book_text(self._loader),
        )


def _crossed_text(crossed: CrossedRows) -> str:
    if not crossed.crossed:
        return ""
    return (
        f"; the recording's own book is crossed after {crossed.crossed} of {crossed.rows} records "
        f"({100 * crossed.share:.1f} %)"
    )


def _book_text(loader: Loader) -> str:
    book = loader.book_figures if isinstance(loader, LobsterLoader) else None
    if book is None or not book.rows:
        return ""
    return (
        f"; the touch agrees with the order book file on {book.agreed} of {book.rows} rows, {book.stale} have stale "
        f"orders and {book.unannounced} unannounced volume, which are corrected"
    )
