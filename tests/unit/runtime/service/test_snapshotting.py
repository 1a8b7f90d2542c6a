"""Snapshots of the relations are taken after so many epochs or bytes, and never stand in the way of an epoch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from runtime.epochs import EpochLog, EpochLogReader, Footer, SnapshotDirectory
from runtime.service.snapshotting import SnapshotConfig, Snapshotting


class Log:
    """A log that is sealed epoch by epoch, with the snapshots that are taken of it."""

    def __init__(self, directory: Path, config: SnapshotConfig) -> None:
        self.log = EpochLog(directory / "epochs")
        self.directory = directory
        self.snapshots = SnapshotDirectory(directory / "snapshots")
        self.config = config
        self.start()
        self.seal()

    def start(self) -> None:
        self.snapshotting = Snapshotting(self.config, self.directory, max(0, self.log.latest()), ())

    def seal(self, rows: int = 1) -> None:
        epoch = self.log.latest() + 1
        batch = pa.record_batch({"n": pa.array(range(rows), pa.int64()), "weight": pa.array([1] * rows, pa.int64())})
        footer = Footer(max(0, epoch - 1), epoch)
        self.log.publish(self.log.prepare(footer, {"r": [batch]} if epoch else {}))
        self.snapshotting.sealed(footer)
        if self.snapshotting._thread is not None:
            self.snapshotting._thread.join()


@pytest.fixture
def every_third(tmp_path: Path) -> Log:
    return Log(tmp_path, SnapshotConfig(epochs=3))


def test_after_so_many_epochs(every_third: Log) -> None:
    for _ in range(8):
        every_third.seal()
    assert every_third.snapshots.epochs() == [8, 5]


def test_after_so_many_bytes(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(epochs=100, megabytes=1))
    for rows in (1, 1, 80_000, 1):
        log.seal(rows)
    assert log.snapshots.epochs() == [3]


def test_none_if_none_are_wanted(tmp_path: Path) -> None:
    log = Log(tmp_path, SnapshotConfig(epochs=0, megabytes=1))
    log.seal(80_000)
    assert log.snapshots.epochs() == []


def test_a_restart_counts_from_the_last_one(every_third: Log) -> None:
    for _ in range(3):
        every_third.seal()
    assert every_third.snapshots.epochs() == [2]
    every_third.start()
    every_third.seal()
    assert every_third.snapshots.epochs() == [2]
    every_third.seal()
    assert every_third.snapshots.epochs() == [5, 2]


def test_one_that_fails_is_told_and_the_next_is_taken(
    every_third: Log, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(EpochLogReader, "read", lambda *_: 1 / 0)
        for _ in range(3):
            every_third.seal()
    assert every_third.snapshots.epochs() == []
    for _ in range(3):
        every_third.seal()
    assert every_third.snapshots.epochs() == [5]


def test_after_a_stop_there_are_no_more(every_third: Log) -> None:
    every_third.snapshotting.stop()
    for _ in range(5):
        every_third.seal()
    assert every_third.snapshots.epochs() == []
