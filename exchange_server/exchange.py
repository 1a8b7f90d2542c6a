"""The exchange: journals inputs, applies them to the market, then publishes the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn

import msgspec
from twisted.logger import Logger

from exchange_server.day import MarketClock
from exchange_server.errors import ExchangeError, JournalError
from exchange_server.journal import PRIVATE, Journal, MessageStream, Position, Snapshot, feed_name, private_name
from exchange_server.journal.history import MarketStarts
from exchange_server.matching.inputs import AnyInput
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.order import Account
from exchange_server.matching.outputs import FeedEncoder, Now

__all__ = ["Exchange"]

_RECOVERY_INPUTS: Final = 2_000
"""Number of inputs that a recovery applies before it writes their output."""


class Exchange:
    """A market with its journal and its published streams.

    Every batch is journalled before it is applied, and applied before its results are published, so that everything
    published can be recovered after a crash. Times are given by `next_time_ns` and rise from input to input.

    A start reads the newest intact snapshot, cuts the streams to the positions that it contains, and applies the later
    inputs. The same inputs give the same bytes, so that the streams continue without a difference.
    """

    _log = Logger()

    def __init__(
        self,
        journal: Journal,
        clock: MarketClock,
        encoders: Mapping[str, FeedEncoder],
        protocols: Sequence[AccountProtocol],
        now: Now | None = None,
        *,
        observers: Sequence[FeedEncoder] = (),
    ) -> None:
        """Recover the market from its journal.

        ``encoders`` maps each form of the feed, ``text`` or ``itch``, to its encoder; encoders and ``protocols`` share
        `now`. ``observers`` are notified of all feed events of this process, including those of inputs that are applied
        again, and write to no file.
        """
        self.journal = journal
        self.clock = clock
        self.is_group_commit = journal.fsync == "always"
        """True if a batch waits for the disk, so that it is better to submit many inputs at once."""
        self._starts = MarketStarts(journal.rules, encoders, protocols, now, observers)
        self.inputs = 0
        """Number of inputs of the session."""
        self.snapshot_inputs = 0
        """Number of inputs that the newest snapshot covers."""
        self.snapshot_time_ns = 0
        """Market time of the last input that the newest snapshot covers, in nanoseconds."""
        self._private: dict[int, MessageStream] = {}
        self._failure = ""
        self.market = self._recover(encoders)
        self._append = journal.inputs.append
        self._apply = self.market.apply
        self._last_time_ns = self.market.last_time_ns
        clock.advance_to(self._last_time_ns)

    @property
    def session(self) -> str:
        """Name of the session, at most 10 letters and digits."""
        return self.journal.session

    # -- a start -----------------------------------------------------------------------------------------------

    def _recover(self, encoders: Mapping[str, FeedEncoder]) -> Market:
        journal = self.journal
        market, snapshot = self._starts.nearest(
            journal.reader.head,
            journal.snapshots,
            missing=lambda snapshot: journal.streams.damage(_needed(snapshot, encoders)),
        )
        if passed_over := self._starts.passed_over:
            # What makes the newest snapshot unusable mostly affects the others too, so all get one line in the log.
            more = f" ({len(passed_over) - 1} more snapshots)" if len(passed_over) > 1 else ""
            self._log.warn("journal: passed over a snapshot, {why}{more}", why=passed_over[0], more=more)
        positions = _needed(snapshot, encoders) if snapshot else {}
        journal.streams.begin(positions)
        self._touched = market.touched
        self.feeds = {form: journal.streams.get(feed_name(form)) for form in encoders}
        """Streams of the feed, by form."""
        self._takes = [(encoder.take, self.feeds[form].append) for form, encoder in encoders.items()]
        if snapshot:
            self._is_at(snapshot)
        self.inputs = begin = self.snapshot_inputs
        try:
            self._replay(market, begin)
        except ExchangeError:
            raise
        except Exception as error:
            raise JournalError(
                f"expected a market that accepts the inputs after {self.inputs} of {journal.directory}, "
                f"was {type(error).__name__}: {error}"
            ) from error
        journal.begin(positions)
        self._report(begin)
        return market

    def _replay(self, market: Market, after: int) -> None:
        apply = market.apply
        unpublished = 0
        for number, batch in self.journal.reader.batches(after):
            for item in batch:
                apply(item)
            self.inputs = number + len(batch) - 1
            unpublished += len(batch)
            if unpublished >= _RECOVERY_INPUTS:
                self._publish()
                unpublished = 0
        self._publish()

    def _report(self, begin: int) -> None:
        end = self.journal.reader.end
        if end is not None and end.torn_bytes:
            self._log.warn(
                "journal: cut a torn tail of {bytes} bytes after input {inputs}{kept}",
                bytes=end.torn_bytes,
                inputs=end.inputs,
                kept=f"; {end.torn_records} whole records in it are kept aside" if end.torn_records else "",
            )
        if self._starts.passed_over:
            self._log.warn("journal: the streams are recreated from request {first} on", first=begin + 1)
        if self.inputs:
            self._log.info(
                "journal: session {session} resumes after {inputs} inputs, {replayed} of them applied again",
                session=self.session,
                inputs=self.inputs,
                replayed=self.inputs - begin,
            )

    # -- inputs ------------------------------------------------------------------------------------------------

    def next_time_ns(self, at_least_ns: int = 0, count: int = 1) -> int:
        """Return the time of the next input, which is later than every earlier time.

        It is the market clock's time or, if ``at_least_ns`` is given, this recorded time.

        This time and the `count` - 1 nanoseconds after it are reserved. The caller submits its inputs before another
        time is requested, so that times rise.
        """
        last = self._last_time_ns
        time_ns = at_least_ns or self.clock.now_ns()
        if time_ns <= last:
            time_ns = last + 1
        self._last_time_ns = time_ns + count - 1
        return time_ns

    def heartbeat_time_ns(self) -> int:
        """Return the market time of a heartbeat, not before any earlier message and not after any later one."""
        return max(self._last_time_ns, self.clock.now_ns())

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        """Journal and apply a batch and publish its results; return the market's answer to each input.

        Raise `JournalError` if the batch cannot be written: the exchange must then end, and nothing has been
        published that is not in the journal. After any error no further input is accepted.
        """
        if not batch:
            return []
        self._append(batch)
        self.inputs += len(batch)
        apply = self._apply
        try:
            results = [apply(item) for item in batch]
            self._publish()
        except BaseException as error:
            # The streams lack messages that the journal implies; any further message would leave a gap.
            self._failure = f"{type(error).__name__}: {error}"
            self._append = self._refuse
            raise
        return results

    def _refuse(self, batch: Sequence[AnyInput]) -> NoReturn:
        """Raise `JournalError`: after a failure no more inputs are accepted."""
        raise JournalError(f"expected a running exchange, was an exchange that has failed: {self._failure}")

    def _publish(self) -> None:
        """Publish the new messages: first the feed, then the private messages of each account."""
        for take, append in self._takes:
            data, count = take()
            if count:
                append(data, count)
        touched = self._touched
        if touched:
            tellers = touched[:]
            touched.clear()
            private = self._private
            for teller in tellers:
                data, count = teller.take()
                if count:
                    account = teller.account
                    stream = private.get(account.index)
                    if stream is None:
                        stream = self.stream(account)
                    stream.append(data, count)

    def stream(self, account: Account) -> MessageStream:
        """Return the private stream of an account."""
        stream = self._private.get(account.index)
        if stream is None:
            stream = self.journal.streams.get(private_name(account.name, account.protocol))
            self._private[account.index] = stream
        return stream

    # -- snapshots and the end ---------------------------------------------------------------------------------

    def begin_snapshot(self) -> Callable[[], None]:
        """Take a snapshot now; return the function that writes it, which may run in another thread meanwhile.

        The function raises `JournalError` if the snapshot cannot be written. The exchange can continue without that
        snapshot, as long as its inputs can be written. Later inputs go to a new segment of the journal.
        """
        if self._failure:
            self._refuse(())
        if self.inputs == self.snapshot_inputs:
            return _nothing
        journal = self.journal
        journal.inputs.begin_segment(self.inputs + 1)
        snapshot = self._starts.snapshot(self.session, self.inputs, self.market)
        snapshot = msgspec.structs.replace(snapshot, streams=journal.streams.positions())
        return partial(self._keep, snapshot)

    def _keep(self, snapshot: Snapshot) -> None:
        self.journal.keep_snapshot(snapshot)
        self._is_at(snapshot)

    def _is_at(self, snapshot: Snapshot) -> None:
        self.snapshot_inputs = snapshot.inputs
        self.snapshot_time_ns = snapshot.time_ns

    def snapshot(self) -> None:
        """Take and write a snapshot while the market waits. Raise `JournalError` if it cannot be written."""
        self.begin_snapshot()()

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()


def _needed(snapshot: Snapshot, encoders: Mapping[str, FeedEncoder]) -> dict[str, Position]:
    """Return the positions that a snapshot has for the streams that this exchange writes.

    The file of an unused form of the feed stays unchanged.
    """
    feeds = {feed_name(form) for form in encoders}
    return {name: at for name, at in snapshot.streams.items() if name in feeds or name.startswith(PRIVATE)}


def _nothing() -> None:
    """Write nothing: the snapshot exists already."""
