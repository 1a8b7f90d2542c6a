"""A crash anywhere in a commit leaves all of an epoch or nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.epochs import CommitRecord, EpochLog, EpochLogError, EpochLogReader, Footer, TornSegmentError
from runtime.epochs.disk import LocalDisk


def rows(epoch: int, tag: int = 0) -> dict[str, list[pa.RecordBatch]]:
    return {"v": [pa.record_batch({"n": pa.array([epoch, tag])})]}


def footer(epoch: int) -> Footer:
    return Footer(from_epoch=max(0, epoch - 1), to_epoch=epoch)


def commit(log: EpochLog, epoch: int) -> CommitRecord:
    """A whole commit; the record is what the transaction holds."""
    prepared = log.prepare(footer(epoch), rows(epoch))
    log.publish(prepared)
    return prepared.record


def visible(directory: Path) -> list[list[int]]:
    """What a reader finds."""
    reader = EpochLogReader(directory)
    tables = [reader.read(epoch).rows("v") for epoch in range(reader.latest() + 1)]
    return [t.column("n").to_pylist() for t in tables if t is not None]


def begun(directory: Path, epochs: int) -> tuple[EpochLog, CommitRecord | None]:
    log = EpochLog(directory)
    log.recover(None)
    record = None
    for epoch in range(epochs):
        record = commit(log, epoch)
    return log, record


def hidden(directory: Path, epoch: int) -> Path:
    return directory / f".{epoch:012d}.segment"


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_a_reader_sees_the_published_epochs(tmp_path: Path, epochs: int) -> None:
    log, record = begun(tmp_path, epochs)
    assert visible(tmp_path) == [[n, 0] for n in range(epochs)]
    assert log.latest() == epochs - 1
    again = EpochLog(tmp_path)
    again.recover(record)
    assert again.latest() == epochs - 1
    with pytest.raises(EpochLogError, match=f"expected epoch {epochs} in .*, newest is {epochs - 1}"):
        again.read(epochs)


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_a_crash_at_any_point_of_a_commit(tmp_path: Path, epochs: int) -> None:
    """Before the transaction the epoch is gone, at every length of its file; after it the epoch is there."""
    measure, _ = begun(tmp_path / "measure", epochs)
    measure.prepare(footer(epochs), rows(epochs))
    data = hidden(tmp_path / "measure", epochs).read_bytes()
    for length in [None, *range(0, len(data), 37), len(data)]:
        directory = tmp_path / f"before-{length}"
        _, record = begun(directory, epochs)
        if length is not None:
            hidden(directory, epochs).write_bytes(data[:length])
        log = EpochLog(directory)
        assert log.latest() == epochs - 1, "never visible before it is published"
        log.recover(record)
        assert visible(directory) == [[n, 0] for n in range(epochs)]
        assert not list(directory.glob(".*"))
        log.publish(log.prepare(footer(epochs), rows(epochs, tag=1)))
        assert visible(directory) == [*([n, 0] for n in range(epochs)), [epochs, 1]]


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_a_crash_after_the_transaction(tmp_path: Path, epochs: int, renamed: bool) -> None:
    log, _ = begun(tmp_path, epochs)
    prepared = log.prepare(footer(epochs), rows(epochs))
    if renamed:
        log.publish(prepared)
    for _ in range(2):  # a second crash in the recovery changes nothing
        again = EpochLog(tmp_path)
        again.recover(prepared.record)
        assert visible(tmp_path) == [[n, 0] for n in range(epochs + 1)]
    commit(again, epochs + 1)
    assert again.latest() == epochs + 1


def test_a_failed_commit_may_be_prepared_again(tmp_path: Path) -> None:
    """The transaction raised, the process lives: the next attempt replaces the hidden file."""
    log, _ = begun(tmp_path, 1)
    log.prepare(footer(1), rows(1))
    log.publish(log.prepare(footer(1), rows(1, tag=5)))
    assert visible(tmp_path) == [[0, 0], [1, 5]]


def test_the_committed_segment_must_be_the_one_that_was_sealed(tmp_path: Path) -> None:
    _, record = begun(tmp_path, 2)
    assert record is not None
    with pytest.raises(TornSegmentError, match="expected footer checksum"):
        EpochLog(tmp_path).recover(CommitRecord(1, record.checksum ^ 1))


@pytest.mark.parametrize("where", ["hidden", "published"])
def test_a_committed_segment_that_is_damaged_is_refused(tmp_path: Path, where: str) -> None:
    log, _ = begun(tmp_path, 1)
    prepared = log.prepare(footer(1), rows(1))
    if where == "published":
        log.publish(prepared)
    path = hidden(tmp_path, 1) if where == "hidden" else log.path(1)
    data = bytearray(path.read_bytes())
    data[8] ^= 4
    path.write_bytes(data)
    with pytest.raises(TornSegmentError, match="section v"):
        EpochLog(tmp_path).recover(prepared.record)


def _no_file(log: EpochLog) -> CommitRecord | None:
    return CommitRecord(2, 0)


def _more_than_committed(log: EpochLog) -> CommitRecord | None:
    return CommitRecord(0, log.read(0).checksum)


def _nothing_committed(log: EpochLog) -> CommitRecord | None:
    return None


@pytest.mark.parametrize("record", [_no_file, _more_than_committed, _nothing_committed])
def test_a_log_that_does_not_fit_the_transaction_is_refused(
    tmp_path: Path, record: Callable[[EpochLog], CommitRecord | None]
) -> None:
    log, _ = begun(tmp_path, 2)
    with pytest.raises(
        EpochLogError,
        match=r"(the last one committed, as the newest in|as the state beside it has committed none).*, was 1",
    ):
        EpochLog(tmp_path).recover(record(log))


def test_epochs_are_consecutive(tmp_path: Path) -> None:
    log, _ = begun(tmp_path, 1)
    for epoch in (0, 2):
        with pytest.raises(EpochLogError, match=f"expected epoch 1 next in .*, was {epoch}"):
            log.prepare(footer(epoch), {})


def test_a_reader_finds_epochs_as_they_come(tmp_path: Path) -> None:
    log, _ = begun(tmp_path, 0)
    reader = EpochLogReader(tmp_path)
    assert reader.latest() == -1
    for epoch in range(3):
        commit(log, epoch)
        assert reader.latest() == epoch


class MeanwhileDisk(LocalDisk):
    """Disk on which another thread asks for the newest epoch while one has found that a segment exists."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] | None = None

    def exists(self, path: Path) -> bool:
        found = super().exists(path)
        meanwhile, self.meanwhile = self.meanwhile, None
        if found and meanwhile is not None:
            meanwhile()
        return found


def test_two_threads_find_the_same_newest_epoch(tmp_path: Path) -> None:
    """The writer's next number follows it: an epoch counted twice would leave a hole."""
    begun(tmp_path, 1)
    disk = MeanwhileDisk()
    reader = EpochLogReader(tmp_path, disk)
    assert reader.latest() == 0
    log = EpochLog(tmp_path)
    log._checksum = reader.read(0).checksum
    commit(log, 1)
    disk.meanwhile = reader.latest
    assert reader.latest() == 1
    assert reader.latest() == 1
