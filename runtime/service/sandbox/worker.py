"""Processes in which questions run, as objects of the runtime: their start, questions, interrupts and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import msgspec
import pyarrow as pa

from runtime.compiler import SqlError
from runtime.service.sandbox.limits import AskError, AskLimits, CostlyError
from runtime.service.sandbox.messages import (
    Answered,
    AnswerRows,
    AskedQuestion,
    Checked,
    Ended,
    Given,
    Refused,
    Started,
    arrow_stream,
    is_readable,
    receive,
    send,
)

__all__ = ["NUMBER_BYTES", "TOO_LARGE", "Cancellation", "QuestionWorkers", "Worker"]

NUMBER_BYTES: Final = 8
"""Size in bytes of the number of a question on the pipe of interrupts."""
TOO_LARGE: Final = 77
"""Exit code of a process that has grown too much, if the system does not limit the address space."""
_KEPT_VARIABLES: Final = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "TZ")
"""Variables of the environment that the process gets. It gets no other variables, because these may be secret."""
_POLL_S: Final = 0.05
"""Interval in seconds between two checks while a process starts."""
_EXIT_S: Final = 1.0
"""Time in seconds within which a process whose pipes are broken should have ended."""
_STDERR_CHARACTERS: Final = 300
"""Number of the last characters of a process's standard error that a message quotes."""
_SLACK: Final = 2
"""Greatest factor between the size of an answer's stream, which has padding, and the answer's size in memory."""
_SLACK_BYTES: Final = 1024 * 1024
"""Number of bytes that a stream may have above `_SLACK` times the answer's size, for its metadata."""


class Worker:
    """Process for questions.

    Each question is one call of `check`, followed by one call of `answer`. Other threads may interrupt the question and
    kill the process.
    """

    def __init__(self, limits: AskLimits, *, limits_addresses: bool = sys.platform == "linux") -> None:
        """Start the process, see `await_start`.

        With ``limits_addresses`` the system limits the process's address space, otherwise the process watches its
        memory itself. Raises `AskError` if the process cannot be started.
        """
        self._limits = limits
        self._lock = threading.Lock()  # guards the pipe of interrupts, which must not be closed during an interrupt
        self._number = 0
        self._is_ready = True
        self._is_started = self._is_killed = self._is_closed = False
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        except OSError as error:
            raise AskError(f"expected a temporary file for the question, was {error}") from None
        try:
            interrupts, self._interrupts = os.pipe()
        except OSError as error:
            self._stderr.close()
            raise AskError(f"expected a pipe for the question, was {error}") from None
        os.set_blocking(self._interrupts, False)
        arguments = (str(interrupts), "addresses" if limits_addresses else "memory", msgspec.json.encode(limits))
        try:
            self._process = subprocess.Popen(
                (sys.executable, "-P", "-m", "runtime.service.sandbox.process", *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                cwd="/",
                env=_environ(os.environ),
                pass_fds=(interrupts,),
                # An interrupt from the keyboard then reaches only the runtime, which ends the process.
                process_group=0,
            )
        except OSError as error:
            os.close(self._interrupts)
            self._stderr.close()
            raise AskError(f"expected a process for the question, was {error}") from None
        finally:
            os.close(interrupts)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._replies: BinaryIO = self._process.stdout  # type: ignore[assignment]

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """True if the process runs and waits for a question."""
        return self._is_ready and not self._is_killed and self._process.poll() is None

    def await_start(self, check: Callable[[], None] = lambda: None) -> None:
        """Wait until the process accepts questions; ``check`` is called while this waits, and may raise an error.

        After such an error the process continues to start and can be used later. Thus even on a machine where the start
        takes longer than the timeout of a question, later questions are answered.
        """
        while not self._is_started:
            if is_readable(self._replies.fileno(), _POLL_S):
                with self._conversing():
                    self._receive(Started)
                self._is_started = True
            else:
                check()

    def check(self, sql: str, epoch: int | None) -> Checked:
        """Return the checked question; raises the errors of `answer`."""
        with self._lock:
            self._number += 1
        with self._conversing():
            self._send(AskedQuestion(self._number, sql, epoch))
            return self._receive(Checked | Refused)  # type: ignore[no-any-return]

    def answer(self, given: Given, tables: Sequence[tuple[pa.Schema, Iterator[pa.RecordBatch]]]) -> AnswerRows:
        """Return the answer to the checked question.

        Raises the errors of `Sandbox.answer`, and `AskError` also if the process ends. ``tables`` are the rows of the
        tables in ``given``; errors of their iterators are raised, too.
        """
        with self._conversing():
            with suppress(BrokenPipeError):  # the process has then replied with the reason, or has ended
                self._send(given)
                for schema, batches in tables:
                    with pa.ipc.new_stream(pa.PythonFile(self._requests, "w"), schema) as writer:
                        for batch in batches:
                            writer.write_batch(batch)
                self._requests.flush()
            answered: Answered = self._receive(Answered | Refused)
            most_bytes = _SLACK * self._limits.answer_bytes + _SLACK_BYTES
            with arrow_stream(self._replies, most_bytes) as reader:
                table = reader.read_all()
            self._receive(Ended | Refused)
            return AnswerRows(answered.columns, table)

    def interrupt(self) -> None:
        """Interrupt the question that was sent last, whether it runs or has not begun yet."""
        with self._lock, suppress(OSError):
            if not self._is_closed:
                os.write(self._interrupts, self._number.to_bytes(NUMBER_BYTES, "big"))

    def kill(self) -> None:
        """Kill the process; the thread that waits for it gets an error."""
        self._is_killed = True
        self._process.kill()

    def end(self) -> None:
        """End the process and release its resources; no other thread may wait for the process."""
        self._process.kill()
        self._process.wait()
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._interrupts)
        for stream in (self._requests, self._replies, self._stderr):
            with suppress(OSError):  # bytes that are not written yet have no reader
                stream.close()

    @contextmanager
    def _conversing(self) -> Iterator[None]:
        """Mark the process as not ready within the ``with`` statement, and end it after an error of its pipes."""
        self._is_ready = False
        try:
            yield
        except SqlError:  # a SqlError is a ValueError
            raise
        except (EOFError, OSError, ValueError, pa.ArrowException, msgspec.MsgspecError) as error:
            self._raise_end(error)

    def _send(self, message: AskedQuestion | Given) -> None:
        send(self._requests, message)

    def _receive(self, kind: Any) -> Any:
        """Return the next message; raises the error of a refusal."""
        message = receive(self._replies, kind)
        refused = message.refused if isinstance(message, Ended) else message
        is_spent = any(part.is_spent for part in (message, refused) if isinstance(part, Ended | Refused))
        self._is_ready = not isinstance(message, Answered) and not is_spent
        if not isinstance(refused, Refused):
            return message
        if refused.kind == "sql":
            raise SqlError(refused.reason, file=refused.file, line=refused.line, column=refused.column)
        raise (CostlyError if refused.kind == "costly" else AskError)(refused.reason)

    def _raise_end(self, error: Exception) -> NoReturn:
        """Raise the reason why the process has ended; a process that has sent invalid messages is ended first."""
        try:
            code = self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AskError(f"expected an answer from the question's process, was {error}") from None
        if code == TOO_LARGE:
            raise self._limits.growth_error()
        if code < 0:
            raise CostlyError(
                f"expected an answer from the question's process, was its end by {signal.Signals(-code).name}: "
                "it may need too much memory"
            )
        self._stderr.seek(0)
        text = " ".join(self._stderr.read().decode(errors="replace").split())[-_STDERR_CHARACTERS:]
        raise AskError(f"expected an answer from the question's process, was its end with code {code}: {text}")


class Cancellation:
    """Cancellation of a question, from any thread; the question ends at its next check, or with its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""
        self._worker: Worker | None = None

    def __bool__(self) -> bool:
        return bool(self._reason)

    def stop(self, reason: str) -> None:
        """Cancel the question, and interrupt it if it runs."""
        with self._lock:
            self._reason = self._reason or reason
            if self._worker is not None:
                self._worker.interrupt()

    def kill(self) -> None:
        """Kill the process that works on the question, if there is one; called after `stop`."""
        with self._lock:
            if self._worker is not None:
                self._worker.kill()

    def check(self) -> None:
        """Raise `CostlyError` if the question is cancelled."""
        if self._reason:
            raise CostlyError(self._reason)

    @contextmanager
    def stopping(self, worker: Worker) -> Iterator[None]:
        """Let `stop` and `kill` reach a worker within the ``with`` statement.

        If the question is cancelled, the reason is raised in place of the worker's errors.
        """
        with self._lock:
            self._worker = worker
        try:
            self.check()
            yield
        except (AskError, SqlError):
            self.check()
            raise
        finally:
            with self._lock:
                self._worker = None


class QuestionWorkers:
    """Pool of processes, which are started when they are needed and then reused. May be called from any thread.

    The owner bounds the number of processes that are taken at a time, and thereby the total number of processes.
    """

    def __init__(self, limits: AskLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._taken: set[Worker] = set()
        self._is_closed = False

    def take(self) -> Worker:
        """Return a process that waits for a question; raises `AskError` if none can be started."""
        with self._lock:
            while self._idle and not self._is_closed:
                worker = self._idle.pop()
                if worker.is_ready:
                    self._taken.add(worker)
                    return worker
                worker.end()
        return self._started(self._taken.add)

    def give(self, worker: Worker) -> None:
        """Return a process to the pool; a process that cannot be used again is replaced.

        The next question then need not wait for the start of a process.
        """
        with self._lock:
            self._taken.discard(worker)
            if worker.is_ready and not self._is_closed:
                self._idle.append(worker)
                return
        worker.end()
        with suppress(AskError):
            self._started(self._idle.append)

    def close(self) -> None:
        """Kill all processes; the questions of processes that are taken end with an error."""
        with self._lock:
            self._is_closed = True
            for worker in self._taken:
                worker.kill()
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _started(self, put: Callable[[Worker], None]) -> Worker:
        """Start a process and ``put`` it into the pool; raises `AskError` if the process cannot be started, or after
        `close`.

        The lock is not held during the start, because `close` may wait for the lock on the reactor's thread.
        """
        worker = Worker(self._limits)
        with self._lock:
            if not self._is_closed:
                put(worker)
                return worker
        worker.end()
        raise CostlyError("the runtime stops")


def _environ(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process, selected from that of the runtime."""
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join(part for part in (root, own.get("PYTHONPATH", "")) if part)
    # Arrow's and the C library's own pools reserve addresses without using them; the limit would count these addresses.
    pools = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    kept = {name: own[name] for name in _KEPT_VARIABLES if name in own}
    return {**kept, "PYTHONPATH": path, **pools}
