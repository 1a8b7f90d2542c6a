# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Views are added to a runtime once, shared where the SQL is the same, and dropped by who has added them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import error
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone

from algo_engine.links.backoff import LinkTimes
from algo_engine.links.runtime_views import RuntimeViews
from deltabook.wire.http.peer import HttpPeer
from deltabook.wire.http.reactor import ReactorPort


class Response:
    """An answer with a body."""

    def __init__(self, code: int, body: str) -> None:
        self.code, self._body, self.phrase, self.length = code, body.encode(), b"", len(body)

    def deliverBody(self, protocol: Any) -> None:
        protocol.dataReceived(self._body)
        protocol.connectionLost(Failure(ResponseDone()))


class Runtime:
    """An agent that keeps views as a runtime does."""

    def __init__(self, **views: str) -> None:
        self.views = views
        self.is_there = True
        self.is_slow = False
        self.too_many = 0
        self.asked: list[str] = []
        self._late: list[Callable[[], None]] = []

    def request(self, method: bytes, uri: bytes, headers: Any, body: Any) -> Deferred[Any]:
        path = uri.decode().removeprefix("http://here:1")
        self.asked.append(f"{method.decode()} {path}")
        answer: Deferred[Any] = Deferred()
        if not self.is_there:
            answer.errback(Failure(error.ConnectionRefusedError()))
            return answer
        if method == b"GET":
            offers = [{"name": name, "sql": sql, "columns": []} for name, sql in self.views.items()]
            answer.callback(Response(200, json.dumps(offers)))
        elif method == b"DELETE":
            known = self.views.pop(path.removeprefix("/v1/views/"), None)
            answer.callback(Response(404 if known is None else 200, "{}"))
        else:
            said: list[bytes] = []
            body.startProducing(type("Consumer", (), {"write": lambda _, data: said.append(data)})())
            assert headers.getRawHeaders("content-type") == ["application/json"]
            (view,) = json.loads(b"".join(said))["views"]
            response = self._added(view["name"], view["sql"], view["lane"])
            if self.is_slow:
                self._late.append(lambda: answer.callback(response))
            else:
                answer.callback(response)
        return answer

    def answer_late(self) -> None:
        """Give the answers that are missing."""
        while self._late:
            self._late.pop(0)()

    def _added(self, name: str, sql: str, lane: str) -> Response:
        if self.too_many:
            self.too_many -= 1
            return Response(429, "expected at most 5 requests/s, was more")
        if lane != "express" or "FROM" not in sql:
            return Response(422, "expected a view of the express lane, was another")
        if name in self.views:
            return Response(409, f"expected a new name, was {name}")
        self.views[name] = sql
        return Response(200, "{}")


class Link:
    """What follows a view."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def start(self) -> None:
        self.steps.append("start")

    def stop(self) -> None:
        self.steps.append("stop")


class Lab:
    def __init__(self, path: Path, runtime: Runtime) -> None:
        self.runtime, self.clock = runtime, Clock()
        self.links: dict[str, Link] = {}
        self.outcomes: list[str] = []
        self.failures: list[Exception] = []
        self.file = path / "views.json"
        self.views = RuntimeViews(
            port=ReactorPort(HttpPeer.of("a runtime", "here:1"), self.clock, connect_s=1, agent=runtime),
            file=self.file,
            make_link=lambda view: self.links.setdefault(view, Link()),  # type: ignore[arg-type, return-value]
            clock=self.clock,
            times=LinkTimes(first_delay_s=1, longest_delay_s=1, give_up_s=5),
            on_failure=self.failures.append,
        )

    def add(self, sql: str = "SELECT 1 FROM t") -> None:
        self.views.add("mine", sql, "express", self.outcomes.append)


def test_a_view_is_added_followed_and_dropped(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime())
    lab.add()
    assert (lab.outcomes, lab.runtime.views) == ([""], {"mine": "SELECT 1 FROM t"})
    assert json.loads(lab.file.read_bytes())["views"] == {"mine": "SELECT 1 FROM t"}
    lab.views.drop("mine")
    assert lab.links["mine"].steps == ["start", "stop"]
    assert lab.runtime.views == {}
    assert json.loads(lab.file.read_bytes())["views"] == {}
    assert lab.views.stop().called


def test_an_equal_foreign_view_is_shared_and_stays(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime(mine="SELECT 1\n  FROM t;"))
    lab.add()
    assert lab.outcomes == [""]
    lab.views.drop("mine")
    assert list(lab.runtime.views) == ["mine"]


def test_another_query_of_the_same_name_is_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime(mine="SELECT 2 FROM t"))
    lab.add()
    assert lab.outcomes == ["expected a new name, was mine"]
    lab.views.drop("mine")
    assert lab.runtime.views == {"mine": "SELECT 2 FROM t"}


def test_sql_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime())
    lab.add("SELECT 1")
    assert lab.outcomes == ["expected a view of the express lane, was another"]
    assert lab.links == {}


@pytest.mark.parametrize("sql", ["SELECT 1 FROM t", "SELECT 3 FROM t"])
def test_what_a_killed_process_has_added_is_still_its_own(tmp_path: Path, sql: str) -> None:
    lab = Lab(tmp_path, Runtime())
    lab.add()
    again = Lab(tmp_path, lab.runtime)
    again.add(sql)
    assert again.outcomes == [""]
    assert again.runtime.views == {"mine": sql}
    again.views.drop("mine")
    assert again.runtime.views == {}


def test_a_process_killed_before_the_answer_owns_the_view(tmp_path: Path) -> None:
    """The intent is in the file before the request: else nobody would ever drop the view."""
    lab = Lab(tmp_path, Runtime())
    lab.runtime.is_slow = True
    lab.add()
    assert (lab.runtime.views, lab.outcomes) == ({"mine": "SELECT 1 FROM t"}, [])
    lab.runtime.is_slow = False
    again = Lab(tmp_path, lab.runtime)
    again.add()
    again.views.drop("mine")
    assert again.runtime.views == {}


def test_a_refused_view_is_not_owned_by_the_next_process(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime(mine="SELECT 1 FROM t"))
    lab.add()
    assert lab.outcomes == [""]
    again = Lab(tmp_path, lab.runtime)
    again.views.drop("mine")
    assert list(again.runtime.views) == ["mine"]


def test_a_disk_that_fails_at_the_answer_ends_the_engine(tmp_path: Path) -> None:
    """The strategy would wait for its view without end."""
    lab = Lab(tmp_path, Runtime())
    lab.runtime.is_slow = True
    lab.add("SELECT 1")
    lab.file.with_suffix(".new").mkdir()
    lab.runtime.answer_late()
    assert [type(failure) for failure in lab.failures] == [IsADirectoryError]


def test_a_drop_before_the_answer_spares_foreign_views(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime(mine="SELECT 1 FROM t"))
    lab.runtime.is_slow = True
    lab.add()
    lab.views.drop("mine")
    lab.runtime.answer_late()
    assert list(lab.runtime.views) == ["mine"]
    assert json.loads(lab.file.read_bytes())["views"] == {}


def test_an_absent_runtime_is_retried_for_a_while(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime())
    lab.runtime.is_there = False
    lab.add()
    lab.clock.advance(1)
    lab.runtime.is_there = True
    lab.clock.advance(1)
    assert lab.outcomes == [""]
    gone = Lab(tmp_path, Runtime())
    gone.runtime.is_there = False
    gone.add()
    for _ in range(6):
        gone.clock.advance(1)
    assert "expected the runtime's catalogue to answer within 5 s" in str(gone.failures[0])


def test_a_view_dropped_while_being_added_does_not_stay(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime())
    lab.runtime.is_slow = True
    lab.add()
    lab.views.drop("mine")
    assert lab.runtime.views == {"mine": "SELECT 1 FROM t"}
    lab.runtime.answer_late()
    assert (lab.outcomes, lab.links, lab.runtime.views) == ([], {}, {})
    assert json.loads(lab.file.read_bytes())["views"] == {}


def test_a_runtime_that_has_heard_too_much_is_asked_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime())
    lab.runtime.too_many = 1
    lab.add()
    assert lab.outcomes == []
    lab.clock.advance(1)
    assert lab.outcomes == [""]


def test_nothing_is_asked_after_a_stop(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Runtime())
    lab.runtime.is_there = False
    lab.add()
    lab.views.stop()
    lab.runtime.is_there = True
    lab.clock.advance(10)
    assert lab.runtime.asked == ["POST /v1/views"]


def test_views_that_read_others_come_behind_them_and_go_before(tmp_path: Path) -> None:
    runtime = Runtime()
    runtime.is_slow = True
    lab = Lab(tmp_path, runtime)
    answers: list[str] = []
    for view, sql in (("low", "SELECT a FROM t"), ("high", "SELECT a FROM low"), ("other", "SELECT a FROM t")):
        lab.views.add(view, sql, "express", answers.append)
    assert list(runtime.views) == ["low", "other"]
    runtime.answer_late()
    assert list(runtime.views) == ["low", "other", "high"]
    runtime.is_slow = False
    runtime.asked.clear()
    lab.views.drop("high")
    lab.views.drop("low")
    assert runtime.asked == ["DELETE /v1/views/high", "DELETE /v1/views/low"]
    assert answers == ["", "", ""]


def test_a_drop_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    """A strategy may add and drop views under new names for as long as it runs."""
    lab = Lab(tmp_path, Runtime())
    for name in ("first", "second", "third"):
        lab.views.add(name, "SELECT a FROM t", "express", lab.outcomes.append)
        lab.views.drop(name)
    assert lab.runtime.views == {}
    assert lab.views._drops == {}


def test_what_an_earlier_release_has_added_is_dropped(tmp_path: Path) -> None:
    """Its file has no checksum."""
    (tmp_path / "views.json").write_text('{"mine":"SELECT 1 FROM t"}')
    lab = Lab(tmp_path, Runtime(mine="SELECT 1 FROM t"))
    lab.views.drop("mine")
    assert lab.runtime.views == {}


def test_a_damaged_file_is_set_aside_and_no_view_dropped(tmp_path: Path) -> None:
    first = Lab(tmp_path, Runtime())
    first.add()
    data = first.file.read_bytes()
    for place in range(len(data)):
        first.file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        again = Lab(tmp_path, Runtime(mine="SELECT 1 FROM t"))
        again.views.drop("mine")
        assert list(again.runtime.views) == ["mine"], f"byte {place}"
        assert not again.file.exists()
    assert len(list(tmp_path.glob("views.json.damaged-*"))) == len(data)
