"""The two tiers of kernel source: names of sources, the interpreted tier, and the interface of the compiled tier.

Kernel source is a text that defines `step(p) -> int`, decorated with `runtime.native.plain.jit`. The interpreted tier
executes it unchanged, with the primitives of `runtime.native.plain`. The compiled tier is in `runtime.native.cache`.
"""

from __future__ import annotations

import functools
import hashlib
import linecache
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

__all__ = [
    "CompileProcessError",
    "KernelFileError",
    "KernelSourceError",
    "Kernels",
    "MachineKernel",
    "NativeError",
    "PlainKernel",
    "UnsafeCacheError",
    "await_kernels",
    "kernel_name",
    "plain_kernel",
    "register_source",
]


class NativeError(Exception):
    """Base of the errors of the kernel tiers."""


class KernelSourceError(NativeError, ValueError):
    """Kernel source does not define a function `step`, or has something that cannot be compiled."""


class KernelFileError(NativeError, ValueError):
    """A file of compiled code is damaged, cannot be linked, or could have been written by another user."""


class UnsafeCacheError(NativeError, PermissionError):
    """A cache folder could have been written by another user."""


class CompileProcessError(NativeError, RuntimeError):
    """The compile process ended, or did not reply in time."""


PlainKernel = Callable[[Any], int]
"""An interpreted kernel: takes a table (a list of arrays and tables), returns a status."""
MachineKernel = Callable[[int], int]
"""A compiled kernel: takes the address of a table, returns a status; it does not hold the interpreter lock."""

_SOURCES: Final = 512
"""Capacity of the memo of names, and of that of interpreted kernels; both keep the texts of sources in memory."""
_NAME_DIGITS: Final = 32


@functools.lru_cache(maxsize=_SOURCES)
def kernel_name(source: str) -> str:
    """Return the name of a source, which is the same in every process: `k_` and 128 bits of its SHA-256.

    >>> kernel_name("def step(p): return 0")
    'k_77cecfe0beeb02828b4d5613701c84be'
    """
    return f"k_{hashlib.sha256(source.encode()).hexdigest()[:_NAME_DIGITS]}"


def register_source(file_name: str, source: str) -> None:
    """Register a source that is in no file, so that tracebacks and debuggers show its lines."""
    linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)


@functools.lru_cache(maxsize=_SOURCES)
def plain_kernel(source: str) -> PlainKernel:
    """Return the `step` of a source in the interpreted tier.

    Raises `KernelSourceError` if the source defines no `step`; exceptions of the source itself are not caught.
    """
    name = kernel_name(source)
    file_name = f"<kernel {name}>"
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(source, file_name, "exec"), namespace)
    step: PlainKernel | None = namespace.get("step")
    if not callable(step):
        raise KernelSourceError(f"expected a function `step` in kernel source, was none in {name}")
    register_source(file_name, source)
    # The memo is bounded, so the lines of a source are dropped with its kernel.
    weakref.finalize(step, linecache.cache.pop, file_name, None)
    return step


_FEW_ROWS: Final = 20_000
"""For this many rows or fewer, no kernel is awaited."""
_INTERPRETED_S: Final = 5e-6
"""Approximate time in seconds that an interpreted kernel takes for a row."""
_LONGEST_WAIT_S: Final = 60.0


class Kernels(Protocol):
    """Provider of compiled kernels: see `runtime.native.cache.KernelCache`."""

    def get(self, source: str) -> MachineKernel | None:
        """Return the compiled kernel of a source, or None."""

    def request(self, sources: Sequence[str]) -> None:
        """Compile these sources in the background."""

    def wait(self, sources: Sequence[str], timeout_s: float) -> bool:
        """Request these sources, and wait until all are compiled or have failed; return whether all are compiled."""


def await_kernels(kernels: Kernels, sources: Sequence[str], rows: int) -> bool:
    """Wait for kernels before many rows are processed; return whether the call waited.

    The call waits at most for the time that interpreted kernels take for the rows.
    """
    if rows <= _FEW_ROWS:
        return False
    kernels.wait(sources, min(_LONGEST_WAIT_S, rows * _INTERPRETED_S))
    return True
