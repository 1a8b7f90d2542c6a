"""The dead-letter file: bad tuples as JSON lines, up to a number of bytes, then only counted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import msgspec

from runtime.formats.buffers import DeadLetter

__all__ = ["DeadLetterFile"]


class DeadLetterFile:
    """An append-only file of one JSON object a line; thread-safe, never above ``max_bytes``.

    What was in the file before counts too. A line
    holds the fields of `DeadLetter`; ``data`` is text with bytes beyond UTF-8 written as ``\\xNN``.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ValueError(f"expected room for at least 1 byte, was {max_bytes}")
        self._lock = Lock()
        self._max_bytes = max_bytes
        self._file = path.open("ab", buffering=0)
        self._bytes = path.stat().st_size
        self.written = 0
        """Letters in the file since it was opened."""
        self.dropped = 0
        """Letters since then for which there was no room."""

    def append(self, letters: Iterable[DeadLetter]) -> None:
        """Write the letters for which there is room and count the others."""
        with self._lock:
            for letter in letters:
                fields = msgspec.structs.asdict(letter) | {"data": letter.data.decode("utf-8", "backslashreplace")}
                line = msgspec.json.encode(fields) + b"\n"
                if self._file.closed or self._bytes + len(line) > self._max_bytes:
                    self.dropped += 1
                    continue
                self._file.write(line)
                self._bytes += len(line)
                self.written += 1

    def close(self) -> None:
        """Close the file; later letters are only counted."""
        with self._lock:
            self._file.close()
