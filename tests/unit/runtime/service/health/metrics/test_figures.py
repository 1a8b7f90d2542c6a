"""Figures of status lines, epochs and batches, as a monitor reads them."""

from __future__ import annotations

from pathlib import Path

from runtime.epochs import Footer
from runtime.service.health.metrics import Noted, figure_metrics
from tests.generators.monitored import samples_of


def test_figures_that_are_not_known_are_left_out() -> None:
    figures = {"epoch": 7, "messages": 12, "dead_letters": 2, "lag_ms": None, "nothing_known": 1, "paused": 0}
    assert samples_of(figure_metrics(figures)) == {
        ("deltabook_runtime_epoch",): 7,
        ("deltabook_runtime_messages_total",): 12,
        ("deltabook_runtime_dead_letters_total",): 2,
        ("deltabook_runtime_paused",): 0,
    }


def test_lags_are_seconds_by_lane() -> None:
    found = samples_of(figure_metrics({"lag_ms": 250.0, "express_lag_ms": 1.5}))
    assert found == {
        ("deltabook_runtime_lag_seconds", "spark"): 0.25,
        ("deltabook_runtime_lag_seconds", "express"): 0.0015,
    }


def test_an_upkeep_that_fails_is_told_whatever_its_reason() -> None:
    name = ("deltabook_runtime_upkeep_failing",)
    assert samples_of(figure_metrics({"upkeep_failed": "a torn snapshot"}))[name] == 1
    assert samples_of(figure_metrics({"upkeep_failed": None}))[name] == 0


def test_an_epoch_has_an_age_and_a_batch_a_duration(tmp_path: Path) -> None:
    now_ns, now_s = [5_000_000_000], iter((1.0, 1.25, 2.0, 2.5, 3.0, 3.125))
    noted = Noted(tmp_path, 1_000, lambda: now_ns[0], lambda: next(now_s))
    now_ns[0] = 8_000_000_000
    assert samples_of(noted.metrics())["deltabook_runtime_epoch_age_seconds",] == 3, "since the start"
    noted.sealed(Footer(0, 1, time_ns=7_500_000_000))
    noted.published(4, 0.5)
    noted.published(2, 0.25)
    noted.disk.write(tmp_path / "segment", [b"x"])
    noted.disk.append(tmp_path / "segment", b"y")
    noted.disk.sync_directory(tmp_path)
    found = samples_of(noted.metrics())
    assert found["deltabook_runtime_epoch_age_seconds",] == 0.5
    assert found["deltabook_runtime_spark_batch_epochs_total",] == 6
    assert found["deltabook_runtime_spark_batch_seconds_count",] == 2
    assert found["deltabook_runtime_spark_batch_seconds_sum",] == 0.75
    assert found["deltabook_runtime_fsync_seconds_count",] == 3
    assert found["deltabook_runtime_fsync_seconds_sum",] == 0.875
    assert found["deltabook_runtime_disk_limit_bytes",] == 1_000
    assert (tmp_path / "segment").read_bytes() == b"xy"


def test_a_clock_that_went_back_makes_no_epoch_younger_than_new(tmp_path: Path) -> None:
    noted = Noted(tmp_path, 1_000, lambda: 5)
    noted.sealed(Footer(0, 1, time_ns=7))
    assert samples_of(noted.metrics())["deltabook_runtime_epoch_age_seconds",] == 0
