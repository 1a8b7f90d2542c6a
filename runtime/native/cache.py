"""Compiled kernels by source: linked in this process, stored in the cache folder, or made by the compile process.

```
get(source) ──▶ linked in this process? ──▶ in the cache folder, or in a shipped one? link it ──▶ None: interpret it
request(sources) ──▶ CompileQueue ──▶ compile process ──▶ cache folder ──▶ the next get
```
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, TypeVar

from twisted.logger import Logger

from runtime.native.cache_folder import CacheFolder, compiler_key, compiler_version
from runtime.native.compile_process import FOREGROUND, CompileReply, CompileRequest
from runtime.native.compile_queue import COMMAND, CompileQueue
from runtime.native.object_code import link
from runtime.native.tiers import KernelFileError, MachineKernel, UnsafeCacheError, kernel_name

__all__ = [
    "FOLDER_VARIABLE",
    "SHIPPED_VARIABLE",
    "SWITCH_VARIABLE",
    "CompileReport",
    "KernelCache",
    "KernelStatus",
    "default_kernels",
    "is_switched_on",
    "kernels_from_environment",
]

FOLDER_VARIABLE: Final = "DELTABOOK_KERNEL_CACHE"
"""Environment variable with the cache folder."""
SHIPPED_VARIABLE: Final = "DELTABOOK_SHIPPED_KERNELS"
"""Environment variable with a second, read-only folder: kernels that were compiled when an image was built."""
SWITCH_VARIABLE: Final = "DELTABOOK_NATIVE"
"""Environment variable that is `off` if every kernel is to be interpreted, and otherwise `on` or missing."""

_LIMIT_BYTES: Final = 512 * 1024 * 1024
"""Greatest size of the cache folder with all versions, in bytes."""
_LINKED: Final = 1024
"""Number of kernels that stay linked in one process."""
_REMEMBERED: Final = 4096
"""Capacity of each memo of facts about sources, such as the next time to read the folder, or reasons of failures."""
_QUEUED: Final = 1024
"""Capacity of the queue of sources to compile."""
_TRY_AGAIN_S: Final = 60.0
"""Time in seconds after which a source is compiled again if it failed because of the state of the machine, such as too
little memory.
"""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CompileReport:
    """Result of `KernelCache.compile_now`."""

    count: int
    """Number of kernels that this call compiled."""
    present: int
    """Number of kernels that were in the cache already."""
    failures: Mapping[str, str]
    """Name of a source → reason why it has no compiled kernel."""
    seconds: float
    """Time that the call took, in seconds."""
    size_bytes: int
    """Size of the cache folder afterwards, in bytes."""


@dataclass(frozen=True, slots=True)
class KernelStatus:
    """State of a cache of compiled kernels."""

    is_on: bool
    """True if kernels are compiled."""
    reason: str
    """Reason why every kernel is interpreted; empty if kernels are compiled."""
    llvmlite: str
    """Version of llvmlite; empty if it is not installed."""
    folder: Path
    """The cache folder."""
    size_bytes: int
    """Size of the cache folder with all versions, in bytes."""
    kernels: int
    """Number of compiled kernels in the folder that this version can use."""
    linked: int
    """Number of kernels linked in this process."""
    pending: int
    """Number of sources that are queued or being compiled for this process."""
    failed: int
    """Number of sources that are interpreted because their compilation failed, as far as this process knows."""


class KernelCache:
    """Compiled kernels by source. Thread-safe.

    If kernels cannot be compiled, `get` returns None for every source, and `status` has the reason: compilation is
    switched off, llvmlite is missing, or other users can write the folder. Only `compile_now` and `wait` block until
    the compiler is done.
    """

    _log = Logger()

    def __init__(
        self,
        folder: Path,
        enabled: bool = True,
        *,
        limit_bytes: int = _LIMIT_BYTES,
        recheck_s: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
        command: Sequence[str] = COMMAND,
        compile_timeout_s: float = 300.0,
        is_foreground: bool = False,
        shipped: Path | None = None,
    ) -> None:
        """Prepare a cache in ``folder``; nothing is read or written yet.

        With ``is_foreground`` sources are compiled at the priority of this process, not at the lowest priority.
        ``shipped`` is a folder that is only read, for kernels that ``folder`` does not have.
        """
        self._root = folder
        self._shipped_root = shipped
        self._shipped: CacheFolder | None = None
        self._is_foreground = is_foreground
        self._limit_bytes = limit_bytes
        self._recheck_s = recheck_s
        self._clock = clock
        self._command = command
        self._compile_timeout_s = compile_timeout_s
        self._changed = threading.Condition(threading.RLock())
        self._off = "" if enabled else "switched off"
        self._folder: CacheFolder | None = None
        self._queue: CompileQueue | None = None
        self._linked: OrderedDict[str, MachineKernel] = OrderedDict()
        self._read_again_s: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        self._try_again_s: dict[str, float] = {}
        self._dropped: dict[str, str] = {}
        self._shipped_damage: dict[str, str] = {}
        self._pending: set[str] = set()
        self._compiled = 0
        self._is_closed = False

    @property
    def folder(self) -> Path:
        """The cache folder."""
        return self._root

    @property
    def failures(self) -> Mapping[str, str]:
        """Name of a source whose compilation failed → reason, as far as this process knows."""
        with self._changed:
            return dict(self._failures)

    def get(self, source: str) -> MachineKernel | None:
        """Return the compiled `step` of a source if the cache has it.

        For each source, the folder is read at most once in `recheck_s` seconds.
        """
        if self._off:
            return None
        name = kernel_name(source)
        with self._changed:
            kernel = self._linked.get(name)
            if kernel is not None:
                self._linked.move_to_end(name)
                return kernel
            now_s = self._clock()
            if name in self._try_again_s and self._try_again_s[name] <= now_s:
                del self._try_again_s[name]
                self._failures.pop(name, None)
                self._submit([source], again=False)
            if now_s < self._read_again_s.get(name, now_s) or name in self._failures:
                return None
            _remember(self._read_again_s, name, now_s + self._recheck_s)
            return self._load(name, source)

    def request(self, sources: Iterable[str]) -> None:
        """Compile sources in the background; sources that are compiled, queued or failed are ignored.

        Sources beyond the capacity of the queue are dropped; a later request may repeat them.
        """
        self._submit(sources, again=False)

    def wait(self, sources: Iterable[str], timeout_s: float | None) -> bool:
        """Request sources, and wait until all are compiled or failed; return whether all are compiled.

        With None as ``timeout_s`` the call waits as long as the compiler takes.
        """
        wanted = {kernel_name(source): source for source in sources}
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not (self._off or self._is_closed):
                self.request(wanted.values())
                if all(self._is_settled(name) for name in wanted):
                    for name in wanted:
                        self._read_again_s.pop(name, None)
                    return not any(name in self._failures for name in wanted)
                rest_s = None if deadline_s is None else deadline_s - time.monotonic()
                if rest_s is not None and rest_s <= 0:
                    return False
                self._changed.wait(rest_s)
        return not wanted

    def compile_now(self, sources: Iterable[str]) -> CompileReport:
        """Compile sources, also those that failed before or whose file is damaged, and wait for the result."""
        started_s = time.monotonic()
        wanted = {kernel_name(source): source for source in sources}
        with self._changed:
            for name in wanted:
                self._failures.pop(name, None)
                self._drop_damaged(name)
            compiled = self._compiled
            missing = [source for name, source in wanted.items() if not self._is_settled(name)]
            self._submit(missing, again=True)
        self.wait(wanted.values(), None)
        with self._changed:
            failures = {name: self._failures.get(name, self._off) for name in wanted if not self._is_compiled(name)}
            count = self._compiled - compiled
            size_bytes = self._folder.size_bytes() if self._folder is not None else 0
        present = len(wanted) - len(failures) - count
        return CompileReport(count, present, failures, time.monotonic() - started_s, size_bytes)

    def status(self) -> KernelStatus:
        """Return the state of the cache."""
        with self._changed:
            folder = self._opened()
            try:
                llvmlite = compiler_version()
            except metadata.PackageNotFoundError:
                llvmlite = ""
            return KernelStatus(
                is_on=not self._off,
                reason=self._off,
                llvmlite=llvmlite,
                folder=self._root,
                size_bytes=folder.size_bytes() if folder is not None else 0,
                kernels=folder.count() if folder is not None else 0,
                linked=len(self._linked),
                pending=len(self._pending),
                failed=len(self._failures),
            )

    def create_folder(self) -> None:
        """Make the folder.

        Raises `OSError` if the folder cannot be made, if other users can write it, or if llvmlite is missing.
        """
        if not self._off:
            self._new_folder().create()

    def check_folder(self) -> list[str]:
        """Make the folder and write a test file; return a reason for each kernel in the folder that cannot be used.

        Raises `OSError` like `create_folder`, and also if no file can be written.
        """
        if self._off:
            return []
        folder = self._new_folder()
        folder.probe()
        return [reason for name in folder.names() if (reason := _damage(folder, name))]

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which another process uses the same cache."""
        shipped = {} if self._shipped_root is None else {SHIPPED_VARIABLE: str(self._shipped_root)}
        return {FOLDER_VARIABLE: str(self._root), SWITCH_VARIABLE: "off" if self._off else "on", **shipped}

    def close(self) -> None:
        """End the compile process; compiled kernels stay usable."""
        with self._changed:
            self._is_closed = True
            queue = self._queue
            self._pending.clear()
            self._changed.notify_all()
        if queue is not None:
            queue.close()
            atexit.unregister(self.close)

    # ---- the folder ---------------------------------------------------------------------------------------------

    def _opened(self) -> CacheFolder | None:
        """Return the folder of this version; if there can be none, return None and set `_off` to the reason."""
        if self._folder is None and not self._off:
            try:
                self._folder = self._new_folder()
                self._folder.check()
                self._shipped = self._open_shipped()
            except (ImportError, OSError) as error:
                self._switch_off(str(error))
        return None if self._off else self._folder

    def _open_shipped(self) -> CacheFolder | None:
        """Return the shipped folder of this version; None if there is none, or another user could have written it."""
        if self._shipped_root is None:
            return None
        folder = CacheFolder(self._shipped_root, compiler_key())
        try:
            return folder if folder.check() else None
        except UnsafeCacheError as error:
            self._log.warn("shipped kernels are not used: {reason}", reason=str(error))
            return None

    def _has_a_folder(self) -> bool:
        return self._root.is_dir() or (self._shipped_root is not None and self._shipped_root.is_dir())

    def _new_folder(self) -> CacheFolder:
        try:
            return CacheFolder(self._root, compiler_key())
        except metadata.PackageNotFoundError as error:
            raise FileNotFoundError(f"expected the package {error.name}, was not installed") from error

    def _load(self, name: str, source: str) -> MachineKernel | None:
        if self._folder is None and not self._has_a_folder():
            return None  # no kernel has been compiled yet: return without loading LLVM
        folder = self._opened()
        if folder is None:
            return None
        shipped = None
        try:
            content = folder.code(name)
            if content is None and (shipped := self._shipped_with(name)) is not None:
                content = shipped.code(name)
            if content is None:
                return None
            kernel = link(content)
        except KernelFileError as error:
            if shipped is not None:
                _remember(self._shipped_damage, name, str(error))
            self._recompile(name, source, folder, str(error))
            return None
        except (ImportError, OSError) as error:
            self._switch_off(str(error))
            return None
        self._linked[name] = kernel
        if len(self._linked) > _LINKED:
            self._linked.popitem(last=False)
        return kernel

    def _drop_damaged(self, name: str) -> None:
        """Drop an object file that cannot be linked; if that is impossible, mark its source as failed.

        A damaged file of the shipped folder stays, and is not used.
        """
        folder = self._opened() if self._folder is not None or self._root.is_dir() else None
        if folder is not None and (reason := _damage(folder, name)):
            with contextlib.suppress(OSError):
                folder.drop(name)
            if folder.has_code(name):
                self._fail(name, reason)
        shipped = self._shipped_with(name)
        if shipped is not None and (reason := _damage(shipped, name)):
            _remember(self._shipped_damage, name, reason)

    def _recompile(self, name: str, source: str, folder: CacheFolder, reason: str) -> None:
        """Drop an object file that cannot be linked and request a new one, at most once for each source."""
        with contextlib.suppress(OSError):  # the folder may be on a read-only file system
            folder.drop(name)
        if name in self._dropped or folder.has_code(name):
            self._fail(name, reason)
            return
        _remember(self._dropped, name, reason)
        self._log.warn("kernel {name} is compiled again: {reason}", name=name, reason=reason)
        self._submit([source], again=False)

    def _switch_off(self, reason: str) -> None:
        self._off = reason
        self._log.warn("kernels are interpreted: {reason}", reason=reason)
        self._changed.notify_all()

    # ---- compilation --------------------------------------------------------------------------------------------

    def _submit(self, sources: Iterable[str], *, again: bool) -> None:
        with self._changed:
            for source in sources:
                name = kernel_name(source)
                if self._off or self._is_closed:
                    return
                if name in self._pending or self._is_settled(name):
                    continue
                queue, folder = self._compile_queue(), self._folder
                if queue is None or folder is None:
                    return
                try:
                    reason = None if again else folder.failure(name)
                except OSError as error:
                    self._switch_off(str(error))
                    return
                if reason is not None:
                    self._fail(name, reason)
                elif queue.submit(CompileRequest(source, again)):
                    self._pending.add(name)
                else:
                    return

    def _compile_queue(self) -> CompileQueue | None:
        folder = self._opened()
        if self._queue is None and folder is not None:
            try:
                folder.create()
            except OSError as error:
                self._switch_off(str(error))
                return None
            priority = [FOREGROUND] if self._is_foreground else []
            self._queue = CompileQueue(
                [str(folder.root.resolve()), folder.path.name, str(self._limit_bytes), *priority],
                self._take,
                cwd=folder.path,
                capacity=_QUEUED,
                command=self._command,
                timeout_s=self._compile_timeout_s,
            )
            atexit.register(self.close)
        return self._queue

    def _take(self, reply: CompileReply) -> None:
        """Process a reply; called by the queue's thread."""
        with self._changed:
            self._pending.discard(reply.name)
            self._read_again_s.pop(reply.name, None)
            self._compiled += reply.outcome == "compiled"
            if reply.outcome == "failed":
                self._fail(reply.name, reply.reason)
                if not reply.is_lasting:
                    _remember(self._try_again_s, reply.name, self._clock() + _TRY_AGAIN_S)
            self._changed.notify_all()

    def _fail(self, name: str, reason: str) -> None:
        _remember(self._failures, name, reason)
        self._log.warn("kernel {name} stays interpreted: {reason}", name=name, reason=reason)

    def _is_settled(self, name: str) -> bool:
        return name in self._failures or self._is_compiled(name)

    def _is_compiled(self, name: str) -> bool:
        if name in self._linked:
            return True
        folder = self._opened() if self._folder is not None or self._has_a_folder() else None
        if folder is None or name in self._failures:
            return False
        return folder.has_code(name) or self._shipped_with(name) is not None

    def _shipped_with(self, name: str) -> CacheFolder | None:
        """Return the shipped folder if it has a kernel's object file, unless that file was found damaged."""
        shipped = self._shipped
        return shipped if shipped is not None and name not in self._shipped_damage and shipped.has_code(name) else None


def _damage(folder: CacheFolder, name: str) -> str:
    """Return the reason why a kernel's object file cannot be linked; empty if it can be, or if there is no file."""
    try:
        content = folder.code(name, is_use=False)
        if content is not None:
            link(content)
    except KernelFileError as error:
        return str(error)
    except OSError:
        pass  # the folder cannot be read; the next use of the folder reports this
    return ""


def _remember(facts: dict[str, _T], name: str, fact: _T) -> None:
    """Add a fact to a dictionary; evict the oldest fact if there are more than `_REMEMBERED`."""
    facts[name] = fact
    if len(facts) > _REMEMBERED:
        del facts[next(iter(facts))]


def is_switched_on(environ: Mapping[str, str]) -> bool:
    """Return False if ``DELTABOOK_NATIVE`` is ``off``, in upper or lower case; else True: kernels are then compiled.

    Raises `ValueError` for values other than ``on`` and ``off``.
    """
    switch = environ.get(SWITCH_VARIABLE) or "on"
    if switch.lower() not in {"on", "off"}:
        raise ValueError(f"expected {SWITCH_VARIABLE}=on or off, was {switch!r}")
    return switch.lower() == "on"


def kernels_from_environment(environ: Mapping[str, str] | None = None, *, is_foreground: bool = False) -> KernelCache:
    """Return a cache in the folder that the environment names.

    The folder is ``DELTABOOK_KERNEL_CACHE``, else ``deltabook/kernels`` in ``XDG_CACHE_HOME``, else in ``~/.cache``;
    ``DELTABOOK_SHIPPED_KERNELS`` names the folder of an image. ``DELTABOOK_NATIVE=off`` switches compilation off.
    Raises `ValueError` for any value of ``DELTABOOK_NATIVE`` except ``on`` and ``off``.
    """
    variables = os.environ if environ is None else environ
    enabled = is_switched_on(variables)
    named, caches = variables.get(FOLDER_VARIABLE, ""), variables.get("XDG_CACHE_HOME", "")
    if named:
        folder = Path(os.path.expanduser(named))  # noqa: PTH111 - never raises
    elif Path(caches).is_absolute():
        folder = Path(caches) / "deltabook" / "kernels"
    else:
        # The XDG base directory specification requires that a relative XDG_CACHE_HOME is ignored.
        folder = Path(os.path.expanduser("~")) / ".cache" / "deltabook" / "kernels"  # noqa: PTH111 - never raises
    shipped = variables.get(SHIPPED_VARIABLE, "")
    return KernelCache(folder, enabled, is_foreground=is_foreground, shipped=Path(shipped) if shipped else None)


_default: tuple[int, KernelCache] | None = None
_default_lock = threading.Lock()


def default_kernels() -> KernelCache:
    """Return the cache of this process, made from the environment on the first call."""
    global _default  # noqa: PLW0603 - kernels are linked once a process
    with _default_lock:
        # A forked process has neither the thread nor the compile process of its parent.
        if _default is None or _default[0] != os.getpid():
            _default = (os.getpid(), kernels_from_environment())
        return _default[1]
