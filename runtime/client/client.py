"""One runtime, as a program sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal
from urllib.parse import quote

from deltabook.wire.asking import ASK_PATH, Question
from deltabook.wire.catalogue import TIMEOUT_SECONDS, AddViews, Changed, NewView
from deltabook.wire.readers import ChangedReader, NewReader, Readers, ReaderStatus
from deltabook.wire.service import STATISTICS_PATH, STATUS_PATH, VIEWS_PATH, RuntimeStatus, Statistics, ViewLine
from runtime.client.asked import Asked, asked
from runtime.client.changes import By, ChangeStream, Patience
from runtime.client.errors import NotFoundError
from runtime.client.port import ARROW, Port
from runtime.client.view import CursorPages, View

__all__ = ["Client", "connect"]

_TIMEOUT_S: Final = 30.0
_READERS_PATH: Final = "/v1/readers"


def connect(
    address: str,
    *,
    token: str = "",
    ca: str | Path | None = None,
    timeout_s: float = _TIMEOUT_S,
    patience: Patience | None = None,
) -> Client:
    """A client of the runtime whose results service is at ``HOST:PORT``; to be used in a ``with``.

    ``token`` is what the runtime was started with by ``--token-file``, ``ca`` a PEM file with who signed its
    certificate: then TLS is spoken, as to an address ``https://HOST:PORT``. No request waits longer than ``timeout_s``.
    Nothing is sent before the first question. Raises `ValueError` for an address that is none, and for a token that
    would go to another machine without TLS.
    """
    return Client(Port(address, token, ca, timeout_s), patience or Patience())


class Client:
    """Asks one runtime. Every method raises `ClientError`; they may be called from several threads."""

    def __init__(self, port: Port, patience: Patience) -> None:
        self._port = port
        self._patience = patience

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; streams of changes have their own."""
        self._port.close()

    def views(self) -> tuple[View, ...]:
        """What the runtime keeps, in the order in which it came to be."""
        return tuple(View(self._port, line) for line in self._port.get(VIEWS_PATH, tuple[ViewLine, ...]))

    def view(self, name: str) -> View:
        """A view; raises `NotFoundError`."""
        found = {view.name: view for view in self.views()}
        if name not in found:
            raise NotFoundError(404, f"expected one of the views {', '.join(found) or 'none'}, was {name!r}")
        return found[name]

    def ask(self, sql: str, epoch: int | None = None) -> Asked:
        """The answer to a SELECT in DuckDB's SQL over relations and views, all of them as they were at one epoch.

        Without an ``epoch`` it is the newest at which all that the SELECT reads is there; ``sql`` may name one itself,
        by ``AS OF EPOCH n`` at its end. Raises `RefusedError` with DuckDB's message and the place for SQL that is wrong
        or not allowed, and for a question that costs too much; `GoneError` for an epoch that cannot be had any more.
        """
        data, headers = self._port.ask("POST", ASK_PATH, record=Question(sql, epoch), accept=ARROW)
        return asked(data, headers.get("content-type", ""))

    def cursor(self, name: str, page_rows: int = 1000, *, is_sorted: bool = True) -> CursorPages:
        """See `View.cursor`."""
        return self.view(name).cursor(page_rows, is_sorted=is_sorted)

    def changes(
        self,
        views: Sequence[str],
        start: int | Mapping[str, int] | None = None,
        by: By = "epoch",
        *,
        run: str = "",
    ) -> ChangeStream:
        """The changes of views, without end; see `ChangeStream`.

        ``start`` is the newest epoch that is known, of all views or of each; without it, and of views that are not in
        it, a snapshot comes first. ``run`` is whose epochs these are, as `ChangeStream.run` has said. By version the
        changes come as soon as they are there, and a connection that is lost is followed by a snapshot.
        """
        return ChangeStream(self._port, views, start, by, run=run, patience=self._patience)

    def add_view(
        self,
        name: str,
        sql: str,
        *,
        lane: Literal["spark", "express", ""] = "",
        readers: Sequence[str] = (),
        timeout_s: float = TIMEOUT_SECONDS,
    ) -> Changed:
        """Have the runtime keep another view; returns once its first version is there, or after ``timeout_s``.

        Without a ``lane`` it is Spark's where that runs. With ``readers`` the view may only use their relations.
        """
        wanted = AddViews((NewView(name, sql, lane=lane, readers=tuple(readers)),), timeout_s)
        return self._port.change("POST", VIEWS_PATH, wanted, Changed, timeout_s)

    def drop_view(self, name: str, *, timeout_s: float = TIMEOUT_SECONDS) -> Changed:
        """Have the runtime keep a view no longer."""
        path = f"{VIEWS_PATH}/{quote(name, safe='')}?timeout_s={timeout_s:g}"
        return self._port.change("DELETE", path, None, Changed, timeout_s)

    def readers(self) -> tuple[ReaderStatus, ...]:
        """What the runtime reads; its own feed first."""
        return self._port.get(_READERS_PATH, Readers).readers

    def add_reader(self, reader: NewReader) -> ChangedReader:
        """Have the runtime read more; see `deltabook.wire.readers`."""
        return self._port.change("POST", _READERS_PATH, reader, ChangedReader, TIMEOUT_SECONDS)

    def drop_reader(
        self, name: str, *, rows: Literal["leave", "stay"] = "leave", timeout_s: float = TIMEOUT_SECONDS
    ) -> ChangedReader:
        """Have the runtime read no more of it; its rows leave the relations, or stay."""
        path = f"{_READERS_PATH}/{quote(name, safe='')}?rows={rows}&timeout_s={timeout_s:g}"
        return self._port.change("DELETE", path, None, ChangedReader, timeout_s)

    def status(self) -> RuntimeStatus:
        """How the runtime stands."""
        return self._port.get(STATUS_PATH, RuntimeStatus)

    def statistics(self) -> Statistics:
        """What it does and holds."""
        return self._port.get(STATISTICS_PATH, Statistics)

    def description(self) -> dict[str, Any]:
        """The OpenAPI description of all that can be asked."""
        return self._port.get("/v1/openapi.json", dict[str, Any])
