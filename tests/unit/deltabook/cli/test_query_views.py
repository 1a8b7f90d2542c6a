"""``deltabook query list``, ``show`` and ``watch`` say what a running runtime's views say."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from deltabook.wire.results import FrameHeader, encode_frame
from tests.unit.deltabook.cli.test_query_catalogue import Service, run, service

__all__ = ["service"]

COLUMNS = [{"name": "s", "type": "string"}, {"name": "a", "type": "int128", "scale": 1}]
LONG = 2**70


def view(name: str, **others: Any) -> dict[str, Any]:
    about = {"name": name, "class": "linear", "lane": "express", "columns": COLUMNS, "rows": 1, "epoch": 7}
    return {**about, "failed": None, **others}


@pytest.fixture(autouse=True)
def views(service: Service) -> None:
    service.pages["/v1/views"] = json.dumps([view("v"), view("w", rows=2), view("x", failed="too large")])


def test_views_are_listed_with_their_size(service: Service) -> None:
    assert run("list", "--results", service.address)[1].splitlines() == [
        "v(s, a): linear, lane express, 1 row at epoch 7",
        "w(s, a): linear, lane express, 2 rows at epoch 7",
        "x(s, a): linear, lane express, failed: too large",
    ]


@pytest.fixture
def rows(service: Service) -> None:
    service.pages["/v1/views/v"] = f'{{"view": "v", "epoch": 7, "step": 31, "rows": [["x", {LONG}], [null, 0.10]]}}'


@pytest.mark.usefixtures("rows")
def test_the_rows_of_a_view_are_shown_once_at_its_version(service: Service) -> None:
    code, out, error = run("show", "V", "--results", service.address)
    assert (code, error) == (0, "")
    assert out.splitlines()[0] == "v (linear, epoch 7 step 31)"
    for said in (" s ", " a ", str(LONG), "NULL", " 0.10 "):
        assert said in out


@pytest.mark.usefixtures("rows")
def test_the_same_as_json_has_every_digit(service: Service) -> None:
    code, out, _ = run("show", "v", "--json", "--results", service.address)
    assert (code, out.count("\n")) == (0, 1)
    assert json.loads(out) == {
        "query": "v", "columns": ["s", "a"], "rows": [["x", LONG], [None, 0.1]], "epoch": 7, "step": 31,
        "class": "linear", "lane": "express",
    }  # fmt: skip
    assert "0.10]" in out


@pytest.mark.parametrize("command", ["show", "watch"])
def test_a_view_that_is_not_there_is_refused_with_those_that_are(service: Service, command: str) -> None:
    code, out, error = run(command, "nope", "--results", service.address)
    assert (code, out) == (1, "")
    assert error == (
        f"deltabook: error: expected one of the views of the runtime at {service.address} (v, w, x), was 'nope'\n"
    )
    service.pages["/v1/views"] = "[]"
    assert "(none, as there is no view), was 'nope'" in run(command, "nope", "--results", service.address)[2]


def test_changes_are_printed_as_they_come(service: Service) -> None:
    table = pa.table({"s": ["x", "y"], "a": [1, 2], "weight": [1, -1]})
    service.pages["/v1/changes?views=v"] = encode_frame(FrameHeader("heartbeat", "")) + encode_frame(
        FrameHeader("changes", "v", 6, 7, step=31), table
    )
    code, out, error = run("watch", "V", "--versions", "1", "--results", service.address)
    assert (code, error) == (0, "")
    assert out.splitlines() == ["v: changes (6, 7] step 31", "  +1  s=x  a=1", "  -1  s=y  a=2"]
