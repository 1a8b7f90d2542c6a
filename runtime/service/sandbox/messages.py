"""Messages between a runtime and the processes in which questions run, and their framing.

```
Worker ◀─Started── process
       ──Asked──▶                               the question
       ◀─Checked──                              the relations and views that it reads
       ──Given, an Arrow stream for each table──▶
       ◀─Answered, an Arrow stream, Ended──     its rows
```

A process that cannot continue may reply with `Refused` in place of any of its messages except the first. The worker may
send another `AskedQuestion` in place of `Given`. A message is its length followed by msgpack; rows are Arrow's IPC
streams, in batches.
"""

from __future__ import annotations

import select
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final, Literal

import msgspec
import pyarrow as pa

from deltabook.wire.service import AnsweredColumn
from runtime.plan import Column
from runtime.service.sandbox.question import CheckedQuestion

__all__ = [
    "AnswerRows",
    "Answered",
    "AskedQuestion",
    "Beside",
    "Checked",
    "Ended",
    "Given",
    "GivenTable",
    "Refused",
    "Started",
    "arrow_stream",
    "is_readable",
    "receive",
    "send",
]

_LENGTH_BYTES: Final = 4
"""Size in bytes of the length before a message."""
_MOST_BYTES: Final = 64 * 1024 * 1024
"""Greatest size of a message in bytes; one message has the names of all columns of an answer."""


class Beside(msgspec.Struct, frozen=True, eq=False):
    """Tables and functions of the runtime that a question may name in addition to relations and views."""

    tables: Mapping[str, pa.Table] = {}
    """Table name → rows."""
    macros: Sequence[str] = ()
    """Statements that create functions."""


class AnswerRows(msgspec.Struct, frozen=True, eq=False):
    """Rows of an answer."""

    columns: tuple[AnsweredColumn, ...]
    """Names of the columns, and their types in DuckDB."""
    table: pa.Table
    """All rows."""


class Started(msgspec.Struct, frozen=True, tag=True):
    """First message of a process, which then waits for its first question."""


class AskedQuestion(msgspec.Struct, frozen=True, tag=True):
    """Question to be checked."""

    number: int
    """Number of the question in this process, ascending from 1; an interrupt contains this number."""
    sql: str
    epoch: int | None = None
    """Epoch of the request; the text may name an epoch, too."""


class Checked(msgspec.Struct, frozen=True, tag=True):
    """Question that has passed the check."""

    question: CheckedQuestion
    epoch: int | None
    """Epoch of the request or of the text; None for the newest epoch."""


class GivenTable(msgspec.Struct, frozen=True):
    """Table that a question reads."""

    name: str
    columns: tuple[Column, ...] = ()
    """Columns of a relation or a view; a table without columns here is read unchanged."""


class Given(msgspec.Struct, frozen=True, tag=True):
    """Request to answer the checked question."""

    tables: tuple[GivenTable, ...]
    """Tables whose streams follow, in this order."""
    time_us: int | None = None
    """Time of the epoch, in microseconds since 1970; None if the epoch has none."""
    macros: tuple[str, ...] = ()
    """Statements that create functions."""
    most_rows: int | None = None
    """Greatest number of rows; None for `AskLimits.answer_rows`."""
    describes: bool = False
    """True for an answer that has columns and no rows."""
    explains: bool = False
    """True for an answer with the lines of DuckDB's plan."""


class Answered(msgspec.Struct, frozen=True, tag=True):
    """Beginning of an answer, which is followed by the stream of its rows and by `Ended`."""

    columns: tuple[AnsweredColumn, ...]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Error of a question."""

    kind: Literal["ask", "costly", "sql"]
    """Kind of the error: `AskError`, `CostlyError` or `SqlError`."""
    reason: str
    file: str = ""
    line: int = 0
    column: int = 0
    is_spent: bool = False
    """True if the process must not be used for another question."""


class Ended(msgspec.Struct, frozen=True, tag=True):
    """End of an answer."""

    refused: Refused | None = None
    """Error that has ended the stream early, so that its rows must not be used; None for a complete stream."""
    is_spent: bool = False
    """True if the process must not be used for another question, as it has not returned the memory of this question."""


def send(stream: BinaryIO, message: msgspec.Struct) -> None:
    """Write a message and flush the stream; raises `ValueError` for a message that is too long."""
    data = msgspec.msgpack.encode(message)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"expected a message of at most {_MOST_BYTES} bytes, was one of {len(data)}")
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    stream.flush()


def receive(stream: BinaryIO, kind: Any) -> Any:
    """Return the next message; ``kind`` is the type of the message, or a union of types.

    Raises `EOFError` at the end of the stream, `ValueError` and `msgspec.DecodeError` for anything else.
    """
    length = int.from_bytes(_exactly(stream, _LENGTH_BYTES), "big")
    if length > _MOST_BYTES:
        raise ValueError(f"expected a message of at most {_MOST_BYTES} bytes, was one of {length}")
    return msgspec.msgpack.decode(_exactly(stream, length), type=kind)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def is_readable(descriptor: int, wait_s: float | None) -> bool:
    """Return True if bytes or the end can be read within ``wait_s`` seconds; None waits without a limit."""
    poll = select.poll()  # poll, because select fails for descriptors from 1,024 on
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if wait_s is None else wait_s * 1000))


class _BoundedReader:
    """File for Arrow that refuses to read more than a number of bytes, before memory for them is allocated."""

    closed = False

    def __init__(self, stream: BinaryIO, most_bytes: int) -> None:
        self._stream = stream
        self._most_bytes = self._left_bytes = most_bytes

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, fewer at the end; raises `ValueError` if ``size`` exceeds what is left of the
        limit."""
        if not 0 <= size <= self._left_bytes:
            raise ValueError(f"expected a stream of at most {self._most_bytes} bytes, was a longer one")
        self._left_bytes -= size
        return self._stream.read(size)

    def close(self) -> None:
        """Leave the stream open, because further messages follow."""


def arrow_stream(stream: BinaryIO, most_bytes: int) -> Any:
    """Return a reader of the Arrow stream that begins here; the reader raises an error beyond ``most_bytes``."""
    return pa.ipc.open_stream(pa.PythonFile(_BoundedReader(stream, most_bytes), "r"))
