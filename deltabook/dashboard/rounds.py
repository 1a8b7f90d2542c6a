"""Asks again and again: a round, a pause, the next round; never two at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.dashboard.asking import one_line
from deltabook.wire.http.peer import ClientError

__all__ = ["Rounds"]


class Rounds:
    """Calls an asynchronous function, and again some time after it has ended."""

    _log = Logger()

    def __init__(
        self, clock: Any, every_s: float, act: Callable[[], Awaitable[None]], failed: Callable[[str], None]
    ) -> None:
        """``failed`` is told in one line why a round has not come to its end."""
        self._clock, self._every_s, self._act, self._failed = clock, every_s, act, failed
        self._call: Any = None
        self._round: Deferred[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Begin the first round."""
        self._call = None
        if not self._is_stopped:
            self._round = Deferred.fromCoroutine(_awaited(self._act()))
            self._round.addErrback(self._tell).addBoth(lambda _: self._again())

    def stop(self) -> None:
        """No further round."""
        self._is_stopped = True
        if self._call is not None:
            self._call.cancel()
        elif self._round is not None:
            self._round.cancel()

    def _again(self) -> None:
        if not self._is_stopped:
            self._call = self._clock.callLater(self._every_s, self.start)

    def _tell(self, failure: Failure) -> None:
        if self._is_stopped:
            return
        is_expected = isinstance(failure.value, OSError | ValueError | ClientError)
        if not is_expected and "twisted" not in type(failure.value).__module__:
            self._log.failure("a peer's answer", failure=failure)
        self._failed(one_line(failure.getErrorMessage()))


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
