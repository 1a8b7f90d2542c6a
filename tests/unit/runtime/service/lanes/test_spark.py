"""Spark in a runtime: how long its first version may take, cores without work, and queries that fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from twisted.logger import capturedLogs, formatEvent

from runtime.epochs import ResultLog
from runtime.service.lanes.spark import SparkHost
from runtime.spark.config import SparkConfig, SparkLaneError

CLUSTER = SparkConfig(master="spark://127.0.0.1:1")
waits: list[float] = []


class Lane:
    """Does what a test says: publishes at once, or fails."""

    fails: ClassVar[list[str]] = []
    """Of the lanes that are started next, those that fail, and why."""
    all: ClassVar[list[Lane]] = []

    def __init__(self, *_: Any, **__: Any) -> None:
        self.reason: str | None = Lane.fails.pop(0) if Lane.fails else None
        self.stopped = False
        Lane.all.append(self)

    def start(self, on_ended: Callable[[str | None], None]) -> None:
        self.on_ended = on_ended
        if self.reason is not None:
            on_ended(self.reason)

    @property
    def has_failed(self) -> bool:
        return self.reason is not None

    def wait_for(self, epoch: int, timeout_seconds: float) -> None:
        del epoch
        waits.append(timeout_seconds)
        self.raise_if_failed()

    def raise_if_failed(self) -> None:
        if self.reason is not None:
            raise SparkLaneError(self.reason)

    def fail(self, reason: str) -> None:
        """After its start."""
        self.reason = reason
        self.on_ended(reason)

    def stop(self) -> None:
        self.stopped = True


class Rig:
    """A host on a Spark that is none."""

    def __init__(self, tmp_path: Path, config: SparkConfig, cores: int) -> None:
        self.is_stopped = False
        java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: self.is_stopped))
        context = SimpleNamespace(defaultParallelism=cores, uiWebUrl=None, _jsc=java)
        self.session = SimpleNamespace(sparkContext=context, stop=lambda: None)
        self.ends: list[str | None] = []
        self.version = 0
        self.results = SimpleNamespace(latest=lambda: self.version)
        self.host = SparkHost(config, tmp_path, cast(ResultLog, self.results), lambda _: None, self.ends.append)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rig]:
    def rig(config: SparkConfig = CLUSTER, cores: int = 2) -> Rig:
        made = Rig(tmp_path, config, cores)
        monkeypatch.setattr("runtime.spark.session.start_session", lambda *_: made.session)
        return made

    monkeypatch.setattr("runtime.spark.lane.SparkLane", Lane)
    monkeypatch.setattr(Lane, "all", [])
    monkeypatch.setattr(Lane, "fails", [])
    waits.clear()
    return rig


def test_cores_that_no_shard_is_for_are_told_of(make: Callable[..., Rig]) -> None:
    config = SparkConfig(master="spark://127.0.0.1:1", shards=3)
    with capturedLogs() as events:
        make(config, 8).host.start(0)
    up, told = map(formatEvent, events)
    assert re.fullmatch(r"Spark is up after [\d.]+ s: session [\d.]+ s, query [\d.]+ s, first version [\d.]+ s", up)
    assert told == "3 shards leave 5 of Spark's 8 cores without work: --shards may be higher"
    with capturedLogs() as events:
        make(config, 3).host.start(0)
    assert len(events) == 1


def test_a_first_version_may_take_ten_minutes(make: Callable[..., Rig]) -> None:
    """Workers may be started later, and everything else is served meanwhile."""
    make(SparkConfig()).host.start(0)
    make(SparkConfig(master="yarn")).host.start(0)
    assert [round(wait) for wait in waits] == [600, 600]


def test_a_failed_query_is_started_again_unnoticed(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.host.start(0)
    for version in range(1, 9):
        rig.version = version
        Lane.all[-1].fail("a machine is gone")
    assert len(Lane.all) == 9
    assert (rig.host.restarts, rig.ends) == (8, [])


def test_a_query_that_fails_often_at_one_version_has_failed(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.host.start(0)
    rig.version = 7
    for _ in range(3):
        Lane.all[-1].fail("expected rows, was none")
        assert rig.ends == []
    Lane.all[-1].fail("expected rows, was none")
    assert rig.ends == ["expected rows, was none"]
    assert rig.host.restarts == 3


def test_lanes_that_fail_at_once_are_counted_all_the_same(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.host.start(0)
    Lane.fails = ["no"] * 5
    Lane.all[-1].fail("no")
    assert rig.ends == ["no"]
    assert len(Lane.all) == 4


def test_a_start_tries_again_and_then_says_why_not(make: Callable[..., Rig]) -> None:
    Lane.fails = ["no process in time"] * 2
    rig = make()
    rig.host.start(0)
    assert rig.host.restarts == 2
    Lane.fails = ["no process in time"] * 5
    rig = make()
    with pytest.raises(SparkLaneError, match="no process in time"):
        rig.host.start(0)
    assert rig.ends == []  # who started it knows


def test_without_its_java_or_in_a_stop_nothing_is_started_again(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.host.start(0)
    rig.is_stopped = True
    Lane.all[-1].fail("Spark is gone")
    assert rig.ends == ["Spark is gone"]
    rig = make()
    rig.host.start(0)
    rig.host.give_up()
    assert Lane.all[-1].stopped
    Lane.all[-1].on_ended(None)
    assert rig.ends == [None]
    rig.host.stop()


def test_a_spark_that_still_starts_finishes_nothing(make: Callable[..., Rig]) -> None:
    """A clean stop has nothing to wait for then."""
    rig = make()
    assert not rig.host.is_up
    with pytest.raises(SparkLaneError, match="still starting"):
        rig.host.finish(3, 10.0)
    rig.host.start(0)
    assert rig.host.is_up
