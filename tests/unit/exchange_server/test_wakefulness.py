"""The reactor polls without sleeping while requests come, and for a while after the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exchange_server.process import Wakefulness


class Requests:
    def __init__(self) -> None:
        self.inputs = 7


class Call:
    """A call that a reactor owes. (Twisted's own clock comes to no end of calls without delay.)"""

    def __init__(self, delay_s: float, call: Callable[[], Any]) -> None:
        self.delay_s = delay_s
        self.call = call
        self.is_owed = True

    def active(self) -> bool:
        return self.is_owed

    def cancel(self) -> None:
        self.is_owed = False


class Reactor:
    """A reactor that is turned by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.owed = Call(0, lambda: None)

    def seconds(self) -> float:
        return self.now_s

    def callLater(self, delay: float, call: Callable[[], Any]) -> Call:
        self.owed = Call(delay, call)
        return self.owed

    def turn(self, after_s: float) -> float:
        """Do what is owed after a while; for how long the reactor sleeps then."""
        self.now_s += after_s
        self.owed.call()
        return self.owed.delay_s


def test_it_polls_while_requests_come_and_sleeps_afterwards() -> None:
    reactor, requests = Reactor(), Requests()
    wakefulness = Wakefulness(requests, reactor, 0.005)
    wakefulness.start()
    assert (wakefulness.is_awake, reactor.owed.delay_s) == (False, 0.01)
    assert reactor.turn(0.01) == 0.01
    requests.inputs += 1
    assert reactor.turn(0.01) == 0
    assert wakefulness.is_awake
    requests.inputs += 1
    assert reactor.turn(0.004) == 0
    assert reactor.turn(0.004) == 0
    assert reactor.turn(0.002) == 0.01
    assert not wakefulness.is_awake


def test_once_stopped_it_leaves_no_call_behind() -> None:
    reactor = Reactor()
    wakefulness = Wakefulness(Requests(), reactor, 0.005)
    wakefulness.stop()
    wakefulness.start()
    wakefulness.stop()
    assert not reactor.owed.active()
