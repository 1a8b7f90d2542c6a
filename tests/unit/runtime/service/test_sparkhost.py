"""Spark in a runtime: how long its first version may take, and what is said of cores without work."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.logger import LogEvent, capturedLogs, formatEvent

from runtime.epochs import ResultLog
from runtime.service.sparkhost import SparkHost
from runtime.spark.config import SparkConfig

waits: list[float] = []


class Lane:
    """Publishes at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.start = self.stop = lambda *_: None

    def wait_for(self, epoch: int, timeout_seconds: float) -> None:
        del epoch
        waits.append(timeout_seconds)


def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: SparkConfig, cores: int) -> list[LogEvent]:
    """What a start says."""
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=cores, uiWebUrl=None))
    monkeypatch.setattr("runtime.spark.session.start_session", lambda *_: session)
    monkeypatch.setattr("runtime.spark.lane.SparkLane", Lane)
    host = SparkHost(config, tmp_path, ResultLog(tmp_path / "results"), lambda _: None, lambda _: None)
    with capturedLogs() as events:
        host.start(0)
    return list(events)


def test_cores_that_no_shard_is_for_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = SparkConfig(master="spark://127.0.0.1:1", shards=3)
    (event,) = started(tmp_path, monkeypatch, config, 8)
    assert formatEvent(event) == "3 shards leave 5 of Spark's 8 cores without work: --shards may be higher"
    assert started(tmp_path, monkeypatch, config, 3) == []


def test_a_first_version_may_take_longer_where_workers_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits.clear()
    started(tmp_path, monkeypatch, SparkConfig(), 2)
    started(tmp_path, monkeypatch, SparkConfig(master="yarn"), 2)
    assert waits == [120.0, 600.0]
