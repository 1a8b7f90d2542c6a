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
    """Five rows of the view, on pages of two."""
    about = {"id": "c 1", "view": "v", "epoch": 7, "step": 31, "columns": COLUMNS, "rows": 5, "unused_s": 60.0}
    service.answers["/v1/views/v/cursor"] = json.dumps({**about, "page_rows": 2, "pages": 3})
    pages = (f'[["x", {LONG}], [null, 0.10]]', '[["c", 3], ["d", 4]]', '[["e", 5]]')
    for number, page in enumerate(pages):
        service.pages[f"/v1/cursors/c%201?page={number}"] = f'{{"rows": {page}, "page": {number}}}'


@pytest.mark.usefixtures("rows")
def test_the_rows_of_a_view_are_shown_once_at_its_version(service: Service) -> None:
    code, out, error = run("show", "V", "--results", service.address)
    assert (code, error) == (0, "")
    assert out.splitlines()[0] == "v (linear, epoch 7 step 31)"
    for said in (" s ", " a ", str(LONG), "NULL", " 0.10 ", " e "):
        assert said in out
    assert "of 5 rows" not in out


@pytest.mark.usefixtures("rows")
def test_they_are_fetched_page_by_page_and_the_cursor_is_closed(service: Service) -> None:
    run("show", "v", "--results", service.address)
    asked = [(method, path) for method, path, _ in service.asked]
    assert asked == [
        ("GET", "/v1/views"),
        ("POST", "/v1/views/v/cursor"),
        *(("GET", f"/v1/cursors/c%201?page={number}") for number in range(3)),
        ("DELETE", "/v1/cursors/c%201"),
    ]
    assert service.asked[1][2] == {"rows": 1_000, "is_sorted": True}


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_all_rows_are_success_though_the_cursor_expired(service: Service, form: tuple[str, ...]) -> None:
    """A pager, or the drawing of a long table, may take longer than the runtime keeps an unused cursor."""
    service.statuses["/v1/cursors/c%201"] = 410
    service.answers["/v1/cursors/c%201"] = '{"error": "expected an open cursor, was c 1: it was not used for 60 s"}'
    code, out, error = run("show", "v", *form, "--results", service.address)
    assert (code, error, '"e"' in out or " e " in out) == (0, "", True)


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(("most", "last"), [(1, "x"), (3, "c"), (4, "d")])
def test_no_more_are_fetched_than_are_wanted(service: Service, most: int, last: str) -> None:
    code, out, _ = run("show", "v", "--rows", str(most), "--results", service.address)
    assert code == 0
    assert out.splitlines()[-1] == f"the first {most} of 5 rows; --rows 0 prints all"
    assert f" {last} " in out.splitlines()[-3]
    assert sum(path.startswith("/v1/cursors") for method, path, _ in service.asked if method == "GET") == -(-most // 2)
    found = json.loads(run("show", "v", "--rows", str(most), "--json", "--results", service.address)[1])["rows"]
    assert (len(found), found[-1][0]) == (most, last)


@pytest.mark.usefixtures("rows")
def test_the_same_as_json_has_every_digit(service: Service) -> None:
    code, out, _ = run("show", "v", "--json", "--results", service.address)
    assert (code, out.count("\n")) == (0, 1)
    assert json.loads(out) == {
        "query": "v", "columns": ["s", "a"], "rows": [["x", LONG], [None, 0.1], ["c", 3], ["d", 4], ["e", 5]],
        "epoch": 7, "step": 31, "class": "linear", "lane": "express",
    }  # fmt: skip
    assert "0.10]" in out


def test_an_empty_view_is_an_empty_list(service: Service) -> None:
    about = {"id": "2", "view": "v", "epoch": 7, "step": 0, "columns": COLUMNS, "rows": 0, "unused_s": 60.0}
    service.answers["/v1/views/v/cursor"] = json.dumps({**about, "page_rows": 2, "pages": 1})
    service.pages["/v1/cursors/2?page=0"] = '{"rows": []}'
    assert json.loads(run("show", "v", "--json", "--results", service.address)[1])["rows"] == []


@pytest.mark.parametrize("command", ["show", "watch"])
def test_an_absent_view_is_refused_with_the_present_views(service: Service, command: str) -> None:
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


def test_a_lost_runtime_is_an_error_and_the_views_end_is_none(service: Service) -> None:
    service.pages["/v1/changes?views=v,w"] = ended = encode_frame(FrameHeader("error", "v", reason="dropped"))
    code, out, error = run("watch", "v", "w", "--results", service.address)
    assert (code, out) == (1, "v: error (0, 0] dropped\n")
    assert (
        error == f"deltabook: error: expected changes of w, was the end: the runtime at {service.address} has ended\n"
    )
    service.pages["/v1/changes?views=v,w"] = ended + encode_frame(FrameHeader("error", "w", reason="dropped"))
    assert run("watch", "v", "w", "--results", service.address)[0] == 0


def test_decimals_are_printed_as_such(service: Service) -> None:
    rows = pa.table({"a": pa.array([-1234]), "weight": pa.array([1])})
    rows = rows.cast(pa.schema([pa.field("a", pa.int64(), metadata={"scale": "2"}), pa.field("weight", pa.int64())]))
    service.pages["/v1/changes?views=v"] = encode_frame(FrameHeader("changes", "v", 6, 7), rows)
    assert run("watch", "v", "--results", service.address)[1].splitlines()[1] == "  +1  a=-12.34"
