"""What a start that fails leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.service.rundirectory import left_as_found


def begin(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "state.db").write_bytes(b"state")
    (directory / "epochs").mkdir()
    (directory / "epochs" / "0").write_bytes(b"segment")


def begin_and_fail(directory: Path) -> None:
    with left_as_found(directory):
        begin(directory)
        raise ValueError("no view")


def failing(directory: Path) -> None:
    with pytest.raises(ValueError, match="no view"):
        begin_and_fail(directory)


def test_a_directory_that_was_made_goes_again_with_those_above_it(tmp_path: Path) -> None:
    failing(tmp_path / "runs" / "one")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_stays_and_stays_empty(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    failing(directory)
    assert list(tmp_path.iterdir()) == [directory]
    assert list(directory.iterdir()) == []


def test_neighbours_stay(tmp_path: Path) -> None:
    begin(tmp_path / "runs" / "other")
    failing(tmp_path / "runs" / "one")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]


def test_a_directory_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    failing(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epochs", "mine", "state.db"]


def test_what_begins_stays(tmp_path: Path) -> None:
    with left_as_found(tmp_path / "run"):
        begin(tmp_path / "run")
    assert (tmp_path / "run" / "epochs" / "0").exists()
