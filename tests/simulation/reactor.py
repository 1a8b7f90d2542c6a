"""Reactor of a simulated process: a clock, calls from threads, and connections that the world makes or refuses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.task import Clock

from tests.simulation.network import Network

__all__ = ["SimulatedReactor"]


class SimulatedReactor(Clock):  # type: ignore[misc, unused-ignore]  # Twisted's classes are Any to mypy
    """Clock that stands still until the world moves it. Calls from threads wait until the world runs them."""

    def __init__(self, network: Network, now_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.rightNow = now_s
        self._network = network
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def callFromThread(self, call: Callable[..., Any], *args: Any, **_: Any) -> None:
        """Run a call on the reactor's thread at a later time."""
        self._calls.append((call, args))

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None) -> Any:
        """Return an attempt to connect, which the network decides."""
        del host, port, timeout, bindAddress
        return self._network.attempt(factory)

    @property
    def waiting(self) -> int:
        """Number of calls from threads that have not run."""
        return len(self._calls)

    def run_one(self) -> None:
        """Run the oldest pending call."""
        call, args = self._calls.popleft()
        call(*args)

    def next_due_s(self) -> float | None:
        """Return the time of the next delayed call, None if there is none."""
        calls: Sequence[Any] = self.getDelayedCalls()
        return min(call.getTime() for call in calls) if calls else None
