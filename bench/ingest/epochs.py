"""Ingest from a file to committed epochs (formatter, order-book adaptor, state, segments), and the parts of a commit.

This is the whole ingest of a run directory, on disk, with two workers and the committer's thread, like `deltabook
runtime` without views. A paced feed with ten epochs per second shows the cost of each part of a commit.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from bench.flow import feed_table, write_feed
from bench.ingest.itchflow import itch_block
from bench.ingest.plan import Plan
from bench.ingest.references import Reading, itch_book, pyarrow_csv
from bench.ingest.texts import csv_lines
from bench.report import Record, record
from runtime.engine.ingest import CommitterThread, EpochWriter, Ingest, IngestConfig, IngestListener, Origin
from runtime.epochs import LocalDisk
from runtime.formats import RawBuffer
from runtime.native.cache import default_kernels
from runtime.relations import FEED_SCHEMA, Adaptor, FeedAdaptor, ItchAdaptor, Retention
from runtime.service.interpreter import quicken
from runtime.sources import BufferSink, FileSource, Position, Source
from runtime.state import Edit, SqliteStore

__all__ = ["ingest_file", "measure_commits", "measure_epochs"]

FeedFormat = Literal["text", "itch"]

_SEED: Final = 1
_LIVE_ORDERS: Final = 20_000
_BUFFER_BYTES: Final = 1 << 20
_WORKERS: Final = 2
_EPOCH_MESSAGES: Final = 200_000
_COMMIT_RATE: Final = 50_000
"""Messages per second while commits are measured."""
_COMMITS_A_SECOND: Final = 10
_PIECES_A_SECOND: Final = 100
_PARTS: Final = ("segment", "state", "publish", "whole")


def measure_epochs(plan: Plan) -> list[Record]:
    """Measure ``ingest.epochs.FORMAT.messages_per_s``: text beside pyarrow's reader, ITCH beside a C++ book builder."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        return [record for each in ("text", "itch") for record in _format(each, folder, plan)]


def measure_commits(plan: Plan) -> list[Record]:
    """Measure ``ingest.commit.PART.p50_ms`` and ``….p99_ms``: the segment, the state's transaction, the rename, and the
    total.
    """
    runs = [_commits(round(plan.commit_seconds)) for _ in range(plan.rounds)]
    where = f"{_COMMIT_RATE:,} messages/s, {_COMMITS_A_SECOND} epochs a second"
    return [
        record(f"ingest.commit.{part}.p{share}_ms", [_percentile_ms(run[part], share) for run in runs], "ms", where)
        for part in _PARTS
        for share in (50, 99)
    ]


def ingest_file(
    path: Path,
    directory: Path,
    epoch_messages: int,
    *,
    feed_format: FeedFormat = "text",
    control: bytes = b"",
) -> int:
    """Read a file of feed messages into a new run directory; return the number of its last epoch.

    With ``control`` the log begins with this control record. Raises `RuntimeError` with the reason of a failed ingest.
    """
    source = FileSource(path, 0, buffer_bytes=_BUFFER_BYTES)
    writer = EpochWriter(directory, time.time_ns, lambda _: None, committer=CommitterThread())
    writer.seal({}, control=control)
    return _ingest(source, writer, IngestConfig(workers=_WORKERS, epoch_messages=epoch_messages), feed_format)


def _format(feed_format: FeedFormat, folder: Path, plan: Plan) -> list[Record]:
    path = folder / f"feed.{feed_format}"
    messages = _write(feed_format, path, plan.epoch_messages)
    ours, theirs = [], []
    for number in range(plan.rounds + 1):  # the first round warms up
        before = _reference(feed_format, path)
        start = time.perf_counter()
        ingest_file(path, folder / f"{feed_format}{number}", _EPOCH_MESSAGES, feed_format=feed_format)
        ours.append(messages / (time.perf_counter() - start))
        theirs.append((before + _reference(feed_format, path)) / 2)
    references = {"text": f"pyarrow.csv.read_csv, {_WORKERS} threads", "itch": "itch-book (C++), 1 thread"}
    what = f"ingest.epochs.{feed_format}.messages_per_s"
    return [record(what, ours[1:], "messages/s", references[feed_format], theirs[1:])]


def _write(feed_format: FeedFormat, path: Path, messages: int) -> int:
    """Write a file of at least ``messages`` messages; return their number."""
    if feed_format == "text":
        write_feed(path, messages, _LIVE_ORDERS, _SEED)
        return messages
    block, count = itch_block(1 << 23, _SEED)
    times = -(-messages // count)
    with path.open("wb") as file:
        for _ in range(times):
            file.write(block)
    return count * times


def _reference(feed_format: FeedFormat, path: Path) -> float:
    """Return the messages per second of another project's reader."""
    reading: Reading
    if feed_format == "text":
        reading = pyarrow_csv(path.read_bytes(), FEED_SCHEMA.arrow_schema(), _WORKERS)
    else:
        reading = itch_book(path)
    return reading[0] / reading[1]


class _Done(IngestListener):
    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason: str | None = None

    def on_finished(self) -> None:
        self.event.set()

    def on_failed(self, reason: str) -> None:
        self.reason = reason
        self.event.set()


def _ingest(source: Source, writer: EpochWriter, config: IngestConfig, feed_format: FeedFormat = "text") -> int:
    kernels, space = default_kernels(), writer.space
    adaptor: Adaptor
    if feed_format == "text":
        adaptor = FeedAdaptor(space, "feed", Retention(), kernels=kernels)
    else:
        adaptor = ItchAdaptor(space, "feed", Retention(), kernels=kernels)
    done = _Done()
    running = Ingest(config, writer, {0: Origin(0, "feed", source, adaptor, Position(sequence=1))}, done)
    running.start()
    if isinstance(source, _PacedSource):
        source.pace(running.request_barrier)
    done.event.wait()
    running.stop()
    epoch = writer.epoch
    writer.close()
    if done.reason is not None:
        raise RuntimeError(done.reason)
    return epoch


# Commits


class _Times:
    """Seconds of each part of each commit."""

    def __init__(self) -> None:
        self.parts: dict[str, list[float]] = {part: [] for part in _PARTS}

    def measure(self, part: str, call: Callable[..., None], *given: object) -> None:
        """Make a call, and record its duration."""
        start = time.perf_counter()
        call(*given)
        self.parts[part].append(time.perf_counter() - start)


class _TimedDisk(LocalDisk):
    def __init__(self, times: _Times) -> None:
        self._times = times
        self._renamed: float | None = None

    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        self._times.measure("segment", super().write, path, pieces)

    def rename(self, path: Path, to: Path) -> None:
        start = time.perf_counter()
        super().rename(path, to)
        self._renamed = time.perf_counter() - start

    def sync_directory(self, path: Path) -> None:
        start = time.perf_counter()
        super().sync_directory(path)
        took, parts = time.perf_counter() - start, self._times.parts
        if self._renamed is not None:
            parts["publish"].append(self._renamed + took)
        elif parts["segment"]:  # the hidden name of the segment that was just written
            parts["segment"][-1] += took
        self._renamed = None


class _TimedStore(SqliteStore):
    def __init__(self, path: Path, times: _Times) -> None:
        super().__init__(path)
        self._times = times

    def commit(self, edits: Sequence[Edit]) -> None:
        self._times.measure("state", super().commit, edits)


class _TimedCommitter(CommitterThread):
    def __init__(self, times: _Times) -> None:
        super().__init__()
        self._times = times

    def begin(self, commit: Callable[[], None]) -> None:
        super().begin(lambda: self._times.measure("whole", commit))


class _PacedSource(Source):
    """Source that emits feed lines at a steady rate, and requests barriers at intervals, on the thread that calls
    `pace`."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._opened: queue.SimpleQueue[BufferSink] = queue.SimpleQueue()

    def open(self, sink: BufferSink, position: Position) -> None:
        """Pass the sink to the thread that paces."""
        del position
        self._opened.put(sink)

    def resume(self) -> None:
        """Do nothing: rejected offers are repeated anyway."""

    def close(self) -> None:
        """Do nothing: the source owns no resources."""

    def pace(self, barrier: Callable[[], None]) -> None:
        """Offer every piece at its time; raise `RuntimeError` if an offer is more than a second late."""
        sink = self._opened.get()
        offset, begun = 0, time.perf_counter()
        for number, piece in enumerate(self._pieces):
            late_s = time.perf_counter() - begun - number / _PIECES_A_SECOND
            if late_s > 1:
                raise RuntimeError(f"expected to keep up with {_COMMIT_RATE:,} messages/s, was {late_s:.1f} s behind")
            time.sleep(max(0.0, -late_s))
            while not sink.offer(RawBuffer(0, number + 1, piece, offset)):
                time.sleep(0.001)
            offset += len(piece)
            if (number + 1) % (_PIECES_A_SECOND // _COMMITS_A_SECOND) == 0:
                barrier()
        sink.end_of_stream(0)


def _commits(seconds: int) -> dict[str, list[float]]:
    """Return the times of a run of ``seconds`` seconds, without the times of the first second."""
    quicken()  # as the runtime does for express views
    lines = csv_lines(feed_table(_COMMIT_RATE * seconds, _LIVE_ORDERS, _SEED)).splitlines(keepends=True)
    most = _COMMIT_RATE // _PIECES_A_SECOND
    pieces = [b"".join(lines[at : at + most]) for at in range(0, len(lines), most)]
    del lines
    times = _Times()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        writer = EpochWriter(
            directory,
            time.time_ns,
            lambda _: None,
            store=_TimedStore(directory / "state.db", times),
            disk=_TimedDisk(times),
            committer=_TimedCommitter(times),
        )
        _ingest(_PacedSource(pieces), writer, IngestConfig(workers=_WORKERS))
    return {part: taken[_COMMITS_A_SECOND:] for part, taken in times.parts.items()}


def _percentile_ms(seconds: Sequence[float], share: int) -> float:
    return float(np.percentile(seconds, share)) * 1e3
