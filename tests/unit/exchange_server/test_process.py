"""What the process of an exchange sets for all of Python, in processes of their own.

The reactor polls without sleeping while requests come, and for a while after the newest.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from exchange_server.process import Wakefulness


def run(code: str) -> str:
    """What a Python process prints that runs some lines."""
    begin = "from exchange_server.process import choose_reactor, freeze_objects\n"
    done = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "kind"), [("select", "SelectReactor"), ("poll", "PollReactor"), ("asyncio", "AsyncioSelectorReactor")]
)
def test_the_reactor_is_the_one_that_is_named(name: str, kind: str) -> None:
    assert run(f"print(type(choose_reactor('{name}')).__name__)") == kind


def test_a_reactor_is_chosen_once() -> None:
    code = "choose_reactor('default')\ntry: choose_reactor('select')\nexcept ValueError as error: print(error)"
    assert run(code) == "expected to choose a reactor first, was select after another"


def test_objects_of_the_start_are_not_collected() -> None:
    code = (
        "import gc\nkept = [[] for _ in range(1000)]\nfreeze_objects()\n"
        "print(gc.get_freeze_count() > 1000, gc.get_threshold())"
    )
    assert run(code) == "True (50000, 20, 100)"


def test_nothing_chooses_a_reactor_by_being_imported() -> None:
    code = "import exchange_server.app, sys\nprint('twisted.internet.reactor' in sys.modules)"
    assert run(code) == "False"


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
