"""A streaming query that ends without having been stopped by us has failed, whatever Spark says of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.epochs import ResultLog
from runtime.spark.config import SparkConfig
from runtime.spark.lane import SparkLane


@pytest.mark.parametrize(("is_stopped", "reason"), [(True, None), (False, "the streaming query was stopped by Spark")])
def test_an_end_without_an_error(tmp_path: Path, is_stopped: bool, reason: str | None) -> None:
    """Spark ends its queries so when a master takes the application away."""
    session: Any = None
    results = ResultLog(tmp_path / "results")
    lane = SparkLane(
        session, SparkConfig(), tmp_path / "epochs", tmp_path / "checkpoint", results=results, on_published=print
    )
    query: Any = SimpleNamespace(awaitTermination=lambda: None)
    ends: list[str | None] = []
    if is_stopped:
        lane.stop()
    lane._watch(query, ends.append)
    assert (ends, lane.has_failed) == ([reason], not is_stopped)
