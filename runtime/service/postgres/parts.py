"""Parts that all sessions of the port share, and the limit on the total size of their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from deltabook.wire.service import PostgresLine
from runtime.plan import Relation
from runtime.service.asking import Asker
from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.settings import Settings
from runtime.service.postgres.system_tables import ShownTable, SystemCatalogue
from runtime.service.results.hub import Hub

__all__ = ["HeldBytes", "PostgresCounts", "PostgresParts", "SharedCatalogue"]


class PostgresParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a runtime that the port uses."""

    hub: Hub
    """Views and their changes."""
    asker: Asker
    """Answerer of clients' questions."""
    relations: Callable[[], Sequence[Relation]]
    """Callable that returns the current relations."""
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    """Callable that runs a call on another thread."""


class PostgresCounts:
    """Counters of the port since its start. Belongs to the reactor's thread."""

    def __init__(self) -> None:
        self.sessions = self.refused_connections = self.questions = self.failed_statements = self.cancelled = 0
        self.subscribers = self.copied_rows = 0

    def line(self, connections: int, held_bytes: int) -> PostgresLine:
        """Return the current figures."""
        return PostgresLine(
            connections=connections,
            sessions=self.sessions,
            refused_connections=self.refused_connections,
            questions=self.questions,
            failed_statements=self.failed_statements,
            cancelled_statements=self.cancelled,
            subscribers=self.subscribers,
            copied_rows=self.copied_rows,
            held_bytes=held_bytes,
        )


class HeldBytes:
    """Total size in memory of the answers of all sessions, with a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.total = 0
        """Current size in bytes."""

    def take(self, size: int) -> None:
        """Add ``size`` bytes; raises `PostgresError` above the limit."""
        if self.total + size > self._most:
            raise PostgresError(
                "53200",
                f"expected answers of at most {self._most} bytes for all sessions together, was more: try later",
                hint="Open cursors and portals hold their rows until they are closed.",
            )
        self.total += size

    def give(self, size: int) -> None:
        """Release ``size`` bytes."""
        self.total -= size


class SharedCatalogue:
    """Cache of the `SystemCatalogue`, which is rebuilt after relations or views were added or dropped."""

    def __init__(self, parts: PostgresParts) -> None:
        self._parts = parts
        self._key: tuple[Any, ...] | None = None
        self._made = SystemCatalogue((), {})

    def now(self) -> SystemCatalogue:
        """Return the current catalogue; on the reactor's thread."""
        hub, relations = self._parts.hub, tuple(self._parts.relations())
        views = tuple((view, hub.result(view.name).columns) for view in hub.views)
        if (relations, views) != self._key:
            taken = {relation.name for relation in relations}
            shown = [ShownTable(relation.name, relation.columns, "r") for relation in relations]
            shown += [ShownTable(view.name, tuple(columns), "v", view.sql or "") for view, columns in views
                      if view.name not in taken]  # fmt: skip
            self._key, self._made = (relations, views), SystemCatalogue(shown, Settings("deltabook").all())
        return self._made
