"""Versions that wait for the reactor are bounded, whatever brings the input."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from runtime.service.lanes.handover import Handover


class Reactor:
    """Makes a call when the test says so."""

    def __init__(self) -> None:
        self.calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def callFromThread(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.calls.append((call, arguments))

    def turn(self) -> None:
        call, arguments = self.calls.popleft()
        call(*arguments)


def test_inputs_are_held_until_half_is_handed_over() -> None:
    reactor, taken = Reactor(), list[int]()
    held: list[bool] = []
    handover = Handover(reactor, held.append)
    for number in range(1024):
        handover.put(1, taken.append, number)
    assert held == []
    for number in (1024, 1025):  # however few rows a call has
        handover.put(1, taken.append, number)
    assert held == [True]
    while len(held) == 1:
        reactor.turn()
    assert (len(taken), held) == (1026 - 512, [True, False])
    while reactor.calls:
        reactor.turn()
    assert (taken, held) == (list(range(1026)), [True, False])


def test_calls_count_by_their_rows_also_after_errors() -> None:
    reactor, held = Reactor(), list[bool]()
    handover = Handover(reactor, held.append)

    def fail() -> None:
        raise ValueError("broken")

    for _ in range(2):
        handover.put(1 << 19, fail)
    assert held == []
    handover.put(1, fail)
    assert held == [True]
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"):
            reactor.turn()
        reactor.turn()  # its rows leave
    assert held == [True, False]
