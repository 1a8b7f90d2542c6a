"""A run directory that is full pauses the feed, and says so; without Spark, on a clock of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.service.config import LiveConfig
from runtime.service.live import LiveRuntime
from runtime.service.rundir.upkeep import UpkeepConfig
from tests.unit.runtime.service.test_live import VIEWS, Reactor, Source


def test_the_feed_is_paused_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # Twisted's test classes are Any to mypy
    config = LiveConfig(directory=tmp_path, feed=("127.0.0.1", 1), upkeep=UpkeepConfig(limit_megabytes=1))
    runtime = LiveRuntime(reactor, config, VIEWS, lambda _: None)
    upkeep = runtime.parts.upkeep
    assert upkeep is not None

    def paused() -> int:
        upkeep.look()
        assert upkeep._thread is not None
        upkeep._thread.join()
        found = runtime.figures()["paused"]
        assert isinstance(found, int)
        return found

    assert paused() == 0
    ballast = tmp_path / "ballast"
    ballast.write_bytes(bytes(1_500_000))
    assert paused() == 1
    disk_bytes = runtime.figures()["disk_bytes"]
    assert isinstance(disk_bytes, int)
    assert disk_bytes > 1_500_000
    ballast.unlink()
    assert paused() == 0
