"""The reactor polls without sleeping while requests come, and for a while after the newest."""

from __future__ import annotations

from twisted.internet.task import Clock

from exchange_server.wakefulness import Wakefulness


class Requests:
    def __init__(self) -> None:
        self.inputs = 7


def sleeps_for_s(clock: Clock) -> float:
    """How long a reactor would sleep now."""
    times: list[float] = [call.getTime() for call in clock.getDelayedCalls()]  # type: ignore[misc]  # of Twisted's own
    return min(times) - clock.seconds()


def test_it_polls_while_requests_come_and_sleeps_afterwards() -> None:
    clock, requests = Clock(), Requests()
    wakefulness = Wakefulness(requests, clock, 0.005)
    wakefulness.start()
    assert (wakefulness.is_awake, sleeps_for_s(clock)) == (False, 0.01)
    requests.inputs += 1
    clock.advance(0.01)
    assert (wakefulness.is_awake, sleeps_for_s(clock)) == (True, 0)
    clock.advance(0.004)
    requests.inputs += 1
    clock.advance(0)
    clock.advance(0.004)
    assert wakefulness.is_awake
    clock.advance(0.002)
    assert (wakefulness.is_awake, sleeps_for_s(clock)) == (False, 0.01)


def test_once_stopped_it_leaves_no_call_behind() -> None:
    clock = Clock()
    wakefulness = Wakefulness(Requests(), clock, 0.005)
    wakefulness.stop()
    wakefulness.start()
    wakefulness.stop()
    assert clock.getDelayedCalls() == []
