"""Bounded queue of sources in front of one compile process.

```
submit ──▶ queue ──▶ thread ──CompileRequest──▶ compile process ──CompileReply──▶ thread ──▶ on_reply
```

The thread starts with the first source. After some time without a source, the thread ends the process and itself. If a
process ends or does not reply in time, a second process is started for the source; if that one fails too, the source
fails.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from runtime.native.compile_process import CompileReply, CompileRequest
from runtime.native.tiers import CompileProcessError, kernel_name

__all__ = ["COMMAND", "CompileQueue"]

COMMAND: Final = (sys.executable, "-P", "-m", "runtime.native.compile_process")
"""Command line of the compile process, without its arguments."""

_ATTEMPTS: Final = 2
"""Number of processes that try to compile a source."""
_READ_BYTES: Final = 64 * 1024
_STDERR_CHARACTERS: Final = 1000
"""Number of characters from the end of the process's standard error that a message contains."""
_JOIN_S: Final = 5.0
"""Longest time in seconds for which `close` waits for the thread."""


class CompileQueue:
    """Queue of sources, which a separate process compiles one after the other.

    The queue's thread calls `on_reply` once for every accepted source, except for sources that `close` drops.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        on_reply: Callable[[CompileReply], None],
        *,
        cwd: Path,
        capacity: int,
        command: Sequence[str] = COMMAND,
        timeout_s: float = 300.0,
        linger_s: float = 2.0,
    ) -> None:
        """Prepare the queue.

        ``arguments`` are the arguments of the process, and ``cwd`` is its working directory. The process has
        ``timeout_s`` seconds for each source, and is ended after ``linger_s`` seconds without a source.
        """
        self._command = [*command, *arguments]
        self._on_reply = on_reply
        self._cwd = cwd
        self._capacity = capacity
        self._timeout_s = timeout_s
        self._linger_s = linger_s
        self._changed = threading.Condition()
        self._requests: deque[CompileRequest] = deque()
        self._thread: threading.Thread | None = None
        self._process: _CompileProcess | None = None
        self._is_closed = False
        self._owner_pid = os.getpid()

    @property
    def pid(self) -> int | None:
        """Process id of the compile process, if one runs."""
        process = self._process
        return None if process is None else process.pid

    def submit(self, request: CompileRequest) -> bool:
        """Accept a source to compile; return False if the queue is full or closed."""
        with self._changed:
            if self._is_closed or len(self._requests) >= self._capacity:
                return False
            self._requests.append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="compile-queue", daemon=True)
                self._thread.start()
            self._changed.notify()
            return True

    def close(self) -> None:
        """End the compile process and drop the queued sources."""
        if os.getpid() != self._owner_pid:
            return  # this object is a forked copy: thread and process belong to the parent
        with self._changed:
            self._is_closed = True
            self._requests.clear()
            thread = self._thread
            if self._process is not None:
                self._process.end()
            self._changed.notify()
        if thread is not None:
            thread.join(_JOIN_S)

    def _run(self) -> None:
        while (request := self._next()) is not None:
            reply = self._compiled(request)
            if reply is not None:
                self._on_reply(reply)

    def _next(self) -> CompileRequest | None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._requests, self._linger_s)
            if self._requests:
                return self._requests.popleft()
            self._end_process()
            self._thread = None
            return None

    def _compiled(self, request: CompileRequest) -> CompileReply | None:
        """Return the reply of the compile process, or a failure if there is no reply; None if the queue was closed.

        The failure is not lasting if the machine could not start the process.
        """
        reason, is_lasting = "", True
        for _ in range(_ATTEMPTS):
            try:
                process = self._started()
                if process is None:
                    return None
                return process.ask(request, self._timeout_s)
            except (CompileProcessError, OSError) as error:
                reason, is_lasting = f"{type(error).__name__}: {error}", isinstance(error, CompileProcessError)
            with self._changed:
                self._end_process()
        if self._is_closed:
            return None
        return CompileReply(kernel_name(request.source), "failed", reason, is_lasting)

    def _started(self) -> _CompileProcess | None:
        with self._changed:
            if self._is_closed:
                return None
            if self._process is None:
                self._process = _CompileProcess(self._command, self._cwd)
            return self._process

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process.release()
            self._process = None


class _CompileProcess:
    """A running compile process. `end` may be called by any thread; all other methods by one thread only."""

    def __init__(self, command: Sequence[str], cwd: Path) -> None:
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `release`
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            # The process runs in a folder that only this user can write, so that it imports nothing from the working
            # directory of its parent.
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path},
            # In a new process group, so that an interrupt from the keyboard reaches only the parent, which ends the
            # process.
            process_group=0,
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._line = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: CompileRequest, timeout_s: float) -> CompileReply:
        """Return the reply to a request. Raises `CompileProcessError` if there is no reply in time."""
        deadline_s = time.monotonic() + timeout_s
        try:
            self._write(msgspec.json.encode(request) + b"\n", deadline_s)
            line = self._read_line(deadline_s)
        except BrokenPipeError:
            line = None
        if line is None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process that has closed a pipe usually ends
                self._process.wait(_remaining_s(deadline_s))
            code = self._process.returncode
            end = "a closed pipe" if code is None else f"its end: {code}"
            raise CompileProcessError(f"expected a reply of the compile process, was {end}{self._warnings()}")
        try:
            return msgspec.json.decode(line, type=CompileReply)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CompileProcessError(f"expected a reply of the compile process, was {line[:100]!r}") from error

    def end(self) -> None:
        """Kill the process, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        """Close the pipes."""
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                stream.close()

    def _write(self, data: bytes, deadline_s: float) -> None:
        stream: IO[bytes] | None = self._process.stdin
        assert stream is not None
        view = memoryview(data)
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_WRITE)
            while view:
                if not selector.select(_remaining_s(deadline_s)):
                    raise CompileProcessError(
                        f"expected the compile process to read a request of {len(data)} bytes in time, "
                        f"was {len(data) - len(view)} bytes"
                    )
                view = view[os.write(stream.fileno(), view) :]

    def _read_line(self, deadline_s: float) -> bytes | None:
        stream: IO[bytes] | None = self._process.stdout
        assert stream is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in self._line:
                if not selector.select(_remaining_s(deadline_s)):
                    raise CompileProcessError("expected a reply of the compile process in time, was none")
                data = os.read(stream.fileno(), _READ_BYTES)
                if not data:
                    return None
                self._line += data
        line, _, self._line = self._line.partition(b"\n")
        return line

    def _warnings(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace").strip()
        return f"; {text[-_STDERR_CHARACTERS:]}" if text else ""


def _remaining_s(deadline_s: float) -> float:
    return max(0.0, deadline_s - time.monotonic())
