# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Cursors over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from msgspec import Meta
from twisted.internet.defer import Deferred, DeferredLock, succeed

from deltabook.wire.service import ColumnLine, Cursor, NewCursor, Page
from runtime.service.http.routes import ARROW, JSON, TEXT, Answer, Call, Parameter, Refusal, Reply, Route, json_reply
from runtime.service.http.rows import INTEGERS, rows_reply
from runtime.service.http.views import VIEW, shown_view
from runtime.service.results.cursors import ClosedCursorError, Cursors, Kept, OpenCursor, TooManyCursorsError
from runtime.service.results.hub import Hub
from runtime.service.results.materialised import FullRows

__all__ = ["CursorRoutes", "InThread"]

InThread = Callable[[Callable[[], Any]], "Deferred[Any]"]
"""Callable that runs a call on another thread."""

_ROWS_AT_ONCE: Final = 20_000
"""Number of rows up to which a result is sorted on the reactor's thread; above it, waking a worker is cheaper."""
_CURSOR: Final = Parameter("cursor", str, "id of a cursor")
_PAGE: Final = Parameter(
    "page",
    Annotated[int, Meta(ge=0, le=2**53)] | Literal["next"],
    "number of the page, from 0; next: the page after the last requested page",
    "next",
)


class CursorRoutes:
    """Routes of ``/v1/views/NAME/cursor`` and ``/v1/cursors``."""

    def __init__(self, hub: Hub, cursors: Cursors, in_thread: InThread) -> None:
        self._hub, self._cursors, self._in_thread = hub, cursors, in_thread
        self._opening = DeferredLock()
        """Lock under which one result at a time is unpacked and sorted."""

    def routes(self) -> list[Route]:
        """Return the routes."""
        missing = Answer(404, "there is no such cursor or page")
        gone = Answer(410, "the cursor is closed, with the reason")
        opened = Answer(201, "a new cursor; the header ``Location`` has the path of its pages", Cursor, (JSON,))
        return [
            Route("POST", "/v1/views/{view}/cursor", "open_cursor",
                  "Open a cursor on the newest result of a view, to be read page by page.",
                  (opened, Answer(404, "there is no such view"), Answer(409, "the view has failed, with the reason"),
                   Answer(503, "there is no room for another cursor, or no version yet as Spark is starting")),
                  self._open, values=(VIEW,), body=NewCursor, example=NewCursor(rows=500),
                  leads_to={"read_cursor": ("cursor", "/id"), "close_cursor": ("cursor", "/id")}),
            Route("GET", "/v1/cursors/{cursor}", "read_cursor", "A page of a cursor, always the same.",
                  (Answer(200, "the page", Page, (JSON, ARROW)), missing, gone),
                  self._read, parameters=(_PAGE, INTEGERS), values=(_CURSOR,)),
            Route("DELETE", "/v1/cursors/{cursor}", "close_cursor", "Close a cursor that is not needed any more.",
                  (Answer(204, "it is closed", None, ()), missing, gone), self._close, values=(_CURSOR,)),
        ]  # fmt: skip

    async def _open(self, call: Call) -> Reply:
        hub, name, wanted = self._hub, call.path["view"], call.body
        await self._opening.acquire()
        try:
            shown_view(hub, name)  # checked only now, because the view may have been dropped while this request waited
            kept = await self._kept(name, is_sorted=wanted.is_sorted)
            cursor = self._cursors.open(kept, wanted.rows)
        except TooManyCursorsError as error:
            raise Refusal(503, str(error), {"retry-after": "1"}) from None
        finally:
            self._opening.release()
        return json_reply(self._cursor_line(cursor), 201, {"location": f"/v1/cursors/{cursor.id}"})

    async def _kept(self, name: str, *, is_sorted: bool) -> Kept:
        result, epoch, step = self._hub.read(name), self._hub.epoch_of(name), self._hub.step_of(name)
        if (kept := self._cursors.kept(name, epoch, step, is_sorted=is_sorted)) is not None:
            return kept
        rows = FullRows(result.columns, result.shown())
        if is_sorted:
            sorting: Awaitable[FullRows] = (
                succeed(rows.sorted()) if len(rows) <= _ROWS_AT_ONCE else self._in_thread(rows.sorted)
            )
            rows = await sorting
        return Kept(name, epoch, step, rows, is_sorted)

    def _cursor_line(self, cursor: OpenCursor) -> Cursor:
        kept = cursor.kept
        return Cursor(
            id=cursor.id,
            view=kept.view,
            epoch=kept.epoch,
            step=kept.step,
            columns=tuple(ColumnLine(c.name, c.type, c.nullable, c.scale) for c in kept.rows.columns),
            rows=len(kept.rows),
            page_rows=cursor.page_rows,
            pages=cursor.pages,
            unused_s=self._cursors.limits.unused_s,
        )

    def _read(self, call: Call) -> Reply:
        cursor = self._used(call)
        wanted = call.query["page"]
        page = cursor.next_page if wanted == "next" else int(wanted)
        if page >= cursor.pages:
            raise Refusal(404, f"expected a page from 0 to {cursor.pages - 1}, was {page}")
        if call.request.method != b"HEAD":
            cursor.next_page = page + 1
        kept, begin = cursor.kept, page * cursor.page_rows
        end = min(begin + cursor.page_rows, len(kept.rows))
        beside = {
            "cursor": cursor.id, "view": kept.view, "epoch": kept.epoch, "step": kept.step, "page": page,
            "pages": cursor.pages,
        }  # fmt: skip
        return rows_reply(kept.rows, begin, end, beside, media=call.media, integers=call.query["integers"])

    def _close(self, call: Call) -> Reply:
        self._cursors.close(self._used(call).id)
        return Reply(204, b"", TEXT)

    def _used(self, call: Call) -> OpenCursor:
        try:
            return self._cursors.used(call.path["cursor"])
        except ClosedCursorError as error:
            raise Refusal(410, str(error)) from None
