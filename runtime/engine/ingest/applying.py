"""Applying step: orders messages, turns them into deltas and cuts epochs; barriers begin here."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from runtime.compiler.relations import MARKET_RELATIONS, MARKET_TIMES, TOUCHES, TRADES
from runtime.engine.barriers import Barrier
from runtime.engine.errors import EngineError
from runtime.engine.ingest.deltas import MOST_LETTERS, Completed, Deltas, Mark, MarkKind
from runtime.engine.ingest.eventtimes import EpochTime, EventTimes, fills_trades
from runtime.engine.ingest.origin import Origin
from runtime.engine.ingest.turnover import OriginTable, Turnover
from runtime.engine.plan import Context, Pipeline
from runtime.epochs import Cut
from runtime.formats import DeadLetter, FormattedBatch
from runtime.plan import EPOCH_TIME
from runtime.relations import AdaptorError
from runtime.upstreams import UpstreamEpoch

__all__ = ["Applying", "ApplyingConfig", "OpenEpoch", "StreamsNode"]

_MOST_INPUTS: Final = 256
"""Greatest number of inputs of a call."""
_JOINED_TUPLES: Final = 1 << 14
"""Number of tuples up to which batches are joined for an adaptor; copying larger batches costs more than joining
saves."""
_GO_ON: Final = "what an epoch's end has left"
"""Input that the step repeats if it begins a barrier within another input, to continue with the rest of that input."""
_DONE: Final = object()
"""Value that `next` returns for an input that is completely applied; another value means that the epoch is full."""
_TOUCHES: Final = TOUCHES.name
_SEALED_TIMES: Final = {TRADES.name: MARKET_TIMES[TRADES.name]}
"""Relations whose watermarks are sealed for runtimes that read the log, each with its time column."""
_ON_DEMAND: Final = frozenset(relation.name for relation in (*MARKET_RELATIONS, EPOCH_TIME))
"""Relations that the node of the derived streams receives only if a stream reads them."""
_LARGE_ROWS: Final = 1 << 16
"""Number of rows at which the gathered deltas are emitted before more are added."""


class StreamsNode(Pipeline):
    """Node of the derived streams, with the relations that it reads; these relations change only during a drain."""

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]:
        """Names of the relations that the streams read."""

    @property
    @abstractmethod
    def times(self) -> Mapping[str, str]:
        """Time column of each relation whose watermark the streams need."""


class ApplyingConfig(msgspec.Struct, frozen=True):
    """Limit of an epoch's size, and the callbacks of `Applying`."""

    most_messages: int
    """Number of messages after which an epoch is closed at the next place where it may be cut."""
    settle: Callable[[], int]
    """Function that waits until no commit is in progress, and returns the newest epoch; called when all earlier
    barriers have completed."""
    on_failed_origin: Callable[[int, str], None]
    """Function that is called with the number of an origin that has failed, and the reason, if the ingest continues."""
    now_s: Callable[[], float] = time.monotonic
    """Monotonic clock, for the time at which deltas were applied."""


class Applying(Pipeline):
    """Step that orders the batches of each stream, has the adaptors turn them into deltas, and cuts epochs.

    A requested barrier begins at once, because between two calls every origin is at a place where it may be cut. If an
    epoch is full, the step itself begins a barrier, in the middle of the result of a formatter. The rest of the result,
    and all input that has arrived meanwhile, is applied when the barrier has completed.

    An origin can fail because of its source, because of bytes that cannot be decoded, or because of a malformed tuple.
    Then the earlier input of that origin is applied, the other origins continue to their ends, and all of this input is
    sealed. At last the ingest fails with the reasons, because its input is not complete. An error of an adaptor fails
    the ingest immediately, because the adaptor's state may be half changed. An origin with `Origin.is_own` is
    independent of the others: the ingest does not wait for its end, and its failure is only reported to the listener.
    An `AdaptorError` of such an origin is handled as a failure of the origin, too, because the adaptor raises it before
    it has changed anything.

    A `Turnover`, a change of origins, is made at the cut of its barrier. The input from an upstream consists of whole
    epochs of deltas. They need neither order nor adaptor, and an epoch of this ingest may end after each of them.

    All state, including that of origins and adaptors, belongs to the worker that makes the call; there is one call at a
    time.
    """

    is_cut_point = True
    most_inputs = _MOST_INPUTS

    def __init__(
        self, config: ApplyingConfig, table: OriginTable, epoch_time: EpochTime, streams: StreamsNode | None = None
    ) -> None:
        """Create the step.

        ``streams`` is the node of the derived streams, if there is one; it must be the first successor.
        """
        self._config = config
        self._table = table
        self._streams = streams
        self._epoch_time = epoch_time
        self._times = EventTimes()
        self._given: frozenset[str] | None = None
        self._open = OpenEpoch(config.now_s)
        self._work: deque[Iterator[None]] = deque()
        self._left = sum([not origin.is_own for origin in table.origins.values()])
        self._first_left = sum([origin.first for origin in table.origins.values()])
        self._failures: list[str] = []

    @property
    def holds_any(self) -> bool:
        """True if the open epoch has content that a barrier would have to seal; may be read by any thread."""
        return self._open.holds_any

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Apply results of formatters; if the epoch becomes full, begin a barrier and apply the rest after it."""
        self._switch_touches()
        self._work += map(self._steps, _joined([each for each in inputs if isinstance(each, Completed)]))
        self._work += map(self._upstream_steps, [each for each in inputs if isinstance(each, UpstreamEpoch)])
        while self._work:
            is_full = next(self._work[0], _DONE) is not _DONE
            if is_full:
                self._cut(context, context.begin_barrier())
                context.repeat([_GO_ON])
                return
            self._work.popleft()
            if self._open.is_large:
                self._emit(self._open.take(), context)
        self._emit(self._open.take(), context)

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """Cut the open epoch; an empty epoch is not closed, unless the barrier has a payload."""
        context.begin_barrier(barrier)
        if self._open.holds_any or barrier.payload is not None:
            self._cut(context, barrier)

    def end_of_input(self, port: int, context: Context) -> None:
        """Seal the open epoch, because every origin has ended; a run without any input has one epoch, too."""
        del port
        if self._open.holds_any or (self._config.settle() == 0 and not self._failures):
            self._cut(context, context.begin_barrier())

    def stop(self, context: Context) -> None:
        """Raise `EngineError` if an origin has failed and the others have ended."""
        del context
        if self._failures and not self._left:
            raise EngineError("; ".join(self._failures))

    def _emit(self, deltas: Deltas | None, context: Context) -> None:
        """Emit deltas to views and the epoch sink; derived streams get the relations that they may read."""
        if deltas is None:
            return
        if self._streams is None:
            context.emit(deltas, size=deltas.messages)
            return
        reads = self._streams.reads
        relations = {
            name: rows for name, rows in deltas.relations.items() if name in reads or name not in _ON_DEMAND
        }  # fmt: skip
        if relations or deltas.closes >= 0:
            given = Deltas(relations, cuts=deltas.cuts, closes=deltas.closes, watermarks=deltas.watermarks,
                           ended=deltas.ended)  # fmt: skip
            context.emit(given, successor=0)
        if _TOUCHES in deltas.relations:
            kept = {name: rows for name, rows in deltas.relations.items() if name != _TOUCHES}
            deltas = msgspec.structs.replace(deltas, relations=kept)
        for successor in range(1, context.successors):
            context.emit(deltas, successor, size=deltas.messages)

    def _switch_touches(self) -> None:
        """Make the adaptors compute the relation TOUCHES only while a derived stream reads it."""
        if self._streams is None or self._given is (reads := self._streams.reads):
            return
        self._given = reads
        for origin in self._table.origins.values():
            adaptor = origin.adaptor
            if fills_trades(origin) and adaptor.gives_touches != (_TOUCHES in reads):
                adaptor.switch_touches(_TOUCHES in reads)

    def _cut(self, context: Context, barrier: Barrier) -> None:
        """End the epoch here, with the change that the barrier's payload requests.

        A barrier that the step begins itself may be one that was requested, so it may have a payload, too.
        """
        epoch = self._config.settle() + 1  # settle before the turnover, which also reads the number of the newest epoch
        if isinstance(barrier.payload, Turnover):
            self._turn_over(barrier.payload)
        origins = self._table.origins.values()
        for adaptor in {id(origin.adaptor): origin.adaptor for origin in origins}.values():
            self._open.add(adaptor.at_barrier(), 0)
        self._open.add(self._epoch_time.at_cut(), 0)
        deltas = self._open.close(epoch, self._table.cuts())
        upstreams = [upstream for upstream, _ in self._table.upstreams.values()]
        deltas = msgspec.structs.replace(deltas, sealed_watermarks=self._times.sealed(origins, upstreams))
        if self._streams is not None and self._streams.times:
            marks, ended = self._times.watermarks(origins, upstreams, self._streams.times)
            deltas = msgspec.structs.replace(deltas, watermarks=marks, ended=ended)
        self._emit(deltas, context)

    def _turn_over(self, turnover: Turnover) -> None:
        self._given = None
        self._times.forget(turnover.ends)
        ended = self._table.end(turnover.ends) if turnover.ends else None
        if ended is not None:
            ended.forget()
            ended.inlet.retire()
        self._open.add(turnover.at_cut(), 0)
        if turnover.begins is not None:
            self._table.begin(turnover.begins())

    # Steps of one input: an iterator that yields at each place where the epoch is full and has to end

    def _steps(self, completed: Completed) -> Iterator[None]:
        by_origin: dict[int, list[FormattedBatch]] = {}
        for batch in completed.batches:
            by_origin.setdefault(batch.origin_id, []).append(batch)
        for origin_id, batches in by_origin.items():
            if (origin := self._table.origins.get(origin_id)) is None:
                continue  # the origin was removed while its batches were formatted
            try:
                for part in _parts(origin.in_order(batches)):
                    if origin.ended:
                        break
                    origin.take(part)
                    yield from self._drain(origin)
                    failure = part[-1].failure
                    if failure is not None and not origin.ended:
                        self._fail(origin, str(origin.counted_on(failure)))
            except (AdaptorError, EngineError) as error:
                self._fail_alone(origin, error)
        for origin_id, reason in completed.failed:
            if (origin := self._table.origins.get(origin_id)) is not None:
                origin.failure = reason
                origin.inlet.close_source()
                # The mark comes after the earlier input of the origin, which is still in flight.
                origin.inlet.end(MarkKind.FAILED, reason)
        for mark in completed.marks:
            origin = self._table.origins.get(mark.origin_id)
            if origin is not None and not origin.ended:
                yield from self._marked(origin, mark)

    def _upstream_steps(self, sealed: UpstreamEpoch) -> Iterator[None]:
        """Apply all of an upstream's epoch, or none of it.

        Yield if the open epoch is then full, because an epoch may end after each epoch of an upstream.
        """
        upstream, _ = self._table.upstreams[sealed.origin_id]
        upstream.check(sealed)
        self._open.add(sealed.relations, sealed.messages)
        self._epoch_time.reach(sealed.epoch_time)
        self._times.followed(upstream.name, sealed, self._timed())
        upstream.applied(sealed)
        for name, cut in sealed.cuts.items():
            self._open.moved(name, cut)
        if self._open.messages >= self._config.most_messages:
            yield

    def _timed(self) -> Mapping[str, str]:
        """Return the time column of each relation whose times are tracked."""
        return _SEALED_TIMES if self._streams is None else {**self._streams.times, **_SEALED_TIMES}

    def _marked(self, origin: Origin, mark: Mark) -> Iterator[None]:
        try:
            if mark.kind is MarkKind.ENDED:
                origin.end()
                yield from self._drain(origin)
                if not origin.is_forgotten:
                    self._open.set_aside(*origin.cut_at_end())
                    self._over(origin)
            elif mark.kind is MarkKind.FAILED:
                self._fail(origin, mark.reason)
            elif not origin.failure:
                self._reconnect(origin)
        except (AdaptorError, EngineError) as error:
            self._fail_alone(origin, error)

    def _fail_alone(self, origin: Origin, error: AdaptorError | EngineError) -> None:
        """Fail the origin with this error if it `is_own`; else raise the error, which fails the ingest."""
        if not origin.is_own:
            raise error
        self._fail(origin, f"{type(error).__name__}: {error}")

    def _drain(self, origin: Origin) -> Iterator[None]:
        most = self._config.most_messages
        while (part := origin.next_part(max(1, most - self._open.messages))) is not None:
            end_offset = part.row_ends[-1]
            self._open.set_aside(*origin.passed(end_offset))
            deltas = origin.adaptor.apply(part)
            reached = self._epoch_time.applied(part.rows, deltas)
            self._times.applied(origin.name, reached, deltas, self._timed())
            self._open.add(deltas, part.rows.num_rows)
            origin.applied(part, end_offset)
            self._open.moved(origin.name, origin.cut())
            if self._open.messages >= most and part.cuttable[-1]:
                yield

    def _fail(self, origin: Origin, reason: str) -> None:
        origin.failure = reason
        if not origin.is_own:
            self._failures.append(f"origin {origin.name}: {reason}")
        if self._left > 1 or origin.is_own:
            self._config.on_failed_origin(origin.origin_id, reason)
        self._over(origin)

    def _over(self, origin: Origin) -> None:
        origin.ended = True
        if (self._streams is not None and self._streams.times) or self._may_have_delayed(origin):
            # The end moves a watermark, so that streams complete pending rows, here and in runtimes that read the log.
            self._open.must_close()
        origin.inlet.retire()
        if origin.is_own:
            return
        self._left -= 1
        if origin.first:
            self._first_left -= 1
            if not self._first_left:
                for other in self._table.origins.values():
                    other.inlet.release()
        if not self._left:  # origins with `is_own` end with the last of the others
            for other in self._table.origins.values():
                if not other.ended:
                    other.forget()
                    other.inlet.retire()
            for _, upstream in self._table.upstreams.values():
                upstream.retire()

    def _may_have_delayed(self, origin: Origin) -> bool:
        """Return True if the sealed watermark of the trades may move because the origin has ended.

        The watermark itself is not computed here: its computation visits all origins, and ten thousand of them may end
        at once.
        """
        return fills_trades(origin) and len(self._table.origins) + len(self._table.upstreams) > 1

    def _reconnect(self, origin: Origin) -> None:
        if not origin.source.replays:  # input that is in no epoch yet could not be read again
            self._open.set_aside(*origin.cut_at_end())
        origin.reconnect()


def _joined(inputs: Sequence[Completed]) -> Iterator[Completed]:
    """Yield inputs in order, with small adjacent ones joined; a failure or end follows the batches of its input."""
    if len(inputs) == 1:
        yield inputs[0]
        return
    batches: list[FormattedBatch] = []
    tuples = 0
    for each in inputs:
        if batches and tuples + each.tuples > _JOINED_TUPLES:
            yield Completed(batches, tuples)
            batches, tuples = [], 0
        batches += each.batches
        tuples += each.tuples
        if each.failed or each.marks:
            yield Completed(batches, tuples, each.failed, each.marks)
            batches, tuples = [], 0
    if batches:
        yield Completed(batches, tuples)


def _parts(batches: Sequence[FormattedBatch]) -> Iterator[Sequence[FormattedBatch]]:
    """Yield groups of small adjacent batches, in order; a batch that ends with a failure is the last of its group."""
    part: list[FormattedBatch] = []
    pending = 0
    for batch in batches:
        if part and pending + batch.tuples > _JOINED_TUPLES:
            yield part
            part, pending = [], 0
        part.append(batch)
        pending += batch.tuples
        if batch.failure is not None:
            yield part
            part, pending = [], 0
    if part:
        yield part


class OpenEpoch:
    """Content of the open epoch: counts of the whole epoch, and the deltas applied since `Deltas` were last taken.

    Batches of a relation are joined when the deltas are taken. At most 10,000 malformed tuples of an epoch have a
    description.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Create an empty epoch; ``now_s`` is a monotonic clock in seconds."""
        self._now_s = now_s
        self.messages = 0
        """Number of well-formed messages of the epoch."""
        self._malformed = 0
        self._described = 0
        self._has_changes = False
        self._forget()

    def _forget(self) -> None:
        self._batches: dict[str, list[pa.RecordBatch]] = {}
        self._rows = 0
        self._count = 0
        self._cuts: dict[str, Cut] = {}
        self._letters: list[DeadLetter] = []
        self._set_aside = 0

    @property
    def holds_any(self) -> bool:
        """True if there is content that has to be sealed with an epoch."""
        return bool(self.messages or self._malformed or self._has_changes)

    @property
    def is_large(self) -> bool:
        """True if the pending rows have reached the limit, so that they are emitted before more are added."""
        return self._rows >= _LARGE_ROWS

    def add(self, deltas: Mapping[str, pa.RecordBatch], messages: int) -> None:
        """Add the deltas of this number of messages."""
        for name, batch in deltas.items():
            if batch.num_rows:
                self._batches.setdefault(name, []).append(batch)
                self._rows += batch.num_rows
                self._has_changes = True
        self.messages += messages
        self._count += messages

    def must_close(self) -> None:
        """Note that the next barrier has to close the epoch, even if it has no row."""
        self._has_changes = True

    def set_aside(self, letters: tuple[DeadLetter, ...], count: int) -> None:
        """Add ``count`` malformed tuples, of which ``letters`` describe some."""
        if count:
            room = max(0, MOST_LETTERS - self._described)
            self._letters += letters[:room]
            self._described += len(letters[:room])
            self._malformed += count
            self._set_aside += count

    def moved(self, origin: str, cut: Cut) -> None:
        """Record the present cut of the origin's input."""
        self._cuts[origin] = cut

    def take(self) -> Deltas | None:
        """Return the gathered deltas and forget them; return None if there are none."""
        if not (self._count or self._set_aside or self._batches):
            return None
        return self._taken(self._cuts, -1)

    def close(self, epoch: int, cuts: Mapping[str, Cut]) -> Deltas:
        """Return the gathered deltas, marked as the last of the epoch, and open the next epoch."""
        deltas = self._taken(cuts, epoch)
        self.messages = self._malformed = self._described = 0
        self._has_changes = False
        return deltas

    def _taken(self, cuts: Mapping[str, Cut], closes: int) -> Deltas:
        joined = {
            name: batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            for name, batches in self._batches.items()
        }
        deltas = Deltas(joined, self._count, cuts, tuple(self._letters), self._set_aside, closes, self._now_s())
        self._forget()
        return deltas
