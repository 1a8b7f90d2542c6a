"""``deltabook query add``, ``drop`` and ``explain`` speak to a running runtime and say in a line what went wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deltabook.cli import main

VIEW = {"name": "v", "class": "linear", "lane": "spark", "reason": "sums", "columns": [{"name": "a"}]}


class Service:
    """Answers as it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.status, self.answer = 200, json.dumps({"epoch": 7, "version": 9, "views": [VIEW]})
        self.statuses: dict[str, int] = {}
        """Status of an answer, by path; else it is ``status``."""
        self.answers: dict[str, str] = {}
        """To what is asked with a method other than GET, by path; else the answer is ``answer``."""
        self.pages: dict[str, str | bytes] = {
            "/v1/views": json.dumps([VIEW]),
            "/v1/views/v/explain": "view v: linear\n",
        }
        service = self

        class Handler(BaseHTTPRequestHandler):
            def _reply(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                service.asked.append((self.command, self.path, json.loads(body) if body else None))
                changed = service.answers.get(self.path, service.answer)
                answer = service.pages.get(self.path, "") if self.command == "GET" else changed
                self.send_response(service.statuses.get(self.path, service.status))
                self.end_headers()
                self.wfile.write(answer.encode() if isinstance(answer, str) else answer)

            do_GET = do_POST = do_DELETE = _reply

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base's own name
                del format, arguments

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["query", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_the_views_of_a_file_are_added_with_their_places(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "mine.sql"
    file.write_text("-- two\nSELECT price FROM bids;\nCREATE VIEW other AS\n  SELECT price FROM asks;\n")
    assert run("add", str(file), "--results", service.address) == (0, "v: linear, lane spark, added at epoch 7\n", "")
    ((method, path, body),) = service.asked
    assert (method, path, body["timeout_s"]) == ("POST", "/v1/views", 60.0)
    places = {"file": str(file), "lane": "", "readers": []}
    assert body["views"] == [
        {"name": "mine", "sql": "SELECT price FROM bids", "line": 2, "column": 1, **places},
        {"name": "other", "sql": "SELECT price FROM asks", "line": 4, "column": 3, **places},
    ]


def test_a_view_may_be_kept_to_the_relations_of_readers(service: Service) -> None:
    select = ("--sql", "SELECT price FROM bids", "--name", "v")
    assert run("add", *select, "--reader", "other", "--reader", "third", "--results", service.address)[0] == 0
    assert [view["readers"] for view in service.asked[0][2]["views"]] == [["other", "third"]]


@pytest.mark.parametrize("sql", ["SELECT price FROM bids", "CREATE VIEW Mine AS SELECT price FROM bids"])
def test_sql_is_added_under_a_name(service: Service, sql: str) -> None:
    name = () if "VIEW" in sql else ("--name", "Mine")
    code, out, _ = run("add", "--sql", sql, *name, "--results", service.address, "--timeout", "3", "--json")
    assert (code, json.loads(out)) == (0, {"query": "v", "added": 7, "class": "linear", "lane": "spark", "version": 9})
    ((_, _, body),) = service.asked
    assert [(view["name"], view["sql"]) for view in body["views"]] == [("mine", "SELECT price FROM bids")]
    assert body["timeout_s"] == 3.0


def test_the_lane_is_that_of_the_option_or_of_each_view(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "mine.sql"
    file.write_text(
        "SELECT price FROM bids; CREATE VIEW q TBLPROPERTIES ('lane' = 'express') AS SELECT price FROM asks"
    )
    run("add", str(file), "--results", service.address)
    run("add", str(file), "--results", service.address, "--lane", "express")
    lanes = [[view["lane"] for view in body["views"]] for _, _, body in service.asked]
    assert lanes == [["", "express"], ["express", "express"]]


def test_a_view_is_dropped(service: Service) -> None:
    assert run("drop", "V", "--results", service.address) == (0, "v: linear, lane spark, dropped at epoch 7\n", "")
    assert service.asked == [("DELETE", "/v1/views/v?timeout_s=60.0", None)]


def test_a_running_view_is_explained(service: Service) -> None:
    assert run("explain", "V", "--results", service.address) == (0, "view v: linear\n\n", "")
    code, out, _ = run("explain", "v", "--results", service.address, "--json")
    assert (code, json.loads(out)["explain"]) == (0, "view v: linear\n")


def test_a_change_not_published_in_time_is_an_error_that_stands(service: Service) -> None:
    service.status, service.answer = 202, json.dumps({"epoch": 7, "version": 5, "views": [VIEW]})
    code, out, error = run("add", "--sql", "SELECT 1", "--name", "v", "--timeout", "2", "--results", service.address)
    assert (code, out) == (1, "v: linear, lane spark, added at epoch 7\n")
    assert "expected epoch 7 to be published within 2 s, newest is 5; the change was accepted" in error
    assert error.count("\n") == 1


def test_a_refusal_is_told_as_it_is(service: Service) -> None:
    service.status, service.answer = 400, "v.sql:1:8: unknown column 'x'\n"
    assert run("add", "--sql", "SELECT x FROM bids", "--name", "v", "--results", service.address) == (
        1, "", "deltabook: error: v.sql:1:8: unknown column 'x'\n")  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["add"], "expected either a FILE of views or --sql, was none"),
        (["add", "{file}", "--sql", "SELECT price FROM bids"], "expected either a FILE of views or --sql, was both"),
        (["add", "--sql", "SELECT price FROM bids"], "expected --name for the view of --sql"),
        (["add", "--sql", "SELECT 1; SELECT 2", "--name", "v"], "expected one SELECT in --sql for --name, was 2"),
        (["add", "--sql", "-- none"], "expected at least one SELECT in --sql, was none"),
        (["add", "{file}"], "expected --results HOST:PORT of a running runtime"),
        (["list", "--results", "here"], "expected HOST:PORT for --results, was 'here'"),
        (["list", "--results", "127.0.0.1:x"], "expected HOST:PORT for --results, was '127.0.0.1:x'"),
        (["list", "--results", "http://127.0.0.1:80"], "expected HOST:PORT for --results, was 'http://127.0.0.1:80'"),
        (["drop", "v"], "expected --results HOST:PORT of a running runtime"),
        (["add", "{stream}"], "expected views over the runtime's relations in"),
        (["explain", "nowhere"], "expected a file, was 'nowhere', which does not exist"),
        (["drop", "v", "--results", "127.0.0.1:1"], "expected a runtime's results service at 127.0.0.1:1"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_one_line(arguments: list[str], expected: str, tmp_path: Path) -> None:
    (tmp_path / "file.sql").write_text("SELECT price FROM bids")
    stream = "CREATE STREAM r(a INT) FROM FILE 'file.sql' LINE DELIMITED csv; SELECT a FROM r;"
    (tmp_path / "stream.sql").write_text(stream)
    given = [one.format(file=tmp_path / "file.sql", stream=tmp_path / "stream.sql") for one in arguments]
    code, out, error = run(*given)
    of_what_options_name = ("expected at least one", "expected views over", "expected a file", "expected a runtime's")
    is_about_options = not expected.startswith(of_what_options_name)
    assert (code, out, error.count("\n")) == (2 if is_about_options else 1, "", 1)
    assert expected in error


ANSWER = json.dumps(
    {
        "epoch": 17,
        "columns": [{"name": "symbol", "type": "VARCHAR"}, {"name": "lots", "type": "HUGEINT"}],
        "rows": [["ACME", 5], [None, 1]],
    }
).replace("5]", "1237940039285380274899124224]")


def test_a_question_is_asked_and_its_answer_names_the_epoch(service: Service) -> None:
    service.answers["/v1/ask"] = ANSWER
    result = CliRunner().invoke(main, ["query", "ask", "SELECT 1", "--epoch", "3", "--results", service.address])
    assert service.asked == [("POST", "/v1/ask", {"sql": "SELECT 1", "epoch": 3})]
    assert "epoch 17" in result.output
    assert "1237940039285380274899124224" in result.output
    assert "NULL" in result.output


def test_an_answer_as_json_is_one_object_with_every_digit(service: Service) -> None:
    service.answers["/v1/ask"] = ANSWER
    result = CliRunner().invoke(main, ["query", "ask", "SELECT 1", "--json", "--results", service.address])
    assert json.loads(result.output) == {
        "epoch": 17, "columns": ["symbol", "lots"], "types": ["VARCHAR", "HUGEINT"],
        "rows": [["ACME", 1237940039285380274899124224], [None, 1]],
    }  # fmt: skip


def test_a_table_of_an_answer_has_so_many_rows(service: Service) -> None:
    service.answers["/v1/ask"] = ANSWER
    result = CliRunner().invoke(main, ["query", "ask", "SELECT 1", "--rows", "1", "--results", service.address])
    assert "the first 1 of 2 rows; --rows prints more" in result.output
    assert "NULL" not in result.output


def test_arrow_is_written_as_it_comes_and_not_with_json(service: Service) -> None:
    service.answers["/v1/ask"] = "bytes"
    arguments = ["query", "ask", "SELECT 1", "--arrow", "--results", service.address]
    assert CliRunner().invoke(main, arguments).output == "bytes"
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert (result.exit_code, result.output) == (2, "deltabook: error: expected either --json or --arrow, was both\n")


def test_views_are_listed_with_what_they_read(service: Service) -> None:
    line = {**VIEW, "rows": 1, "epoch": 4, "failed": None}
    service.pages["/v1/views"] = json.dumps([{**line, "reads": ["bids", "w"]}, line])
    result = CliRunner().invoke(main, ["query", "list", "--results", service.address])
    assert result.output.splitlines() == [
        "v(a): linear, lane spark, reads bids, w, 1 row at epoch 4",
        "v(a): linear, lane spark, 1 row at epoch 4",
    ]


def test_a_file_may_read_the_views_of_files_before_it(tmp_path: Path) -> None:
    low, high = tmp_path / "low.sql", tmp_path / "high.sql"
    low.write_text("SELECT symbol, SUM(volume) AS lots FROM bids GROUP BY symbol")
    high.write_text("SELECT symbol FROM low WHERE lots > 5")
    result = CliRunner().invoke(main, ["query", "explain", str(low), str(high), "--json"])
    found = [json.loads(line) for line in result.output.splitlines()]
    assert [(one["query"], one["class"], one["reads"]) for one in found] == [
        ("low", "linear", ["bids"]), ("high", "linear", ["low"]),
    ]  # fmt: skip
    assert "view low" in found[1]["explain"] or "low" in found[1]["reads"]
