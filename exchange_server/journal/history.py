"""State of a market from its journal: recovered from a snapshot or from the first input, and at any of its inputs.

`History` reads a journal without changing it, also while an exchange uses the directory: the journal then ends at the
last input written so far.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from exchange_server.errors import JournalDamagedError, OperationError
from exchange_server.journal.directory import INPUTS, SNAPSHOTS, keeps_writes
from exchange_server.journal.disk import LOCAL_DISK, JournalDisk
from exchange_server.journal.inputs_log import JournalReader, SegmentHead
from exchange_server.journal.snapshots import SNAPSHOT_VERSION, JournalSnapshots, Snapshot
from exchange_server.journal.streams import feed_name, private_name
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.outputs import FeedEncoder, Now

__all__ = ["History", "MakeOutputs", "MarketStarts", "Walk"]


class MarketStarts:
    """Makes markets as they were at a snapshot or before the first input of a session.

    All of these markets write through the same encoders and clock: only the latest one can be used.
    """

    def __init__(
        self,
        rules: MarketRules,
        encoders: Mapping[str, FeedEncoder],
        protocols: Sequence[AccountProtocol],
        now: Now | None = None,
        observers: Sequence[FeedEncoder] = (),
    ) -> None:
        """Prepare to make markets.

        The encoders must not have written anything. ``observers`` are notified of the feed like encoders, and are
        part of no snapshot.
        """
        self._rules = rules
        self._encoders = encoders
        self._protocols = protocols
        self._observers = tuple(observers)
        self._now = now or Now()
        self._fresh = self._states()
        self.passed_over: list[str] = []
        """Snapshots that could not be used, with the reasons."""

    def _states(self) -> dict[str, bytes]:
        return {name: msgspec.msgpack.encode(encoder.state()) for name, encoder in self._encoders.items()}

    def snapshot(self, session: str, inputs: int, market: Market) -> Snapshot:
        """Return the snapshot of a market after ``inputs`` inputs, without positions of streams."""
        return Snapshot(
            SNAPSHOT_VERSION, session, inputs, market.last_time_ns, market.state(), self._states(), streams={}
        )

    def nearest(
        self,
        head: SegmentHead,
        snapshots: JournalSnapshots,
        is_wanted: Callable[[Snapshot], bool] = lambda snapshot: True,
        missing: Callable[[Snapshot], str] = lambda snapshot: "",
    ) -> tuple[Market, Snapshot | None]:
        """Return the market of the newest intact snapshot that is wanted, or else the market before the first input.

        ``missing`` returns why a snapshot cannot be used, empty if it can. Raise `JournalDamagedError` if there
        is no such snapshot and the first input no longer exists.
        """
        nearest = None
        for snapshot in filter(is_wanted, snapshots.newest()):
            why = self._unfit(snapshot, head) or missing(snapshot)
            if not why:
                try:
                    nearest = self._restored(snapshot), snapshot
                    break
                except (msgspec.MsgspecError, ValueError, LookupError, TypeError, AttributeError) as error:
                    why = f"{type(error).__name__} {error}"
            self.passed_over.append(f"{snapshots.path(snapshot.inputs)}: {why}")
        self.passed_over += [f"{path}: {why}" for path, why in snapshots.damaged.items()]
        if nearest is not None:
            return nearest
        if head.first > 1:
            reasons = "; ".join(self.passed_over) or "there is none"
            raise JournalDamagedError(
                f"expected a snapshot to begin with, since inputs before {head.first} no longer exist: {reasons}"
            )
        for name, state in self._fresh.items():
            self._encoders[name].restore(msgspec.msgpack.decode(state))
        self._now.time_ns = 0
        return Market(self._rules, self._outputs(), self._protocols, self._now), None

    def _unfit(self, snapshot: Snapshot, head: SegmentHead) -> str:
        if snapshot.session != head.session:
            return f"expected session {head.session}, was {snapshot.session}"
        if snapshot.inputs + 1 < head.first:
            return f"expected input {snapshot.inputs + 1}, was a journal that begins with {head.first}"
        if without := sorted(set(self._encoders) - set(snapshot.encoders)):
            return f"expected the feeds {', '.join(without)} in it, were {', '.join(snapshot.encoders) or 'none'}"
        return ""

    def _restored(self, snapshot: Snapshot) -> Market:
        for name, encoder in self._encoders.items():
            encoder.restore(msgspec.msgpack.decode(snapshot.encoders[name]))
        return Market.restore(self._rules, snapshot.market, self._outputs(), self._protocols, self._now)

    def _outputs(self) -> tuple[FeedEncoder, ...]:
        return (*self._encoders.values(), *self._observers)


MakeOutputs = Callable[[MarketRules, Now], tuple[Mapping[str, FeedEncoder], Sequence[AccountProtocol]]]
"""Function that makes the encoders of the feed, by form, and the account protocols of an exchange with the given
rules.
"""


class Moment(msgspec.Struct, frozen=True):
    """A market after one of its inputs."""

    inputs: int
    """Number of inputs that were applied."""
    time_ns: int
    """Market time of the last input, in nanoseconds."""
    messages: dict[str, int]
    """Number of the last message of each requested form of the feed."""
    state_hash: str
    """Fingerprint of the market."""
    market: Market
    """The market itself, for reading its books and accounts."""


class History:
    """Past of the exchange whose journal is in a directory."""

    def __init__(self, directory: Path, make_outputs: MakeOutputs, disk: JournalDisk = LOCAL_DISK) -> None:
        """Open the journal for reading; raise `JournalError` where there is none."""
        self.directory = directory
        self._make_outputs = make_outputs
        self._disk = disk
        self.reader = JournalReader(directory / INPUTS, disk, keeps_writes=keeps_writes(directory, disk))
        """Reader of the inputs, with session and rules in its head."""

    def at_input(self, inputs: int) -> Moment:
        """Return the market after ``inputs`` inputs.

        Raise `OperationError` if there are fewer, `JournalError` for damage.
        """
        if inputs < 0:
            raise OperationError(f"expected an input of 0 or more, was {inputs}")
        walk = self.walk(lambda snapshot: snapshot.inputs <= inputs, forms=())
        if walk.inputs < inputs:
            for number in walk.each():
                if number == inputs:
                    break
        if walk.inputs != inputs:
            raise OperationError(f"expected an input up to {walk.inputs}, was {inputs}")
        return walk.moment()

    def at_message(self, number: int, form: str = "text") -> Moment:
        """Return the market after the input that published a message; that input may have published later messages too.

        Raise `OperationError` if there is no such message, `JournalError` for damage.
        """
        name = feed_name(form)
        walk = self.walk(
            lambda moment: name in moment.streams and moment.streams[name].next_number <= number, forms=(form,)
        )
        for _ in walk.each():
            if walk.messages[form] >= number:
                break
        if not 1 <= number <= walk.messages[form]:
            raise OperationError(f"expected a message of the feed up to {walk.messages[form]}, was {number}")
        return walk.moment()

    def now(self) -> Moment:
        """Return the market after the last input."""
        walk = self.walk(forms=())
        for _ in walk.each():
            pass
        return walk.moment()

    def walk(
        self, is_wanted: Callable[[Snapshot], bool] = lambda snapshot: True, *, forms: Collection[str] | None = None
    ) -> Walk:
        """Return a walk from the newest intact and wanted snapshot, or from the first input.

        ``forms`` are the forms of the feed to write, None for all; a snapshot without one of them is not used. Raise
        `OperationError` for an unknown form.
        """
        head = self.reader.head
        now = Now()
        made, protocols = self._make_outputs(head.rules, now)
        if unknown := sorted(set(forms or ()) - set(made)):
            raise OperationError(f"expected a form of the feed ({', '.join(made)}), was {unknown[0]}")
        encoders = {form: encoder for form, encoder in made.items() if forms is None or form in forms}
        snapshots = JournalSnapshots(self.directory / SNAPSHOTS, self._disk)
        starts = MarketStarts(head.rules, encoders, protocols, now)
        market, begin = starts.nearest(head, snapshots, is_wanted)
        return Walk(self.reader, encoders, market, begin, starts.passed_over)


class Walk:
    """A market that advances input by input."""

    def __init__(
        self,
        reader: JournalReader,
        encoders: Mapping[str, FeedEncoder],
        market: Market,
        begin: Snapshot | None,
        passed_over: Sequence[str],
    ) -> None:
        self._reader = reader
        self.encoders = encoders
        self.market = market
        self.begin = begin
        """Snapshot from which the walk began, None if it began before the first input."""
        self.passed_over = passed_over
        """Snapshots from which the walk could not begin, with the reasons."""
        self.inputs = begin.inputs if begin else 0
        self.messages = {form: begin.streams[feed_name(form)].next_number - 1 if begin else 0 for form in encoders}
        """Number of the last message of each form of the feed."""
        self.on_output: Callable[[str, bytes], None] = _ignore_output
        """Callback with the name of a stream's file and the bytes published there."""

    def each(self) -> Iterator[int]:
        """Apply the inputs one by one; yield the number of each. Raise `JournalError` if the journal cannot be read."""
        apply, touched = self.market.apply, self.market.touched
        for number, batch in self._reader.batches(self.inputs):
            for self.inputs, item in enumerate(batch, number):
                apply(item)
                for form, encoder in self.encoders.items():
                    data, count = encoder.take()
                    if count:
                        self.messages[form] += count
                        self.on_output(feed_name(form), data)
                for teller in touched:
                    account = teller.account
                    self.on_output(private_name(account.name, account.protocol), teller.take()[0])
                touched.clear()
                yield self.inputs

    def moment(self) -> Moment:
        """Return the present state of the walk."""
        return Moment(self.inputs, self.market.last_time_ns, dict(self.messages), self.market.state_hash(), self.market)


def _ignore_output(name: str, data: bytes) -> None:
    """Ignore published bytes."""
