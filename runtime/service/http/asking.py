# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Questions over HTTP: any SELECT over relations and views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa
from twisted.internet.defer import Deferred

from deltabook.wire.service import ASK_PATH, Answered, Question
from runtime.service.asking import Asker, TooManyError, UnpublishedError
from runtime.service.at_epochs import EpochGoneError
from runtime.service.http.routes import ARROW, JSON, Answer, Call, Refusal, Reply, Route
from runtime.service.http.rows import INTEGERS
from runtime.service.moments import json_values
from runtime.service.sandbox import AnswerRows, AskError, CostlyError

__all__ = ["AskRoutes"]

InThread = Callable[[Callable[[], Any]], "Deferred[Any]"]

_EXAMPLE: Final = Question("SELECT symbol, MAX(price) AS bid FROM bids GROUP BY symbol ORDER BY symbol")
_STATUS: Final = {CostlyError: 413, EpochGoneError: 410, TooManyError: 503, UnpublishedError: 503}
_NUMBERS: Final = msgspec.json.Encoder(decimal_format="number")


class AskRoutes:
    """Routes of ``/v1/ask``."""

    def __init__(self, asker: Asker, in_thread: InThread) -> None:
        self._asker, self._in_thread = asker, in_thread

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("POST", ASK_PATH, "ask", "Answer a SELECT over relations and views, as they are at one epoch.",
                  (Answer(200, "the rows, and their epoch", Answered, (JSON, ARROW)),
                   Answer(409, "no such epoch yet, or a view that has failed"),
                   Answer(410, "the epoch is no longer available"),
                   Answer(413, "the question needs more rows, bytes, memory or time than it may"),
                   Answer(422, "SQL that is wrong or not allowed, with the place and the reason"),
                   Answer(503, "there are too many questions at a time, or a view waits for the start of Spark")),
                  self._ask, parameters=(INTEGERS,), body=Question, example=_EXAMPLE),
        ]  # fmt: skip

    async def _ask(self, call: Call) -> Reply:
        gone = call.request.notifyFinish()
        try:
            epoch, rows = await self._asker.ask(call.body.sql, call.body.epoch, gone)
        except AskError as error:
            status = _STATUS.get(type(error), 409)
            headers = {"retry-after": "1"} if status == 503 else {}
            raise Refusal(status, str(error), headers) from None
        headers = {"deltabook-epoch": str(epoch)}
        as_text = call.query["integers"] == "string"
        body: bytes = await self._in_thread(
            lambda: _stream(rows, epoch) if call.media == ARROW else _json(rows, epoch, as_text=as_text)
        )
        return Reply(200, body, call.media, headers)


def _stream(rows: AnswerRows, epoch: int) -> bytes:
    table = rows.table.replace_schema_metadata({"deltabook.epoch": str(epoch)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _json(rows: AnswerRows, epoch: int, *, as_text: bool) -> bytes:
    columns = [[value for chunk in column.chunks for value in json_values(chunk)] for column in rows.table.columns]
    if as_text:
        columns = [
            [None if value is None else str(value) for value in values] if _is_exact(kind.type) else values
            for kind, values in zip(rows.table.schema, columns, strict=True)
        ]
    listed = list(zip(*columns, strict=True))
    return _NUMBERS.encode({"epoch": epoch, "columns": rows.columns, "rows": listed})


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))
