"""Snapshots are taken and what they stand for is retired, in the background; a directory that is full is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from twisted.logger import formatEvent, globalLogPublisher

from runtime.epochs import EpochLog, EpochLogReader, Footer, ResultLog, RetentionConfig, SnapshotDirectory
from runtime.service.rundir.upkeep import SnapshotConfig, Upkeep, UpkeepConfig, used_bytes

NOTHING_KEPT = RetentionConfig(0, 0)


class Log:
    """A log that is sealed epoch by epoch and published at once, with what the upkeep makes of it."""

    def __init__(
        self,
        directory: Path,
        snapshots: SnapshotConfig,
        retention: RetentionConfig = NOTHING_KEPT,
        limit_megabytes: int = 100,
    ) -> None:
        self.log = EpochLog(directory / "epochs")
        self.results = ResultLog(directory / "results")
        self.directory = directory
        self.snapshots = SnapshotDirectory(directory / "snapshots")
        self.config = UpkeepConfig(snapshots, retention, limit_megabytes)
        self.passed: int | None = None
        self.told: list[bool] = []
        self.start()
        self.seal()

    def start(self) -> None:
        self.upkeep = Upkeep(
            self.config,
            self.directory,
            max(0, self.log.latest()),
            self.results,
            passed=[self.log.latest, lambda: self.log.latest() if self.passed is None else self.passed],
            put_full=lambda: self.results.put_full({}, Footer(0, self.results.latest())),
            on_full=self.told.append,
        )

    def seal(self, rows: int = 1) -> None:
        epoch = self.log.latest() + 1
        batch = pa.record_batch({"n": pa.array(range(rows), pa.int64()), "weight": pa.array([1] * rows, pa.int64())})
        footer = Footer(max(0, epoch - 1), epoch)
        self.log.publish(self.log.prepare(footer, {"r": [batch]} if epoch else {}))
        if epoch:
            self.results.publish(epoch - 1, epoch, {"v": [batch]}, footer)
        self.upkeep.sealed(footer)
        self.join()

    def look(self) -> None:
        self.upkeep.look()
        self.join()

    def join(self) -> None:
        if self.upkeep._thread is not None:
            self.upkeep._thread.join()


@pytest.fixture
def every_third(tmp_path: Path) -> Log:
    return Log(tmp_path, SnapshotConfig(epochs=3))


def test_after_so_many_epochs(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(epochs=3), RetentionConfig(100, 100))
    for _ in range(8):
        log.seal()
    assert log.snapshots.epochs() == [6, 3]
    assert log.log.first() == 0, "kept for a replay"


def test_after_so_many_bytes(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(epochs=100, megabytes=1))
    for rows in (1, 1, 80_000, 1):
        log.seal(rows)
    assert log.snapshots.epochs() == [3]


def test_none_if_none_are_wanted(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(epochs=0, megabytes=1))
    log.seal(80_000)
    log.look()
    assert log.snapshots.epochs() == []
    assert log.log.first() == 0


def test_what_the_older_of_two_snapshots_stands_for_is_retired(every_third: Log) -> None:
    for _ in range(10):
        every_third.seal()
    assert every_third.snapshots.epochs() == [9, 6]
    assert every_third.log.first() == 7
    assert every_third.log.leftovers() == []


def test_nothing_that_a_consumer_may_read_again_is_retired(every_third: Log) -> None:
    every_third.passed = 4
    for _ in range(10):
        every_third.seal()
    assert every_third.log.first() == 0
    every_third.passed = 7
    for _ in range(2):
        every_third.seal()
    assert (every_third.log.first(), every_third.snapshots.epochs()) == (4, [12, 9, 6, 3])


def test_a_consumer_that_catches_up_frees_what_waited(every_third: Log) -> None:
    every_third.passed = 0
    for _ in range(11):
        every_third.seal()
    assert every_third.log.first() == 0
    every_third.passed = 10
    every_third.look()
    assert (every_third.log.first(), every_third.snapshots.epochs()) == (7, [9, 6]), "no new snapshot is needed"


def test_what_a_killed_run_had_not_retired_is_after_a_restart(every_third: Log) -> None:
    every_third.passed = 0
    for _ in range(11):
        every_third.seal()
    every_third.passed = 11
    every_third.start()
    every_third.look()
    assert every_third.log.first() == 7


def test_full_results_come_after_so_many_results(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(epochs=1000, results=4))
    for _ in range(10):
        log.seal()
        log.look()
    assert log.results.since_full() == 2
    assert [s.footer.to_epoch for s in log.results.read_all()] == [8, 9, 10]
    assert len(list((tmp_path / "results").iterdir())) == 2 + 6, "two full ones and what is behind the older"


def test_a_restart_counts_from_the_last_one(every_third: Log) -> None:
    for _ in range(4):
        every_third.seal()
    assert every_third.snapshots.epochs() == [3]
    every_third.start()
    every_third.seal()
    assert every_third.snapshots.epochs() == [3]
    every_third.seal()
    assert every_third.snapshots.epochs() == [6, 3]


def test_failed_work_is_reported_once_and_retried(
    every_third: Log, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(EpochLogReader, "read", lambda *_: 1 / 0)
        for _ in range(5):
            every_third.seal()
        every_third.look()
    assert every_third.snapshots.epochs() == []
    every_third.seal()
    assert every_third.snapshots.epochs() == []
    every_third.look()
    assert every_third.snapshots.epochs() == [6]


def test_a_damaged_segment_is_named_in_one_line(every_third: Log) -> None:
    every_third.seal()
    damaged = every_third.log.path(1)
    damaged.write_bytes(damaged.read_bytes()[:-9])
    heard: list[str] = []

    def hear(event: Any) -> None:
        if "the upkeep of run directory" in str(event["log_format"]):
            heard.append(formatEvent(event))
            assert "log_failure" not in event, "no traceback"

    observer: Any = hear  # a function is one, though Twisted's types do not say so
    globalLogPublisher.addObserver(observer)
    try:
        every_third.seal()
        every_third.seal()
    finally:
        globalLogPublisher.removeObserver(observer)
    assert len(heard) == 1
    assert str(damaged) in heard[0]


def test_what_is_damaged_is_told_until_it_is_mended(every_third: Log) -> None:
    """In the figures, whoever reads the log or not."""
    every_third.seal()
    upkeep = every_third.upkeep
    assert (upkeep.failed, upkeep.failures) == (None, 0)
    damaged = every_third.log.path(1)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-9])
    every_third.seal()
    every_third.seal()
    every_third.look()
    assert str(damaged) in str(upkeep.failed)
    assert upkeep.failures == 2, "at the epoch at which a snapshot was due, and at the look"
    damaged.write_bytes(whole)
    every_third.look()
    assert (upkeep.failed, upkeep.failures) == (None, 2)


def test_a_damaged_snapshot_is_told_until_it_is_gone(every_third: Log) -> None:
    for _ in range(4):
        every_third.seal()
    damaged = every_third.snapshots._path(3)
    damaged.write_bytes(damaged.read_bytes()[:-9])
    every_third.start()
    for _ in range(2):
        assert str(damaged) in str(every_third.upkeep.failed)
        every_third.look()
    assert every_third.upkeep.failures == 0, "none of them since the start"
    for _ in range(9):
        every_third.seal()
    every_third.look()
    assert (every_third.snapshots.epochs()[-1] > 3, every_third.upkeep.failed) == (True, None)


def test_after_a_stop_there_are_no_more(every_third: Log) -> None:
    every_third.upkeep.stop()
    for _ in range(5):
        every_third.seal()
    every_third.look()
    assert every_third.snapshots.epochs() == []


def test_a_full_directory_is_reported_and_spares_are_removed(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(), RetentionConfig(), limit_megabytes=1)
    ballast = tmp_path / "ballast"
    ballast.write_bytes(bytes(950_000))
    for _ in range(3):
        log.seal()
    log.look()
    assert (log.told, log.upkeep.is_full) == ([], False)
    for _ in range(60):
        log.seal()
    log.look()
    assert (log.told, log.upkeep.is_full) == ([True], True)
    log.look()
    assert log.told == [True], "said once"
    assert log.snapshots.epochs() == [63]
    assert (log.log.first(), log.log.latest()) == (63, 63), "the last one is always there"


def test_it_looks_at_intervals_and_always_when_full(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(), RetentionConfig(), limit_megabytes=1)
    (tmp_path / "ballast").write_bytes(bytes(2_000_000))
    told = []
    for _ in range(10):
        log.upkeep.tick()
        log.join()
        told.append(list(log.told))
    assert told == [[]] * 9 + [[True]]
    (tmp_path / "ballast").unlink()
    log.upkeep.tick()
    log.join()
    assert log.told == [True, False]


def test_there_is_room_again(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(), RetentionConfig(), limit_megabytes=1)
    for _ in range(4):
        log.seal(20_000)
    log.look()
    assert log.told == [True]
    log.passed = 3
    log.seal()
    log.passed = None
    log.look()
    log.look()
    assert log.told == [True, False]
    assert used_bytes(tmp_path) == log.upkeep.used_bytes < 900_000


def test_the_limit_holds_although_no_snapshot_can_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what may be retired is: the snapshot may fail because there is no room."""
    log = Log(tmp_path, SnapshotConfig(epochs=3), RetentionConfig(100, 100), limit_megabytes=1)
    for _ in range(8):
        log.seal()
    assert (log.log.first(), log.told) == (0, [])

    def broken(*_: object, **__: object) -> bool:
        raise OSError("no space left")

    monkeypatch.setattr(SnapshotDirectory, "take", broken)
    log.seal(80_000)
    log.look()
    assert log.told == [True]
    log.look()
    assert log.log.first() == 7
