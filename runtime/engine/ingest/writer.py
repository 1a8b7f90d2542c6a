"""Closing epochs: the sink of the plan, and the writer that has each closed epoch committed.

The commit has the order of `runtime.epochs.log`: the segment is written and synced; one transaction stores the
operators' edits, the cuts and the segment's checksum; then the segment is renamed. A crash before the transaction
leaves nothing of the epoch; a crash after it leaves all of it. The edits were captured at the barrier and do not depend
on the segment, so they are encoded while the segment is written and synced. The sections are computed before that,
because they may use the same objects as the edits.

Closing an epoch detaches its content; a committer may make it durable while the next epoch fills. There is at most one
commit at a time: an epoch is closed only when the previous epoch is durable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from deltabook.wire.durations import Durations
from runtime.engine.barriers import Barrier
from runtime.engine.ingest.committing import Committer, InlineCommitter
from runtime.engine.ingest.deadletters import EpochDeadLetters, LettersMark
from runtime.engine.ingest.deltas import MOST_LETTERS, Deltas, Sections
from runtime.engine.plan import Context, Pipeline
from runtime.epochs import (
    LOCAL_DISK,
    CommitRecord,
    Cut,
    DirectoryClaim,
    Disk,
    EpochLog,
    FencedError,
    Footer,
    MissingSegmentError,
    with_checksums,
)
from runtime.epochs.log import PROGRAMS
from runtime.formats import DeadLetter
from runtime.state import CorruptStateError, Edit, ObjectSpace, SqliteStore, Store

__all__ = ["EpochSink", "EpochWriter", "Recovered"]

_TABLE: Final = "epochs"
_TERM: Final = 1
"""Key of the claim's term in the table of epochs; the epoch's record has key 0."""
TERM: Final = "term"
"""Attribute of a segment with the term of the directory in which it was written."""
_JOINED_BATCHES: Final = 64
"""Number of small batches of a relation at which they are joined into one."""
_SMALL_ROWS: Final = 4_096
"""Number of rows below which a batch is small."""


class Recovered(msgspec.Struct, frozen=True):
    """State of the last committed epoch."""

    record: CommitRecord
    """The epoch and its segment's checksum."""
    cuts: dict[str, Cut]
    """Cut of each origin, at which to resume."""
    messages: int
    """Number of messages of all epochs."""
    dead_letters: int = 0
    """Number of malformed tuples of all epochs."""
    control: int = 0
    """Number of the newest epoch with a control record."""
    letters: LettersMark | None = None
    """Committed part of the file of dead letters."""
    time_ns: int = 0
    """Time of the epoch in nanoseconds; 0 in the state of an earlier release."""


class _Closed(msgspec.Struct, frozen=True):
    """Content of a closed epoch; immutable."""

    footer: Footer
    """Footer of its segment, without the sections and checksums."""
    deltas: Mapping[str, Sequence[pa.RecordBatch]]
    """Changed rows by relation."""
    sections: Sequence[Sections]
    """Output of the views."""
    letters: Sequence[DeadLetter]
    """Descriptions of malformed tuples."""
    malformed: int
    """Number of malformed tuples."""
    edits: Callable[[], list[Edit]]
    """Function that encodes the edits of the object space."""

    def content(self) -> tuple[Footer, dict[str, list[pa.RecordBatch]]]:
        """Return the segment's footer, and the rows of each section; called once, as it calls `Sections.batches`."""
        batches = {name: list(rows) for name, rows in self.deltas.items()}
        for each in self.sections:
            for name, rows in each.batches().items():
                if rows:
                    batches.setdefault(name, []).extend(rows)
        checksums: dict[str, int] = {}
        for each in self.sections:
            if each.checksums is not None:
                checksums |= each.checksums()
        return (with_checksums(self.footer, checksums) if checksums else self.footer), batches


class _RelationRows:
    """Rows of one relation in the open epoch.

    If each message is a step of its own, an epoch has thousands of small batches. They are joined as they arrive:
    joining all of them at the barrier would take tens of milliseconds, for which subscribers would wait.
    """

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._small: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        if batch.num_rows >= _SMALL_ROWS:
            self._join()
            self._batches.append(batch)
            return
        self._small.append(batch)
        if len(self._small) == _JOINED_BATCHES:
            self._join()

    def batches(self) -> list[pa.RecordBatch]:
        """Return all rows in the order in which they came."""
        self._join()
        return self._batches

    def _join(self) -> None:
        if self._small:
            self._batches.append(pa.concat_batches(self._small) if len(self._small) > 1 else self._small[0])
            self._small.clear()


class EpochWriter:
    """Owner of a runtime's state database, object space and epoch log; a directory's database allows one owner only.

    Not thread-safe: one owner at a time. While an ingest runs, the owner is the ingest's sink; other threads may then
    only call `settle`, and read `recovered`, `epoch` and `dead_letters`. If a commit fails, the writer must be closed
    and opened again, which finds out whether the epoch is committed.
    """

    def __init__(
        self,
        directory: Path,
        now_ns: Callable[[], int],
        on_epoch: Callable[[Footer], None],
        *,
        store: Store | None = None,
        disk: Disk = LOCAL_DISK,
        claim: DirectoryClaim | None = None,
        committer: Committer | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the directory and recover its last committed epoch.

        ``now_ns`` is the clock of epochs; ``on_epoch`` is called by the committer with each epoch's footer after its
        commit. Without a ``committer``, epochs are committed by the thread that closes them. ``now_s`` is the clock for
        the durations of commits. ``store`` is by default ``state.db`` in the directory; closing the writer also closes
        a store that was passed. A ``claim`` begins a term greater than the one in the state, and is checked before each
        commit.
        """
        disk.make_directory(directory)
        self._store = store or SqliteStore(directory / "state.db")
        self._now_ns = now_ns
        self._on_epoch = on_epoch
        try:
            self._claim = claim
            if claim is not None:
                self._begin_term(claim)
            self.space = ObjectSpace(self._store)
            self.log = EpochLog(directory / "epochs", disk)
            self.recovered = self._recover()
            counted, letters = (
                (self.recovered.dead_letters, self.recovered.letters) if self.recovered else (0, LettersMark())
            )
            self._dead = EpochDeadLetters(directory / "dead-letters.jsonl", letters, counted, disk=disk)
        except BaseException:
            self._store.close()
            raise
        self._deltas: dict[str, _RelationRows] = {}
        self._attributes: dict[str, str] = {}
        self._sections: list[Sections] = []
        self._letters: list[DeadLetter] = []
        self._malformed = 0
        self._messages = 0
        self._committer = committer or InlineCommitter()
        self._is_taken_off = False
        self._now_s, self._took = now_s, Durations()
        self._failure: BaseException | None = None
        self.on_failed: Callable[[], None] = lambda: None
        """Function that the committer calls when a commit has failed. `settle` and the methods that close an epoch
        raise the error of the commit."""
        self.on_rows: Callable[[Footer, Mapping[str, Sequence[pa.RecordBatch]]], None] = lambda *_: None
        """Function that the committer calls after ``on_epoch``, with the footer and the epoch's rows by section. These
        rows are never changed."""

    @property
    def epoch(self) -> int:
        """Number of the newest epoch; -1 before the first."""
        return self.log.latest()

    @property
    def has_failed(self) -> bool:
        """True if a commit has failed."""
        return self._failure is not None

    @property
    def messages(self) -> int:
        """Number of well-formed messages of the open epoch."""
        return self._messages

    @property
    def is_open(self) -> bool:
        """True if the open epoch has any message, malformed or not."""
        return bool(self._messages or self._malformed)

    @property
    def control(self) -> bytes:
        """The newest control record, empty before the first; raise `MissingSegmentError` if its segment is missing."""
        if self.recovered is None:
            return b""
        epoch = self.recovered.control
        control = self.log.control(epoch)
        if not control and epoch < self.log.first():
            raise MissingSegmentError(
                f"expected the catalogue of epoch {epoch} in {self.log.directory / PROGRAMS}, was none"
            )
        return control

    @property
    def dead_letters(self) -> int:
        """Number of malformed tuples in committed epochs."""
        return self._dead.count

    def add(self, deltas: Mapping[str, pa.RecordBatch], messages: int) -> None:
        """Add deltas of this number of messages to the open epoch."""
        for name, batch in deltas.items():
            if batch.num_rows:
                if (rows := self._deltas.get(name)) is None:
                    rows = self._deltas[name] = _RelationRows()
                rows.add(batch)
        self._messages += messages

    def add_sections(self, sections: Sections) -> None:
        """Add the sections of a view for the open epoch."""
        self._sections.append(sections)
        self._attributes.update(sections.attributes)

    def set_aside(self, letters: tuple[DeadLetter, ...], messages: int) -> None:
        """Add malformed tuples to the open epoch: all are counted, and the first 10,000 of the epoch written out."""
        self._letters += letters[: max(0, MOST_LETTERS - len(self._letters))]
        self._malformed += messages

    def seal(self, cuts: Mapping[str, Cut], control: bytes = b"") -> Footer:
        """Close the epoch and open the next one; the closed one is durable and visible when this returns."""
        footer = self.begin_seal(cuts, control)
        self.settle()
        return footer

    def begin_seal(
        self, cuts: Mapping[str, Cut], control: bytes = b"", watermarks: Mapping[str, int] | None = {}
    ) -> Footer:
        """Close the epoch and open the next one; the closed one is durable after the next `settle`.

        ``watermarks`` are those of the footer, see `Footer.watermarks`.
        """
        epoch = self.settle() + 1
        if self._is_taken_off:
            self.space.on_saved()
        footer = Footer(
            from_epoch=max(0, epoch - 1),
            to_epoch=epoch,
            cuts=dict(cuts),
            messages=self._messages,
            time_ns=self._time_ns(),
            control=control,
            attributes=self._attributes | ({TERM: str(self._claim.term)} if self._claim else {}),
            watermarks=None if watermarks is None else dict(watermarks),
        )
        deltas = {name: rows.batches() for name, rows in self._deltas.items()}
        closed = _Closed(footer, deltas, self._sections, self._letters, self._malformed, self.space.capture())
        self._is_taken_off = True
        self._deltas, self._sections, self._attributes = {}, [], {}
        self._letters, self._malformed, self._messages = [], 0, 0
        self._committer.begin(partial(self._try_commit, closed))
        self._raise_failure()
        return footer

    def settle(self) -> int:
        """Wait until no commit is in progress, and return the newest epoch; raise the error of a failed commit.

        Not to be called on the committer's thread.
        """
        self._committer.settle()
        self._raise_failure()
        return self.epoch

    def close(self) -> None:
        """Release files; the content of the open epoch is discarded, and its input will be read again."""
        self._committer.close()
        self._store.close()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    @property
    def commit_durations(self) -> Durations:
        """Durations of successful commits; may be read by any thread."""
        return self._took

    def _try_commit(self, closed: _Closed) -> None:
        begun_s = self._now_s()
        try:
            self._commit(closed)
            self._took.add(self._now_s() - begun_s)
        except BaseException as error:
            self._failure = error  # raised to the owner of the writer
            if not isinstance(error, Exception):
                raise
            self.on_failed()

    def _commit(self, closed: _Closed) -> None:
        self._expect_claim()
        before, epoch = self.recovered, closed.footer.to_epoch
        self._dead.write(epoch, closed.letters, closed.malformed)
        footer, batches = closed.content()
        encoded_edits = self._committer.beside(closed.edits)  # not before the sections, which may use the same objects
        prepared = self.log.prepare(footer, batches)
        total = (before.messages if before else 0) + footer.messages
        controlled = epoch if footer.control else before.control if before else 0
        recovered = Recovered(
            prepared.record, footer.cuts, total, self._dead.count, controlled, self._dead.mark, footer.time_ns
        )
        edits = encoded_edits()
        self._expect_claim()
        self._store.commit([*edits, Edit(_TABLE, 0, msgspec.msgpack.encode(recovered))])
        self.log.publish(prepared)
        self.recovered = recovered
        self._on_epoch(footer)
        self.on_rows(footer, batches)

    def _time_ns(self) -> int:
        """Return the clock's time in nanoseconds, or the newest epoch's time if the clock was set back before it."""
        return max(self._now_ns(), self.recovered.time_ns if self.recovered else 0)

    def _begin_term(self, claim: DirectoryClaim) -> None:
        """Record the term in the state, so that a writer with an older term is detected even without the claim."""
        known = self._store.get(_TABLE, _TERM)
        term = claim.begin(int.from_bytes(known, "little") if known else 0)
        self._store.commit([Edit(_TABLE, _TERM, term.to_bytes(8, "little"))])

    def _expect_claim(self) -> None:
        """Raise `FencedError` if another process has claimed the directory since."""
        claim = self._claim
        if claim is None:
            return
        claim.check()
        known = int.from_bytes(self._store.get(_TABLE, _TERM) or b"", "little")
        if known != claim.term:
            raise FencedError(f"fenced: expected term {claim.term} in the state, was {known}; nothing more is written")

    def _recover(self) -> Recovered | None:
        data = self._store.get(_TABLE, 0)
        try:
            recovered = None if data is None else msgspec.msgpack.decode(data, type=Recovered)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptStateError(f"expected the last epoch's record, was {data!r}: {error}") from None
        self.log.recover(recovered.record if recovered else None)
        return recovered


class EpochSink(Pipeline):
    """Sink of the plan, which closes the epoch on the barrier and has it committed; see `EpochWriter`.

    The barrier arrives when the applying step and all views have drained; they process nothing until it has completed.
    So their state in the object space does not change, and belongs to the epoch. If a commit raises, the ingest fails:
    only the next start can determine whether the epoch is committed. A barrier with a payload, such as a control
    record, completes when the epoch is durable.

    Only the worker that makes the call accesses the writer and the state of the sink; there is one call at a time.
    """

    most_inputs = 1024

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._last: Deltas | None = None  # last deltas of the epoch that is to be closed
        self._numbers: dict[int, int] = {}

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Add deltas and sections to the open epoch."""
        del context
        for each in inputs:
            if isinstance(each, Deltas):
                self._writer.add(each.relations, each.messages)
                self._writer.set_aside(each.letters, each.malformed)
                if each.closes >= 0:
                    self._last = each
            elif isinstance(each, Sections):
                self._writer.add_sections(each)

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """Begin the commit of the epoch, if it has content; raise the error of a commit that has failed.

        A failed commit requests a barrier, so that its error is raised here soon.
        """
        del context
        if self._writer.has_failed:
            self._writer.settle()
        last, self._last = self._last, None
        if last is None:
            return
        control = barrier.payload if isinstance(barrier.payload, bytes) else b""
        epoch = self._writer.begin_seal(last.cuts, control, last.sealed_watermarks).to_epoch
        if barrier.payload is not None:
            self._writer.settle()
            self._numbers[barrier.number] = epoch

    def stop(self, context: Context) -> None:
        """Wait until all epochs are durable."""
        del context
        self._writer.settle()

    def numbered(self, barrier: Barrier) -> int:
        """Return the epoch that has the control record or turnover of this completed barrier; may be called once."""
        return self._numbers.pop(barrier.number)
