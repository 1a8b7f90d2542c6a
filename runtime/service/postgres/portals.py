"""Tables of the prepared statements and portals of one session, by name, with their limits.

A prepared statement is a statement with the types of its parameters, named by Parse or by PREPARE. A portal is a
prepared statement with its values, and its rows once it has run; a cursor is a portal that SQL has named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.service.postgres.answers import Cursor
from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.parts import HeldBytes
from runtime.service.postgres.statements import Question, Statement, question_of

__all__ = ["Portal", "PortalTable", "Prepared", "PreparedTable"]

_MOST_PREPARED: Final = 1_000
_PREPARED_BYTES: Final = 4 * 1024 * 1024
_MOST_PORTALS: Final = 100


class Prepared:
    """A statement and the types of its parameters."""

    def __init__(self, statement: Statement | None, oids: list[int], size: int) -> None:
        """``size`` is the number of characters of its text, which the session's limit counts."""
        self.statement, self.oids, self.size = statement, oids, size
        question = question_of(statement)
        self.oids += [0] * ((question.parameters if question is not None else 0) - len(oids))
        self.is_inferred = False
        """True once the types of parameters without one have been inferred."""
        self.described: tuple[tuple[str, str], ...] | None = None
        """Names and types of the columns that Describe reported."""


class Portal:
    """A prepared statement with its values."""

    def __init__(self, prepared: Prepared, values: Sequence[str], formats: Sequence[int]) -> None:
        self.prepared, self.values, self.formats = prepared, values, formats
        self.cursor: Cursor | None = None
        """Its rows; None before it has run."""
        self.outlives = False
        """True for a cursor WITH HOLD."""
        self.is_done = False
        """True once a command without rows has run."""

    @property
    def question(self) -> Question | None:
        """Its SELECT; None for a command."""
        statement = self.prepared.statement
        return statement if isinstance(statement, Question) else None


class PreparedTable:
    """Prepared statements by name; the unnamed one has the name ``""``."""

    def __init__(self) -> None:
        self._prepared: dict[str, Prepared] = {}
        self._bytes = 0

    def add(self, name: str, prepared: Prepared) -> None:
        """Add a statement; the unnamed one is replaced. Raises `PostgresError`."""
        if name and name in self._prepared:
            raise PostgresError("42P05", f"expected a new name for a prepared statement, was {name[:80]!r}")
        self._drop(name)
        if len(self._prepared) >= _MOST_PREPARED or self._bytes + prepared.size > _PREPARED_BYTES:
            raise PostgresError("53400", f"expected at most {_MOST_PREPARED} prepared statements of {_PREPARED_BYTES} "
                                "characters, was more: DEALLOCATE some")  # fmt: skip
        self._prepared[name] = prepared
        self._bytes += prepared.size

    def find(self, name: str) -> Prepared:
        """Return the statement of this name; raises `PostgresError`."""
        if name not in self._prepared:
            raise PostgresError("26000", f"expected a prepared statement, was {name[:80]!r}")
        return self._prepared[name]

    def close(self, name: str) -> None:
        """Remove a statement if it exists."""
        self._drop(name)

    def deallocate(self, name: str | None) -> str:
        """Remove a statement, or all for None; returns the command's tag and raises `PostgresError`."""
        if name is None:
            self._prepared.clear()
            self._bytes = 0
            return "DEALLOCATE ALL"
        self.find(name)
        self._drop(name)
        return "DEALLOCATE"

    def _drop(self, name: str) -> None:
        prepared = self._prepared.pop(name, None)
        if prepared is not None:
            self._bytes -= prepared.size


class PortalTable:
    """Portals and cursors by name; their rows count towards the bytes that all sessions hold."""

    def __init__(self, held_bytes: HeldBytes) -> None:
        self._held_bytes = held_bytes
        self._portals: dict[str, Portal] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._portals

    def check_new(self, name: str, kind: str) -> None:
        """Raise `PostgresError` for a name that is taken; the unnamed portal is replaced."""
        if name and name in self._portals:
            raise PostgresError("42P03", f"expected a new name for a {kind}, was {name[:80]!r}")

    def add(self, name: str, portal: Portal) -> None:
        """Add a portal; raises `PostgresError`."""
        self.close(name)
        if len(self._portals) >= _MOST_PORTALS:
            raise PostgresError("53400", f"expected at most {_MOST_PORTALS} portals and cursors, was one more")
        self._portals[name] = portal

    def fill(self, portal: Portal, cursor: Cursor) -> None:
        """Give a portal its rows; raises `PostgresError` if all sessions hold too many."""
        self._held_bytes.take(cursor.rows.nbytes)
        portal.cursor = cursor
        if portal not in self._portals.values():  # the connection was lost meanwhile
            self._held_bytes.give(cursor.rows.nbytes)

    def find(self, name: str) -> Portal:
        """Return the portal of this name; raises `PostgresError`."""
        if name not in self._portals:
            raise PostgresError("34000", f"expected a portal, was {name[:80]!r}")
        return self._portals[name]

    def cursor(self, name: str) -> Cursor:
        """Return the rows of a cursor; raises `PostgresError`."""
        portal = self._portals.get(name)
        if portal is None or portal.cursor is None:
            raise PostgresError("34000", f"expected a cursor, was {name[:80]!r}")
        return portal.cursor

    def close(self, name: str) -> None:
        """Remove a portal if it exists, with its rows."""
        portal = self._portals.pop(name, None)
        if portal is not None and portal.cursor is not None:
            self._held_bytes.give(portal.cursor.rows.nbytes)

    def close_cursor(self, name: str | None) -> str:
        """Remove a cursor, or all for None; returns the command's tag and raises `PostgresError`."""
        if name is None:
            for each in [each for each, portal in self._portals.items() if portal.cursor is not None]:
                self.close(each)
            return "CLOSE CURSOR ALL"
        self.cursor(name)
        self.close(name)
        return "CLOSE CURSOR"

    def clear(self, *, keeps_held_cursors: bool) -> None:
        """Remove all portals; with ``keeps_held_cursors`` all but the cursors WITH HOLD."""
        for name in [name for name, portal in self._portals.items() if not (keeps_held_cursors and portal.outlives)]:
            self.close(name)
