"""What all sessions of the port share, and what they may hold together."""

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
    """What the port answers from."""

    hub: Hub
    """Views and their changes."""
    asker: Asker
    """Answers questions."""
    relations: Callable[[], Sequence[Relation]]
    """Those that there are."""
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    """Runs a call on another thread."""


class PostgresCounts:
    """Figures of the port since its start; on the reactor's thread."""

    def __init__(self) -> None:
        self.sessions = self.refused_connections = self.questions = self.failed_statements = self.cancelled = 0
        self.subscribers = self.copied_rows = 0

    def line(self, connections: int, held_bytes: int) -> PostgresLine:
        """Of the moment."""
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
    """The answers of all sessions, as they lie in memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.total = 0
        """Now."""

    def take(self, size: int) -> None:
        """Hold so many more; raises `PostgresError`."""
        if self.total + size > self._most:
            raise PostgresError(
                "53200",
                f"expected answers of at most {self._most} bytes for all sessions together, was more: try later",
                hint="Open cursors and portals hold their rows until they are closed.",
            )
        self.total += size

    def give(self, size: int) -> None:
        """Hold so many less."""
        self.total -= size


class SharedCatalogue:
    """The catalogue's tables as of now; made anew when relations or views have come or gone."""

    def __init__(self, parts: PostgresParts) -> None:
        self._parts = parts
        self._key: tuple[Any, ...] | None = None
        self._made = SystemCatalogue((), {})

    def now(self) -> SystemCatalogue:
        """On the reactor's thread."""
        hub, relations = self._parts.hub, tuple(self._parts.relations())
        views = tuple((view, hub.result(view.name).columns) for view in hub.views)
        if (relations, views) != self._key:
            taken = {relation.name for relation in relations}
            shown = [ShownTable(relation.name, relation.columns, "r") for relation in relations]
            shown += [ShownTable(view.name, tuple(columns), "v", view.sql or "") for view, columns in views
                      if view.name not in taken]  # fmt: skip
            self._key, self._made = (relations, views), SystemCatalogue(shown, Settings("deltabook").all())
        return self._made
