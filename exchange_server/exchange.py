"""The exchange: inputs are journalled, then applied, then told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from twisted.logger import Logger

from exchange_server.clock import MarketClock
from exchange_server.inputs import Input
from exchange_server.journal import Journal
from exchange_server.market import Market

__all__ = ["Derive", "Exchange", "Output"]

Output = Callable[[bytes, dict[int, bytes]], None]
"""Takes the feed lines and each broker's private lines of one batch."""

Derive = Callable[[Sequence[str]], None]
"""Takes all feed lines of the session in order, those that recovery brings about again included."""

_RECOVERY_INPUTS: Final = 2_000


class Exchange:
    """A market with a journal under it and somebody who listens above it.

    Every batch is journalled before it is applied and applied before anybody hears of it, so whatever was ever told
    is found again after a crash. Times are given by `next_time_ns` and rise from input to input.
    """

    _log = Logger()

    def __init__(self, journal: Journal, clock: MarketClock, derive: Derive | None = None) -> None:
        """``derive`` makes another form of the feed, kept beside that of the lines."""
        self.journal = journal
        self._derive = derive
        self.clock = clock
        self.market = Market(journal.inputs.head.rules)
        self.output: Output = _nobody
        self._recover()
        self._last_time_ns = self.market.last_time_ns
        clock.advance_to(self._last_time_ns)

    @property
    def session(self) -> str:
        """Name of the session, at most 10 letters and digits."""
        return self.journal.session

    def _recover(self) -> None:
        unwritten = 0
        for batch in self.journal.inputs.recover():
            for item in batch:
                self.market.apply(item)
            unwritten += len(batch)
            if unwritten >= _RECOVERY_INPUTS:
                self._write_output()
                unwritten = 0
        self._write_output()
        if self.journal.inputs.cut_bytes:
            self._log.warn(
                "journal: cut a torn tail of {bytes} bytes, which nobody had been told of",
                bytes=self.journal.inputs.cut_bytes,
            )
        if self.market.inputs:
            self._log.info(
                "journal: session {session} goes on after {inputs} inputs, next feed sequence {sequence}",
                session=self.session,
                inputs=self.market.inputs,
                sequence=self.market.next_sequence,
            )

    def _write_output(self) -> tuple[bytes, dict[int, bytes]]:
        feed, private = self.market.take_output()
        if self._derive is not None:
            self._derive(feed)
        return self.journal.write_output(feed, private)

    def next_time_ns(self, at_least_ns: int = 0) -> int:
        """The time of the next input: now (or a recorded time), and later than every time given before."""
        self._last_time_ns = max(at_least_ns or self.clock.now_ns(), self._last_time_ns + 1)
        return self._last_time_ns

    def heartbeat_time_ns(self) -> int:
        """Market time of a heartbeat: no message before it is later, none after it earlier."""
        return max(self._last_time_ns, self.clock.now_ns())

    def submit(self, batch: Sequence[Input]) -> list[int]:
        """Journal, apply and tell a batch; returns per input the id of the order it left in the book, or 0.

        Raises `JournalError` if it cannot be written: then nothing was applied, and the exchange must end.
        """
        if not batch:
            return []
        self.journal.inputs.append(batch)
        apply = self.market.apply
        resting = [apply(item) for item in batch]
        self.output(*self._write_output())
        return resting

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()


def _nobody(feed: bytes, private: dict[int, bytes]) -> None:
    """Nobody listens yet."""
