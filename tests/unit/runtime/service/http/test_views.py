# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Views over HTTP: exact, sorted or as Arrow; what is not there is a line that says what is."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure

from deltabook.wire.catalogue import Changed
from deltabook.wire.service import Result, ViewLine
from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.epochs import Footer
from runtime.service.catalogue import Control
from runtime.service.http import SiteLimits
from runtime.service.results.hub import Hub
from tests.generators.results_lab import PROGRAM, ResultsLab, parsed
from tests.unit.runtime.service.catalogue.test_catalogue import Lab


def test_views_are_listed_with_class_columns_and_size() -> None:
    lab = ResultsLab()
    plain, largest = lab.ask("/v1/views").json(tuple[ViewLine, ...])
    assert (plain.name, plain.view_class, plain.rows, plain.epoch, plain.failed) == ("plain", "linear", 2, 3, None)
    assert (plain.columns[0].name, plain.columns[0].type, plain.columns[0].scale) == ("h", "int128", 1)
    assert (largest.view_class, bool(largest.reason)) == (PROGRAM.views[1].view_class, True)
    assert lab.ask("/v1/views/").body == lab.ask("/v1/views").body


def test_a_result_is_exact_sorted_and_repeated_by_weight() -> None:
    answer = ResultsLab().ask("/v1/views/plain")
    assert answer.json() == {
        "view": "plain", "epoch": 3, "step": 0, "columns": ["h", "s"], "rows": [[0.5, "x"], [1.0, None], [1.0, None]],
    }  # fmt: skip
    assert b"[0.5," in answer.body
    assert (answer.headers["deltabook-epoch"], answer.headers["cache-control"]) == ("3", "no-store")
    assert answer.json(Result).view == "plain"


def test_a_result_as_arrow_has_decimals_and_says_its_version() -> None:
    table = ResultsLab().arrow("/v1/views/plain").arrow()
    assert table.schema.field("h").type == pa.decimal128(38, 1)
    assert sorted(table["h"].to_pylist()) == [Decimal("0.5"), Decimal("1.0"), Decimal("1.0")]
    assert table.schema.metadata == {b"deltabook.view": b"plain", b"deltabook.epoch": b"3", b"deltabook.step": b"0"}


WIDE = compile_program(
    [NamedSelect("sums", "SELECT a, b FROM r")], [Relation("r", (Column("a", "int64"), Column("b", "int64")))]
)


def test_numbers_beyond_floats_are_text_on_request() -> None:
    hub = Hub(WIDE, lambda: 5)
    hub.publish(Footer(0, 1), {"sums": pa.table({"a": [2**53 + 1], "b": [-3], "weight": [1]})}, {})
    lab = ResultsLab(hub)
    assert b"[[9007199254740993,-3]]" in lab.ask("/v1/views/sums").body
    assert lab.ask("/v1/views/sums?integers=string").json()["rows"] == [["9007199254740993", "-3"]]


@pytest.mark.parametrize("path", ["/v1/views/plain", "/v1/views/plain?integers=number"])
def test_too_many_rows_for_an_answer_need_cursors_or_arrow(path: str) -> None:
    lab = ResultsLab(limits=SiteLimits(json_rows=2))
    answer = lab.ask(path)
    assert (answer.status, answer.text) == (
        413,
        "expected at most 2 rows in one answer, was 3; open a cursor, or ask for Arrow",
    )
    assert lab.arrow(path).arrow().num_rows == 3


def test_more_bytes_than_an_answer_may_have_are_for_cursors() -> None:
    answer = ResultsLab(limits=SiteLimits(answer_bytes=40)).arrow("/v1/views/plain")
    assert answer.status == 413
    assert answer.text.startswith("expected at most 40 bytes in one answer, was ")


def test_explain_is_text() -> None:
    answer = ResultsLab().ask("/v1/views/m/explain")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.body.startswith(f"view m: {PROGRAM.views[1].view_class}".encode())


@pytest.mark.parametrize("path", ["/v1/views/nowhere", "/v1/views/nowhere/explain"])
def test_a_view_that_is_not_there_is_404_and_says_which_are(path: str) -> None:
    answer = ResultsLab().ask(path)
    assert (answer.status, answer.text) == (404, "expected one of the views plain, m, was 'nowhere'")


def test_a_failed_view_is_409_with_its_reason() -> None:
    lab = ResultsLab()
    lab.hub.publish(Footer(3, 4), {}, {"plain": "too long"})
    answer = lab.ask("/v1/views/plain")
    assert (answer.status, answer.text) == (409, "view plain failed: too long")


class Controlled:
    """A site whose catalogue changes when the test seals and publishes."""

    def __init__(self) -> None:
        self.lab = Lab()
        self.hub = Hub(self.lab.catalogue.program, lambda: 5)
        self.hub.publish(Footer(2, 3), {}, {})
        self.service = ResultsLab(self.hub, Control(self.hub, self.lab.catalogue))

    def publish(self, epoch: int, failed: dict[str, str] | None = None) -> None:
        self.hub.publish(Footer(epoch - 1, epoch), {}, failed or {}, self.lab.seal(epoch))
        self.lab.catalogue.published(epoch)

    def add(self, **options: Any) -> Any:
        timeout = "".join(f', "{name}": {value}' for name, value in options.items())
        view = '{"name": "v", "sql": "SELECT a FROM r", "file": "v.sql", "line": 3}'
        return self.service.send("/v1/views", "POST", f'{{"views": [{view}]{timeout}}}'.encode())


def test_without_a_control_views_stay_as_they_are() -> None:
    answer = ResultsLab().ask("/v1/views", "POST")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


def test_an_added_view_is_answered_when_it_is_published() -> None:
    site = Controlled()
    transport = site.add()
    assert transport.value() == b""
    site.publish(4)
    answer = parsed(transport.value())
    changed = answer.json(Changed)
    assert (answer.status, changed.epoch, changed.version) == (200, 4, 4)
    assert [(view.name, view.view_class) for view in changed.views] == [("v", "linear")]
    listed = {view.name: view.since for view in site.service.ask("/v1/views").json(tuple[ViewLine, ...])}
    assert listed == {"first": 1, "v": 4}
    assert b"linear" in site.service.ask("/v1/views/v/explain").body


def test_a_dropped_view_is_answered_when_that_is_published() -> None:
    site = Controlled()
    transport = site.service.send("/v1/views/first?timeout_s=9", "DELETE")
    site.publish(4)
    answer = parsed(transport.value())
    assert (answer.status, answer.json(Changed).epoch) == (200, 4)
    assert site.service.ask("/v1/views").body == b"[]"


def test_one_that_is_not_published_in_time_is_202() -> None:
    site = Controlled()
    transport = site.add(timeout_s=2)
    site.lab.seal(4)
    site.lab.reactor.advance(2)
    answer = parsed(transport.value())
    changed = answer.json(Changed)
    assert (answer.status, changed.epoch, changed.version) == (202, 4, 3)
    transport = site.service.send("/v1/views/v", "DELETE")  # the catalogue knows it, published or not
    site.lab.seal(5)
    site.lab.catalogue.published(5)
    assert parsed(transport.value()).status == 200


def test_one_that_fails_at_once_is_409_with_its_reason() -> None:
    site = Controlled()
    transport = site.add()
    site.publish(4, {"v": "expected less"})
    answer = parsed(transport.value())
    assert (answer.status, answer.text) == (
        409,
        "view v failed: expected less (it stays in the catalogue: `deltabook query drop v` drops it)",
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        ("POST", "/v1/views", b"{", 400, "expected AddViews as JSON, was b'{': "),
        ("POST", "/v1/views", b'{"views":[],"timeout_s":1,"timeout_s":2.0}', 400,
         "expected AddViews as JSON, was b'{\"views\":[],\"timeout_s\":1,\"timeout_s\":2.0}': Object "),
        ("POST", "/v1/views", b'{"views":[]}', 409, "expected a view or a stream to be added, was none"),
        ("POST", "/v1/views", b'{"views":[{"name":"v","sql":"SELECT z FROM r","file":"v.sql","line":3}]}', 422,
         "v.sql:3:8: unknown column 'z'"),
        ("POST", "/v1/views", b'{"views":[{"name":"a b","sql":"SELECT a FROM r"}]}', 409,
         "expected the name of a view in lower case without blanks, was 'a b'"),
        ("POST", "/v1/views", b'{"views":[{"name":"v","sql":"x"}],"timeout_s":-1}', 400, "expected AddViews as JSON"),
        ("DELETE", "/v1/views/nothing", b"", 404, "expected one of the views first, was 'nothing'"),
        ("DELETE", "/v1/views/first?timeout_s=soon", b"", 400, "expected timeout_s (how long to wait until the change"),
        ("DELETE", "/v1/views/first?timeout_s=nan", b"", 400, "expected timeout_s (how long to wait until the change"),
    ],
)  # fmt: skip
def test_a_change_that_is_refused_says_why(method: str, path: str, body: bytes, status: int, expected: str) -> None:
    site = Controlled()
    answer = site.service.ask(path, method, body)
    assert answer.status == status
    assert answer.text.startswith(expected)
    assert site.lab.records == []


def test_a_disconnected_client_still_changes_the_catalogue() -> None:
    site = Controlled()
    transport = site.add()
    transport.protocol.connectionLost(Failure(ConnectionLost()))
    site.publish(4)
    assert [view.name for view in site.hub.views] == ["first", "v"]
