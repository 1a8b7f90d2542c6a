"""The cache folder gives out only what this user alone could have written, and stays within its limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.native.cache_folder import CacheFolder, compiler_key
from runtime.native.tiers import KernelFileError, UnsafeCacheError

A, B, C = (f"k_{letter * 32}" for letter in "abc")


@pytest.fixture
def folder(tmp_path: Path) -> CacheFolder:
    folder = CacheFolder(tmp_path / "kernels", "key")
    folder.create()
    return folder


def put(folder: CacheFolder, name: str, size_bytes: int, used_s: float) -> None:
    folder.store(name, "", b"x" * size_bytes)
    for path in folder.path.glob(name + ".*"):
        os.utime(path, (used_s, used_s))


def test_what_is_stored_is_read(folder: CacheFolder) -> None:
    folder.store(A, "source", b"code")
    assert (folder.code(A), folder.code(B), folder.has_code(A), folder.has_code(B)) == (b"code", None, True, False)
    assert (folder.count(), folder.size_bytes()) == (1, len(b"code") + len("source"))
    assert [path.stat().st_mode & 0o777 for path in (folder.root, folder.path, folder.path / (A + ".o"))] == [
        0o700,
        0o700,
        0o600,
    ]


def test_a_missing_folder_is_an_empty_one(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path / "kernels", "key")
    assert (folder.check(), folder.code(A), folder.failure(A), folder.count(), folder.size_bytes()) == (
        False,
        None,
        None,
        0,
        0,
    )


def test_compiled_code_replaces_a_failure(folder: CacheFolder) -> None:
    folder.store_failure(A, "source", "no such name")
    assert folder.failure(A) == "no such name"
    folder.store(A, "source", b"code")
    assert (folder.failure(A), folder.code(A)) == (None, b"code")


@pytest.mark.parametrize(
    ("what", "error"), [("root", UnsafeCacheError), ("path", UnsafeCacheError), ("file", KernelFileError)]
)
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_can_write_is_refused(folder: CacheFolder, what: str, error: type[Exception], mode: int) -> None:
    folder.store(A, "source", b"code")
    path = {"root": folder.root, "path": folder.path, "file": folder.path / (A + ".o")}[what]
    path.chmod(path.stat().st_mode & 0o777 | mode)
    assert folder.has_code(A) == (what != "file")
    with pytest.raises(error, match=r"expected .* to be writable by its owner alone \(chmod go-w\), was mode"):
        folder.code(A)


def test_what_others_own_is_refused(folder: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.store(A, "source", b"code")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(
        UnsafeCacheError, match=rf"owned by user {user + 1} \(remove it, or name another folder\), was owned by {user}"
    ):
        folder.code(A)


def test_links_are_not_followed(folder: CacheFolder, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"code")
    (folder.path / (A + ".o")).symlink_to(tmp_path / "other")
    with pytest.raises(KernelFileError, match="symbolic link"):
        folder.code(A)
    assert (folder.has_code(A), folder.count()) == (False, 0)


def test_a_failure_that_others_can_write_is_not_read(folder: CacheFolder) -> None:
    folder.store_failure(A, "source", "no such name")
    (folder.path / (A + ".failed")).chmod(0o666)
    assert folder.failure(A) is None


def test_the_least_recently_used_kernels_are_evicted(folder: CacheFolder) -> None:
    older = CacheFolder(folder.root, "older")
    older.create()
    for at, (where, name) in enumerate([(older, A), (folder, A), (folder, B), (folder, C)]):
        put(where, name, 100, 1_000.0 + at)
    folder.code(A)
    assert folder.evict(200) == 2
    assert [folder.has_code(name) for name in (A, B, C)] == [True, False, True]
    assert not older.path.exists()
    assert folder.size_bytes() == 200


def test_nothing_is_evicted_within_the_limit(folder: CacheFolder) -> None:
    put(folder, A, 100, 1_000.0)
    assert (folder.evict(100), folder.has_code(A)) == (0, True)


def test_temporary_files_of_killed_processes_are_removed(folder: CacheFolder) -> None:
    stale, fresh = folder.path / f"{A}.o.0123.tmp", folder.path / f"{B}.o.0123.tmp"
    for path in (stale, fresh):
        path.touch()
    os.utime(stale, (1_000.0, 1_000.0))
    folder.evict(100)
    assert (stale.exists(), fresh.exists()) == (False, True)


def test_the_key_is_stable() -> None:
    assert compiler_key() == compiler_key()


def test_the_key_depends_on_versions_and_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {compiler_key()}
    monkeypatch.setattr("runtime.native.cache_folder.host_cpu", lambda: ("other", "+avx9"))
    keys.add(compiler_key())
    monkeypatch.setattr("runtime.native.cache_folder.compiler_version", lambda: "1")
    keys.add(compiler_key())
    assert len(keys) == 3
