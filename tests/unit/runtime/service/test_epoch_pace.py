"""When epochs are closed."""

from __future__ import annotations

from runtime.service.epoch_pace import EpochPace


def test_without_spark_every_interval_has_an_epoch() -> None:
    pace = EpochPace(0.1)
    assert [pace.is_due(now_s, 5, None) for now_s in (0.0, 0.05, 0.1, 0.15, 0.2)] == [True, False, True, False, True]


def test_an_epoch_is_closed_when_spark_becomes_free() -> None:
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 5, 5)
    assert not pace.is_due(0.2, 6, 5)
    assert pace.is_due(0.25, 6, 6)
    assert not pace.is_due(0.3, 7, 7), "the interval is not over"


def test_an_epoch_that_spark_does_not_take_is_followed_by_others() -> None:
    """While Spark starts, or hangs, the state of the feed is committed all the same."""
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 5, 5)
    assert not pace.is_due(0.9, 6, 5)
    assert pace.is_due(1.0, 6, 5)
    assert not pace.is_due(1.9, 7, 5)
    assert pace.is_due(2.0, 7, 5)


def test_no_more_epochs_wait_for_spark_than_32() -> None:
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 36, 5)
    assert not pace.is_due(100.0, 37, 5)
    assert pace.is_due(100.0, 37, 6)


def test_epochs_go_on_slowly_however_long_spark_takes_to_start() -> None:
    """Else the open epoch would grow for as long as a start takes."""
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 36, 0, is_spark_up=False)
    assert not pace.is_due(0.9, 37, 0, is_spark_up=False)
    assert pace.is_due(1.0, 37, 0, is_spark_up=False)
    assert not pace.is_due(2.0, 38, 0)
