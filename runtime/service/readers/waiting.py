"""Waiting for what happens on another thread, or for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

__all__ = ["epoch_of", "in_time"]

T = TypeVar("T")


def epoch_of(reactor: Any, begin: Callable[[Callable[[int], None]], None]) -> Deferred[int]:
    """Begin something that tells an epoch on a worker; fires with it on the reactor's thread."""
    result: Deferred[int] = Deferred()
    begin(lambda epoch: reactor.callFromThread(result.callback, epoch))
    return result


def in_time(reactor: Any, waited_for: Deferred[T | None], timeout_s: float) -> Deferred[T | None]:
    """Fires with what that fires with, or with None when the time is over; it goes on then, and must not fail."""
    first: Deferred[T | None] = Deferred()

    def give_up() -> None:
        if not first.called:
            first.callback(None)

    timer = reactor.callLater(timeout_s, give_up)

    def done(result: T | None) -> T | None:
        if timer.active():
            timer.cancel()
        if not first.called:
            first.callback(result)
        return result

    waited_for.addCallback(done)
    return first
