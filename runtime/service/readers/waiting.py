"""Waiting for what happens on another thread, or for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

__all__ = ["in_time", "told"]


def told(reactor: Any, begin: Callable[[Callable[[int], None]], None]) -> Deferred[int]:
    """Begin something that tells an epoch on a worker; fires with it on the reactor's thread."""
    heard: Deferred[int] = Deferred()
    begin(lambda epoch: reactor.callFromThread(heard.callback, epoch))
    return heard


def in_time(reactor: Any, waited_for: Deferred[Any], timeout_s: float) -> Deferred[bool]:
    """Fires with True once that has fired, whatever with, or with False when the time is over; it goes on then."""
    first: Deferred[bool] = Deferred()

    def give_up() -> None:
        if not first.called:
            first.callback(False)

    timer = reactor.callLater(timeout_s, give_up)

    def done(result: Any) -> Any:
        if timer.active():
            timer.cancel()
        if not first.called:
            first.callback(True)
        return result

    waited_for.addBoth(done)
    return first
