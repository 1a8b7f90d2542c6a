"""Cursors over HTTP: pages of one version, whatever becomes of the view."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltabook.wire.service import Cursor, Page
from runtime.epochs import Footer
from runtime.plan import without_view
from runtime.service.results.cursors import CursorLimits
from tests.generators.results_lab import PROGRAM, ResultsLab


def opened(lab: ResultsLab, body: bytes = b'{"rows":2}', view: str = "plain") -> Cursor:
    answer = lab.ask(f"/v1/views/{view}/cursor", "POST", body)
    assert answer.status == 201
    cursor: Cursor = answer.json(Cursor)
    assert answer.headers["location"] == f"/v1/cursors/{cursor.id}"
    return cursor


def test_pages_together_are_the_result_in_its_order() -> None:
    lab = ResultsLab()
    cursor = opened(lab)
    assert (cursor.view, cursor.epoch, cursor.step, cursor.rows, cursor.page_rows, cursor.pages) == (
        "plain", 3, 0, 3, 2, 2,
    )  # fmt: skip
    assert [(column.name, column.type, column.scale) for column in cursor.columns] == [
        ("h", "int128", 1),
        ("s", "string", 0),
    ]
    pages = [lab.ask(f"/v1/cursors/{cursor.id}?page={n}").json() for n in (0, 1)]
    assert [row for page in pages for row in page["rows"]] == lab.ask("/v1/views/plain").json()["rows"]
    assert pages[1] == {
        "cursor": cursor.id, "view": "plain", "epoch": 3, "step": 0, "page": 1, "pages": 2, "columns": ["h", "s"],
        "rows": [[1.0, None]],
    }  # fmt: skip


def test_the_next_page_follows_the_last_requested_page() -> None:
    lab = ResultsLab()
    cursor = opened(lab, b'{"rows":1}')
    path = f"/v1/cursors/{cursor.id}"
    assert lab.ask(path, "HEAD").status == 200  # looking at the head turns no page
    seen = [lab.ask(path + query).json(Page).page for query in ("", "?page=next", "?page=0", "", "")]
    assert seen == [0, 1, 0, 1, 2]
    answer = lab.ask(path)
    assert (answer.status, answer.text) == (404, "expected a page from 0 to 2, was 3")


@pytest.mark.parametrize("page", ["-1", "x", "", "1.5"])
def test_what_is_no_page_is_400(page: str) -> None:
    lab = ResultsLab()
    assert lab.ask(f"/v1/cursors/{opened(lab).id}?page={page}").status == 400


def test_pages_stay_when_the_view_changes_fails_and_is_dropped() -> None:
    lab = ResultsLab()
    path = f"/v1/cursors/{opened(lab).id}?page=0"
    before = lab.ask(path).body
    gone = pa.table({"h": pa.array([5]).cast(pa.decimal128(38, 0)), "s": ["x"], "weight": [-1]})
    lab.hub.publish(Footer(3, 4), {"plain": gone}, {})
    assert opened(lab).rows == 2
    assert lab.ask(path).body == before
    lab.hub.publish(Footer(4, 5), {}, {"plain": "too long"})
    assert lab.ask("/v1/views/plain/cursor", "POST", b"{}").status == 409
    assert lab.ask(path).body == before
    lab.hub.publish(Footer(5, 6), {}, {}, without_view(PROGRAM, "plain"))
    assert lab.ask("/v1/views/plain/cursor", "POST", b"{}").status == 404
    assert lab.ask(path).body == before


def test_a_page_as_arrow_is_exact_and_says_where_it_is_from() -> None:
    lab = ResultsLab()
    cursor = opened(lab)
    table = lab.arrow(f"/v1/cursors/{cursor.id}?page=1").arrow()
    assert (str(table["h"][0]), table["s"].to_pylist()) == ("1.0", [None])
    assert table.schema.metadata[b"deltabook.pages"] == b"2"
    assert table.schema.metadata[b"deltabook.cursor"] == cursor.id.encode()


def test_numbers_may_be_text() -> None:
    lab = ResultsLab()
    assert lab.ask(f"/v1/cursors/{opened(lab).id}?integers=string").json()["rows"] == [["0.5", "x"], ["1.0", None]]


def test_an_empty_result_is_an_empty_page() -> None:
    lab = ResultsLab()
    cursor = opened(lab, b"{}", "m")
    assert (cursor.rows, cursor.pages, cursor.page_rows) == (0, 1, 1_000)
    assert lab.ask(f"/v1/cursors/{cursor.id}").json()["rows"] == []
    assert lab.arrow(f"/v1/cursors/{cursor.id}?page=0").arrow().schema.names == ["x"]


def test_a_closed_cursor_is_410_and_one_that_never_was_404() -> None:
    lab = ResultsLab(cursors=CursorLimits(unused_s=9))
    first, second = opened(lab), opened(lab)
    closed = lab.ask(f"/v1/cursors/{first.id}", "DELETE")
    assert (closed.status, closed.body) == (204, b"")
    answer = lab.ask(f"/v1/cursors/{first.id}")
    assert (answer.status, answer.text) == (410, f"expected an open cursor, was {first.id}: it was closed by a request")
    lab.clock.advance(9)
    assert lab.ask(f"/v1/cursors/{second.id}").text.endswith("it was not used for 9 s")
    assert lab.ask(f"/v1/cursors/{second.id}", "DELETE").status == 410
    assert lab.ask("/v1/cursors/1-x").status == 404


def test_more_cursors_than_there_may_be_are_503() -> None:
    lab = ResultsLab(cursors=CursorLimits(cursors=1))
    opened(lab)
    answer = lab.ask("/v1/views/plain/cursor", "POST", b"{}")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.text.startswith("expected at most 1 cursors that hold")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"rows":0}', 400), (b'{"rows":100001}', 400), (b'{"rows":1.5}', 400), (b'{"rows":"1"}', 400), (b"", 400),
        (b'{"row":1}', 400), (b"[" * 100_000, 400), (b'{"rows":2.0}', 201), (b'{"is_sorted":false}', 201),
    ],
)  # fmt: skip
def test_how_a_cursor_may_be_asked_for(body: bytes, status: int) -> None:
    assert ResultsLab().ask("/v1/views/plain/cursor", "POST", body).status == status


def test_two_that_are_opened_at_once_look_at_one_result() -> None:
    lab = ResultsLab()
    opened(lab)
    opened(lab)
    opened(lab, b'{"rows":2,"is_sorted":false}')
    figures: Any = lab.cursors.figures()
    assert (figures.open, figures.held_bytes) == (3, 2 * lab.cursors.open(_kept(lab), 1).kept.rows.nbytes)


def _kept(lab: ResultsLab) -> Any:
    return lab.cursors.kept("plain", 3, 0, is_sorted=True)
