"""Readers over HTTP: inputs that are added and dropped while the runtime runs."""

from __future__ import annotations

from typing import Final, Literal, Protocol

from deltabook.wire.catalogue import TIMEOUT_SECONDS, TimeoutSeconds
from deltabook.wire.readers import ChangedReader, FileConnection, NewColumn, NewReader, Readers
from runtime.service.http.routes import JSON, Answer, Call, Parameter, Reply, Route, json_reply

__all__ = ["ReaderControl", "ReaderRoutes"]

_EXAMPLE: Final = NewReader(
    "fees",
    FileConnection("fees.csv"),
    columns=(NewColumn("broker_id", "int64"), NewColumn("fee", "int64", scale=4)),
)


class ReaderControl(Protocol):
    """Control of readers. Changes that are refused raise errors of the service.

    Called on the reactor's thread; must not block. A change continues if its caller stops waiting.
    """

    def list(self) -> Readers:
        """Return all readers."""

    async def add(self, wanted: NewReader) -> tuple[int, ChangedReader]:
        """Add a reader; return the HTTP status and the reader's status."""

    async def drop(
        self, name: str, timeout_s: float, rows: Literal["leave", "stay"] = "leave"
    ) -> tuple[int, ChangedReader]:
        """Drop a reader; ``rows`` states whether its rows leave its relations or stay."""


class ReaderRoutes:
    """Routes of ``/v1/readers``."""

    def __init__(self, readers: ReaderControl) -> None:
        self._readers = readers

    def routes(self) -> list[Route]:
        """Return the routes."""
        refused = Answer(409, "the change conflicts with the present state, with the reason")
        wait = Parameter("timeout_s", TimeoutSeconds, "how long to wait until its rows are removed", TIMEOUT_SECONDS)
        rows = Parameter("rows", Literal["leave", "stay"], "leave: remove the reader's rows; stay: keep them", "leave")
        return [
            Route("GET", "/v1/readers", "list_readers", "All inputs of the runtime, its own feed first.",
                  (Answer(200, "all readers", Readers, (JSON,)),), lambda _: json_reply(self._readers.list())),
            Route("POST", "/v1/readers", "add_reader", "Add a reader of a file or a server.",
                  (Answer(201, "the reader is added", ChangedReader, (JSON,)), refused), self._add,
                  body=NewReader, example=_EXAMPLE,
                  leads_to={"drop_reader": ("reader", "/reader/name")}),
            Route("DELETE", "/v1/readers/{reader}", "drop_reader", "Drop a reader.",
                  (Answer(200, "the reader is removed", ChangedReader, (JSON,)),
                   Answer(202, "the timeout is over; the reader will be removed", ChangedReader, (JSON,)),
                   Answer(404, "there is no such reader, or no such path"), refused),
                  self._drop, parameters=(wait, rows), values=(Parameter("reader", str, "name of a reader"),)),
        ]  # fmt: skip

    async def _add(self, call: Call) -> Reply:
        status, changed = await self._readers.add(call.body)
        headers = {"location": f"/v1/readers/{changed.reader.name}"} if status == 201 else None
        return json_reply(changed, status, headers)

    async def _drop(self, call: Call) -> Reply:
        query = call.query
        status, changed = await self._readers.drop(call.path["reader"], query["timeout_s"], query["rows"])
        return json_reply(changed, status)
