"""Row 18 of docs/features/engine.md: statistics feed the metrics endpoint, and the engine knows nothing of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import runtime.engine
from deltabook.wire.durations import Durations
from runtime.engine.listeners import Event, QueryStopped, StatisticsListener
from runtime.engine.statistics import Statistics
from runtime.service.health.metrics import EngineMetrics, RuntimeMetrics
from tests.generators.ingest_lab import IngestLab, ListSource, footers, relations, trace, trace_adaptor

ENGINE = "deltabook_runtime_engine"


def samples(metrics: EngineMetrics) -> dict[tuple[str, str], float]:
    """What a monitor reads, by name and pipeline."""
    text, _ = RuntimeMetrics(metrics, dict).answer("")
    return {
        (sample.name, sample.labels.get("pipeline", "")): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_row_18_events_tell_progress_and_where_time_goes(tmp_path: Path, workers: int) -> None:
    """Queries, tasks, tuples and time by pipeline, of an ingest with nothing malformed."""
    data = trace(300)
    source = ListSource(0, data, range(70, len(data), 70))
    statistics = Statistics()
    durations = [Durations()]
    metrics = EngineMetrics(statistics, lambda: durations[-1])
    found: dict[tuple[str, str], float] = {}

    class Watching(StatisticsListener):
        """Looks before the query has ended."""

        def on_event(self, event: Event) -> None:
            if isinstance(event, QueryStopped):
                found.update(samples(metrics))
            statistics.on_event(event)
            durations.append(lab.ingest.barrier_durations)

    lab = IngestLab(tmp_path, [(source, trace_adaptor)], statistics=Watching(), workers=workers, epoch_messages=50)
    assert lab.run() == "finished"
    assert found[f"{ENGINE}_queries_running", ""] == 1
    assert samples(metrics)[f"{ENGINE}_queries_running", ""] == 0
    assert found[f"{ENGINE}_queries_failed_total", ""] == 0
    assert found[f"{ENGINE}_inputs_total", "format 0"] == len(range(70, len(data), 70)) + 2, "and the end"
    assert found[f"{ENGINE}_tuples_total", "format 0"] == 300
    assert 0 < found[f"{ENGINE}_tuples_total", "apply"] <= 300, "some are emitted between tasks"
    for pipeline in ("format 0", "apply", "epochs"):
        assert found[f"{ENGINE}_tasks_total", pipeline] >= 1
        assert found[f"{ENGINE}_task_seconds_total", pipeline] > 0
    assert found[f"{ENGINE}_barrier_seconds_bucket", ""] >= len(footers(tmp_path)) - 1


def test_row_18_a_listener_that_raises_hurts_nothing(tmp_path: Path) -> None:
    class Raising(StatisticsListener):
        def on_event(self, event: Event) -> None:
            raise ArithmeticError(type(event).__name__)

    lab = IngestLab(tmp_path / "raising", [(ListSource(0, trace(40)), trace_adaptor)], statistics=Raising())
    assert lab.run() == "finished"
    IngestLab(tmp_path / "none", [(ListSource(0, trace(40)), trace_adaptor)]).run()
    assert relations(tmp_path / "raising") == relations(tmp_path / "none")


def imported() -> Iterator[tuple[str, str]]:
    """Whatever a module of the engine imports."""
    for path in Path(runtime.engine.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[Any] = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            yield from ((path.name, str(name)) for name in names)


def test_row_18_the_engine_knows_nothing_of_the_endpoint() -> None:
    found = list(imported())
    assert len(found) > 100
    assert [each for each in found if "prometheus" in each[1] or each[1].startswith("runtime.service")] == []
