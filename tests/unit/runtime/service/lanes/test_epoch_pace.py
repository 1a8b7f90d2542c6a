"""When epochs are closed."""

from __future__ import annotations

from runtime.service.lanes.epoch_pace import EpochPace


def test_without_spark_every_interval_has_an_epoch() -> None:
    pace = EpochPace(0.1)
    assert [pace.is_due(now_s, 5, None) for now_s in (0.0, 0.05, 0.1, 0.15, 0.2)] == [True, False, True, False, True]


def test_without_spark_closing_epochs_takes_a_fifth_of_the_time() -> None:
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 5, None, 0.0)
    assert not pace.is_due(0.2, 6, None, 0.06), "5 x 60 ms are not over"
    assert pace.is_due(0.3, 6, None, 0.06)
    assert pace.is_due(0.4, 7, None, 0.06), "the next epoch took no time"


def test_an_epoch_that_takes_long_to_close_lasts_ten_intervals() -> None:
    """What is read again after a crash is bounded."""
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 5, None, 0.0)
    assert not pace.is_due(0.9, 6, None, 5.0)
    assert pace.is_due(1.0, 6, None, 5.0)


def test_an_epoch_is_closed_when_spark_becomes_free() -> None:
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 5, 5)
    assert not pace.is_due(0.2, 6, 5)
    assert pace.is_due(0.25, 6, 6)
    assert not pace.is_due(0.3, 7, 7), "the interval is not over"


def test_an_epoch_ignored_by_spark_is_followed_by_others() -> None:
    """While Spark starts, or hangs, the state of the feed is committed all the same."""
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 5, 5)
    assert not pace.is_due(0.9, 6, 5)
    assert pace.is_due(1.0, 6, 5)
    assert not pace.is_due(1.9, 7, 5)
    assert pace.is_due(2.0, 7, 5)


def test_the_more_epochs_wait_for_spark_the_longer_is_the_next() -> None:
    """So that a start that takes long leaves few to catch up on, and the open epoch ends all the same."""
    pace = EpochPace(0.1)
    assert pace.is_due(0.0, 36, 5)
    assert not pace.is_due(3.1, 37, 5)
    assert pace.is_due(3.2, 37, 5)
    assert pace.is_due(3.3, 38, 38)


def test_waiting_epochs_grow_with_the_root_of_the_time() -> None:
    pace, sealed = EpochPace(0.1), 0
    for tenth in range(6000):
        sealed += pace.is_due(tenth / 10, sealed, 0)
    assert 100 < sealed < 120
