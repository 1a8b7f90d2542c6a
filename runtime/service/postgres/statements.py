"""Statements of a session, one record for each kind."""

from __future__ import annotations

from typing import Literal

import msgspec

from runtime.service.postgres.tokens import Token

__all__ = [
    "Begin",
    "Close",
    "CopyOptions",
    "CopyQuestion",
    "CopySubscription",
    "Deallocate",
    "Declare",
    "Discard",
    "End",
    "Execute",
    "Fetch",
    "Ignored",
    "Prepare",
    "Question",
    "Reset",
    "Savepoint",
    "Set",
    "Show",
    "Statement",
    "question_of",
]


class Question(msgspec.Struct, frozen=True):
    """A SELECT, or a text that DuckDB will refuse."""

    sql: str
    begin: int
    """Offset of the question in the client's text."""
    places: tuple[Token, ...] = ()
    """Parameters in ``sql``."""
    epoch: int | None = None
    """Epoch of a trailing AS OF EPOCH, which is removed from ``sql``."""
    explains: bool = False
    """True for EXPLAIN: the answer is the plan of ``sql``."""
    call: int | None = None
    """Offset of the EXECUTE that asks it, where all of its errors are reported; None if ``sql`` was sent itself."""

    @property
    def parameters(self) -> int:
        """Highest number of a parameter."""
        return max((int(token.text[1:]) for token in self.places), default=0)


class Begin(msgspec.Struct, frozen=True):
    """BEGIN, START TRANSACTION."""

    tag: str
    begin: int
    writes: bool
    """True for READ WRITE."""


class End(msgspec.Struct, frozen=True):
    """COMMIT or ROLLBACK."""

    commits: bool


class Savepoint(msgspec.Struct, frozen=True):
    """SAVEPOINT, RELEASE, ROLLBACK TO."""

    kind: Literal["SAVEPOINT", "RELEASE", "ROLLBACK"]
    name: str


class Set(msgspec.Struct, frozen=True):
    """SET name TO value; with the value None, to its default."""

    name: str
    value: str | None
    is_local: bool
    begin: int


class Show(msgspec.Struct, frozen=True):
    """SHOW name, SHOW ALL."""

    name: str


class Reset(msgspec.Struct, frozen=True):
    """RESET name, RESET ALL."""

    name: str


class Discard(msgspec.Struct, frozen=True):
    """DISCARD ALL, PLANS, SEQUENCES, TEMP."""

    what: str


class Prepare(msgspec.Struct, frozen=True):
    """PREPARE name (types) AS question."""

    name: str
    oids: tuple[int, ...]
    """Types of the first parameters."""
    question: Question


class Execute(msgspec.Struct, frozen=True):
    """EXECUTE name (values)."""

    name: str
    values: tuple[str, ...]
    """SQL of the constants."""
    begin: int


class Deallocate(msgspec.Struct, frozen=True):
    """DEALLOCATE name, or all with the name None."""

    name: str | None


class Declare(msgspec.Struct, frozen=True):
    """DECLARE name CURSOR FOR question."""

    name: str
    question: Question
    is_binary: bool
    outlives: bool
    """True for WITH HOLD."""


class Fetch(msgspec.Struct, frozen=True):
    """FETCH, and MOVE, which shows no rows."""

    cursor: str
    direction: Literal["FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE"]
    count: int | None
    """Number of rows; None for all."""
    moves: bool


class Close(msgspec.Struct, frozen=True):
    """CLOSE name, or all with the name None."""

    name: str | None


class CopyOptions(msgspec.Struct, frozen=True):
    """Format of copied rows."""

    format: Literal["text", "csv", "binary"] = "text"
    header: bool = False
    progress: bool = False
    """True for subscriptions that report epochs without a change too."""


class CopyQuestion(msgspec.Struct, frozen=True):
    """COPY (question) TO STDOUT."""

    question: Question
    options: CopyOptions


class CopySubscription(msgspec.Struct, frozen=True):
    """COPY (SUBSCRIBE view) TO STDOUT."""

    view: str
    begin: int
    """Offset of the view's name."""
    epoch: int | None
    """Newest epoch that the client has; None to start with all rows."""
    options: CopyOptions


class Ignored(msgspec.Struct, frozen=True):
    """A statement without an effect here."""

    tag: str


Statement = (
    Question | Begin | End | Savepoint | Set | Show | Reset | Discard | Prepare | Execute | Deallocate | Declare | Fetch
    | Close | CopyQuestion | CopySubscription | Ignored
)  # fmt: skip


def question_of(statement: Statement | None) -> Question | None:
    """Return the SELECT of a statement, whose parameters are the statement's; None if it has none."""
    if isinstance(statement, Question):
        return statement
    return statement.question if isinstance(statement, Declare | CopyQuestion) else None
