"""A version is published once, in order, and survives whatever a crash leaves beside it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from runtime.epochs import EpochLogError, Footer, ResultLog, TornSegmentError
from tests.generators.faulty_disk import FaultyDisk


def publish(log: ResultLog, from_epoch: int, to_epoch: int, tag: int = 0) -> bool:
    changes = {"v": [pa.record_batch({"n": pa.array([to_epoch, tag]), "weight": pa.array([1, 1])})]}
    return log.publish(from_epoch, to_epoch, changes, Footer(from_epoch=from_epoch, to_epoch=to_epoch))


def contents(log: ResultLog) -> list[list[int]]:
    tables = [segment.rows("v") for segment in log.read_all()]
    return [t.column("n").to_pylist() for t in tables if t is not None]


def test_a_version_is_published_once(tmp_path: Path) -> None:
    """A batch that Spark repeats changes nothing, also after a restart."""
    log = ResultLog(tmp_path)
    assert log.latest() == 0
    assert publish(log, 0, 2)
    assert not publish(log, 0, 2, tag=1)
    assert not publish(log, 0, 1, tag=1)
    again = ResultLog(tmp_path)
    assert again.latest() == 2
    assert not publish(again, 0, 2, tag=1)
    assert publish(again, 2, 3)
    assert contents(ResultLog(tmp_path)) == [[2, 0], [3, 0]]


def test_a_gap_is_refused(tmp_path: Path) -> None:
    log = ResultLog(tmp_path)
    publish(log, 0, 2)
    with pytest.raises(EpochLogError, match=r"expected a result from epoch 2, was \(3, 4\]"):
        publish(log, 3, 4)
    assert contents(log) == [[2, 0]]


def test_a_missing_file_is_told_at_the_start(tmp_path: Path) -> None:
    log = ResultLog(tmp_path)
    for to_epoch in (1, 2, 3):
        publish(log, to_epoch - 1, to_epoch)
    (tmp_path / "000000000001-000000000002.result").unlink()
    with pytest.raises(EpochLogError, match=r"expected a result from epoch 1 in .*, was \(2, 3\]"):
        ResultLog(tmp_path)


def test_what_a_crash_leaves_is_removed(tmp_path: Path) -> None:
    publish(ResultLog(tmp_path), 0, 1)
    leftover = tmp_path / ".000000000001-000000000002.result"
    leftover.write_bytes(b"half of a segm")
    log = ResultLog(tmp_path)
    assert not leftover.exists()
    assert publish(log, 1, 2)
    assert contents(log) == [[1, 0], [2, 0]]


def test_a_damaged_result_is_told(tmp_path: Path) -> None:
    log = ResultLog(tmp_path)
    publish(log, 0, 1)
    path = tmp_path / "000000000000-000000000001.result"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(TornSegmentError, match="000000000000-000000000001"):
        list(ResultLog(tmp_path).read_all())


@pytest.mark.parametrize("operation", ["write", "rename"])
def test_a_result_that_cannot_be_written_leaves_nothing(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    results = ResultLog(Path("/results"), disk)

    def fail(path: Path, *rest: object) -> None:
        if operation == "rename":
            raise OSError(28, "No space left on device", str(path))
        FaultyDisk.write(disk, path, [b"half of it"])
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(disk, operation, fail)
    with pytest.raises(OSError, match="No space left"):
        publish(results, 0, 1)
    assert disk.names(Path("/results")) == []


def test_positions_of_a_version_are_known_while_it_exists(tmp_path: Path) -> None:
    log = ResultLog(tmp_path)
    assert log.behind(0) == []
    for span in ((0, 2), (2, 3), (3, 7)):
        publish(log, *span)
    assert log.behind(0) == [(0, 2), (2, 3), (3, 7)]
    assert log.behind(3) == [(3, 7)]
    assert log.behind(7) == []
    assert (log.behind(5), log.behind(8)) == (None, None), "no version"
    assert log.read((2, 3)).footer.to_epoch == 3
    log.put_full({}, Footer(0, 3))
    log.put_full({}, Footer(0, 7))
    log.retire(7)
    assert (log.behind(2), log.behind(3)) == (None, [(3, 7)])
    with pytest.raises(FileNotFoundError):
        log.read((0, 2))
