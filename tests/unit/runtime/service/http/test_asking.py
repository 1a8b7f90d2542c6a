"""Questions over HTTP: JSON or Arrow with the epoch; each refusal has a status of its own."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from deltabook.wire.service import Answered, AnsweredColumn
from runtime.compiler import SqlError
from runtime.service.asking import TooManyError
from runtime.service.at_epochs import EpochGoneError
from runtime.service.sandbox import AnswerRows, AskError, CostlyError
from tests.generators.results_lab import Answered as Reply
from tests.generators.results_lab import ResultsLab

TABLE = pa.table(
    {
        "wide": pa.array([Decimal(2**90), None], pa.decimal128(38, 0)),
        "price": pa.array([Decimal("1.50"), Decimal(2)], pa.decimal128(10, 2)),
        "n": [1, 2],
        "day": [datetime.date(2026, 1, 2), None],
        "share": [float("nan"), 0.5],
        "list": [[1], []],
    }
)  # fmt: skip


class FakeAsker:
    """Gives one answer, or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, int | None]] = []

    async def ask(self, sql: str, epoch: int | None, gone: Any) -> tuple[int, AnswerRows]:
        self.asked.append((sql, epoch))
        gone.addErrback(lambda _: self.asked.append(("gone", None)))
        if self.error is not None:
            raise self.error
        columns = tuple(AnsweredColumn(name, "X") for name in TABLE.column_names)
        return 17, AnswerRows(columns, TABLE)


def post(
    lab: ResultsLab, body: bytes = b'{"sql": "SELECT 1", "epoch": 3}', path: str = "/v1/ask", accept: str = ""
) -> Reply:
    return lab.ask(path, "POST", body, f"Accept: {accept}\r\n" if accept else "")


def site(error: Exception | None = None) -> tuple[ResultsLab, FakeAsker]:
    asker = FakeAsker(error)
    return ResultsLab(asker=asker), asker


def test_json_is_exact_and_names_its_epoch() -> None:
    lab, asker = site()
    answer = post(lab)
    assert asker.asked == [("SELECT 1", 3)]
    assert answer.headers["deltabook-epoch"] == "17"
    assert (
        b'"rows":[[1237940039285380274899124224,1.50,1,"2026-01-02",null,[1]],[null,2.00,2,null,0.5,[]]]' in answer.body
    )
    assert answer.json(Answered).columns[0] == AnsweredColumn("wide", "X")
    text = post(lab, path="/v1/ask?integers=string").json()
    assert text["rows"][0][:3] == ["1237940039285380274899124224", "1.50", "1"]


def test_arrow_is_the_table_and_names_its_epoch() -> None:
    answer = post(site()[0], accept="application/vnd.apache.arrow.stream")
    table = answer.arrow()
    assert table.schema.metadata == {b"deltabook.epoch": b"17"}
    assert table.replace_schema_metadata(None).drop_columns("share").equals(TABLE.drop_columns("share"))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AskError("no such epoch"), 409),
        (EpochGoneError("retired"), 410),
        (CostlyError("too long"), 413),
        (TooManyError("too many"), 503),
        (SqlError("wrong", file="question", line=1, column=2), 422),
    ],
)
def test_refusals(error: Exception, status: int) -> None:
    answer = post(site(error)[0])
    assert (answer.status, answer.text) == (status, str(error))


@pytest.mark.parametrize("body", [b"{}", b'{"sql": ""}', b'{"sql": "SELECT 1", "epoch": -1}', b'{"sql": 1}', b"x"])
def test_what_is_no_question(body: bytes) -> None:
    lab, asker = site()
    assert post(lab, body).status == 400
    assert asker.asked == []


def test_without_an_asker_there_is_no_such_path() -> None:
    assert post(ResultsLab()).status == 404


def test_it_is_described() -> None:
    told = site()[0].ask("/v1/openapi.json").json()
    operation = told["paths"]["/v1/ask"]["post"]
    assert {"200", "409", "410", "413", "422", "503"} <= operation["responses"].keys()
    assert set(operation["responses"]["200"]["content"]) == {"application/json", "application/vnd.apache.arrow.stream"}
    assert msgspec.json.encode(operation)
