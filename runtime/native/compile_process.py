"""The compile process, which reads kernel sources and writes their object code into the cache folder.

```
python -m runtime.native.compile_process FOLDER KEY LIMIT_BYTES [foreground]
stdin   one `CompileRequest` a line, as JSON; the process ends when its standard input ends
stdout  one `CompileReply` for each request, in order
stderr  warnings of LLVM; a traceback if the process ends with an error
```

The process runs at the lowest priority unless `foreground` is given. A crash of the compiler ends only this process.
For these two reasons, the compiler is not a thread of the process that needs the kernel.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final, Literal

import msgspec

from runtime.native.cache_folder import CacheFolder, compiler_key
from runtime.native.object_code import link, pack
from runtime.native.tiers import CompileProcessError, KernelFileError, kernel_name

__all__ = ["FOREGROUND", "CompileReply", "CompileRequest", "main"]

FOREGROUND: Final = "foreground"
"""Last argument of a process whose results are awaited: the process keeps the priority of its parent."""
_LOWEST_PRIORITY: Final = 19
_REASON_CHARACTERS: Final = 4000


class CompileRequest(msgspec.Struct, frozen=True):
    """A source to compile."""

    source: str
    """Kernel source."""
    again: bool = False
    """True to compile the source even if the cache contains a failure for it."""


class CompileReply(msgspec.Struct, frozen=True):
    """Reply to a request."""

    name: str
    """Name of the source."""
    outcome: Literal["compiled", "present", "failed"]
    """Outcome; `present` if the cache already had the compiled kernel."""
    reason: str = ""
    """Reason why the source cannot be compiled; empty unless it failed."""
    is_lasting: bool = True
    """True if the failure is due to the source; False if it is due to the state of this machine."""


def main() -> None:
    """Serve the requests on standard input."""
    folder, limit_bytes = CacheFolder(Path(sys.argv[1]), sys.argv[2]), int(sys.argv[3])
    os.nice(0 if sys.argv[4:] == [FOREGROUND] else _LOWEST_PRIORITY)
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # output of libraries is not a reply
        if (key := compiler_key()) != folder.path.name:
            raise CompileProcessError(f"expected the compiler of {folder.path.name}, was {key}: restart after upgrades")
        folder.create()
        for line in sys.stdin.buffer:
            reply = _serve(folder, limit_bytes, msgspec.json.decode(line, type=CompileRequest))
            replies.write(msgspec.json.encode(reply) + b"\n")
            replies.flush()


def _serve(folder: CacheFolder, limit_bytes: int, request: CompileRequest) -> CompileReply:
    name = kernel_name(request.source)
    try:
        with folder.locked():
            try:
                if folder.code(name) is not None:
                    return CompileReply(name, "present")
            except KernelFileError:
                folder.drop(name)
            reason = None if request.again else folder.failure(name)
            if reason is not None:
                return CompileReply(name, "failed", reason)
            reply = _compile(folder, name, request.source)
            with contextlib.suppress(OSError):  # the kernel is stored
                folder.evict(limit_bytes)
        return reply
    except OSError as error:
        return CompileReply(name, "failed", _described(error), is_lasting=False)


def _compile(folder: CacheFolder, name: str, source: str) -> CompileReply:
    """Compile and store a source; return the reply."""
    try:
        from runtime.native.machine_code import compile_source

        content = pack(compile_source(source))
        link(content)
        folder.store(name, source, content)
    except (ImportError, KernelFileError, MemoryError, OSError) as error:
        return CompileReply(name, "failed", _described(error), is_lasting=False)
    except Exception as error:  # noqa: BLE001 - executing a source may raise anything
        reason = _described(error)
        with contextlib.suppress(OSError):  # the reply has the reason even if the disk is full
            folder.store_failure(name, source, reason)
        return CompileReply(name, "failed", reason)
    return CompileReply(name, "compiled")


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS]


if __name__ == "__main__":
    main()
