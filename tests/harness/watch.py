"""Waiting for expected conditions, without sleeping."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from tests.harness.stepper import Stepper

__all__ = ["SteppedWatch", "ThreadedWatch", "Watch"]


class Watch(ABC):
    """Signal that a controlled object has changed; a test waits until a condition holds."""

    @abstractmethod
    def changed(self) -> None:
        """Report a change that may affect a condition."""

    @abstractmethod
    def until(self, condition: Callable[[], object], what: str = "the condition to hold") -> None:
        """Wait until the condition holds; raise AssertionError if it does not."""


class ThreadedWatch(Watch):
    """Watch for an engine on threads."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._changed = threading.Condition()

    def changed(self) -> None:
        """See `Watch`."""
        with self._changed:
            self._changed.notify_all()

    def until(self, condition: Callable[[], object], what: str = "the condition to hold") -> None:
        """See `Watch`."""
        with self._changed:
            assert self._changed.wait_for(condition, self._timeout_s), f"expected {what} within {self._timeout_s} s"


class SteppedWatch(Watch):
    """Watch for an engine on a stepper: steps until the condition holds; ``check`` is called after each step."""

    def __init__(self, stepper: Stepper, check: Callable[[], None]) -> None:
        self._stepper = stepper
        self._check = check

    def changed(self) -> None:
        """See `Watch`."""

    def until(self, condition: Callable[[], object], what: str = "the condition to hold") -> None:
        """See `Watch`."""
        while not condition():
            assert self._stepper.step(), f"expected {what}, and no task is left"
            self._check()
