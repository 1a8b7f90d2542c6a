"""Statements of a session: what each kind of them asks for."""

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
    """A SELECT, or what DuckDB has to say is none."""

    sql: str
    begin: int
    """Where it begins in the text that was sent."""
    places: tuple[Token, ...] = ()
    """Where parameters stand, in ``sql``."""
    epoch: int | None = None
    """Epoch of a trailing AS OF EPOCH, which is not in ``sql`` any more."""
    explains: bool = False
    """True for EXPLAIN: the answer is the plan of ``sql``."""
    call: int | None = None
    """Offset of the EXECUTE that asks it, where all of its errors are reported; None if ``sql`` was sent itself."""

    @property
    def parameters(self) -> int:
        """The highest number of a parameter."""
        return max((int(token.text[1:]) for token in self.places), default=0)


class Begin(msgspec.Struct, frozen=True):
    """BEGIN, START TRANSACTION."""

    tag: str
    begin: int
    writes: bool
    """Whether it asks for READ WRITE."""


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
    """SQL of constants."""
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
    """WITH HOLD."""


class Fetch(msgspec.Struct, frozen=True):
    """FETCH, and MOVE, which shows no rows."""

    cursor: str
    direction: Literal["FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE"]
    count: int | None
    """None: all."""
    moves: bool


class Close(msgspec.Struct, frozen=True):
    """CLOSE name, or all with the name None."""

    name: str | None


class CopyOptions(msgspec.Struct, frozen=True):
    """How copied rows are written."""

    format: Literal["text", "csv", "binary"] = "text"
    header: bool = False
    progress: bool = False
    """Subscriptions: whether epochs without a change are told too."""


class CopyQuestion(msgspec.Struct, frozen=True):
    """COPY (question) TO STDOUT."""

    question: Question
    options: CopyOptions


class CopySubscription(msgspec.Struct, frozen=True):
    """COPY (SUBSCRIBE view) TO STDOUT."""

    view: str
    begin: int
    """Where the view's name stands."""
    epoch: int | None
    """The newest epoch that is known already; None: it begins with the rows that there are."""
    options: CopyOptions


class Ignored(msgspec.Struct, frozen=True):
    """A statement that needs nothing to be done."""

    tag: str


Statement = (
    Question | Begin | End | Savepoint | Set | Show | Reset | Discard | Prepare | Execute | Deallocate | Declare | Fetch
    | Close | CopyQuestion | CopySubscription | Ignored
)  # fmt: skip


def question_of(statement: Statement | None) -> Question | None:
    """The SELECT of a statement, whose parameters are the statement's; None if it has none."""
    if isinstance(statement, Question):
        return statement
    return statement.question if isinstance(statement, Declare | CopyQuestion) else None
