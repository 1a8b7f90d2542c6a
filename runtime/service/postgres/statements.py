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
    """SELECT, or a text that DuckDB will refuse."""

    sql: str
    """SQL of the question."""
    begin: int
    """Offset of the question in the client's text."""
    places: tuple[Token, ...] = ()
    """Tokens of the parameters in ``sql``."""
    epoch: int | None = None
    """Epoch of a trailing AS OF EPOCH, which is removed from ``sql``."""
    explains: bool = False
    """True for EXPLAIN: the answer is the plan of ``sql``."""
    call: int | None = None
    """Offset of the EXECUTE that asks the question, at which all errors are reported; None for a question that the
    client sent as SQL."""

    @property
    def parameters(self) -> int:
        """Highest number of a parameter; 0 without parameters."""
        return max((int(token.text[1:]) for token in self.places), default=0)


class Begin(msgspec.Struct, frozen=True):
    """Statement BEGIN or START TRANSACTION."""

    tag: str
    """Tag of the command."""
    begin: int
    """Offset of the statement in the client's text."""
    writes: bool
    """True for READ WRITE."""


class End(msgspec.Struct, frozen=True):
    """Statement COMMIT or ROLLBACK."""

    commits: bool
    """True for COMMIT."""


class Savepoint(msgspec.Struct, frozen=True):
    """Statement SAVEPOINT, RELEASE or ROLLBACK TO."""

    kind: Literal["SAVEPOINT", "RELEASE", "ROLLBACK"]
    """First word of the statement."""
    name: str
    """Name of the savepoint."""


class Set(msgspec.Struct, frozen=True):
    """Statement SET name TO value; the value None stands for the default."""

    name: str
    """Name of the setting."""
    value: str | None
    """Value without quotes."""
    is_local: bool
    """True for SET LOCAL."""
    begin: int
    """Offset of the statement in the client's text."""


class Show(msgspec.Struct, frozen=True):
    """Statement SHOW name or SHOW ALL."""

    name: str


class Reset(msgspec.Struct, frozen=True):
    """Statement RESET name or RESET ALL."""

    name: str


class Discard(msgspec.Struct, frozen=True):
    """Statement DISCARD ALL, PLANS, SEQUENCES or TEMP."""

    what: str


class Prepare(msgspec.Struct, frozen=True):
    """Statement PREPARE name (types) AS question."""

    name: str
    oids: tuple[int, ...]
    """OIDs of the types of the first parameters."""
    question: Question


class Execute(msgspec.Struct, frozen=True):
    """Statement EXECUTE name (values)."""

    name: str
    values: tuple[str, ...]
    """SQL of the values, which are constants."""
    begin: int
    """Offset of the statement in the client's text."""


class Deallocate(msgspec.Struct, frozen=True):
    """Statement DEALLOCATE name; the name None stands for all."""

    name: str | None


class Declare(msgspec.Struct, frozen=True):
    """Statement DECLARE name CURSOR FOR question."""

    name: str
    """Name of the cursor."""
    question: Question
    """Question whose rows the cursor reads."""
    is_binary: bool
    """True for BINARY."""
    outlives: bool
    """True for WITH HOLD: the cursor outlives its transaction."""


class Fetch(msgspec.Struct, frozen=True):
    """Statement FETCH, or MOVE, which shows no rows."""

    cursor: str
    """Name of the cursor."""
    direction: Literal["FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE"]
    """Direction in which rows are read, or the kind of position that ``count`` is."""
    count: int | None
    """Number of rows, or position; None for all rows."""
    moves: bool
    """True for MOVE."""


class Close(msgspec.Struct, frozen=True):
    """Statement CLOSE name; the name None stands for all."""

    name: str | None


class CopyOptions(msgspec.Struct, frozen=True):
    """Format of copied rows."""

    format: Literal["text", "csv", "binary"] = "text"
    """Format of the rows."""
    header: bool = False
    """True for a first line with the names of the columns."""
    progress: bool = False
    """True for subscriptions that also report epochs without a change."""


class CopyQuestion(msgspec.Struct, frozen=True):
    """Statement COPY (question) TO STDOUT."""

    question: Question
    options: CopyOptions


class CopySubscription(msgspec.Struct, frozen=True):
    """Statement COPY (SUBSCRIBE view) TO STDOUT."""

    view: str
    begin: int
    """Offset of the view's name."""
    epoch: int | None
    """Newest epoch that the client has; None to begin with all rows."""
    options: CopyOptions


class Ignored(msgspec.Struct, frozen=True):
    """Statement without an effect here."""

    tag: str


Statement = (
    Question | Begin | End | Savepoint | Set | Show | Reset | Discard | Prepare | Execute | Deallocate | Declare | Fetch
    | Close | CopyQuestion | CopySubscription | Ignored
)  # fmt: skip


def question_of(statement: Statement | None) -> Question | None:
    """Return the SELECT of a statement, which has the statement's parameters; None for a statement without a SELECT."""
    if isinstance(statement, Question):
        return statement
    return statement.question if isinstance(statement, Declare | CopyQuestion) else None
