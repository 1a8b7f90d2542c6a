"""Views over HTTP: their list, results and explanations, and changes of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from deltabook.wire.advice import did_you_mean
from deltabook.wire.catalogue import TIMEOUT_SECONDS, AddViews, Changed, NewView, TimeoutSeconds
from deltabook.wire.service import ColumnLine, RecordLine, Result, ViewLine
from runtime.compiler import explain
from runtime.service.catalogue import Control
from runtime.service.http.limits import SiteLimits
from runtime.service.http.routes import (
    ARROW,
    JSON,
    TEXT,
    Answer,
    Call,
    Parameter,
    Refusal,
    Reply,
    Route,
    json_reply,
)
from runtime.service.http.rows import INTEGERS, rows_reply
from runtime.service.lanes.agreement import LaneAgreement
from runtime.service.results.hub import Hub
from runtime.service.results.materialised import FullRows
from runtime.views.code import kernel_code

__all__ = ["VIEW", "ViewRoutes", "columns_of", "no_view", "shown_view"]

_EXAMPLE: Final = AddViews((NewView("volumes", "SELECT symbol, SUM(volume) AS lots FROM bids GROUP BY symbol"),))
_OF_A_VIEW: Final = ("show_view", "explain_view", "open_cursor", "drop_view")
"""Names of the operations on one view."""

VIEW: Final = Parameter("view", str, "name of a view")
CODE: Final = Parameter("code", bool, "show the generated kernels too", False)


def no_view(hub: Hub, name: str) -> Refusal:
    """Return the refusal for a missing view."""
    names = [view.name for view in hub.views]
    expected = f"one of the views {', '.join(names)}" if names else "no name, as there is no view"
    return Refusal(404, f"expected {expected}, was {name[:80]!r}{did_you_mean(name, names)}")


def shown_view(hub: Hub, name: str) -> None:
    """Raise `Refusal` unless a view can be shown: it exists, has a version, and has not failed."""
    if all(view.name != name for view in hub.views):
        raise no_view(hub, name)
    if not hub.has_version(name):
        raise Refusal(503, f"view {name} has no version yet: Spark is starting", {"retry-after": "5"})
    if reason := hub.failed.get(name):
        raise Refusal(409, f"view {name} failed: {reason}")


def columns_of(hub: Hub, name: str) -> tuple[ColumnLine, ...]:
    """Return the columns of a view."""
    return tuple(ColumnLine(c.name, c.type, c.nullable, c.scale) for c in hub.result(name).columns)


class ViewRoutes:
    """Routes of ``/v1/views`` and the paths below it, except cursors."""

    def __init__(
        self,
        hub: Hub,
        control: Control | None,
        limits: SiteLimits,
        agreement: LaneAgreement | None = None,
        explain_stream: Callable[[str], str] | None = None,
    ) -> None:
        """Create the routes.

        Without ``control`` views cannot be changed; without ``agreement`` lanes are not compared; ``explain_stream``
        returns the description of a derived stream.
        """
        self._hub, self._control, self._limits, self._agreement = hub, control, limits, agreement
        self._explain_stream = explain_stream

    def routes(self) -> list[Route]:
        """Return the routes."""
        missing = Answer(404, "there is no such view, or no such path")
        failed = Answer(409, "the view has failed, with the reason")
        shown = [
            Route("GET", "/v1/views", "list_views", "The derived streams and views that are kept.",
                  (Answer(200, "streams, then views, each in the order of their creation", tuple[ViewLine, ...],
                          (JSON,)),), self._list),
            Route("GET", "/v1/views/{view}", "show_view",
                  "A view's full result at its newest version, or the rows that a derived stream keeps.",
                  (Answer(200, "all rows; sorted in JSON, not in Arrow", Result, (JSON, ARROW)), missing, failed,
                   Answer(413, "too many rows for one answer: open a cursor"),
                   Answer(503, "the view has no version yet, as Spark is starting")),
                  self._show, parameters=(INTEGERS,), values=(VIEW,)),
            Route("GET", "/v1/views/{view}/explain", "explain_view", "How a view or a stream is kept, in words.",
                  (Answer(200, "a view's class with its reason, and its maps; the operators of a stream"), missing),
                  self._explain, parameters=(CODE,), values=(VIEW,)),
        ]  # fmt: skip
        return shown if self._control is None else [*shown, *self._changing(self._control)]

    def _changing(self, control: Control) -> list[Route]:
        async def add(call: Call) -> Reply:
            status, changed = await control.add(call.body)
            return json_reply(changed, status)

        async def drop(call: Call) -> Reply:
            status, changed = await control.drop(call.path["view"], call.query["timeout_s"])
            return json_reply(changed, status)

        done = Answer(200, "the change is published", Changed, (JSON,))
        later = Answer(202, "the timeout is over; the change will be published", Changed, (JSON,))
        refused = Answer(409, "the change conflicts with the present state, or a view failed at once, with the reason")
        wait = Parameter("timeout_s", TimeoutSeconds, "how long to wait until the change is published", TIMEOUT_SECONDS)
        return [
            Route("POST", "/v1/views", "add_views",
                  "Add derived streams and views together, at one epoch; all of them or none.",
                  (done, later, refused, Answer(422, "SQL that cannot be maintained, with the place and reason")), add,
                  body=AddViews, example=_EXAMPLE,
                  leads_to=dict.fromkeys(_OF_A_VIEW, ("view", "/views/0/name"))),
            Route("DELETE", "/v1/views/{view}", "drop_view", "Drop a view, or a derived stream that nothing reads.",
                  (done, later, Answer(404, "there is no such view, or no such path"), refused),
                  drop, parameters=(wait,), values=(VIEW,)),
        ]  # fmt: skip

    def _list(self, call: Call) -> Reply:
        del call
        hub = self._hub
        return json_reply(
            [
                ViewLine(
                    name=view.name,
                    view_class=view.view_class,
                    lane=view.lane,
                    reason=view.reason,
                    columns=columns_of(hub, view.name),
                    rows=len(hub.result(view.name)),
                    epoch=hub.epoch(view.lane),
                    step=hub.step(view.lane),
                    since=hub.since[view.name],
                    failed=hub.failed.get(view.name),
                    sql=view.sql,
                    record=self._record(view.name),
                    reads=view.reads,
                )
                for view in hub.views
            ]
        )

    def _record(self, name: str) -> RecordLine | None:
        hub = self._hub
        if self._agreement is None or not hub.is_on_spark(name):
            return None
        agreement = self._agreement.of(name)
        return RecordLine(
            epoch=hub.version,
            behind_epochs=max(0, hub.epoch("express") - hub.version),
            comparison=agreement.comparison,
            compared_epoch=agreement.epoch,
            differs_since=agreement.since,
            failed=agreement.reason or None,
        )

    def _show(self, call: Call) -> Reply:
        hub, name = self._hub, call.path["view"]
        shown_view(hub, name)
        result = hub.read(name)
        is_arrow = call.media == ARROW
        if not is_arrow and (total := result.total()) > self._limits.json_rows:
            most = self._limits.json_rows
            raise Refusal(
                413, f"expected at most {most} rows in one answer, was {total}; open a cursor, or ask for Arrow"
            )
        rows = FullRows(result.columns, result.shown())
        if is_arrow and rows.whole_bytes > self._limits.answer_bytes:
            most = self._limits.answer_bytes
            raise Refusal(413, f"expected at most {most} bytes in one answer, was {rows.whole_bytes}; open a cursor")
        beside = {"view": name, "epoch": hub.epoch_of(name), "step": hub.step_of(name)}
        shown = rows if is_arrow else rows.sorted()
        return rows_reply(shown, 0, len(rows), beside, media=call.media, integers=call.query["integers"])

    def _explain(self, call: Call) -> Reply:
        name = call.path["view"]
        if all(view.name != name for view in self._hub.views):
            raise no_view(self._hub, name)
        if self._explain_stream is not None and self._hub.lane_of(name) == "stream":
            return Reply(200, self._explain_stream(name).encode() + b"\n", TEXT)
        program = self._hub.program_of(name)
        text = explain(program, name, self._hub.views)
        if call.query["code"]:
            text += "\n" + kernel_code(program, name)
        return Reply(200, text.encode() + b"\n", TEXT)
