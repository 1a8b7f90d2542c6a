"""When the next batch of the streaming query begins."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from runtime.spark.pace import BatchPace

QUIET_S = 3600.0


def _rests(pace: BatchPace, begun_s: float, waiting: int) -> threading.Thread:
    thread = threading.Thread(target=pace.rest, args=(begun_s, waiting))
    thread.start()
    return thread


def test_it_is_taken_for_granted_that_somebody_listens() -> None:
    BatchPace(QUIET_S).rest(0.0, 0)


@pytest.mark.parametrize(("begun_s", "waiting"), [(100.0 - QUIET_S, 0), (100.0, 16)])
def test_nobody_rests_who_is_late(begun_s: float, waiting: int) -> None:
    """Its time is over, or epochs have piled up."""
    pace = BatchPace(QUIET_S, lambda: 100.0)
    pace.listened_to(False)
    pace.rest(begun_s, waiting)


@pytest.mark.parametrize("wake", [lambda pace: pace.listened_to(True), BatchPace.end])
def test_a_listener_and_the_end_are_not_waited_for(wake: Callable[[BatchPace], None]) -> None:
    looked = threading.Event()

    def now_s() -> float:
        looked.set()
        return 100.0

    pace = BatchPace(QUIET_S, now_s)
    pace.listened_to(False)
    thread = _rests(pace, 100.0, 15)
    assert looked.wait(60.0)
    assert thread.is_alive()
    wake(pace)
    thread.join(60.0)
    assert not thread.is_alive()
