"""The image by itself: small, run as nobody in particular, without secrets, and its containers stop when told to."""

from __future__ import annotations

import json
import re

import pytest

from deltabook.cluster.secrets import TOKENS
from tests.cluster.engine import Engine, EngineError
from tests.cluster.report import Report

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]
MOST_BYTES = 1_500_000_000
"""Of which 150 MB are the archive of Spark's classes, which halves the start of each Java."""
SHUT_IN = ("--rm", "--read-only", "--tmpfs", "/tmp:exec", "--cap-drop", "ALL", "--network", "none")


def test_the_image_is_not_larger_than_it_may_be(engine: Engine, image: str, report: Report) -> None:
    (size,) = (json.loads(engine.run("image", "inspect", image))[0]["Size"],)
    report.enter("image", "size", size / 1e6, "MB")
    assert size <= MOST_BYTES


def test_it_runs_as_nobody_in_particular_and_says_what_it_needs(engine: Engine, image: str) -> None:
    config = json.loads(engine.run("image", "inspect", image))[0]["Config"]
    assert config["User"] == "10001:10001"
    assert config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"] == ["tini", "--", "deltabook"]
    secret = re.compile("(?i)token|password|secret|proxy|index_url")
    assert [line for line in config["Env"] if secret.search(line)] == []


def test_every_program_is_there_on_a_read_only_disk(engine: Engine, image: str) -> None:
    found = json.loads(engine.run("run", *SHUT_IN, image, "doctor", "--json"))
    missing = [check["name"] for check in found["checks"] if check["status"] != "ok"]
    assert missing == []


def test_nothing_of_a_developer_or_of_a_cluster_is_in_it(engine: Engine, image: str) -> None:
    names = "|".join(["tests", "pytest", "mypy", "hatchling", "setuptools", *(re.escape(name) for name in TOKENS)])
    script = f'find /opt /var/lib/deltabook /run -maxdepth 7 | grep -E "/({names})$" || true'
    assert engine.run("run", *SHUT_IN, "--entrypoint", "sh", image, "-c", script) == ""


def test_a_container_that_is_told_to_stop_ends_cleanly_at_once(engine: Engine, image: str) -> None:
    options = ["--detach", "--read-only", "--tmpfs", "/tmp:exec", "--network", "none"]
    name = engine.run("run", *options, image, "exchange", "--dir", "/tmp/exchange").strip()
    try:
        for _ in range(600):
            if '"event":"ready"' in engine.run("logs", name):
                break
        engine.run("stop", "--time", "60", name)
        state = json.loads(engine.run("inspect", name))[0]["State"]
        assert (state["Status"], state["ExitCode"]) == ("exited", 0)
        assert '"event":"stopped"' in engine.run("logs", name)
    finally:
        engine.run("rm", "--force", "--volumes", name)


def test_an_engine_that_refuses_says_why(engine: Engine) -> None:
    with pytest.raises(
        EngineError, match=r"expected `docker inspect nothing-of-this-name` to succeed, was exit code 1"
    ):
        engine.run("inspect", "nothing-of-this-name")
    with pytest.raises(EngineError, match="expected an end of `docker events` within"):
        engine.run("events", timeout_s=0.5)
