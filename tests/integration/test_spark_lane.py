"""The Spark lane over a real epoch log: exact at every version, whatever is stopped, repeated, or forgotten."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program, encode_program
from runtime.epochs import EpochLog, Footer, ResultLog
from runtime.spark.config import SparkConfig, SparkLaneError
from runtime.spark.lane import Published, SparkLane
from runtime.spark.planning import spark_partition
from runtime.spark.session import start_session
from tests.generators.programs import normal

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
PATIENCE_SECONDS = 120.0
R = Relation("r", (Column("a", "int64"), Column("b", "int64")))
VIEWS = {
    "sums": "SELECT a, SUM(b) AS x FROM r GROUP BY a",
    "total": "SELECT SUM(b) AS x FROM r",
    "largest": "SELECT MAX(b) AS x FROM r",
    "cubes": "SELECT a, SUM(b * b * b) AS x FROM r GROUP BY a",
}
Row = tuple[int, int]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    found = start_session(SparkConfig(), tmp_path_factory.mktemp("spark"))
    yield found
    found.stop()


def expected(rows: list[Row]) -> dict[str, Counter[Any]]:
    sums: dict[int, list[int]] = {}
    for a, b in rows:
        held = sums.setdefault(a, [0, 0])
        held[0] += b
        held[1] += b**3
    return {
        "sums": Counter((a, held[0]) for a, held in sums.items()),
        "cubes": Counter((a, held[1]) for a, held in sums.items()),
        "total": Counter([(sum(b for _, b in rows) if rows else None,)]),
        "largest": Counter([(max((b for _, b in rows), default=None),)]),
    }


class Run:
    """An epoch log, its relation at every epoch, and lanes over it."""

    def __init__(self, directory: Path, session: SparkSession) -> None:
        self.directory = directory
        self.shards = 2
        self._session = session
        self.program: Program = compile_program([NamedSelect(n, sql) for n, sql in VIEWS.items()], [R])
        self._log = EpochLog(directory / "epochs")
        self._next = 0
        self.at: list[list[Row]] = []
        self.failed: dict[str, str] = {}
        self.seal(control=encode_program(self.program))

    def move(self, directory: Path, shards: int) -> None:
        """Everything is somewhere else from now on."""
        self.directory, self.shards = self.directory.rename(directory), shards
        self._log = EpochLog(directory / "epochs")

    def seal(self, *deltas: tuple[Row, int], control: bytes = b"") -> None:
        rows = list(self.at[-1]) if self.at else []
        for row, weight in deltas:
            if weight > 0:
                rows.append(row)
            else:
                rows.remove(row)
        columns = [pa.array([row[i] for row, _ in deltas], pa.int64()) for i in (0, 1)]
        weight = pa.array([weight for _, weight in deltas], pa.int64())
        batch = pa.RecordBatch.from_arrays([*columns, weight], names=["a", "b", "weight"])
        footer = Footer(self._next - 1, self._next, control=control)
        self._log.publish(self._log.prepare(footer, {"r": [batch]} if deltas else {}))
        self.at.append(rows)
        self._next += 1

    def seal_some(self, count: int) -> None:
        """Epochs of insertions and deletions, one of them empty."""
        for number in range(count):
            epoch = self._next
            deltas: list[tuple[Row, int]] = [((epoch % 3, epoch), 1), ((epoch % 2, -epoch), 1)]
            if number % 2 and self.at[-1]:
                deltas.append((self.at[-1][0], -1))
            self.seal(*(deltas if number != 2 else []))

    def lane(self, on_published: Callable[[Published], None] = lambda _: None, most: int = 64) -> SparkLane:
        config = SparkConfig(max_epochs_per_batch=most, shards=self.shards)
        self._session.conf.set("spark.sql.shuffle.partitions", str(self.shards))  # of the session, in a runtime
        results = ResultLog(self.directory / "results")
        return SparkLane(
            self._session,
            config,
            self.directory / "epochs",
            self.directory / "checkpoint",
            results=results,
            on_published=on_published,
        )

    def follow(self, most: int = 64) -> None:
        """Run a lane until it has published the newest epoch."""
        lane = self.lane(most=most)
        lane.start()
        try:
            lane.wait_for(self._next - 1, PATIENCE_SECONDS)
        finally:
            lane.stop()

    def check(self, *, without: frozenset[str] = frozenset()) -> list[tuple[int, int]]:
        """Every version in the result log is what the relation was then; gives the spans."""
        results: dict[str, Counter[Any]] = {name: Counter() for name in VIEWS}
        spans: list[tuple[int, int]] = []
        for segment in ResultLog(self.directory / "results").read_all():
            footer = segment.footer
            assert footer.from_epoch == (spans[-1][1] if spans else 0), "versions follow each other"
            spans.append((footer.from_epoch, footer.to_epoch))
            self.failed |= footer.attributes
            for name, result in results.items():
                table = segment.rows(name)
                lists = [] if table is None else [c.to_pylist() for c in table.columns]
                for *values, weight in zip(*lists, strict=True):
                    result[normal(values)] += weight
                    assert result[normal(values)] >= 0, f"{name}: a row that is not there was removed"
                if name not in without:
                    assert +result == expected(self.at[footer.to_epoch])[name], f"{name} at {footer.to_epoch}"
        assert spans[-1][1] == self._next - 1
        return spans


@pytest.fixture
def run(tmp_path: Path, session: SparkSession) -> Run:
    return Run(tmp_path, session)


def test_the_partition_of_a_shard_is_sparks(session: SparkSession) -> None:
    keys = [0, 1, -1, 7, 42, 2**31 - 1]
    text = ", ".join(f"pmod(hash({key}), {n})" for key in keys for n in (1, 2, 7))
    (row,) = session.sql(f"SELECT {text}").collect()
    assert list(row) == [spark_partition(key, n) for key in keys for n in (1, 2, 7)]


def test_one_epoch_a_batch_gives_every_version_over_a_restart(run: Run) -> None:
    run.seal_some(4)
    run.follow(most=1)
    assert run.check() == [(n, n + 1) for n in range(4)]
    run.seal_some(3)
    run.follow()
    assert run.check()[-1] == (4, 7), "several epochs in one batch"


def forget_last_commit(run: Run) -> None:
    """As if Spark had crashed between the publishing of a batch and its own commit."""
    commits = run.directory / "checkpoint" / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def test_an_uncommitted_batch_is_repeated_and_published_once(run: Run) -> None:
    run.seal_some(3)
    run.follow(most=1)
    before = [path.stat().st_mtime_ns for path in sorted((run.directory / "results").iterdir())]
    forget_last_commit(run)
    run.seal_some(2)
    run.follow(most=1)
    after = [path.stat().st_mtime_ns for path in sorted((run.directory / "results").iterdir())]
    assert after[: len(before)] == before
    assert run.check() == [(n, n + 1) for n in range(5)]


def test_a_failing_subscriber_ends_the_lane_and_a_new_resumes(run: Run) -> None:
    run.seal_some(2)

    def fail(_: Published) -> None:
        raise RuntimeError("expected a sound subscriber")

    lane = run.lane(fail)
    ended: list[str | None] = []
    lane.start(ended.append)
    try:
        with pytest.raises(SparkLaneError, match=r"the streaming query failed: .*expected a sound subscriber"):
            lane.wait_for(99, PATIENCE_SECONDS)
        with pytest.raises(SparkLaneError):
            lane.raise_if_failed()
    finally:
        lane.stop()
    run.seal_some(1)
    run.follow()
    assert run.check()[0][0] == 0


def test_a_view_that_fails_is_reported_and_the_others_go_on(run: Run) -> None:
    run.seal(((1, 5), 1))
    run.seal(((0, 2**43), 1))
    run.seal(((2, 7), 1), ((0, 2**43), -1))
    run.follow(most=1)
    run.check(without=frozenset({"cubes"}))
    assert list(run.failed) == ["failed/cubes"]
    assert "126 bits" in run.failed["failed/cubes"]


def test_a_run_resumes_elsewhere_with_another_shard_count(run: Run) -> None:
    """Views that have failed stay so. Spark may crash before it commits the first batch of the new checkpoint."""
    run.seal(((1, 5), 1))
    run.seal(((0, 2**43), 1))
    run.seal(((2, 7), 1), ((0, 2**43), -1))
    run.follow(most=2)
    run.move(run.directory.with_name("elsewhere"), shards=3)
    run.seal_some(3)
    run.follow(most=2)
    forget_last_commit(run)
    run.seal_some(2)
    run.follow(most=2)
    spans = run.check(without=frozenset({"cubes"}))
    assert spans[:2] == [(0, 2), (2, 3)]
    assert list(run.failed) == ["failed/cubes"]
    assert (run.directory / "checkpoint" / "begun.json").is_file()


def test_a_local_spark_yields_to_waiting_feeds(session: SparkSession) -> None:
    process: Any = session.sparkContext._gateway
    priority = os.getpriority(os.PRIO_PROCESS, process.proc.pid)
    assert priority == min(19, os.getpriority(os.PRIO_PROCESS, 0) + SparkConfig().niceness)
