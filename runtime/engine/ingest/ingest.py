"""The ingest: raw buffers in from any number of sources, epochs out.

```
source ──offer──▶ Admission ──▶ FormatStage ──▶ worker: InputFormatter.format ──▶ arrived ──▶ who holds the apply lock:
(reactor, file     (bytes)      (coalesces)      (any order, outside the lock)                InOrder → adaptor → writer
 thread)
```

Threads: sources call `offer`, `end_of_stream`, `failed` and `lost`; workers run the rest. Everything behind
`_apply_lock` belongs to the worker that holds it; `_lock` guards the counts and the list of what arrived.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from runtime.engine.errors import EngineError
from runtime.engine.ingest._queue import TaskQueue
from runtime.engine.ingest._workers import Workers
from runtime.engine.ingest.admission import Admission
from runtime.engine.ingest.origin import IN_ORDER_CAPACITY, Origin, OriginCounters
from runtime.engine.ingest.stage import FormatStage
from runtime.engine.ingest.writer import EpochWriter
from runtime.formats import DeadLetter, FormattedBatch, InputFormatter, Pushdown, RawBuffer, Schema
from runtime.sources import BufferSink

__all__ = ["Ingest", "IngestConfig", "IngestListener"]

_JOIN_SECONDS: Final = 10.0
_MOST_IN_FLIGHT: Final = IN_ORDER_CAPACITY // 2  # each may complete two batches that wait: a spanning tuple and a body


class IngestConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the ingest."""

    workers: int = 2
    """Threads that format."""
    admitted_bytes: int = 32 << 20
    """Bytes of raw buffers, over all origins, between their sources and the epochs."""
    in_flight_bytes: int = 16 << 20
    """The same of one origin; bytes that have yet to be decoded count several times."""
    in_flight: int = 1024
    """Raw buffers of one origin that are queued, being formatted or waiting for an earlier one; at most 32768."""
    epoch_messages: int = 0
    """Close an epoch at exactly so many messages, or at the next place where it may be cut; 0 for no such limit."""
    epoch_most_messages: int = 1_000_000
    """Close an epoch at the first place behind so many messages, whatever the time."""

    def __post_init__(self) -> None:
        if self.workers < 1 or not 1 <= self.in_flight <= _MOST_IN_FLIGHT:
            raise ValueError(
                f"expected workers of at least 1 and in_flight from 1 to {_MOST_IN_FLIGHT}, "
                f"was {self.workers} and {self.in_flight}"
            )


class IngestListener:
    """What the owner of an ingest hears, on a worker's thread; override what matters."""

    def on_finished(self) -> None:
        """Every origin has ended and everything is in an epoch."""

    def on_failed(self, reason: str) -> None:
        """The ingest cannot go on; the last committed epoch stands."""

    def on_lost(self, origin_id: int, reason: str) -> None:
        """An origin's connection broke; the ingest has asked it to reconnect."""


class Ingest(BufferSink):
    """Formats, orders, adapts and cuts; see the module."""

    def __init__(
        self, config: IngestConfig, writer: EpochWriter, origins: Mapping[int, Origin], listener: IngestListener
    ) -> None:
        self._config = config
        self._writer = writer
        self._origins = dict(origins)
        self._listener = listener
        self._lock = threading.Lock()
        self._apply_lock = threading.Lock()
        self._arrived: deque[Callable[[], None]] = deque()
        self._barrier_wanted = False
        self._ended = False
        self._queue = TaskQueue()
        self._admission = Admission(config.admitted_bytes, config.in_flight_bytes, config.in_flight)
        self._stages = self._shared_stages()
        self._adaptors = list({id(o.adaptor): o.adaptor for o in self._origins.values()}.values())
        self._workers = Workers(self._queue, config.workers, self._on_error)

    def _shared_stages(self) -> dict[int, FormatStage]:
        """Origins of the same schema, as those of a union, share a formatter; not streams compressed as a whole."""
        shared: dict[tuple[Schema, Pushdown, int], FormatStage] = {}
        stages: dict[int, FormatStage] = {}
        for origin_id, origin in self._origins.items():
            takes_turns = origin.is_compressed
            key = origin.adaptor.schema, origin.pushdown, origin_id if takes_turns else -1
            stage = shared.get(key)
            if stage is None:
                stage = shared[key] = FormatStage(
                    InputFormatter(origin.adaptor.schema, origin.pushdown),
                    self._queue,
                    self._config.workers,
                    self._formatted,
                    lambda o: self._origins[o].name,
                    takes_turns=takes_turns,
                )
            stages[origin_id] = stage
            origin.attach(stage, self._admission)
        return stages

    def start(self) -> None:
        """Start the workers and open every source where its last epoch ended; tables before streams."""
        self._workers.start()
        waiting = [o for o in self._origins.values() if o.first]
        for origin in waiting or self._origins.values():
            origin.open(self)

    def stop(self) -> None:
        """Close sources and workers; what no epoch holds is discarded and comes again after a restart."""
        self._terminate()
        self._admission.close()
        for origin in self._origins.values():
            origin.source.close()
        self._queue.close()
        if not self._workers.join(_JOIN_SECONDS):
            raise EngineError(f"expected the workers to stop within {_JOIN_SECONDS} s, one still runs")

    def request_barrier(self) -> None:
        """Close the epoch at the next place where it may be cut; nothing happens while it is empty."""
        with self._lock:
            if self._barrier_wanted or self._ended:
                return
            self._barrier_wanted = True
        self._queue.put(lambda: self._apply(self._barrier))

    def seal_control(self, record: bytes, on_sealed: Callable[[int], None]) -> None:
        """Close the epoch now, empty or not, with a control record in it.

        ``on_sealed`` hears its number on a worker's thread; it hears nothing if the ingest ends first.
        """

        def seal() -> None:
            if not self._ended:
                on_sealed(self._seal(record))

        self._queue.put(lambda: self._apply(seal))

    @property
    def backlog(self) -> int:
        """Raw buffers and tasks that wait."""
        return len(self._queue) + sum([len(stage) for stage in set(self._stages.values())])

    @property
    def waiting_bytes(self) -> int:
        """Bytes of raw buffers between sources and epochs."""
        return self._admission.bytes

    def counters(self) -> dict[str, OriginCounters]:
        """What became of each origin's tuples so far, by name."""
        return {origin.name: origin.counters() for origin in self._origins.values()}

    def when_drained(self, origin_id: int, call: Callable[[], None]) -> None:
        """Call this once everything that the origin's source has offered is formatted and accepted."""
        self._admission.when_drained(origin_id, call)

    # From sources

    def offer(self, raw: RawBuffer) -> bool:
        """See `BufferSink`."""
        if not self._admission.enter(raw):
            return False
        self._stages[raw.origin_id].add(raw)
        return True

    def end_of_stream(self, origin_id: int) -> None:
        """See `BufferSink`."""
        origin = self._origins[origin_id]
        self.when_drained(origin_id, lambda: self._queue.put(lambda: self._finish(origin)))

    def failed(self, origin_id: int, reason: str) -> None:
        """See `BufferSink`."""
        self._fail(f"origin {self._origins[origin_id].name}: {reason}")

    def lost(self, origin_id: int, reason: str) -> None:
        """See `BufferSink`."""
        origin = self._origins[origin_id]
        self._listener.on_lost(origin_id, reason)
        self.when_drained(origin_id, lambda: self._queue.put(lambda: self._apply(lambda: self._reconnect(origin))))

    # On workers

    def _formatted(self, batches: list[FormattedBatch], raws: list[RawBuffer]) -> None:
        """A task has formatted these buffers, and completed these batches of any origins."""

        def accept() -> None:
            by_origin: dict[int, list[FormattedBatch]] = {}
            for batch in batches:
                by_origin.setdefault(batch.origin_id, []).append(batch)
            for origin_id, found in by_origin.items():
                self._accept(self._origins[origin_id], found)
            self._admission.leave(raws)

        self._apply(accept)

    def _finish(self, origin: Origin) -> None:
        batches = self._stages[origin.origin_id].finish(origin.origin_id)
        self._apply(lambda: self._end(origin, batches))

    def _apply(self, step: Callable[[], None]) -> None:
        """Run steps one at a time in the order in which they arrive; a worker that finds another at it leaves its own.

        The step is left to the holder of the lock, so that the other workers go on formatting.
        """
        self._arrived.append(step)
        while self._arrived and self._apply_lock.acquire(blocking=False):
            try:
                while self._arrived:
                    self._arrived.popleft()()
            except Exception as error:  # noqa: BLE001 (a state that is half changed must not go on, whatever the cause)
                self._fail(f"{type(error).__name__}: {error}")
            finally:
                self._apply_lock.release()

    def _accept(self, origin: Origin, batches: list[FormattedBatch]) -> bool:
        """Behind the apply lock: what has become the next part of the stream goes into the epoch; False at its end."""
        for batch in origin.in_order(batches):
            if self._ended:
                return False
            origin.take(batch)
            self._drain(origin)
            if batch.failure is not None:
                self._fail_at(origin, batch.failure)
                return False
        return True

    def _drain(self, origin: Origin) -> None:
        while (room := self._room()) and (part := origin.next_part(room)) is not None:
            end_offset = part.row_ends[-1]
            self._writer.set_aside(*origin.passed(end_offset))
            self._writer.add(origin.adaptor.apply(part), part.rows.num_rows)
            origin.applied(part, end_offset)
            if self._full() and part.cuttable[-1]:
                self._seal()

    def _fail_at(self, origin: Origin, failure: DeadLetter) -> None:
        """The policy is to fail: what stands before the malformed tuple is sealed, and nothing follows."""
        if self._writer.is_open:
            self._seal()
        self._fail(f"origin {origin.name}: {origin.counted_on(failure)}")

    def _room(self) -> int:
        limit = self._config.epoch_messages or self._config.epoch_most_messages
        return max(1, limit - self._writer.messages)

    def _full(self) -> bool:
        limit = self._config.epoch_messages or self._config.epoch_most_messages
        return self._writer.messages >= limit

    def _barrier(self) -> None:
        with self._lock:
            self._barrier_wanted = False
        if self._writer.is_open and not self._ended:
            self._seal()

    def _seal(self, control: bytes = b"") -> int:
        for adaptor in self._adaptors:
            self._writer.add(adaptor.at_barrier(), 0)
        return self._writer.seal({o.name: o.cut() for o in self._origins.values()}, control).to_epoch

    def _end(self, origin: Origin, batches: list[FormattedBatch]) -> None:
        if self._ended:
            return
        if not self._accept(origin, batches):
            return
        origin.end()
        self._drain(origin)
        self._writer.set_aside(*origin.cut_at_end())
        if origin.first and all(o.ended for o in self._origins.values() if o.first):
            for other in self._origins.values():
                if not other.first:
                    other.open_later(self)
        if all(o.ended for o in self._origins.values()):
            if self._writer.is_open or self._writer.epoch == 0:
                self._seal()
            if self._terminate():
                self._listener.on_finished()

    def _on_error(self, error: BaseException) -> None:
        self._fail(str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}")

    def _fail(self, reason: str) -> None:
        if self._terminate():
            self._listener.on_failed(reason)

    def _terminate(self) -> bool:
        """Nothing is applied from now on; True for the one call that brought it about."""
        with self._lock:
            ended, self._ended = self._ended, True
            return not ended

    def _reconnect(self, origin: Origin) -> None:
        if self._ended:
            return
        if not origin.source.replays:  # what no epoch holds yet would be forgotten
            self._writer.set_aside(*origin.cut_at_end())
        origin.reconnect()
