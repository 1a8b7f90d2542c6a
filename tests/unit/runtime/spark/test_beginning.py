"""Which checkpoints are of use, and what a crash leaves of one that is begun."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("pyspark")

from runtime.spark.beginning import MARK, begin, misfit, passed_epoch, read_beginning, wanted
from tests.unit.runtime.spark.test_checkpoint import batch


def test_a_checkpoint_fits_where_it_was_begun(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    here = wanted(checkpoint, 2)
    assert misfit(checkpoint, here, 7) == "there is none"
    begun = begin(checkpoint, here, 7, {"v": "too wide"})
    assert misfit(checkpoint, here, 7) is None
    assert (begun.epoch, begun.failed) == (7, {"v": "too wide"})
    assert read_beginning(checkpoint) == begun


def test_a_checkpoint_of_elsewhere_does_not_fit(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    here = wanted(checkpoint, 2)
    begin(checkpoint, here, 0, {})
    assert misfit(checkpoint, wanted(checkpoint, 3), 0) == "it was made with 2 shards, not 3"
    other = msgspec.structs.replace(here, spark="9.1")
    assert misfit(checkpoint, other, 0) == f"it was made by Spark {here.spark}, not 9.1"
    newer = msgspec.structs.replace(here, format=here.format + 1)
    assert misfit(checkpoint, newer, 0) == f"it has format {here.format}, not {newer.format}"
    newer = msgspec.structs.replace(here, state=here.state + 1)
    assert misfit(checkpoint, newer, 0) == f"its shard state has format {here.state}, this release reads {newer.state}"
    moved = tmp_path / "elsewhere"
    shutil.copytree(checkpoint, moved)
    assert misfit(moved, wanted(moved, 2), 0) == f"it was made at {checkpoint}"


def test_a_mark_without_a_state_format_is_of_the_earlier_one(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    here = wanted(checkpoint, 2)
    begin(checkpoint, here, 0, {})
    mark = msgspec.json.decode((checkpoint / MARK).read_bytes())
    del mark["state"]
    (checkpoint / MARK).write_bytes(msgspec.json.encode(mark))
    assert misfit(checkpoint, here, 0) == "its shard state has format 3, this release reads 4"


def test_a_checkpoint_has_passed_its_first_version(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    assert passed_epoch(checkpoint) == 0
    begin(checkpoint, wanted(checkpoint, 2), 7, {})
    batch(checkpoint, 0, 9, committed=False)
    assert passed_epoch(checkpoint) == 7
    batch(checkpoint, 0, 9)
    assert passed_epoch(checkpoint) == 9


def test_the_same_place_under_another_name_fits(tmp_path: Path) -> None:
    begin(tmp_path / "checkpoint", wanted(tmp_path / "checkpoint", 2), 0, {})
    (tmp_path / "link").symlink_to(tmp_path)
    found = tmp_path / "link" / "checkpoint"
    assert misfit(found, wanted(found, 2), 0) is None


def test_a_checkpoint_with_no_or_a_torn_mark_does_not_fit(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    batch(checkpoint, 0, 5)
    here = wanted(checkpoint, 2)
    assert misfit(checkpoint, here, 5) == "it has no mark of the setup for which it was made"
    (checkpoint / MARK).write_text('{"shards":2,"loc')
    assert f"expected the mark of a Spark checkpoint at {checkpoint / MARK}" in str(misfit(checkpoint, here, 5))


def test_a_checkpoint_ahead_of_the_published_does_not_fit(tmp_path: Path) -> None:
    """It was left from another past: its state knows what nobody has been told."""
    checkpoint = tmp_path / "checkpoint"
    here = wanted(checkpoint, 2)
    begin(checkpoint, here, 3, {})
    batch(checkpoint, 0, 9)
    assert misfit(checkpoint, here, 9) is None
    assert misfit(checkpoint, here, 8) == "it is at version 9, and 8 is the newest that is published"
    batch(checkpoint, 1, 12).write_text("torn")
    assert "expected the offset of a batch in three lines" in str(misfit(checkpoint, here, 9))


def test_an_interrupted_beginning_leaves_no_fitting_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = tmp_path / "checkpoint"
    here = wanted(checkpoint, 2)
    begin(checkpoint, here, 0, {})
    batch(checkpoint, 0, 5)

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path, **_: crash() if path.exists() else None)
        with pytest.raises(KeyboardInterrupt):
            begin(checkpoint, here, 5, {})
    assert misfit(checkpoint, here, 5) == "there is none"
    begin(checkpoint, here, 5, {})
    assert misfit(checkpoint, here, 5) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"], "nothing is left of the old one"
    assert sorted(path.name for path in checkpoint.iterdir()) == [MARK]
