"""The load and the ingest that it is sent to, as processes, on a small scale."""

from __future__ import annotations

import msgspec
import pytest

from bench.ingest.plan import plan_of
from bench.ingest.sources import measure_memory, measure_sources

SOURCES = 20


@pytest.mark.process
def test_every_byte_of_every_source_is_accounted_for() -> None:
    plan = msgspec.structs.replace(plan_of(True), sources_seconds=0.2, sources_bytes_per_s=10_000_000)
    found = {r.what.removeprefix(f"ingest.sources.{SOURCES}."): r for r in measure_sources(SOURCES, plan)}
    assert set(found) == {
        "bytes_per_source", "idle_bytes_per_source", "cpu_s_per_source_s", "bytes_per_s", "messages_per_s",
    }  # fmt: skip
    assert 0 < found["bytes_per_s"].value < 11_000_000
    assert found["cpu_s_per_source_s"].value > 0
    assert found["messages_per_s"].value > 0


@pytest.mark.process
def test_memory_is_watched_from_where_the_plan_says() -> None:
    plan = msgspec.structs.replace(plan_of(True), memory_bytes=30_000_000, memory_from_bytes=1_000_000)
    growth, resident, rate = measure_memory(plan)
    assert growth.value == pytest.approx(resident.max / resident.min)
    assert resident.runs > 0
    assert rate.value > 0
