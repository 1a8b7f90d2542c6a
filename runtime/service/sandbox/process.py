"""Process in which questions run one after another, each question in its own database.

```
python -m runtime.service.sandbox.process INTERRUPTS addresses|memory LIMITS
```

Questions arrive on standard input, and answers are written to standard output (`runtime.service.sandbox.messages`).
The numbers of questions to interrupt arrive on the file descriptor ``INTERRUPTS``. The process ends at the end of
standard input or of ``INTERRUPTS``. The second argument is ``addresses`` if the system limits the address space, and
``memory`` if the process has to watch its memory itself. ``LIMITS`` are `AskLimits` in JSON.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import pyarrow as pa

from runtime.compiler import SqlError
from runtime.service.sandbox.database import Answer, Sandbox
from runtime.service.sandbox.limits import AskError, AskLimits, CostlyError
from runtime.service.sandbox.messages import (
    Answered,
    AskedQuestion,
    Checked,
    Ended,
    Given,
    GivenTable,
    Refused,
    Started,
    arrow_stream,
    is_readable,
    receive,
    send,
)
from runtime.service.sandbox.question import checked, with_epoch
from runtime.service.sandbox.worker import NUMBER_BYTES, TOO_LARGE

__all__ = ["main"]

_INTERRUPT_S: Final = 0.05
"""Interval in seconds at which a question is interrupted again, and the memory is checked."""
_LATE_S: Final = 5.0
"""Time in seconds after the deadline of a question at which the process ends itself, if the runtime has not ended the
process before."""
_MOST_FILE_BYTES: Final = 64 * 1024
"""Greatest size in bytes of a file that the process can write: its standard error."""
_OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
_SPENT: Final = 1 / 8
"""Fraction of `AskLimits.growth_bytes` above which a process is replaced after a question."""


class _Interrupts:
    """Thread that interrupts the running question, and ends the process when its runtime has ended.

    DuckDB discards an interrupt that arrives before the question runs. Therefore a question is interrupted repeatedly
    until it ends.
    """

    def __init__(self, pipe: int, most_bytes: int | None) -> None:
        """Start the thread; ``most_bytes`` is the memory at which the process ends, None if the system limits it."""
        self._pipe, self._most_bytes = pipe, most_bytes
        self._lock = threading.Lock()  # guards the sandbox, which must not be closed during an interrupt
        self._sandbox: Sandbox | None = None
        self._number = 1
        self._cancelled = 0
        threading.Thread(target=self._run, name="interrupts", daemon=True).start()

    def set(self, number: int, sandbox: Sandbox | None) -> None:
        """Set the number of the current or next question, and the sandbox of a running question, None if none runs."""
        with self._lock:
            self._number, self._sandbox = number, sandbox

    def _run(self) -> None:
        while True:
            is_polling = self._cancelled >= self._number or self._most_bytes is not None
            if is_readable(self._pipe, _INTERRUPT_S if is_polling else None):
                number = os.read(self._pipe, NUMBER_BYTES)
                if not number:
                    os._exit(0)  # even if the question cannot be interrupted
                self._cancelled = int.from_bytes(number, "big")
            if self._most_bytes is not None and _memory_bytes() > self._most_bytes:
                os._exit(TOO_LARGE)
            with self._lock:
                if self._sandbox is not None and self._cancelled == self._number:
                    self._sandbox.connection.interrupt()


class _Questions:
    """Questions of a process. Belongs to the process's main thread."""

    def __init__(
        self, requests: BinaryIO, replies: BinaryIO, interrupts: _Interrupts, limits: AskLimits, begin_bytes: int
    ) -> None:
        """Open a sandbox; ``begin_bytes`` is the memory of the process before the first question."""
        self._requests, self._replies, self._interrupts, self._limits = requests, replies, interrupts, limits
        self._begin_bytes = begin_bytes
        self._sandbox = Sandbox(limits)  # opened before there is a question, because that takes 15 ms

    def run(self) -> None:
        """Answer questions; raises `EOFError` at the end of standard input."""
        send(self._replies, Started())
        asked: AskedQuestion = receive(self._requests, AskedQuestion)
        while True:
            with self._running(asked.number):
                question = self._checked(asked)
            following: AskedQuestion | Given = receive(self._requests, AskedQuestion | Given)
            if isinstance(following, Given):
                with self._running(asked.number):
                    ended = self._answered(question, following)
                self._interrupts.set(asked.number + 1, None)
                self._sandbox.close()
                send(self._replies, msgspec.structs.replace(ended, is_spent=self._is_spent()))
                self._sandbox = Sandbox(self._limits)
                asked = receive(self._requests, AskedQuestion)
            else:
                asked = following

    def _checked(self, asked: AskedQuestion) -> str:
        """Reply to a question; return its SELECT."""
        try:
            sql, epoch = with_epoch(asked.sql, asked.epoch)
            reply = Checked(checked(sql, self._sandbox.connection), epoch)
        except (SqlError, AskError) as error:
            send(self._replies, _refused(error))
            return ""
        except MemoryError:
            send(self._replies, _refused(self._limits.growth_error()))
            return ""
        send(self._replies, reply)
        return sql

    def _answered(self, sql: str, given: Given) -> Ended | Refused:
        """Send the columns and rows of the answer; return the message to send after them."""
        try:
            tables = [arrow_stream(self._requests, self._most_bytes).read_all() for _ in given.tables]
        except MemoryError:  # the other tables are not read
            send(self._replies, msgspec.structs.replace(_refused(self._limits.growth_error()), is_spent=True))
            raise EOFError from None
        try:
            answer = self._sandbox.answer(sql, given, tables)
            send(self._replies, Answered(answer.columns))
        except (SqlError, AskError) as error:
            return _refused(error)
        except ValueError:
            most = self._limits.answer_bytes
            return _refused(CostlyError(f"expected an answer of at most {most} bytes, was one of too many columns"))
        return self._sent(answer)

    def _sent(self, answer: Answer) -> Ended:
        """Send the rows of an answer; return the message at its end."""
        with pa.ipc.new_stream(pa.PythonFile(self._replies, "w"), answer.schema) as writer:
            try:
                for batch in answer.batches:
                    writer.write_batch(batch)
            except (SqlError, AskError) as error:
                return Ended(_refused(error))
            except MemoryError:
                return Ended(_refused(self._limits.growth_error()))
        return Ended()

    @property
    def _most_bytes(self) -> int:
        """Greatest size in bytes of the stream of a table, whose rows have at most `AskLimits.read_bytes`."""
        return 2 * self._limits.read_bytes + 1024 * 1024

    @contextmanager
    def _running(self, number: int) -> Iterator[None]:
        """Allow interrupts of a question within the ``with`` statement; end the process if the question is too slow."""
        self._interrupts.set(number, self._sandbox)
        signal.setitimer(signal.ITIMER_REAL, self._limits.seconds + _LATE_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._interrupts.set(number, None)

    def _is_spent(self) -> bool:
        return _memory_bytes() - self._begin_bytes > _SPENT * self._limits.growth_bytes


def main() -> None:
    """Answer the questions of a runtime until it ends."""
    pipe, limit, limits = int(sys.argv[1]), sys.argv[2], msgspec.json.decode(sys.argv[3], type=AskLimits)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints must not be sent as an answer
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with suppress(OSError):
        _OOM_SCORE.write_text("1000")  # if memory runs out, this process ends before its runtime does
    _warm_up(limits)
    begin_bytes = _memory_bytes()
    most = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: _MOST_FILE_BYTES}
    if limit == "addresses":
        most[resource.RLIMIT_AS] = begin_bytes + limits.growth_bytes
    for kind, size in most.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))
    interrupts = _Interrupts(pipe, None if limit == "addresses" else begin_bytes + limits.growth_bytes)
    with suppress(EOFError, BrokenPipeError):
        _Questions(sys.stdin.buffer, replies, interrupts, limits, begin_bytes).run()
    os._exit(0)


def _warm_up(limits: AskLimits) -> None:
    """Answer a question, in order to load the libraries that are loaded at their first use."""
    sandbox = Sandbox(limits)
    sql = checked("SELECT now() AS a, 'x' AS b, x.* FROM x", sandbox.connection).sql
    rows = pa.Table.from_arrays([pa.nulls(1, pa.float64())], ["0"])  # Arrow imports pandas for Python values
    answer = sandbox.answer(sql, Given((GivenTable("x"),)), [rows])
    with pa.ipc.new_stream(pa.BufferOutputStream(), answer.schema) as writer:
        for batch in answer.batches:
            writer.write_batch(batch)
    sandbox.close()


def _refused(error: SqlError | AskError) -> Refused:
    if isinstance(error, SqlError):
        return Refused("sql", error.reason, error.file, error.line, error.column)
    return Refused("costly" if isinstance(error, CostlyError) else "ask", str(error))


def _memory_bytes() -> int:
    """Return the size of the address space in bytes; the peak of the memory if the system reports nothing else."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    main()
