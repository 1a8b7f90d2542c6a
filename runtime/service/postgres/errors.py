"""Errors of a session, as the PostgreSQL protocol reports them."""

from __future__ import annotations

import re
from typing import Final

from runtime.compiler import SqlError
from runtime.service.asking import TooManyError
from runtime.service.at_epochs import EpochGoneError
from runtime.service.errors import ServiceError
from runtime.service.sandbox import AskError, CostlyError

__all__ = ["FatalError", "PostgresError", "UnreadableMessageError", "explained"]

_SQLSTATES: Final = (
    (r"unknown relation or view", "42P01"),
    (r"expected a SELECT( in WITH)?, was (COPY|CREATE|DELETE|DROP|INSERT|MERGE_INTO|UPDATE)\b", "25006"),
    (r"Parser Error|expected one SELECT|expected a SELECT", "42601"),
    (r"Binder Error: (Referenced column|Values list|Table \".*\" does not have a column)", "42703"),
    (r"Binder Error: (Referenced table|Catalog)|Catalog Error: Table", "42P01"),
    (r"Catalog Error: .*(Function|Macro)|Binder Error: (No function matches|Could not choose)", "42883"),
    (r"Catalog Error: Type", "42704"),
    (r"Binder Error: Ambiguous", "42702"),
    (r"Binder Error: .*(GROUP BY|aggregate)", "42803"),
    (r"Binder Error: (Cannot mix|Cannot compare|Could not)", "42804"),
    (r"Conversion Error", "22P02"),
    (r"Out of Range Error", "22003"),
    (r"Invalid Input Error", "22023"),
    (r"Not implemented Error|Permission Error", "0A000"),
    (r"Binder Error|Catalog Error", "42000"),
    (r"expected (a relation|functions of the rows|a view)", "42501"),
)
"""Patterns at the beginning of a message, each with its SQLSTATE; the first match counts."""


class PostgresError(ServiceError):
    """A statement failed: its transaction block fails, the session continues."""

    severity: str = "ERROR"
    """Severity in the message to the client."""

    def __init__(self, sqlstate: str, message: str, *, hint: str = "", detail: str = "", position: int = 0) -> None:
        """Create an error; ``position`` is the place in the client's text, in characters from 1; 0 for no place."""
        super().__init__(message)
        self.sqlstate = sqlstate
        self.hint = hint
        self.detail = detail
        self.position = position


class FatalError(PostgresError):
    """The session must end."""

    severity = "FATAL"


class UnreadableMessageError(FatalError):
    """A message is malformed, so that the beginning of the next message is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__("08P01", message)


def explained(error: ServiceError | SqlError, sql: str = "") -> PostgresError:
    """Return the error of a question as the protocol reports it, with the error's position in ``sql``."""
    if isinstance(error, PostgresError):
        return error
    if isinstance(error, SqlError):
        sqlstate = next((state for pattern, state in _SQLSTATES if re.match(pattern, error.reason)), "XX000")
        return PostgresError(sqlstate, error.reason, position=_position(sql, error.line, error.column))
    text = str(error)
    if isinstance(error, TooManyError):
        return PostgresError("53300", text)
    if isinstance(error, EpochGoneError):
        return PostgresError("55000", text, hint="Old epochs are retired after a while; see --retain-epochs.")
    if isinstance(error, CostlyError):
        return _costly(text)
    if isinstance(error, AskError) and "Error:" in text:
        sqlstate = next((state for pattern, state in _SQLSTATES if re.match(pattern, text)), "22000")
        return PostgresError(sqlstate, text)
    return PostgresError("55000", text)


def _costly(text: str) -> PostgresError:
    if "memory" in text:
        return PostgresError("53200", text)
    if "within" in text or "waits" in text:
        return PostgresError("57014", text)
    if "rows" in text:
        return PostgresError(
            "54000", text, hint="A cursor (DECLARE) or COPY (SELECT …) TO STDOUT reads longer answers."
        )
    return PostgresError("54000", text)


def _position(sql: str, line: int, column: int) -> int:
    """Return the position, in characters from 1, of a line and a column, which also count from 1; 0 for line 0."""
    if not line:
        return 0
    begin = 0
    for _ in range(line - 1):
        begin = sql.find("\n", begin) + 1
    return min(begin + column, len(sql) + 1)
