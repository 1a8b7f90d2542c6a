"""Child processes that answer in lines of JSON, and the memory of a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

__all__ = ["BenchProcess", "print_line", "resident_bytes"]

_STATM: Final = Path("/proc/self/statm")
_PATIENCE_SECONDS: Final = 60.0


class BenchProcess:
    """Child process that runs a module; it shares the standard error of this process."""

    def __init__(self, module: str, **options: object) -> None:
        """Start ``python -m MODULE --OPTION VALUE ...``."""
        self._name = module
        arguments = [text for key, value in options.items() for text in (f"--{key.replace('_', '-')}", str(value))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(_PATIENCE_SECONDS)

    def write_line(self, text: str = "continue") -> None:
        """Write a line to the standard input of the process, which waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def read_line(self) -> dict[str, Any]:
        """Return the next line that the process prints; raise `RuntimeError` if it ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait(_PATIENCE_SECONDS)
            raise RuntimeError(f"expected a line of {self._name}, was its end with code {code}")
        values: dict[str, Any] = json.loads(line)
        return values


def print_line(values: object) -> None:
    """Print values as a line of JSON, for the parent of this process."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(values)) + "\n")  # msgspec refuses integers above 64 bits
    sys.stdout.flush()


def resident_bytes() -> int:
    """Return the present resident memory of this process in bytes."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    listed = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, text=True, check=True)
    return int(listed.stdout) * 1024
