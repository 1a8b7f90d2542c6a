"""The cache of compiled kernels on disk: its layout, its permissions, and its limit.

```
FOLDER/                       mode 0700, one for all versions
└─ KEY/                       hash of the kernel library's text, llvmlite, Python and the processor
   ├─ lock                    held (flock) by the process that compiles
   ├─ k_HASH.py               kernel source, for people; no program reads it
   ├─ k_HASH.o                object code of the source (`object_code`); its modification time is that of the last use
   └─ k_HASH.failed           in place of k_HASH.o: why the source cannot be compiled
```

The content of a `.o` file is executed. So each file, and both folders, must belong to this user, and no other user may
be able to write them. A kernel whose file is unsafe is compiled again; an unsafe folder is not used at all. Files are
written under another name and renamed, so that a reader sees either a whole file or no file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from runtime.native.object_code import host_cpu
from runtime.native.tiers import KernelFileError, UnsafeCacheError

__all__ = ["CacheFolder", "compiler_key", "compiler_version"]

_CODE: Final = ".o"
_SOURCE: Final = ".py"
_FAILED: Final = ".failed"
_TEMPORARY: Final = ".tmp"
_TEXTS: Final = ("plain.py", "machine.py", "machine_code.py", "object_code.py")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_KINDS: Final = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFLNK: "a symbolic link"}
_NOT_READABLE: Final = frozenset({errno.EACCES, errno.ELOOP, errno.EISDIR})
_STALE_S: Final = 3600.0
"""Age in seconds at which a temporary file is removed, because a killed process must have left it."""


def compiler_version() -> str:
    """Return the version of llvmlite without importing it. Raises `PackageNotFoundError` if it is not installed."""
    return metadata.version("llvmlite")


def _digest_of_texts() -> bytes:
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in [*(here / name for name in _TEXTS), *sorted((here / "library").glob("*.py"))]:
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.digest()


_TEXTS_DIGEST: Final = _digest_of_texts()
"""Digest of the kernel library's text. It is computed at import: if the files are replaced while a process runs, the
process still needs kernels that match the old text.
"""


def compiler_key() -> str:
    """Return the name of the folder for kernels that this process can link.

    The name is a hash of everything on which compiled code depends.
    """
    digest = hashlib.sha256(_TEXTS_DIGEST)
    for fact in (compiler_version(), platform.python_version(), platform.system(), platform.machine(), *host_cpu()):
        digest.update(f"{fact}\0".encode())
    return digest.hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Entry:
    """The files of one kernel."""

    used_s: float
    """Time of the last use, in seconds since the epoch."""
    size_bytes: int
    """Size of the kernel's files together, in bytes."""
    stem: Path
    """Path of the kernel's files without the ending."""


class CacheFolder:
    """The part of the cache folder that belongs to one key; safe for several processes and threads.

    `code` and `failure`, which return the content of files, raise `UnsafeCacheError` if another user could have written
    in the folders.
    """

    def __init__(self, root: Path, key: str) -> None:
        self.root = root
        self.path = root / key

    def create(self) -> None:
        """Make the folders, with access for this user alone."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        self.check()

    def probe(self) -> None:
        """Make the folders and write a file. Raises `OSError` if that is impossible."""
        self.create()
        self._write(f"probe{_TEMPORARY}", b"")
        (self.path / f"probe{_TEMPORARY}").unlink(missing_ok=True)

    def check(self) -> bool:
        """Return whether the folders exist. Raises `UnsafeCacheError` if others could have written in them."""
        try:
            for path in (self.root, self.path):
                if misuse := _misuse(path.stat(), is_folder=True):
                    raise UnsafeCacheError(f"expected {path} to be {misuse}")
        except FileNotFoundError:
            return False
        return True

    def code(self, name: str, *, is_use: bool = True) -> bytes | None:
        """Return the content of a kernel's object file; None if it has not been compiled.

        With ``is_use`` the call counts as a use of the kernel. Raises `KernelFileError` if another user could write the
        file.
        """
        return self._read(name + _CODE, is_use=is_use) if self.check() else None

    def has_code(self, name: str) -> bool:
        """Return whether a kernel has an object file that only this user can write; its content is not read."""
        path = self.path / (name + _CODE)
        try:
            return not _misuse(path.lstat(), is_folder=False)
        except FileNotFoundError:
            return False

    def names(self) -> list[str]:
        """Return the names of the kernels that have an object file."""
        return [path.stem for path in self.path.glob("k_*" + _CODE)] if self.path.is_dir() else []

    def failure(self, name: str) -> str | None:
        """Return the reason why a source cannot be compiled, or None if no failure is stored."""
        try:
            content = self._read(name + _FAILED, is_use=True) if self.check() else None
        except KernelFileError:
            return None
        return None if content is None else content.decode(errors="replace")

    def store(self, name: str, source: str, content: bytes) -> None:
        """Write a kernel's source and object file."""
        self._write(name + _SOURCE, source.encode())
        self._write(name + _CODE, content)
        (self.path / (name + _FAILED)).unlink(missing_ok=True)

    def store_failure(self, name: str, source: str, reason: str) -> None:
        """Store the reason why a source cannot be compiled."""
        self._write(name + _SOURCE, source.encode())
        self._write(name + _FAILED, reason.encode())

    def drop(self, name: str) -> None:
        """Remove a kernel's files."""
        for ending in (_CODE, _FAILED, _SOURCE):
            (self.path / (name + ending)).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of this key during the context; first wait until no other compile process holds it."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def size_bytes(self) -> int:
        """Return the size of the cache with all keys, in bytes."""
        return sum(entry.size_bytes for entry in self._entries())

    def count(self) -> int:
        """Return the number of kernels whose object file only this user can write."""
        return sum(self.has_code(name) for name in self.names())

    def evict(self, limit_bytes: int) -> int:
        """Remove the least recently used kernels until the rest fits the limit; return how many were removed."""
        self._remove_stale()
        entries = sorted(self._entries(), key=lambda entry: entry.used_s)
        excess = sum(entry.size_bytes for entry in entries) - limit_bytes
        evicted = 0
        for entry in entries:
            if excess <= 0:
                break
            CacheFolder(self.root, entry.stem.parent.name).drop(entry.stem.name)
            excess -= entry.size_bytes
            evicted += 1
        if evicted:
            self._remove_empty()
        return evicted

    def _read(self, file_name: str, *, is_use: bool) -> bytes | None:
        path = self.path / file_name
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _NOT_READABLE:
                raise KernelFileError(f"expected a file at {path} that can be read, was: {error.strerror}") from error
            raise
        with os.fdopen(descriptor, "rb") as file:
            # The open file is checked, not the path: another user could have moved another file to the path by now.
            if misuse := _misuse(os.fstat(descriptor), is_folder=False):
                raise KernelFileError(f"expected {path} to be {misuse}")
            if is_use:
                with contextlib.suppress(OSError):  # a cache on a read-only file system is usable too
                    os.utime(descriptor)
            return file.read()

    def _write(self, file_name: str, content: bytes) -> None:
        temporary = self.path / f"{file_name}.{secrets.token_hex(8)}{_TEMPORARY}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            temporary.replace(self.path / file_name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _entries(self) -> Iterator[_Entry]:
        files: dict[Path, list[os.stat_result]] = {}
        for path in self.root.glob("*/k_*"):
            with contextlib.suppress(FileNotFoundError):  # another process removed the file
                files.setdefault(path.parent / path.name.split(".")[0], []).append(path.lstat())
        for stem, stats in files.items():
            used_s = max(each.st_mtime for each in stats)
            yield _Entry(used_s=used_s, size_bytes=sum(each.st_size for each in stats), stem=stem)

    def _remove_stale(self) -> None:
        for path in self.root.glob("*/*" + _TEMPORARY):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.lstat().st_mtime > _STALE_S:
                    path.unlink()

    def _remove_empty(self) -> None:
        for folder in self.root.iterdir():
            if folder != self.path and folder.is_dir() and not any(folder.glob("k_*")):
                (folder / "lock").unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # another version is compiling there
                    folder.rmdir()


def _misuse(status: os.stat_result, *, is_folder: bool) -> str:
    """Return the expected and the actual state of a file or folder that others could write; empty if it is safe."""
    kind, is_kind = ("a folder", stat.S_ISDIR) if is_folder else ("a file", stat.S_ISREG)
    if not is_kind(status.st_mode):
        return f"{kind}, was {_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}"
    if status.st_uid != os.geteuid():
        return f"owned by user {os.geteuid()} (remove it, or name another folder), was owned by {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE:
        return f"writable by its owner alone (chmod go-w), was mode {stat.S_IMODE(status.st_mode):04o}"
    return ""
