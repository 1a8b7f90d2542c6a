"""When the next batch of the streaming query begins."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from runtime.spark.lane import BatchPace

QUIET_S = 3600.0


def _resting(pace: BatchPace, begun_s: float, version: int) -> threading.Thread:
    thread = threading.Thread(target=pace.rest, args=(begun_s, version))
    thread.start()
    return thread


def test_it_is_taken_for_granted_that_somebody_listens() -> None:
    BatchPace(QUIET_S).rest(0.0, 0)


@pytest.mark.parametrize(("begun_s", "version"), [(100.0 - QUIET_S, 40), (100.0, 24), (100.0, 29)])
def test_nobody_rests_who_is_late_or_waited_for(begun_s: float, version: int) -> None:
    """The time is over, 16 epochs wait, or one of them is waited for."""
    pace = BatchPace(QUIET_S, lambda: 100.0)
    pace.listened_to(False)
    pace.sealed(30, is_awaited=True)
    pace.sealed(40, is_awaited=False)
    pace.rest(begun_s, version)


@pytest.mark.parametrize(
    "wake",
    [
        lambda pace: pace.listened_to(True),
        lambda pace: pace.sealed(41, is_awaited=True),
        lambda pace: pace.sealed(46, is_awaited=False),
        BatchPace.end,
    ],
)
def test_what_comes_meanwhile_ends_the_rest(wake: Callable[[BatchPace], None]) -> None:
    looked = threading.Event()

    def now_s() -> float:
        looked.set()
        return 100.0

    pace = BatchPace(QUIET_S, now_s)
    pace.listened_to(False)
    pace.sealed(40, is_awaited=False)
    thread = _resting(pace, 100.0, 30)
    assert looked.wait(60.0)
    pace.sealed(45, is_awaited=False)
    assert thread.is_alive()
    wake(pace)
    thread.join(60.0)
    assert not thread.is_alive()
