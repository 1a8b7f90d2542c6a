"""Ingest on sources in memory: any order of buffers and any failure, without a real source."""

from __future__ import annotations

import queue
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from runtime.engine.ingest import (
    CommitterThread,
    EpochWriter,
    Ingest,
    IngestConfig,
    IngestListener,
    InlineCommitter,
    Origin,
)
from runtime.engine.listeners import StatisticsListener
from runtime.engine.plan import Pipeline
from runtime.epochs import Cut, EpochLogReader, Footer
from runtime.formats import RawBuffer
from runtime.plan import Column, Relation
from runtime.relations import Adaptor, BookStream, FeedAdaptor, Retention, TraceAdaptor
from runtime.sources import BufferSink, Position, Source
from tests.harness.stepper import Stepper

__all__ = [
    "WAIT_SECONDS",
    "IngestLab",
    "ListSource",
    "ScriptListener",
    "at_sequence",
    "dead_letters",
    "feed",
    "feed_adaptor",
    "footers",
    "relations",
    "sealed_rows",
    "trace",
    "trace_adaptor",
]

WAIT_SECONDS = 30.0
_COLUMNS = tuple(Column(name, "int64") for name in ("t", "id", "broker_id", "volume", "price"))
Make = Callable[[EpochWriter, Cut], Adaptor]


def trace(count: int, seed: int = 1, bad: tuple[int, ...] = ()) -> bytes:
    """Return a trace of adds, executions and deletes, with additional malformed lines at the places ``bad``."""
    chance = random.Random(seed)
    lines = []
    for n in range(count):
        if n in bad:
            lines.append(f"{n},nonsense-{n}\n")
        lines.append(
            f"{n},{chance.randint(1, 20)},{chance.choice('BSBSED')},{chance.randint(1, 9)},{chance.randint(90, 99)}\n"
        )
    return "".join(lines).encode()


def feed(count: int, per_request: int = 1, bad: tuple[int, ...] = (), heartbeats: bool = False) -> bytes:
    """Return a feed; ``per_request`` messages share a time; the messages at these places are malformed."""
    lines = []
    for n in range(1, count + 1):
        t = (n - 1) // per_request
        if n in bad:
            lines.append(f"{n},{t},oops-{n}\n")
            continue
        action = "T" if n % 5 == 0 else "BS"[n % 2]
        lines.append(f"{n},{t},{n},1,{action},{n % 9 + 1},{90 + n % 7},ACME\n")
        if heartbeats and n % (3 * per_request) == 0:
            lines.append(f"{n + 1},{t},0,0,H,0,0,\n")
    return "".join(lines).encode()


def at_sequence(data: bytes) -> Callable[[Position], int]:
    """Return a function from a position's message number to the message's offset in a feed's bytes."""
    starts = {}
    place = 0
    for line in data.splitlines(keepends=True):
        if b",H," not in line:
            starts[int(line.split(b",")[0])] = place
        place += len(line)
    return lambda position: starts.get(position.sequence, len(data))


class ListSource(Source):
    """Bytes of a stream cut into buffers; a refused buffer is offered again after `resume`.

    Buffers are offered by the thread that opens or resumes, one at a time, in the order of their places unless
    ``shuffle`` changes this order. The connection breaks once for each entry of ``lost_after``, after that number of
    buffers; `reconnect` continues.
    """

    def __init__(
        self,
        origin_id: int,
        data: bytes,
        cuts: Sequence[int] = (),
        *,
        shuffle: Callable[[list[RawBuffer]], None] | None = None,
        lost_after: Sequence[int] = (),
        ends: bool = True,
        at: Callable[[Position], int] | None = None,
    ) -> None:
        self.origin_id = origin_id
        self.session = "S1"
        self.opened = threading.Event()
        self.positions: list[Position] = []
        self.refusals = 0
        self.delivered = threading.Event()
        self.closed = False
        self._data, self._cuts, self._shuffle, self._ends = data, cuts, shuffle, ends
        self._lost_after = list(lost_after)
        self._at = at or (lambda position: position.offset)
        self._todo: list[RawBuffer] = []
        self._left = 0
        self._busy = threading.Lock()
        self._again = threading.Event()
        self._over = False

    def open(self, sink: BufferSink, position: Position) -> None:
        self._sink = sink
        self.opened.set()
        self.reconnect(position)

    def reconnect(self, position: Position) -> None:
        """Start again at the position; buffers are numbered from 1 again."""
        start = self._at(position)
        places = [start, *sorted(c for c in self._cuts if c > start), len(self._data)]
        pieces = pairwise(places)
        todo = [
            RawBuffer(self.origin_id, number, self._data[a:b], position.offset + a - start)
            for number, (a, b) in enumerate(pieces, 1)
        ]
        if self._shuffle:
            self._shuffle(todo)
        self.positions.append(position)
        with self._busy:
            self._todo, self._over = todo, False
            self._left = self._lost_after.pop(0) if self._lost_after else -1
        self.resume()

    def resume(self) -> None:
        self._again.set()
        while self._again.is_set() and self._busy.acquire(blocking=False):
            try:
                self._again.clear()
                call = self._deliver()
            finally:
                self._busy.release()
            if call is not None:
                call()

    def _deliver(self) -> Callable[[], None] | None:
        while self._todo and self._left and not self.closed:
            if not self._sink.offer(self._todo[0]):
                self.refusals += 1
                return None
            self._todo.pop(0)
            self._left -= 1
        if self._over or self.closed or not hasattr(self, "_sink"):
            return None
        self._over = True
        self.delivered.set()
        if not self._left:
            return lambda: self._sink.lost(self.origin_id, "cable cut")
        return (lambda: self._sink.end_of_stream(self.origin_id)) if self._ends else None

    def close(self) -> None:
        self.closed = True


class ScriptListener(IngestListener):
    """Records how an ingest ended, and its losses."""

    def __init__(self) -> None:
        self.outcomes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.losses: list[str] = []
        self.running = threading.Event()
        self.failed_origins: list[tuple[int, str]] = []
        self.failed_views: list[tuple[str, str]] = []

    def on_running(self) -> None:
        self.running.set()

    def on_failed_origin(self, origin_id: int, reason: str) -> None:
        self.failed_origins.append((origin_id, reason))

    def on_failed_view(self, name: str, reason: str) -> None:
        self.failed_views.append((name, reason))

    def on_finished(self) -> None:
        self.outcomes.put("finished")

    def on_failed(self, reason: str) -> None:
        self.outcomes.put(f"failed: {reason}")

    def on_lost(self, origin_id: int, reason: str) -> None:
        self.losses.append(reason)


def trace_adaptor(writer: EpochWriter, cut: Cut, *, prefix: str = "", brokers: int = 10) -> Adaptor:
    """Return the adaptor of an order-book trace with both sides declared."""
    streams = [
        BookStream(Relation(f"{prefix}bids", _COLUMNS), "bids"),
        BookStream(Relation(f"{prefix}asks", _COLUMNS), "asks"),
    ]
    return TraceAdaptor(writer.space, f"{prefix}trace", streams, brokers, cut.sequence)


def feed_adaptor(writer: EpochWriter, cut: Cut) -> Adaptor:
    """Return the adaptor of the exchange's feed."""
    return FeedAdaptor(writer.space, "feed", Retention(rows=50), cut.sequence + 1)


class IngestLab:
    """Writer and ingest over sources.

    An element of ``origins`` is a source, the function that makes its adaptor, and True if the source is read first.

    With a ``crew`` there are no threads: the test makes the steps.
    """

    def __init__(
        self,
        directory: Path,
        origins: Sequence[tuple[Source, Make] | tuple[Source, Make, bool]],
        *,
        views: Mapping[str, Pipeline] | None = None,
        statistics: StatisticsListener | None = None,
        crew: Stepper | None = None,
        **config: Any,
    ) -> None:
        self.footers: list[Footer] = []
        committer = CommitterThread() if crew is None else InlineCommitter()
        self.writer = EpochWriter(directory, lambda: 0, self.footers.append, committer=committer)
        if self.writer.epoch < 0:
            self.writer.seal({})
        cuts = self.writer.recovered.cuts if self.writer.recovered else {}
        self.origins: dict[int, Origin] = {}
        for origin_id, (source, make, *first) in enumerate(origins):
            name = f"origin-{origin_id}"
            cut = cuts.get(name, Cut("S1", 0, 0))
            start = Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples)
            adaptor = make(self.writer, cut)
            self.origins[origin_id] = Origin(origin_id, name, source, adaptor, start, first=bool(first and first[0]))
        self.listener = ScriptListener()
        sizes = msgspec.convert(config, IngestConfig)
        self.ingest = Ingest(
            sizes, self.writer, self.origins, self.listener, views=views, statistics=statistics, workers=crew
        )

    def start(self) -> None:
        """Start, and wait until the sources that are read first are open."""
        self.ingest.start()
        assert self.listener.running.wait(WAIT_SECONDS)

    def run(self) -> str:
        """Run from start to end; return how the ingest ended."""
        self.ingest.start()
        try:
            return self.listener.outcomes.get(timeout=WAIT_SECONDS)
        finally:
            self.close()

    def settle(self) -> None:
        """Wait until everything that was offered is applied."""
        for origin in self.origins.values():
            drained = threading.Event()
            self.ingest.when_drained(origin.origin_id, drained.set)
            assert drained.wait(WAIT_SECONDS)

    def close(self) -> None:
        """Stop without sealing, like a killed process."""
        self.ingest.stop()
        self.writer.close()
        assert self.listener.outcomes.empty()


def footers(directory: Path) -> list[Footer]:
    """Return the footers of every epoch but the first, which the lab itself seals."""
    reader = EpochLogReader(directory / "epochs")
    return [reader.read(epoch).footer for epoch in range(1, reader.latest() + 1)]


def sealed_rows(directory: Path) -> list[dict[str, Counter[tuple[Any, ...]]]]:
    """Return rows with their weights, by epoch and relation."""
    reader = EpochLogReader(directory / "epochs")
    found = []
    for epoch in range(1, reader.latest() + 1):
        segment = reader.read(epoch)
        segment.verify()
        rows: dict[str, Counter[tuple[Any, ...]]] = {}
        for section in segment.footer.sections:
            net: Counter[tuple[Any, ...]] = Counter()
            table = segment.rows(section.name)
            assert table is not None
            for row in table.to_pylist():
                weight = row.pop("weight")
                net[tuple(row.values())] += weight
            rows[section.name] = Counter({key: weight for key, weight in net.items() if weight})
        found.append({name: net for name, net in rows.items() if net})
    return found


def relations(directory: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the relations after the last epoch."""
    total: dict[str, Counter[tuple[Any, ...]]] = {}
    for epoch in sealed_rows(directory):
        for name, net in epoch.items():
            sums = total.setdefault(name, Counter())
            for key, weight in net.items():
                sums[key] += weight
    return {name: Counter({k: w for k, w in sums.items() if w}) for name, sums in total.items()}


def dead_letters(directory: Path) -> list[tuple[int, str]]:
    """Return epoch and text of every dead letter in the file."""
    path = directory / "dead-letters.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    entries = [msgspec.json.decode(line) for line in lines]
    return [(entry["epoch"], entry["data"]) for entry in entries]
