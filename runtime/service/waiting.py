"""Deferreds for results of other threads, and for timeouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from runtime.engine.ingest import OnSealed
from runtime.service.errors import CatalogueError

__all__ = ["epoch_of", "in_time"]

T = TypeVar("T")


def epoch_of(reactor: Any, begin: Callable[[OnSealed], None]) -> Deferred[int]:
    """Start an operation that seals an epoch on a worker; the Deferred fires with the epoch on the reactor's thread.

    The Deferred fails with `CatalogueError` if no further epoch is sealed.
    """
    result: Deferred[int] = Deferred()

    def done(epoch: int | None) -> None:
        if epoch is not None:
            result.callback(epoch)
        else:
            result.errback(
                CatalogueError(
                    "expected a feed that is being read, was one that has ended or failed: views and readers can be "
                    "changed after a restart"
                )
            )

    begin(lambda epoch: reactor.callFromThread(done, epoch))
    return result


def in_time(reactor: Any, waited_for: Deferred[T | None], timeout_s: float) -> Deferred[T | None]:
    """Return a Deferred with the result of ``waited_for``, which must not fail, or with None after the timeout.

    The operation continues after the timeout.
    """
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
