"""File → formatter → epochs → Spark views: messages a second of each stage."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.csv

from bench.flow import write_feed
from bench.report import Record, record
from queries import query_path
from runtime.compiler import MARKET_RELATIONS, Program, compile_program, encode_program, read_script
from runtime.engine import EpochWriter, Ingest, IngestConfig, IngestListener, Origin
from runtime.epochs import EpochLogReader, ResultLog
from runtime.formats import FEED_SCHEMA, InputFormatter, RawBuffer
from runtime.relations import FeedAdaptor, Retention
from runtime.sources import FileSource, Position
from runtime.spark.lane import SparkLane
from runtime.spark.session import SparkConfig, start_session
from runtime.views import ShardState, deliveries

__all__ = ["run"]

_VIEWS: Final = ("book_depth", "vwap_book", "best_quote", "imbalance", "broker_volume", "trades_1s")
_LINEAR: Final = ("book_depth", "vwap_book")
_LIVE_ORDERS: Final = 20_000
_BUFFER_BYTES: Final = 1024 * 1024
_WORKERS: Final = 2
_PATIENCE_SECONDS: Final = 600.0


def run(quick: bool) -> list[Record]:
    """All stages on the same generated file; with ``quick`` on a tenth of it."""
    messages = 500_000 if quick else 5_000_000
    runs = 2 if quick else 5
    epoch_messages = messages // 10
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        path = folder / "feed.csv"
        size = write_feed(path, messages, _LIVE_ORDERS)
        records = _csv(path, messages, size, runs)
        epochs: list[float] = []
        for number in range(min(runs, 3)):
            seconds = _timed(lambda n=number: _ingest(path, folder / f"run{n}", epoch_messages, _VIEWS))  # type: ignore[misc]
            epochs.append(messages / seconds)
        pyarrow_rate = [messages / _timed(lambda: _read_csv(path, threads=True)) for _ in range(runs)]
        records.append(
            record("ingest.epochs.messages_per_s", epochs, "messages/s", "pyarrow.csv.read_csv, threads", pyarrow_rate)
        )
        return records + _views(folder, path, messages, epoch_messages, min(runs, 3))


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _read_csv(path: Path, *, threads: bool) -> int:
    options = pyarrow.csv.ReadOptions(column_names=list(FEED_SCHEMA.names), use_threads=threads)
    types = pyarrow.csv.ConvertOptions(column_types=FEED_SCHEMA.arrow_schema())
    return int(pyarrow.csv.read_csv(path, read_options=options, convert_options=types).num_rows)


def _format(path: Path, workers: int) -> int:
    """Buffers of the file through one formatter, by so many threads."""
    formatter = InputFormatter(FEED_SCHEMA)
    data = path.read_bytes()
    raws = [
        RawBuffer(0, number + 1, data[start : start + _BUFFER_BYTES], start)
        for number, start in enumerate(range(0, len(data), _BUFFER_BYTES))
    ]

    def one(raw: RawBuffer) -> int:
        while (batches := formatter.format(raw)) is None:
            pass
        return sum(int(batch.rows.num_rows) for batch in batches)

    with ThreadPoolExecutor(workers) as pool:
        rows = sum(pool.map(one, raws))
    return rows + sum(int(batch.rows.num_rows) for batch in formatter.finish(0))


def _csv(path: Path, messages: int, size: int, runs: int) -> list[Record]:
    """The formatter against Arrow's reader on the same bytes, in turn."""
    ours: list[float] = []
    one_thread: list[float] = []
    theirs: list[float] = []
    theirs_one: list[float] = []
    for _ in range(runs + 1):  # the first round warms up
        ours.append(messages / _timed(lambda: _format(path, _WORKERS)))
        theirs.append(messages / _timed(lambda: _read_csv(path, threads=True)))
        one_thread.append(messages / _timed(lambda: _format(path, 1)))
        theirs_one.append(messages / _timed(lambda: _read_csv(path, threads=False)))
    ours, theirs, one_thread, theirs_one = ours[1:], theirs[1:], one_thread[1:], theirs_one[1:]
    reference = "pyarrow.csv.read_csv, threads"
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    ratios_one = [a / b for a, b in zip(one_thread, theirs_one, strict=True)]
    return [
        record("ingest.csv.messages_per_s", ours, "messages/s", reference, theirs),
        record("ingest.csv.ratio_pyarrow", ratios, "ratio", reference),
        record("ingest.csv.bytes_per_s", [v * size / messages for v in ours], "bytes/s"),
        record("ingest.csv.one_thread.messages_per_s", one_thread, "messages/s", "the same, one thread", theirs_one),
        record("ingest.csv.one_thread.ratio_pyarrow", ratios_one, "ratio", "the same, one thread"),
    ]


class _Done(IngestListener):
    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason: str | None = None

    def on_finished(self) -> None:
        self.event.set()

    def on_failed(self, reason: str) -> None:
        self.reason = reason
        self.event.set()


def _program(names: tuple[str, ...]) -> Program:
    selects = [select for name in names for select in read_script(query_path(name)).selects]
    return compile_program(selects, MARKET_RELATIONS)


def _ingest(path: Path, directory: Path, epoch_messages: int, names: tuple[str, ...]) -> int:
    """The whole ingest: file, formatter, adaptor, state, sealed epochs."""
    writer = EpochWriter(directory, time.time_ns, lambda _: None)
    writer.seal({}, control=encode_program(_program(names)))
    adaptor = FeedAdaptor(writer.space, "feed", Retention())
    source = FileSource(path, 0, buffer_bytes=_BUFFER_BYTES)
    origin = Origin(0, "feed", source, adaptor, Position(sequence=1))
    done = _Done()
    ingest = Ingest(IngestConfig(workers=_WORKERS, epoch_messages=epoch_messages), writer, {0: origin}, done)
    ingest.start()
    done.event.wait()
    ingest.stop()
    epoch = writer.epoch
    writer.close()
    if done.reason is not None:
        raise RuntimeError(done.reason)
    return epoch


def _in_process(directory: Path, names: tuple[str, ...]) -> None:
    """The same program on the same segments without Spark, on one thread."""
    log = EpochLogReader(directory / "epochs")
    program = _program(names)
    shard = ShardState(program, 0, 1)
    for epoch in range(1, log.latest() + 1):
        shard.step((d.part, d.deltas) for d in deliveries(program, [log.read(epoch)], 1))
        shard.save()


def _views(folder: Path, path: Path, messages: int, epoch_messages: int, runs: int) -> list[Record]:
    """From the sealed log to the last published version, all views in one streaming query."""
    config = SparkConfig(max_epochs_per_batch=5)
    session = start_session(config, folder / "spark")
    try:
        return [
            _through_spark(session, config, _Case(what, names, folder / what, messages, runs), path, epoch_messages)
            for what, names in (("views.spark", _VIEWS), ("views.spark.linear", _LINEAR))
        ]
    finally:
        session.stop()


class _Case(msgspec.Struct, frozen=True):
    """A set of views to be timed."""

    what: str
    names: tuple[str, ...]
    directory: Path
    messages: int
    runs: int


def _through_spark(session: Any, config: SparkConfig, case: _Case, path: Path, epoch_messages: int) -> Record:
    directory = case.directory
    last = _ingest(path, directory, epoch_messages, case.names)

    def once(number: int) -> None:
        lane = SparkLane(
            session,
            config,
            directory / "epochs",
            directory / f"check{number}",
            results=ResultLog(directory / f"results{number}"),
            on_published=lambda _: None,
        )
        lane.start()
        lane.wait_for(last, _PATIENCE_SECONDS)
        lane.stop()

    rates: list[float] = []
    plain: list[float] = []
    for number in range(case.runs + 1):  # the first warms up the JVM and the workers
        rates.append(case.messages / _timed(lambda n=number: once(n)))  # type: ignore[misc]
        plain.append(case.messages / _timed(lambda: _in_process(directory, case.names)))
    reference = "the same program in process, one thread, no Spark"
    return record(f"{case.what}.events_per_s", rates[1:], "events/s", reference, plain[1:])
