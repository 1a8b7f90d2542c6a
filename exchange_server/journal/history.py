"""State of a market at any of its inputs, read from a journal, which is not changed.

Works beside an exchange that has the directory, too: the journal then ends where that has come to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from exchange_server.errors import OperationError
from exchange_server.journal.directory import INPUTS, SNAPSHOTS, keeps_writes
from exchange_server.journal.disk import LOCAL_DISK, Disk
from exchange_server.journal.recovery import MarketStarts
from exchange_server.journal.segments import JournalReader
from exchange_server.journal.snapshots import Snapshot, SnapshotDirectory
from exchange_server.journal.streams import feed_name, private_name
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.outputs import FeedEncoder, Now

__all__ = ["History", "MakeOutputs", "Moment", "Walk"]

MakeOutputs = Callable[[MarketRules, Now], tuple[Mapping[str, FeedEncoder], Sequence[AccountProtocol]]]
"""Makes the encoders of the feed, by form, and the protocols of accounts that an exchange of these rules has."""


class Moment(msgspec.Struct, frozen=True):
    """A market after an input."""

    inputs: int
    """Inputs that were applied."""
    time_ns: int
    """Market time of the last one."""
    messages: dict[str, int]
    """Number of the last message of each form of the feed that was asked for."""
    state_hash: str
    """Fingerprint of the market."""
    market: Market
    """Its books and accounts, to look at."""


class History:
    """The past of the exchange in a directory."""

    def __init__(self, directory: Path, make_outputs: MakeOutputs, disk: Disk = LOCAL_DISK) -> None:
        """Raises `JournalError` where there is no journal."""
        self.directory = directory
        self._make_outputs = make_outputs
        self._disk = disk
        self.reader = JournalReader(directory / INPUTS, disk, keeps_writes=keeps_writes(directory, disk))
        """The inputs, and the head with session and rules."""

    def at_input(self, inputs: int) -> Moment:
        """The market after so many inputs; raises `OperationError` if there are fewer, `JournalError` for damage."""
        walk = self.walk(lambda snapshot: snapshot.inputs <= inputs, forms=())
        if walk.inputs < inputs:
            for number in walk.each():
                if number == inputs:
                    break
        if walk.inputs != inputs:
            raise OperationError(f"expected an input up to {walk.inputs}, was {inputs}")
        return walk.moment()

    def at_message(self, number: int, form: str = "text") -> Moment:
        """The market after the input that said a message of a form of the feed, whose last message may be a later one.

        Raises `OperationError` if there is no such message, `JournalError` for damage.
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
        """The market after the last input."""
        walk = self.walk(forms=())
        for _ in walk.each():
            pass
        return walk.moment()

    def walk(
        self, is_wanted: Callable[[Snapshot], bool] = lambda snapshot: True, *, forms: Collection[str] | None = None
    ) -> Walk:
        """From the newest good snapshot that is wanted on, or from the first input.

        ``forms`` are those of the feed that are written, None for all; a snapshot without one of them is not taken.
        Raises `OperationError` for a form that there is none of.
        """
        head = self.reader.head
        now = Now()
        made, protocols = self._make_outputs(head.rules, now)
        if unknown := sorted(set(forms or ()) - set(made)):
            raise OperationError(f"expected a form of the feed ({', '.join(made)}), was {unknown[0]}")
        encoders = {form: encoder for form, encoder in made.items() if forms is None or form in forms}
        snapshots = SnapshotDirectory(self.directory / SNAPSHOTS, self._disk)
        starts = MarketStarts(head.rules, encoders, protocols, now)
        market, begin = starts.nearest(head, snapshots, is_wanted)
        return Walk(self.reader, encoders, market, begin, starts.passed_over)


class Walk:
    """A market that goes from input to input."""

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
        """The snapshot from which it began, None for before the first input."""
        self.passed_over = passed_over
        """Snapshots at which it could not begin, and why."""
        self.inputs = begin.inputs if begin else 0
        self.messages = {form: begin.streams[feed_name(form)].next_number - 1 if begin else 0 for form in encoders}
        """Number of the last message of each form of the feed."""
        self.on_output: Callable[[str, bytes], None] = _nobody
        """Takes the name of a stream's file, and what is said there."""

    def each(self) -> Iterator[int]:
        """Apply the inputs one by one; gives the number of each."""
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
        """Return its present state."""
        return Moment(self.inputs, self.market.last_time_ns, dict(self.messages), self.market.state_hash(), self.market)


def _nobody(name: str, data: bytes) -> None:
    """Nobody looks at what is said."""
