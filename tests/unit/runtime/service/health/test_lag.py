"""Lags are those of the newest version, and forgotten when nothing is published any more."""

from __future__ import annotations

from runtime.service.health.lag import Freshness, Lags


def test_sparks_lag_expires_unless_epochs_wait() -> None:
    lags = Lags(10.0)
    assert lags.spark_ms(0.0, None) is None
    lags.published(212.34, 5.0)
    assert lags.spark_ms(15.0, 1.0) == 212.3
    assert lags.spark_ms(15.1, None) is None
    assert lags.spark_ms(15.1, 10.1) == 10_100.0


def test_the_express_lag_is_that_of_the_newest_bytes() -> None:
    lags = Lags(10.0)
    for offset, at in ((0, 1.0), (100, 2.0), (200, 3.0)):
        lags.arrived(offset, at)
    lags.stepped(0, 3.0)
    assert lags.express_ms(3.0) is None, "nothing is covered"
    lags.stepped(150, 3.5)
    assert lags.express_ms(3.5) == 1500.0
    lags.stepped(150, 9.0)
    assert lags.express_ms(9.0) == 1500.0, "nothing new"
    lags.stepped(201, 9.0)
    assert lags.express_ms(9.0) == 6000.0
    assert lags.express.count == 3, "each buffer once"
    assert lags.express_ms(19.1) is None


def test_what_comes_again_is_measured_anew() -> None:
    lags = Lags(10.0)
    lags.arrived(-1, 0.0)
    lags.arrived(0, 1.0)
    lags.lost()
    lags.stepped(50, 2.0)
    assert lags.express_ms(2.0) is None
    lags.arrived(50, 3.0)
    lags.stepped(60, 3.25)
    assert lags.express_ms(3.25) == 250.0


def test_of_very_many_that_wait_some_are_marked() -> None:
    lags = Lags(10.0)
    for at in range(100_000):
        lags.arrived(at, float(at))
    assert len(lags._marks) <= 4096
    lags.stepped(1, 100_000.0)
    assert lags.express_ms(100_000.0) == 100_000_000.0, "the oldest is kept"


def test_epochs_that_wait_for_spark_are_bounded() -> None:
    """While Spark does not publish, epochs are sealed for days: the oldest and the newest are exact, others are not."""
    freshness = Freshness(10.0)
    for epoch in range(100_000):
        freshness.sealed(epoch, float(epoch))
    assert len(freshness._waiting) <= 4096
    assert freshness.waited_s(-1, 100_000.0) == 100_000.0
    assert not freshness.is_fresh(50_000, 100_000.0)
    assert freshness.waited_s(99_990, 100_000.0) == 9.0
    assert freshness.waited_s(99_999, 100_000.0) is None


def test_the_stages_of_a_version_add_up_to_its_lag() -> None:
    lags = Lags(10.0)
    lags.arrived(0, 1.0)
    lags.stepped(50, 2.75, 1.5, 2.5)
    assert {name: durations.total_s for name, _, durations in lags.stages()} == {
        "express": 1.75,
        "applied": 0.5,
        "step": 1.0,
        "publish": 0.25,
    }
    lags.arrived(50, 3.0)
    lags.stepped(60, 3.25)
    assert (lags.express.count, lags.applied.count, lags.step.count) == (2, 1, 1), "a version that no message made"
