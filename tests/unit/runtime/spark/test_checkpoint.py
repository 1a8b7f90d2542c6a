"""How far a checkpoint says that Spark has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.spark.beginning import committed_epoch
from runtime.spark.config import SparkLaneError


def batch(checkpoint: Path, number: int, epoch: int, *, committed: bool = True) -> Path:
    """What Spark writes of a batch; the offset's path."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    offset = checkpoint / "offsets" / str(number)
    offset.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"epoch": {epoch}}}')
    (checkpoint / "offsets" / f".{number}.crc").write_bytes(b"crc")
    if committed:
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (checkpoint / "commits" / f".{number}.crc").write_bytes(b"crc")
    return offset


def test_before_the_first_commit_there_is_nothing(tmp_path: Path) -> None:
    assert committed_epoch(tmp_path / "none") == 0
    batch(tmp_path, 0, 7, committed=False)
    assert committed_epoch(tmp_path) == 0


def test_the_newest_batch_that_is_committed_counts(tmp_path: Path) -> None:
    for number, epoch in ((8, 20), (9, 25), (10, 31)):
        batch(tmp_path, number, epoch)
    batch(tmp_path, 11, 40, committed=False)
    assert committed_epoch(tmp_path) == 31


@pytest.mark.parametrize("text", ["", "v1\n{}\n", 'v1\n{}\n{"epoch": "x"}', 'v1\n{}\n{"epo'])
def test_an_offset_that_is_not_whole_is_told(tmp_path: Path, text: str) -> None:
    path = batch(tmp_path, 3, 9)
    path.write_text(text)
    with pytest.raises(SparkLaneError, match=f"expected the offset of a batch in three lines at {path}, was"):
        committed_epoch(tmp_path)
    path.unlink()
    with pytest.raises(SparkLaneError, match=str(path)):
        committed_epoch(tmp_path)
