"""A run directory belongs to one process; what a start that fails leaves behind."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from deltabook.wire.directories import Claim
from runtime.service.errors import DirectoryInUseError
from runtime.service.rundir.directory import DirectoryLock, left_as_found

HOLDER = Claim("db-1", 4711, run="r7")


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


def test_a_made_directory_is_removed_with_its_made_parents(tmp_path: Path) -> None:
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


def test_a_directory_belongs_to_the_process_a_refusal_names(tmp_path: Path) -> None:
    directory = tmp_path / "runs" / "one"
    first = DirectoryLock(directory, HOLDER)
    with pytest.raises(DirectoryInUseError) as refused:
        DirectoryLock(directory, HOLDER)
    assert str(refused.value) == (
        f"expected {directory} to be free, was in use by another runtime (process 4711 on db-1, run r7)"
    )
    (directory / "lock").write_bytes(b"")  # as for a moment while the first one begins
    with pytest.raises(DirectoryInUseError, match=r"\(an unknown process\)"):
        DirectoryLock(directory, HOLDER)
    first.release()
    first.release()
    DirectoryLock(directory, HOLDER).release()


def test_what_another_process_has_begun_meanwhile_stays(tmp_path: Path) -> None:
    def begin_second(directory: Path) -> DirectoryLock:
        with left_as_found(directory):
            begin(directory)
            held = DirectoryLock(directory, HOLDER)
            DirectoryLock(directory, HOLDER)
        return held

    with pytest.raises(DirectoryInUseError):
        begin_second(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["epochs", "lock", "state.db"]


def test_where_the_disk_has_no_locks_nothing_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    held = [DirectoryLock(tmp_path, HOLDER), DirectoryLock(tmp_path, HOLDER)]
    assert (tmp_path / "lock").read_bytes() == b""
    for lock in held:
        lock.release()
