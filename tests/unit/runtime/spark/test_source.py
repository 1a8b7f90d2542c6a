"""Batches of epochs: how far the next one goes, how it is split, and what a partition reads."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from runtime.compiler import Column, NamedSelect, Relation, compile_program, encode_program
from runtime.epochs import EpochLog, Footer, ResultLog
from runtime.spark import source
from runtime.spark.planning import EpochPartition, Span, shard_ids
from runtime.spark.reading import BROKEN, TICK
from runtime.spark.source import EpochReader
from runtime.views import Part

R = Relation("r", (Column("a", "int64"), Column("b", "int64")))
PROGRAM = compile_program(
    [
        NamedSelect("v", "SELECT a, SUM(b * b * b) AS x FROM r GROUP BY a"),
        NamedSelect("m", "SELECT MAX(a) AS x FROM r"),
    ],
    [R],
)


class Log:
    """An epoch log that tests write to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._log = EpochLog(directory)
        self._next = 0
        self.seal(control=encode_program(PROGRAM))

    def seal(self, *rows: tuple[int, int], control: bytes = b"") -> None:
        footer = Footer(self._next - 1, self._next, control=control)
        columns = [pa.array([row[i] for row in rows], pa.int64()) for i in (0, 1)]
        batch = pa.RecordBatch.from_arrays(
            [*columns, pa.array([1] * len(rows), pa.int64())], names=["a", "b", "weight"]
        )
        self._log.publish(self._log.prepare(footer, {"r": [batch]} if rows else {}))
        self._next += 1

    def reader(self, most_epochs: int = 64, shards: int = 2, results: Path | None = None) -> EpochReader:
        options = {"path": str(self.directory), "shards": str(shards), "max_epochs_per_batch": str(most_epochs)}
        if results is not None:
            options["results"] = str(results)
        return EpochReader(options)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr(source, "_WAIT_SECONDS", 0.0)
    return Log(tmp_path)


def latest(reader: EpochReader, start: int) -> int:
    return reader.latestOffset({"epoch": start}, ReadAllAvailable())["epoch"]


def planned(reader: EpochReader, start: int, end: int) -> list[EpochPartition]:
    found = reader.partitions({"epoch": start}, {"epoch": end})
    assert all(isinstance(one, EpochPartition) for one in found)
    return [one for one in found if isinstance(one, EpochPartition)]


def test_a_stream_begins_behind_the_program(log: Log) -> None:
    assert log.reader().initialOffset() == {"epoch": 0}


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (3, 3), (64, 5)])
def test_a_batch_has_at_most_so_many_epochs(log: Log, most: int, expected: int) -> None:
    for number in range(5):
        log.seal((number, 1))
    assert latest(log.reader(most), 0) == expected


def test_without_a_new_epoch_the_offset_stays(log: Log) -> None:
    reader = log.reader()
    assert latest(reader, 0) == 0
    log.seal((1, 1))
    assert latest(reader, 0) == 1
    assert latest(reader, 1) == 1
    assert planned(reader, 1, 1) == []


def test_a_batch_ends_before_a_control_record(log: Log) -> None:
    for _ in range(2):
        log.seal((1, 1))
    log.seal(control=encode_program(PROGRAM))  # epoch 3
    log.seal((1, 1))
    reader = log.reader()
    assert latest(reader, 0) == 2
    assert [p.program for p in planned(reader, 0, 2)] == [0]
    assert latest(reader, 2) == 4
    assert [p.program for p in planned(reader, 2, 4)] == [3]


def test_a_program_sealed_during_planning_begins_the_next_batch(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.seal((1, 1))
    reader = log.reader()
    look = reader._look

    def sealed_behind(newest: int) -> None:
        look(newest)
        log.seal(control=encode_program(PROGRAM))  # epoch 2

    monkeypatch.setattr(reader, "_look", sealed_behind)
    assert latest(reader, 0) == 1
    monkeypatch.undo()
    monkeypatch.setattr(source, "_WAIT_SECONDS", 0.0)
    assert latest(reader, 1) == 2
    assert [p.program for p in planned(reader, 1, 2)] == [2]


def test_a_planned_batch_is_planned_again_alike_after_a_restart(log: Log) -> None:
    """Spark asks a new reader for the partitions of a batch that it had planned, without asking for an offset."""
    for _ in range(3):
        log.seal((1, 1))
    (first,) = planned(log.reader(), 0, 3)
    (again,) = planned(log.reader(), 0, 3)
    assert (
        (again.program, again.epochs, again.span)
        == (first.program, first.epochs, first.span)
        == (0, (1, 2, 3), Span(0, 3))
    )


def test_spans_that_were_published_are_planned_as_they_were(log: Log, tmp_path: Path) -> None:
    """Spark's record of a batch can be lost where the synced result is not."""
    for _ in range(9):
        log.seal((1, 1))
    results = ResultLog(tmp_path / "results")
    for begin, end in ((0, 4), (4, 6)):
        results.publish(begin, end, {}, Footer(begin, end))
    reader = log.reader(most_epochs=3, results=tmp_path / "results")
    assert [latest(reader, begin) for begin in (0, 4, 6)] == [4, 6, 9]


def test_large_batches_are_split_and_one_part_carries_the_ticks(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_SMALL_BYTES", 1)
    for number in range(7):
        log.seal(*((number, n) for n in range(10 * (number + 1))))
    parts = planned(log.reader(shards=3), 0, 7)
    assert len(parts) == 3
    assert [epoch for part in parts for epoch in part.epochs] == list(range(1, 8))
    assert [part.span for part in parts] == [Span(0, 7), None, None]
    assert all(part.epochs for part in parts)


def rows_of(reader: EpochReader, partition: EpochPartition) -> list[dict[str, Any]]:
    return [row for batch in reader.read(partition) for row in batch.to_pylist()]


def test_a_partition_gives_ticks_to_all_shards(log: Log) -> None:
    log.seal((1, 2), (1, 3))
    log.seal((1, 1))
    reader = pickle.loads(pickle.dumps(log.reader()))  # as Spark sends it to an executor
    (partition,) = planned(reader, 0, 2)
    rows = rows_of(reader, pickle.loads(pickle.dumps(partition)))
    ticks = [row for row in rows if row["map"] == TICK]
    assert [row["shard"] for row in ticks] == list(shard_ids(2))
    assert {msgspec.msgpack.decode(row["payload"], type=Span) for row in ticks} == {Span(0, 2)}
    payloads = [row for row in rows if row["map"] >= 0]
    by_map = {row["map"]: pa.ipc.open_stream(row["payload"]).read_all() for row in payloads}
    assert len(by_map) == len(payloads) == 2
    (spread,) = [table for code, table in by_map.items() if not Part.of_code(code).whole]
    (row,) = spread.to_pylist()
    assert list(row.values()) == [1, 3, 8 + 27 + 1], "key, weight, sum"
    assert {row["program"] for row in rows} == {0}


def test_deltas_that_cannot_be_made_travel_as_a_reason(log: Log) -> None:
    log.seal((1, 2**43))
    reader = log.reader()
    rows = rows_of(reader, planned(reader, 0, 1)[0])
    broken = [row for row in rows if row["map"] <= BROKEN]
    assert sorted(row["shard"] for row in broken) == sorted(shard_ids(2))
    assert {Part.of_code(BROKEN - row["map"]).whole for row in broken} == {False}
    assert all("126 bits" in row["payload"].decode() for row in broken)


def test_pickling_leaves_the_log_behind(log: Log) -> None:
    for _ in range(3):
        log.seal((1, 1))
    reader = log.reader()
    latest(reader, 0)
    assert len(pickle.dumps(reader)) < 1000
    assert latest(pickle.loads(pickle.dumps(reader)), 1) == 3
