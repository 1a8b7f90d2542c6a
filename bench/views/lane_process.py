"""The Spark lane in a process of its own, whose memory can be measured alone.

The process reads one command per line from standard input and answers each with a line on standard output, both in
JSON.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.parquet

from bench.compiledshard import compile_shards
from bench.views.cases import BROKER_SUM, CASES, program_of
from bench.views.hosted import Answers
from bench.views.market import Market, Sealer
from runtime.compiler import decode_program, encode_program
from runtime.epochs import EpochLogReader, ResultLog
from runtime.spark.config import SparkConfig
from runtime.spark.lane import Published, SparkLane
from runtime.spark.session import start_session

__all__ = ["Command", "Follow", "Plain", "Reply", "Small", "Span"]

_PATIENCE_SECONDS: Final = 900.0


class Follow(msgspec.Struct, frozen=True, tag=True):
    """Command to maintain the views of a log up to its last epoch, from nothing."""

    directory: str
    """Directory with the log in ``epochs``; checkpoint and results are written beside it."""
    last: int
    """Last epoch to publish."""
    epochs_per_batch: int
    """Largest number of epochs in one of Spark's batches."""


class Small(msgspec.Struct, frozen=True, tag=True):
    """Command to seal small epochs, each when the previous epoch is published, and to time them."""

    directory: str
    """Directory of the log, which is made here."""
    queries: tuple[str, ...]
    """Names of the views."""
    live_orders: int
    """Number of live orders per side."""
    events: int
    """Number of events in an epoch; 0 for empty epochs."""
    count: int
    """Number of timed epochs; further epochs before these warm up."""


class Plain(msgspec.Struct, frozen=True, tag=True):
    """Command to run the same SQL on plain Structured Streaming, with insertions only, because it has no deletions."""

    directory: str
    """Directory of the files of insertions, and of the checkpoint."""
    query: str
    """Name of the view."""
    live_orders: int
    """Number of live orders per side before the timed batches."""
    events: int
    """Number of events in a batch."""
    count: int
    """Number of timed batches."""


Command = Follow | Small | Plain


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A published version."""

    from_epoch: int
    """Epoch of the previous version."""
    to_epoch: int
    """Epoch of the version."""
    seconds: float
    """Time of the version's publication in seconds, by a clock of this process."""


class Reply(msgspec.Struct, frozen=True):
    """Result of a command."""

    spans: tuple[Span, ...] = ()
    """Published versions, in order."""
    answers: dict[str, list[tuple[int | None, ...]]] = {}
    """Rows of the views at the end."""
    seconds: tuple[float, ...] = ()
    """Seconds from a sealed epoch to its published result."""


class _Recorder:
    """Recorder of the versions that a lane publishes."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.answers = Answers()
        self.failed: dict[str, str] = {}
        self._news = threading.Condition()

    def __call__(self, published: Published) -> None:
        with self._news:
            self.spans.append(Span(published.from_epoch, published.to_epoch, time.perf_counter()))
            self.failed.update(published.failed)
            self._news.notify_all()
        self.answers.take(published.changes)

    def wait_for(self, epoch: int) -> float:
        """Wait until an epoch is published, and return the time of its publication."""
        with self._news:
            self._news.wait_for(lambda: bool(self.spans) and self.spans[-1].to_epoch >= epoch, _PATIENCE_SECONDS)
            return self.spans[-1].seconds


def _lane(session: Any, directory: Path, epochs_per_batch: int, recorder: _Recorder) -> SparkLane:
    return SparkLane(
        session,
        SparkConfig(max_epochs_per_batch=epochs_per_batch),
        directory / "epochs",
        directory / "checkpoint",
        results=ResultLog(directory / "results"),
        on_published=recorder,
    )


def _follow(session: Any, command: Follow) -> Reply:
    recorder = _Recorder()
    compile_shards(decode_program(EpochLogReader(Path(command.directory) / "epochs").control(0)), SparkConfig().shards)
    lane = _lane(session, Path(command.directory), command.epochs_per_batch, recorder)
    lane.start()
    lane.wait_for(command.last, _PATIENCE_SECONDS)
    lane.stop()
    return _reply(recorder)


def _small(session: Any, command: Small) -> Reply:
    directory, recorder = Path(command.directory), _Recorder()
    cases = {case.name: case for case in (BROKER_SUM, *CASES.values())}
    program = program_of(*(cases[name] for name in command.queries))
    compile_shards(program, SparkConfig().shards)
    market, sealer = Market(command.live_orders), Sealer(directory / "epochs", encode_program(program))
    sealer.seal(market.first(), 1)
    lane = _lane(session, directory, 1, recorder)
    lane.start()
    lane.wait_for(sealer.epoch, _PATIENCE_SECONDS)
    seconds: list[float] = []
    for _ in range(command.count + command.count // 4):
        tables = market.batch(command.events) if command.events else {}
        epoch = sealer.seal(tables, 1)
        sealed = time.perf_counter()
        seconds.append(recorder.wait_for(epoch) - sealed)
    lane.stop()
    return msgspec.structs.replace(_reply(recorder), seconds=tuple(seconds[-command.count :]))


def _plain(session: Any, command: Plain) -> Reply:
    """Write files of insertions, one per relation and batch; run a stream over each folder, and the query over the
    streams.
    """
    directory, case = Path(command.directory), CASES[command.query]
    for place, size in enumerate([command.live_orders] + [command.events // len(case.relations)] * command.count):
        rows = Market(size, place).first(case.relations)
        for name, table in rows.items():
            (directory / name).mkdir(parents=True, exist_ok=True)
            path = directory / name / f"{place:04}.parquet"
            pyarrow.parquet.write_table(table.drop_columns(["weight"]), path)
            os.utime(path, (place + 1, place + 1))  # files are taken in the order of their times
    for name in case.relations:
        schema = ", ".join(f"{column} bigint" for column in table.column_names[:-1])
        stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory / name))
        stream.createOrReplaceTempView(name)
    writer = session.sql(case.sql).writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    try:
        query.processAllAvailable()
        taken = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"]]
    finally:
        query.stop()
    return Reply(seconds=tuple(taken[1:]))


def _reply(recorder: _Recorder) -> Reply:
    if recorder.failed:
        raise RuntimeError(f"expected every view to go on, was {recorder.failed}")
    return Reply(tuple(recorder.spans), recorder.answers.all_rows())


def _answer(session: Any, command: Command) -> Reply:
    match command:
        case Follow():
            return _follow(session, command)
        case Small():
            return _small(session, command)
        case Plain():
            return _plain(session, command)


def main(directory: Path) -> int:
    """Start Spark, report that with an empty reply, and execute commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")  # other output must not come in between
    os.dup2(2, 1)
    session = start_session(SparkConfig(), directory)
    answers.write(msgspec.json.encode(Reply()) + b"\n")
    answers.flush()
    for line in sys.stdin.buffer:
        command = msgspec.json.decode(line, type=Command)
        answers.write(msgspec.json.encode(_answer(session, command)) + b"\n")
        answers.flush()
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
