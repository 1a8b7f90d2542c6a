"""What every process tells a monitor in the same way."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from deltabook import __version__
from deltabook.wire.durations import Durations
from deltabook.wire.metrics import Exposition, counter, gauge, histogram, labelled, volume


def samples(exposition: Exposition) -> dict[tuple[str, ...], float]:
    text, content_type = exposition.answer("")
    assert content_type.startswith("text/plain")
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.documentation for family in families)
    return {(s.name, *map("=".join, sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_a_process_reports_its_name_time_and_use() -> None:
    found = samples(Exposition("runtime", "loop-7", lambda: iter(()), lambda: 12.5))
    assert found["deltabook_build_info", "role=runtime", "run=loop-7", f"version={__version__}"] == 1
    assert found["deltabook_clock_seconds",] == 12.5
    assert found["process_cpu_seconds_total",] > 0
    assert found["process_resident_memory_bytes",] > 0


def test_its_own_metrics_are_made_anew_with_every_answer() -> None:
    counts = iter(range(1, 100))
    exposition = Exposition("algo", "r", lambda: iter([counter("deltabook_algo_fills", "Fills.", next(counts))]))
    assert [samples(exposition)["deltabook_algo_fills_total",] for _ in range(2)] == [1, 2]


def test_the_run_is_a_label_of_one_metric_alone() -> None:
    exposition = Exposition("algo", "loop-7", lambda: iter([gauge("deltabook_algo_open", "Open.", 3)]))
    assert [name for name, *labels in samples(exposition) if "run=loop-7" in labels] == ["deltabook_build_info"]


def test_values_have_labels_and_durations_have_buckets() -> None:
    durations = Durations()
    durations.add(0.5)

    def collect() -> list[object]:
        values = [(("a",), 1.0), (("b",), 2.0)]
        return [
            labelled(CounterMetricFamily, "deltabook_x", "X.", ("of",), values),
            histogram("deltabook_x_seconds", "Times.", durations),
        ]

    found = samples(Exposition("x", "r", lambda: iter(collect())))  # type: ignore[arg-type]
    assert (found["deltabook_x_total", "of=a"], found["deltabook_x_total", "of=b"]) == (1, 2)
    assert (found["deltabook_x_seconds_count",], found["deltabook_x_seconds_sum",]) == (1, 0.5)
    assert found["deltabook_x_seconds_bucket", "le=+Inf"] == 1


def test_a_volume_has_a_size_and_room(tmp_path: Path) -> None:
    size, free = (next(iter(family.samples)).value for family in volume("deltabook_x", tmp_path))
    assert 0 < free <= size
    assert list(volume("deltabook_x", tmp_path / "gone")) == []


@pytest.mark.parametrize("accepted", ["application/openmetrics-text; version=1.0.0", ""])
def test_a_monitor_chooses_the_format(accepted: str) -> None:
    text, content_type = Exposition("x", "r", lambda: iter(())).answer(accepted)
    assert content_type.startswith("application/openmetrics-text" if accepted else "text/plain")
    assert text.endswith(b"# EOF\n") == bool(accepted)
