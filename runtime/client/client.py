"""Client of one runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec
import pyarrow as pa

from deltabook.wire.catalogue import TIMEOUT_SECONDS, AddViews, Changed, NewView
from deltabook.wire.http.blocking import BlockingPort
from deltabook.wire.http.peer import ARROW, HttpPeer, NotFoundError, ProtocolError
from deltabook.wire.readers import ChangedReader, NewReader, Readers, ReaderStatus
from deltabook.wire.service import (
    ASK_PATH,
    PAGE_ROWS,
    STATISTICS_PATH,
    STATUS_PATH,
    VIEWS_PATH,
    Question,
    RuntimeStatus,
    Statistics,
    ViewLine,
)
from runtime.client.changes import By, ChangeStream, Patience
from runtime.client.view import CursorPages, View

__all__ = ["Asked", "Client", "asked", "connect"]

_TIMEOUT_S: Final = 30.0
_READERS_PATH: Final = "/v1/readers"
_EPOCH = b"deltabook.epoch"


def connect(
    address: str,
    *,
    token: str = "",
    ca: str | Path | None = None,
    timeout_s: float = _TIMEOUT_S,
    patience: Patience | None = None,
) -> Client:
    """Return a client of the results service at ``HOST:PORT``; use it as a context manager.

    ``token`` is the token that the runtime was started with (``--token-file``). ``ca`` is a PEM file of the authority
    that signed the runtime's certificate; it switches TLS on, as does an address ``https://HOST:PORT``. No request
    waits longer than ``timeout_s``. Nothing is sent before the first request. Raises `ValueError` for a malformed
    address, for a token that would be sent to another machine without TLS, and for a file without certificates.
    """
    peer = HttpPeer.of("a runtime's results service", address, token=token, ca_file=str(ca or ""))
    return Client(BlockingPort(peer, timeout_s), patience or Patience())


class Client:
    """Connection to one runtime. Every method may raise `ClientError`, and may be called from several threads."""

    def __init__(self, port: BlockingPort, patience: Patience) -> None:
        self._port = port
        self._patience = patience

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Change streams have connections of their own."""
        self._port.close()

    def views(self) -> tuple[View, ...]:
        """Return the views of the runtime, in the order in which they were added."""
        return tuple(View(self._port, line) for line in self._port.get(VIEWS_PATH, tuple[ViewLine, ...]))

    def view(self, name: str) -> View:
        """Return the view of this name; raises `NotFoundError` if there is none."""
        views = {view.name: view for view in self.views()}
        if name not in views:
            raise NotFoundError(404, f"expected one of the views {', '.join(views) or 'none'}, was {name!r}")
        return views[name]

    def ask(self, sql: str, epoch: int | None = None) -> Asked:
        """Answer a SELECT in DuckDB's SQL over relations and views, all of them at one epoch.

        Without ``epoch``, the SELECT reads the newest epoch at which everything that it reads is available; ``AS OF
        EPOCH n`` at the end of ``sql`` also selects an epoch. Raises `RefusedError` for invalid or forbidden SQL, with
        DuckDB's message and the place of the error, and for a SELECT that exceeds a limit; raises `GoneError` for an
        epoch that is no longer available.
        """
        data, headers = self._port.ask("POST", ASK_PATH, msgspec.json.encode(Question(sql, epoch)), accept=ARROW)
        return asked(data, headers.get("content-type", ""))

    def cursor(self, name: str, page_rows: int = PAGE_ROWS, *, is_sorted: bool = True) -> CursorPages:
        """Open a cursor of a view; see `View.cursor`."""
        return self.view(name).cursor(page_rows, is_sorted=is_sorted)

    def changes(
        self,
        views: Sequence[str],
        start: int | Mapping[str, int] | None = None,
        by: By = "epoch",
        *,
        run: str = "",
    ) -> ChangeStream:
        """Return an endless iterator over the changes of views; see `ChangeStream`.

        ``start`` is the newest epoch that the caller has received: one epoch for all views, or one for each view. For
        a view without a start, a snapshot arrives first. ``run`` identifies the run directory to which the epochs in
        ``start`` belong. A program that continues an earlier stream passes the `ChangeStream.positions` of that stream
        as ``start``, and its `ChangeStream.run` as ``run``. With ``by="version"`` changes arrive as soon as they are
        published, and after a lost connection a snapshot arrives.
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
        """Add a view to the runtime; return when its first version is published, or after ``timeout_s`` seconds.

        Without ``lane`` the view is on the Spark lane if Spark runs, else on the express lane. With ``readers`` the
        view may use only the relations of these readers.
        """
        wanted = AddViews((NewView(name, sql, lane=lane, readers=tuple(readers)),), timeout_s)
        return self._port.change("POST", VIEWS_PATH, wanted, Changed, timeout_s)

    def drop_view(self, name: str, *, timeout_s: float = TIMEOUT_SECONDS) -> Changed:
        """Drop a view of the runtime."""
        path = f"{VIEWS_PATH}/{quote(name, safe='')}?timeout_s={timeout_s:g}"
        return self._port.change("DELETE", path, None, Changed, timeout_s)

    def readers(self) -> tuple[ReaderStatus, ...]:
        """Return the readers of the runtime, its own feed first."""
        return self._port.get(_READERS_PATH, Readers).readers

    def add_reader(self, reader: NewReader) -> ChangedReader:
        """Add a reader to the runtime; see `deltabook.wire.readers`."""
        return self._port.change("POST", _READERS_PATH, reader, ChangedReader, TIMEOUT_SECONDS)

    def drop_reader(
        self, name: str, *, rows: Literal["leave", "stay"] = "leave", timeout_s: float = TIMEOUT_SECONDS
    ) -> ChangedReader:
        """Drop a reader.

        With ``rows="leave"``, the rows of the reader are removed from the relations; with ``rows="stay"``, they remain.
        """
        path = f"{_READERS_PATH}/{quote(name, safe='')}?rows={rows}&timeout_s={timeout_s:g}"
        return self._port.change("DELETE", path, None, ChangedReader, timeout_s)

    def status(self) -> RuntimeStatus:
        """Return the status of the runtime."""
        return self._port.get(STATUS_PATH, RuntimeStatus)

    def statistics(self) -> Statistics:
        """Return figures of engine, origins, views, subscribers, cursors and connections."""
        return self._port.get(STATISTICS_PATH, Statistics)

    def description(self) -> dict[str, Any]:
        """Return the OpenAPI description of the results service."""
        return self._port.get("/v1/openapi.json", dict[str, Any])


class Asked(msgspec.Struct, frozen=True, eq=False):
    """Answer to a SELECT: its rows, and their epoch."""

    epoch: int
    """Epoch that the SELECT read."""
    table: pa.Table
    """The rows, in the order of the SELECT."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.table.column_names)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as Python's values; exact numbers are `int` or `decimal.Decimal`."""
        return list(zip(*[column.to_pylist() for column in self.table.columns], strict=True))


def asked(data: bytes, content_type: str) -> Asked:
    """Decode an answer; raises `ProtocolError` unless it is an Arrow stream with its epoch."""
    if content_type != ARROW:
        raise ProtocolError(f"expected an answer as {ARROW}, was {content_type!r}")
    try:
        table = pa.ipc.open_stream(data).read_all()
        epoch = int((table.schema.metadata or {})[_EPOCH])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise ProtocolError(f"expected an Arrow stream with its epoch, was {data[:80]!r}: {error}") from None
    return Asked(epoch, table.replace_schema_metadata(None))
