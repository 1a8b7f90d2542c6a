"""Prepared statements and portals of one session, by name and with limits, and the rows of portals.

A prepared statement is a statement with the types of its parameters; Parse or PREPARE names it. A portal is a prepared
statement with values for its parameters. Once a portal has run, it also has rows (the complete answer at one version,
in memory) and a position in these rows. A cursor is a portal that SQL has named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakSet

import pyarrow as pa

from deltabook.wire.service import AnsweredColumn
from runtime.service.postgres.encoding import binary_values, combined, data_rows, text_values
from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.messages import Field
from runtime.service.postgres.parts import HeldBytes
from runtime.service.postgres.statements import Fetch, Question, Statement, question_of
from runtime.service.postgres.types import ResultType, result_field, result_type
from runtime.service.sandbox import AnswerRows

__all__ = ["Cursor", "Portal", "PortalTable", "Prepared", "PreparedTable", "ShownRows"]

_MOST_PREPARED: Final = 1_000
"""Greatest number of prepared statements."""
_PREPARED_BYTES: Final = 4 * 1024 * 1024
"""Greatest total length of prepared statements, in characters."""
_MOST_PORTALS: Final = 100
"""Greatest number of portals and cursors."""


class Prepared:
    """Statement with the types of its parameters."""

    def __init__(self, statement: Statement | None, oids: list[int], size: int) -> None:
        """Prepare a statement; ``size`` is the number of characters of its text, which the session's limit counts."""
        self.statement, self.oids, self.size = statement, oids, size
        question = question_of(statement)
        self.oids += [0] * ((question.parameters if question is not None else 0) - len(oids))
        self.is_inferred = False
        """True once types have been inferred for the parameters without one."""
        self.described: tuple[tuple[str, int], ...] | None = None
        """Names and OIDs of the columns that Describe reported."""


class Portal:
    """Prepared statement with values for its parameters."""

    def __init__(self, prepared: Prepared, values: Sequence[str], formats: Sequence[int]) -> None:
        self.prepared, self.values, self.formats = prepared, values, formats
        self.cursor: Cursor | None = None
        """Rows of the portal; None before it has run."""
        self.outlives = False
        """True for a cursor WITH HOLD."""
        self.is_done = False
        """True once a command without rows has run."""

    @property
    def question(self) -> Question | None:
        """SELECT of the portal; None for a command."""
        statement = self.prepared.statement
        return statement if isinstance(statement, Question) else None


class PreparedTable:
    """Prepared statements by name; the unnamed one has the name ``""``."""

    def __init__(self) -> None:
        self._prepared: dict[str, Prepared] = {}
        self._bytes = 0

    def add(self, name: str, prepared: Prepared) -> None:
        """Add a statement; the unnamed one is replaced.

        Raises `PostgresError` if the name exists, or if the statements are too many or too long.
        """
        if name and name in self._prepared:
            raise PostgresError("42P05", f"expected a new name for a prepared statement, was {name[:80]!r}")
        self._drop(name)
        if len(self._prepared) >= _MOST_PREPARED or self._bytes + prepared.size > _PREPARED_BYTES:
            raise PostgresError("53400", f"expected at most {_MOST_PREPARED} prepared statements, of {_PREPARED_BYTES} "
                                "characters together, was more: DEALLOCATE some")  # fmt: skip
        self._prepared[name] = prepared
        self._bytes += prepared.size

    def find(self, name: str) -> Prepared:
        """Return the statement of this name; raises `PostgresError` if there is none."""
        if name not in self._prepared:
            raise PostgresError("26000", f"expected a prepared statement, was {name[:80]!r}")
        return self._prepared[name]

    def close(self, name: str) -> None:
        """Remove a statement if it exists."""
        self._drop(name)

    def deallocate(self, name: str | None) -> str:
        """Remove a statement, or all if ``name`` is None, and return the command's tag.

        Raises `PostgresError` for an unknown name.
        """
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
        """Add a portal; raises `PostgresError` above the limit."""
        self.close(name)
        if len(self._portals) >= _MOST_PORTALS:
            raise PostgresError("53400", f"expected at most {_MOST_PORTALS} portals and cursors, was one more")
        self._portals[name] = portal

    def fill(self, portal: Portal, cursor: Cursor) -> None:
        """Set the rows of a portal; raises `PostgresError` if all sessions hold too many bytes."""
        self._held_bytes.take(cursor.rows.nbytes)
        portal.cursor = cursor
        if portal not in self._portals.values():  # the connection was lost meanwhile
            self._held_bytes.give(cursor.rows.nbytes)

    def find(self, name: str) -> Portal:
        """Return the portal of this name; raises `PostgresError` if there is none."""
        if name not in self._portals:
            raise PostgresError("34000", f"expected a portal, was {name[:80]!r}")
        return self._portals[name]

    def cursor(self, name: str) -> Cursor:
        """Return the rows of a cursor; raises `PostgresError` if there is no cursor of this name."""
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
        """Remove a cursor, or all if ``name`` is None, and return the command's tag.

        Raises `PostgresError` for an unknown name.
        """
        if name is None:
            for each in [each for each, portal in self._portals.items() if portal.cursor is not None]:
                self.close(each)
            return "CLOSE CURSOR ALL"
        self.cursor(name)
        self.close(name)
        return "CLOSE CURSOR"

    def all(self) -> WeakSet[Portal]:
        """Return the present portals, for a savepoint."""
        return WeakSet(self._portals.values())

    def close_others(self, kept: WeakSet[Portal]) -> None:
        """Remove the portals that are not among ``kept``."""
        for name in [name for name, portal in self._portals.items() if portal not in kept]:
            self.close(name)

    def clear(self, *, keeps_held_cursors: bool) -> None:
        """Remove all portals; with ``keeps_held_cursors`` keep the cursors WITH HOLD."""
        for name in [name for name, portal in self._portals.items() if not (keeps_held_cursors and portal.outlives)]:
            self.close(name)


_CHUNK_BYTES: int = 512 * 1024
"""Approximate size in memory of the rows that are encoded together, in bytes."""
_CHUNK_ROWS: int = 32 * 1024
"""Greatest number of rows that are encoded together."""


class ShownRows:
    """Rows of an answer, with the names and types of their columns."""

    def __init__(self, rows: AnswerRows) -> None:
        self.columns: tuple[AnsweredColumn, ...] = rows.columns
        self.table = rows.table
        self.kinds: list[ResultType] = [result_type(column.type) for column in rows.columns]
        self.fields: list[Field] = [result_field(column.name, column.type) for column in rows.columns]
        self.nbytes = int(rows.table.nbytes)

    @classmethod
    def of_text(cls, names: Sequence[str], lines: Sequence[Sequence[str]]) -> ShownRows:
        """Return an answer of text columns, such as settings."""
        columns = tuple(AnsweredColumn(name, "VARCHAR") for name in names)
        arrays = [pa.array([line[place] for line in lines], pa.string()) for place in range(len(names))]
        return cls(AnswerRows(columns, pa.Table.from_arrays(arrays, names=[str(place) for place in range(len(names))])))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def chunk_rows(self) -> int:
        """Number of rows to encode together."""
        return max(1, min(_CHUNK_ROWS, _CHUNK_BYTES * max(1, len(self)) // max(1, self.nbytes)))

    def encoded(self, begin: int, end: int, formats: Sequence[int]) -> memoryview:
        """Return the rows ``[begin, end)`` as messages, each column in its format. May run on any thread."""
        part = self.table.slice(begin, end - begin)
        values = []
        for column, kind, form in zip(part.columns, self.kinds, formats, strict=True):
            array = combined(column)
            values.append(binary_values(array, kind) if form else text_values(array, kind))
        return data_rows(values, part.num_rows)


class Cursor:
    """Rows of an answer with a position.

    The position is 0 before the first row, then the number of the current row (from 1), and the number of rows plus 1
    after the last row.
    """

    def __init__(self, rows: ShownRows, formats: Sequence[int]) -> None:
        self.rows, self.formats = rows, formats
        self.at = 0

    def move(self, fetch: Fetch) -> list[range]:
        """Move the position; return the ranges of rows that FETCH shows, counted from 0, in their order."""
        count, total = fetch.count, len(self.rows)
        if fetch.direction == "ABSOLUTE":
            assert count is not None
            self.at = max(0, min(total + 1, count if count >= 0 else total + 1 + count))
            return self._here()
        if fetch.direction == "RELATIVE":
            assert count is not None
            self.at = max(0, min(total + 1, self.at + count))
            return self._here()
        steps = total + 1 if count is None else count
        if steps == 0:
            return self._here()
        forward = (fetch.direction == "FORWARD") == (steps > 0)
        steps = abs(steps)
        if forward:
            begin, end = self.at, min(self.at + steps, total)
            self.at = min(self.at + steps, total + 1)
            return [range(begin, end)] if begin < end else []
        begin, end = max(self.at - 1 - steps, 0), max(self.at - 1, 0)
        self.at = max(self.at - steps, 0)
        return [range(row, row + 1) for row in range(end - 1, begin - 1, -1)]

    def _here(self) -> list[range]:
        return [range(self.at - 1, self.at)] if 1 <= self.at <= len(self.rows) else []
