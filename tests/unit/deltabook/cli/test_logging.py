"""Logs go to standard error, one line an event."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from twisted.logger import LogEvent, LogLevel
from twisted.python.failure import Failure

from deltabook.cli._logging import LogOrigin, json_line, text_line

CODE = """
from deltabook.cli._logging import start_logging
from twisted.logger import Logger
log = Logger(namespace="feed")
start_logging("{form}", debug={debug})
log.debug("detail")
log.info("{{n}} listeners", n=3)
Logger(namespace="twisted.web").info("a factory starts")
Logger(namespace="twisted.web").warn("a library warns")
start_logging("text")
log.debug("hidden again")
"""


def logged(form: str, debug: bool) -> tuple[str, list[str]]:
    code = CODE.format(form=form, debug=debug)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr.splitlines()


def test_events_are_lines_on_standard_error() -> None:
    out, lines = logged("text", debug=False)
    assert out == ""
    assert [line.split(" ", 1)[1] for line in lines] == ["info feed: 3 listeners", "warn twisted.web: a library warns"]


def test_debug_admits_debug_events_until_the_level_is_reset() -> None:
    _, lines = logged("json", debug=True)
    assert [msgspec.json.decode(line)["message"] for line in lines] == [
        "detail",
        "3 listeners",
        "a factory starts",
        "a library warns",
    ]


@pytest.fixture
def event() -> LogEvent:
    try:
        raise ValueError("expected 1, was 2")
    except ValueError:
        failure = Failure()  # type: ignore[no-untyped-call]
    return {"log_time": 0.0, "log_level": LogLevel.critical, "log_format": "a\nb", "log_failure": failure}


def test_a_failure_follows_its_text_line(event: LogEvent) -> None:
    first, second, *rest = text_line(event).splitlines()
    assert first.endswith("critical -: a")
    assert second == "  b"
    assert rest[-1].endswith("expected 1, was 2")


def test_a_failure_is_a_member_of_its_json_line(event: LogEvent) -> None:
    line = json_line(event)
    assert line.count("\n") == 1
    record = msgspec.json.decode(line)
    assert record["level"] == "critical"
    assert "expected 1, was 2" in record["traceback"]


ORIGIN = LogOrigin("r7", "runtime", "there", 12, is_named=True)


def test_a_json_line_has_its_origin_and_its_fields() -> None:
    event = {"log_time": 2.0, "log_format": "{n} of {name}", "n": 3, "name": "x" * 2000, "o": object(), "b": None}
    record = msgspec.json.decode(json_line({**event, "log_namespace": "runtime.feed"}, ORIGIN, {"epoch": 0}))
    assert record.pop("message").startswith("3 of xxx")
    assert record == {
        "time": 2.0,
        "level": "info",
        "run": "r7",
        "role": "runtime",
        "host": "there",
        "pid": 12,
        "namespace": "runtime.feed",
        "epoch": 0,
        "fields": {"n": 3, "name": "x" * 1000, "b": None},
    }


def test_what_a_library_says_is_not_taken_apart() -> None:
    event = {"log_format": "{system}", "system": "s", "log_namespace": "twisted.web"}
    assert "fields" not in msgspec.json.decode(json_line(event, ORIGIN))


def test_a_message_has_a_longest_length() -> None:
    record = msgspec.json.decode(json_line({"log_format": "{text}", "text": "x" * 100_000}))
    assert record["message"].endswith("x… (100000 characters)")
    assert len(record["message"]) < 8_300


def test_a_text_line_has_the_run_id_that_was_given() -> None:
    event = {"log_time": 0.0, "log_format": "up", "log_namespace": "feed"}
    assert text_line(event, ORIGIN).split(" ", 1)[1] == "info [r7] feed: up\n"
    assert text_line(event, LogOrigin("made-up", "runtime", "there", 12)).split(" ", 1)[1] == "info feed: up\n"
