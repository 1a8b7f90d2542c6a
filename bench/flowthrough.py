"""File → formatter → epochs → Spark views: what a message goes through on its whole way, in messages a second."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.csv

from bench.compiledshard import compile_shards, compiled_shard
from bench.flow import write_feed
from bench.report import Record, record
from queries import query_path
from runtime.compiler import MARKET_RELATIONS, Program, compile_program, encode_program, read_script
from runtime.engine.ingest import EpochWriter, Ingest, IngestConfig, IngestListener, Origin
from runtime.epochs import EpochLogReader, ResultLog
from runtime.formats import FEED_SCHEMA
from runtime.native.cache import default_kernels
from runtime.relations import FeedAdaptor, Retention
from runtime.sources import FileSource, Position
from runtime.spark.lane import SparkLane
from runtime.spark.session import SparkConfig, start_session
from runtime.views import deliveries

__all__ = ["ingest", "run"]

_VIEWS: Final = ("book_depth", "vwap_book", "best_quote", "imbalance", "broker_volume", "trades_1s")
_LINEAR: Final = ("book_depth", "vwap_book")
_LIVE_ORDERS: Final = 20_000
_BUFFER_BYTES: Final = 1024 * 1024
_WORKERS: Final = 2
_PATIENCE_SECONDS: Final = 600.0


def run(quick: bool) -> list[Record]:
    """All stages on the same generated file; with ``quick`` on a tenth of it."""
    messages = 500_000 if quick else 5_000_000
    runs = 2 if quick else 3
    epoch_messages = messages // 10
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        path = folder / "feed.csv"
        write_feed(path, messages, _LIVE_ORDERS)
        epochs: list[float] = []
        reference: list[float] = []
        for number in range(runs):
            seconds = _timed(lambda n=number: ingest(path, folder / f"run{n}", epoch_messages, _VIEWS))  # type: ignore[misc]
            epochs.append(messages / seconds)
            reference.append(messages / _timed(lambda: _read_csv(path)))
        sealed = record(
            "flowthrough.epochs.messages_per_s", epochs, "messages/s", "pyarrow.csv.read_csv, threads", reference
        )
        return [sealed, *_views(folder, path, messages, epoch_messages, runs)]


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _read_csv(path: Path) -> int:
    options = pyarrow.csv.ReadOptions(column_names=list(FEED_SCHEMA.names), use_threads=True)
    types = pyarrow.csv.ConvertOptions(column_types=FEED_SCHEMA.arrow_schema())
    return int(pyarrow.csv.read_csv(path, read_options=options, convert_options=types).num_rows)


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


def ingest(path: Path, directory: Path, epoch_messages: int, names: tuple[str, ...]) -> int:
    """The whole ingest: file, formatter, adaptor, state, sealed epochs."""
    writer = EpochWriter(directory, time.time_ns, lambda _: None)
    writer.seal({}, control=encode_program(_program(names)))
    adaptor = FeedAdaptor(writer.space, "feed", Retention(), kernels=default_kernels())
    source = FileSource(path, 0, buffer_bytes=_BUFFER_BYTES)
    origin = Origin(0, "feed", source, adaptor, Position(sequence=1))
    done = _Done()
    running = Ingest(IngestConfig(workers=_WORKERS, epoch_messages=epoch_messages), writer, {0: origin}, done)
    running.start()
    done.event.wait()
    running.stop()
    epoch = writer.epoch
    writer.close()
    if done.reason is not None:
        raise RuntimeError(done.reason)
    return epoch


def _in_process(directory: Path, names: tuple[str, ...]) -> None:
    """The same program on the same segments without Spark, on one thread."""
    log = EpochLogReader(directory / "epochs")
    program = _program(names)
    shard = compiled_shard(program)
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
            for what, names in (("flowthrough.spark", _VIEWS), ("flowthrough.spark.linear", _LINEAR))
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
    last = ingest(path, directory, epoch_messages, case.names)
    compile_shards(_program(case.names), config.shards)

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
