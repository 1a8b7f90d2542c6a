"""One child process: started in its own process group, monitored through its standard output, and reliably ended.

```
stdin   kept open by the supervisor: when the supervisor ends, the child reads the end of the input and stops
stdout  status events, one JSON object per line
stderr  RUN/ROLE.log
```
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from deltabook.wire.status import Event, Failed, Ready, Status, Stopped, parse_event

__all__ = ["LINE_LIMIT_BYTES", "Child"]

LINE_LIMIT_BYTES: Final = 64 * 1024
"""Longest status line in bytes; a longer line is dropped."""
_READ_BYTES: Final = 64 * 1024
"""Number of bytes read at once."""
_LOG_TAIL_BYTES: Final = 16 * 1024
"""Number of bytes at the end of the log from which lines are taken."""


class Child:
    """A running child process and its latest status.

    No method but `close` blocks: call `read` when standard output has data, and `exit_code` at any time.
    """

    def __init__(self, role: str, command: Sequence[str], log_path: Path, environ: Mapping[str, str]) -> None:
        """Start the process; ``role`` names it in reasons, and its standard error is appended to ``log_path``."""
        self.role = role
        self.log_path = log_path
        self.ready: Ready | None = None
        """Event with which the process has reported its ports; None before."""
        self.stopped: Stopped | None = None
        """Event of a clean end; None before."""
        self.failed: Failed | None = None
        """Event of a failure; None if there was none."""
        self.figures: dict[str, int | float | str | None] = {}
        """Latest value of each figure of the status events."""
        self.statuses = 0
        """Number of status events."""
        self._line = b""
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=dict(environ), process_group=0
            )
        os.set_blocking(self.stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """Process id, and the id of its process group."""
        return self._process.pid

    @property
    def stdout(self) -> IO[bytes]:
        """Read end of the pipe with status events."""
        stream = self._process.stdout
        assert stream is not None
        return stream

    @property
    def exit_code(self) -> int | None:
        """Exit code; None while it runs, -N if signal N ended it."""
        return self._process.poll()

    def read(self) -> bool:
        """Read the data on standard output; return False at the end of the output."""
        try:
            data = os.read(self.stdout.fileno(), _READ_BYTES)
        except BlockingIOError:
            return True
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > LINE_LIMIT_BYTES:
            self._line = b""
        for line in lines:
            self._take(line)
        return bool(data)

    def _take(self, line: bytes) -> None:
        try:
            event: Event = parse_event(line)
        except ValueError:
            return  # the line was printed by a library
        match event:
            case Ready():
                self.ready = event
            case Status():
                self.figures = {**self.figures, **event.figures}
                self.statuses += 1
            case Stopped():
                self.stopped = event
            case Failed():
                self.failed = event

    def terminate(self) -> None:
        """Request the end of the process; do nothing if it has ended."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the process and the rest of its process group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # macOS raises the latter for an ended group of processes
            self._process.kill()

    def close(self) -> None:
        """Kill the process and its group if they still run, wait for it and close the pipes."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def log_lines(self, count: int = 10) -> list[str]:
        """Return the last lines of the log."""
        with self.log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return list(deque(text.splitlines(), maxlen=count))

    def reason(self) -> str:
        """Return the reason why the process ended, as the process reported it if it did."""
        prefix = f"deltabook {self.role}: failed: "
        if self.failed is not None:
            return self.failed.reason
        for line in reversed(self.log_lines()):
            if line.startswith(prefix):
                return line.removeprefix(prefix)
        code = self.exit_code
        if code is not None and code < 0:
            return f"ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"
