"""What a monitor reads of the engine: its events added up by pipeline, and its barriers."""

from __future__ import annotations

from typing import Any

import pytest

from deltabook.wire.durations import Durations
from runtime.engine.listeners import (
    Event,
    QueryFailed,
    QueryStarted,
    TaskCompleted,
    TaskEmitted,
    TaskExpired,
    TaskStarted,
)
from runtime.engine.statistics import Statistics
from runtime.service.health.metrics import EngineFigures, EngineMetrics, Rate, RuntimeMetrics
from tests.generators.monitored import read_samples
from tests.generators.results_lab import ResultsLab

ENGINE = "deltabook_runtime_engine"
EVENTS: list[Event] = [
    QueryStarted("ingest", 0.0),
    QueryStarted("other", 0.0),
    TaskStarted("ingest", 0.0, "format", 0, 3, 300),
    TaskEmitted("ingest", 0.5, "format", 1, 40),
    TaskCompleted("ingest", 0.5, "format", 0, 3, 300, 0.5),
    TaskCompleted("ingest", 0.75, "format", 1, 2, 200, 0.25),
    TaskCompleted("ingest", 1.0, "apply", 1, 1, 40, 0.125),
    TaskExpired("other", 1.0, "late", 7),
    QueryFailed("other", 1.0, "a cause"),
]


def times(*microseconds: int) -> Durations:
    """So long ones."""
    durations = Durations()
    for each in microseconds:
        durations.add(each / 1e6)
    return durations


DURATIONS = times(*[4] * 98, 64, 64)
COMMITS = times(2, 2, 2)
EXPRESS = times(*[4] * 5)


def told(*events: Event) -> EngineMetrics:
    """At second 2 of the engine's clock, with rates over four seconds."""
    statistics = Statistics(window_s=4.0)
    for event in events:
        statistics.on_event(event)
    return EngineMetrics(
        statistics, lambda: DURATIONS, lambda: COMMITS, lambda: [("express", "All of it.", EXPRESS)], lambda: 2.0
    )


def samples(metrics: EngineMetrics, figures: dict[str, Any]) -> dict[tuple[str, ...], float]:
    """By name and label values, as a monitor reads them."""
    text, content_type = RuntimeMetrics(metrics, lambda: figures).answer("")
    assert content_type.startswith("text/plain")
    return read_samples(text)


def test_events_are_added_up_by_pipeline() -> None:
    found = samples(told(*EVENTS), {})
    assert found[f"{ENGINE}_queries_running",] == 1
    assert found[f"{ENGINE}_queries_failed_total",] == 1
    assert found[f"{ENGINE}_tasks_total", "format", "ingest"] == 2
    assert found[f"{ENGINE}_tasks_total", "apply", "ingest"] == 1
    assert found[f"{ENGINE}_task_seconds_total", "format", "ingest"] == 0.75
    assert found[f"{ENGINE}_inputs_total", "format", "ingest"] == 5
    assert found[f"{ENGINE}_tuples_total", "format", "ingest"] == 40
    assert found[f"{ENGINE}_expired_inputs_total",] == 7


def test_barriers_and_commits_are_histograms_of_seconds() -> None:
    found = samples(told(), {})
    buckets = {key[1]: value for key, value in found.items() if key[0] == f"{ENGINE}_barrier_seconds_bucket"}
    assert list(buckets.values()) == [0, 0, 98, 98, 98, 98, *[100] * 20]
    assert float(list(buckets)[2]) == pytest.approx(4e-6)
    assert found[f"{ENGINE}_barrier_seconds_sum",] == pytest.approx(520e-6)
    assert list(buckets)[-1] == "+Inf"
    assert found[f"{ENGINE}_commit_seconds_bucket", "+Inf"] == 3
    assert found["deltabook_runtime_express_seconds_bucket", "4e-06"] == 5


def test_how_long_calls_of_a_pipeline_took_is_a_histogram() -> None:
    found = samples(told(*EVENTS), {})
    buckets = {key[1:]: n for key, n in found.items() if key[0] == f"{ENGINE}_task_duration_seconds_bucket"}
    assert sorted(n for key, n in buckets.items() if "format" in key) == [0.0] * 18 + [1.0] + [2.0] * 7
    bounds = [{key for key in buckets if name in key} for name in ("format", "apply")]
    assert len(bounds[0]) == len(bounds[1]) == 26, "the same, so that they can be added up"
    assert found[f"{ENGINE}_task_duration_seconds_sum", "format", "ingest"] == 0.75
    assert found[f"{ENGINE}_task_duration_seconds_count", "apply", "ingest"] == 1


def test_a_status_answer_has_the_moments_figures() -> None:
    assert told(*EVENTS).figures() == EngineFigures(
        queries_running=1,
        queries_failed=1,
        tasks=3,
        tasks_per_s=0.8,
        tuples_per_s=10.0,
        expired_inputs=7,
        busiest="format",
        barriers=100,
        barrier_p50_us=4,
        barrier_p99_us=64,
    )
    assert EngineMetrics(Statistics()).figures() == EngineFigures()


def test_a_monitor_that_asks_for_another_format_gets_it() -> None:
    text, content_type = RuntimeMetrics(told(*EVENTS), dict).answer("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_the_service_answers_a_monitor() -> None:
    """Without metrics there is no such path."""
    answer = ResultsLab(metrics=RuntimeMetrics(told(*EVENTS), lambda: {"epoch": 3})).ask("/metrics")
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, "text/plain")
    assert b"\ndeltabook_runtime_epoch 3.0\n" in answer.body
    assert ResultsLab().ask("/metrics").status == 404


def test_a_rate_is_told_between_two_looks() -> None:
    rate = Rate()
    assert rate.per_second(100, 10.0) == 0.0, "nothing to compare with"
    assert rate.per_second(400, 12.0) == 150.0
    assert rate.per_second(500, 12.1) == 150.0, "too soon"
    assert rate.per_second(400, 14.0) == 0.0
