"""A backup is put back whole, into an empty place, or not at all."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from deltabook.backup import BackupError, back_up, restore
from deltabook.backup.manifest import MANIFEST, FileEntry, Manifest, encode_manifest
from tests.generators.run_directories import RunDirectory


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    run = RunDirectory(tmp_path / "run", epochs=3)
    run.close()
    back_up(run.directory, tmp_path / "copy")
    shutil.rmtree(run.directory)
    return tmp_path / "copy"


def archived(copy: Path, *names: str) -> Path:
    path = copy.with_name("copy.tar")
    with tarfile.open(path, "w") as archive:
        files = sorted(p.relative_to(copy).as_posix() for p in copy.rglob("*") if p.is_file())
        for name in names or sorted(files, key=lambda name: name != MANIFEST):
            archive.add(copy / name, name)
    return path


def test_a_place_that_holds_something_is_refused(copy: Path) -> None:
    place = copy.with_name("place")
    place.mkdir()
    (place / "file").touch()
    with pytest.raises(BackupError, match="expected an empty directory or none"):
        restore(copy, place)
    with pytest.raises(BackupError, match="expected an empty directory or none"):
        restore(copy, place / "file")
    (place / "file").unlink()
    restore(copy, place)
    assert (place / "state.db").is_file()
    assert not (place / MANIFEST).exists()


def test_the_present_directory_is_a_place(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no name in its path, and is replaced under the one that it has."""
    place = copy.with_name("place")
    place.mkdir()
    monkeypatch.chdir(place)
    restore(copy, Path())
    assert (place / "state.db").is_file()


def test_a_link_to_an_empty_directory_is_a_place(copy: Path) -> None:
    (copy.parent / "place").mkdir()
    link = copy.with_name("link")
    link.symlink_to("place")
    restore(copy, link)
    assert link.is_symlink()
    assert (copy.parent / "place" / "state.db").is_file()


@pytest.mark.parametrize("place", ["sub", "deep/sub"])
def test_a_place_within_the_backup_is_refused(copy: Path, place: str) -> None:
    """The backup would have more files than its manifest, and could not be restored again."""
    with pytest.raises(BackupError, match="expected a directory outside of the backup"):
        restore(copy, copy / place)
    restore(copy, copy.with_name("place"))


def test_a_mount_point_is_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copy.with_name("place")
    place.mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == place)
    with pytest.raises(BackupError, match=r"expected a directory that is not a mount point, was .*place"):
        restore(copy, place)
    assert list(place.iterdir()) == []
    restore(copy, place / "run")


def turn_a_bit(copy: Path) -> None:
    data = bytearray((copy / "state.db").read_bytes())
    data[5000] ^= 1
    (copy / "state.db").write_bytes(data)


def cut(copy: Path) -> None:
    with (copy / "state.db").open("r+b") as file:
        file.truncate(100)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "bit": (turn_a_bit, r"expected \d+ bytes with SHA-256 .* as state\.db"),
    "cut": (cut, r"was 100 with"),
    "missing": (lambda copy: (copy / "state.db").unlink(), r"expected state\.db in .*, which lacks it"),
    "more": (
        lambda copy: (copy / "epochs" / "x").touch(),
        r"only files that .* lists, was 'epochs/x'",
    ),
    "manifest": (lambda copy: (copy / MANIFEST).write_text("{"), "expected the manifest of a backup"),
    "format": (lambda copy: (copy / MANIFEST).write_text('{"format":9}'), "expected a backup of format 1 .* format 9"),
    "none": (lambda copy: (copy / MANIFEST).unlink(), f"expected a backup with {MANIFEST}"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_backup_leaves_nothing(copy: Path, damage: str) -> None:
    make, message = DAMAGE[damage]
    make(copy)
    with pytest.raises(BackupError, match=message):
        restore(copy, copy.with_name("place"))
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]


@pytest.mark.parametrize("name", ["../x", "/x", "a/../x", "a//x", MANIFEST, ""])
def test_a_name_that_leads_out_of_the_place_is_refused(copy: Path, name: str) -> None:
    manifest = msgspec.json.decode((copy / MANIFEST).read_bytes(), type=Manifest)
    manifest = msgspec.structs.replace(manifest, files=[FileEntry(name, 0, "")])
    (copy / MANIFEST).write_bytes(encode_manifest(manifest))
    with pytest.raises(BackupError, match="expected paths below the backup"):
        restore(copy, copy.with_name("place"))


def test_a_truncated_or_foreign_archive_is_refused(copy: Path) -> None:
    path = archived(copy)
    restore(path, copy.with_name("whole"))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(BackupError, match="expected"):
        restore(path, copy.with_name("place"))
    (copy / "link").symlink_to("state.db")
    with pytest.raises(BackupError, match="expected only files"):
        restore(archived(copy, MANIFEST, "link"), copy.with_name("place"))
    with pytest.raises(BackupError, match=f"expected {MANIFEST} first"):
        restore(archived(copy, "state.db", MANIFEST), copy.with_name("place"))
    assert not copy.with_name("place").exists()


def test_a_cut_compressed_archive_is_not_blamed_on_the_target(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run", epochs=3)
    run.close()
    path = tmp_path / "copy.tar.zst"
    back_up(run.directory, path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BackupError, match="expected a whole archive at "):
        restore(path, tmp_path / "place")


def test_a_target_that_is_there_or_inside_is_refused(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.close()
    (tmp_path / "there.tar").touch()
    with pytest.raises(BackupError, match="expected a target that does not exist yet"):
        back_up(run.directory, tmp_path / "there.tar")
    with pytest.raises(BackupError, match="expected a target outside"):
        back_up(run.directory, run.directory / "copy")
    with pytest.raises(BackupError, match="expected a run directory of an exchange, a runtime or strategies"):
        back_up(tmp_path / "run" / "epochs", tmp_path / "copy")
