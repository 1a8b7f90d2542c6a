"""The disk of this machine: durable in the order that is promised, and errors that name the file."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.epochs import LOCAL_DISK


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is synced, in order."""
    names: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    if Path("/proc/self/fd").exists():
        monkeypatch.setattr(os, "fsync", fsync)
    return names


def test_bytes_are_synced_when_they_are_written(tmp_path: Path, synced: list[str]) -> None:
    path = tmp_path / "file"
    LOCAL_DISK.write(path, [b"abc", b"", b"def"])
    LOCAL_DISK.append(path, b"ghi")
    LOCAL_DISK.truncate(path, 7)
    LOCAL_DISK.sync_directory(tmp_path)
    assert synced in ([], ["file", "file", "file", tmp_path.name])
    assert LOCAL_DISK.read(path).to_pybytes() == b"abcdefg"
    assert LOCAL_DISK.size(path) == 7
    LOCAL_DISK.write(path, [])
    assert LOCAL_DISK.read(path).to_pybytes() == b""


def test_every_directory_made_is_durable_in_its_parent(tmp_path: Path, synced: list[str]) -> None:
    LOCAL_DISK.make_directory(tmp_path / "a" / "b" / "c")
    assert synced in ([], [tmp_path.name, "a", "b"])
    LOCAL_DISK.make_directory(tmp_path / "a" / "b")
    assert len(synced) in {0, 3}


def test_names(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    LOCAL_DISK.write(one, [b"1"])
    LOCAL_DISK.link(one, two)
    with pytest.raises(FileExistsError):
        LOCAL_DISK.link(one, two)
    mapped = LOCAL_DISK.read(one)
    LOCAL_DISK.unlink(one)
    LOCAL_DISK.unlink(one)
    assert mapped.to_pybytes() == LOCAL_DISK.read(two).to_pybytes() == b"1"
    LOCAL_DISK.write(one, [b"other"])
    LOCAL_DISK.rename(two, one)
    assert LOCAL_DISK.names(tmp_path) == ["one"]
    assert (LOCAL_DISK.exists(one), LOCAL_DISK.exists(two), LOCAL_DISK.exists(tmp_path)) == (True, False, True)
    assert LOCAL_DISK.names(tmp_path / "none") == []
    with pytest.raises(FileNotFoundError):
        LOCAL_DISK.read(two)


@pytest.mark.parametrize(
    "operation",
    [
        lambda path: LOCAL_DISK.write(path, [b"x"]),
        lambda path: LOCAL_DISK.append(path, b"x"),
        lambda path: LOCAL_DISK.truncate(path, 0),
    ],
)
def test_a_full_disk_is_told_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: Callable[[Path], None]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"there")

    def fails(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{path}'")):
        operation(path)
