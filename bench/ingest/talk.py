"""Child processes that answer in lines of JSON, and the memory of a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

__all__ = ["BenchProcess", "resident_bytes"]

_STATM: Final = Path("/proc/self/statm")
_PATIENCE_SECONDS: Final = 60.0


class BenchProcess:
    """A module of the benchmark in a child process, which shares our standard error."""

    def __init__(self, module: str, **options: float | str) -> None:
        self._name = module
        arguments = [text for key, value in options.items() for text in (f"--{key.replace('_', '-')}", str(value))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"bench.ingest.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
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

    def say(self, word: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Return its next line; raise `RuntimeError` if it ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait(_PATIENCE_SECONDS)
            raise RuntimeError(f"expected a line of {self._name}, was its end with code {code}")
        found: dict[str, Any] = json.loads(line)
        return found


def resident_bytes() -> int:
    """Return the present resident memory of this process in bytes."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    listed = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, text=True, check=True)
    return int(listed.stdout) * 1024
