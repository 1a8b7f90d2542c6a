"""Who reads whom, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from deltabook.cli import main
from deltabook.wire.directories import Claim
from runtime.upstreams import Consumer, Consumers, SessionClaim, SessionClaims


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["upstream", *arguments])


def test_a_consumer_is_listed_and_forgotten(tmp_path: Path) -> None:
    Consumers(tmp_path).put(Consumer("18c3", "/runs/main", "db-1", "a", 41, 1_700_000_000 * 10**9))
    where = str(tmp_path)
    assert [each["epoch"] for each in json.loads(run("consumers", where, "--json").stdout)] == [41]
    assert "2023-11-14 22:13:20" in run("consumers", where).stdout
    done = run("forget", where, "18c4")
    assert (done.exit_code, "out of 18c3, was '18c4'" in done.stderr) == (1, True)
    assert run("forget", where, "18c3").exit_code == 0
    assert json.loads(run("consumers", where, "--json").stdout) == []


def test_a_session_is_listed_and_released(tmp_path: Path) -> None:
    SessionClaims(tmp_path).take(SessionClaim("S1", "18c3", "/runs/a", Claim("db-1", 7)))
    where = str(tmp_path)
    assert [each["directory"] for each in json.loads(run("sessions", where, "--json").stdout)] == ["/runs/a"]
    assert "process 7 on db-1" in run("sessions", where).stdout
    done = run("release", where, "S2")
    assert (done.exit_code, "out of S1, was 'S2'" in done.stderr) == (1, True)
    assert run("release", where, "S1").exit_code == 0
    assert json.loads(run("sessions", where, "--json").stdout) == []
