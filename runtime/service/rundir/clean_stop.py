"""Clean stop: everything that was accepted is sealed, and Spark and the result log reach the last epoch.

```
feed, files, upstreams, which can be read again ──────▶ shut at once
readers that cannot be read again ────────────────────▶ shut once they are quiet
        ▼
everything accepted is formatted and applied ─▶ a last epoch is durable ─▶ Spark has published and committed it
```

All steps together have one timeout. The step at which the timeout expires is logged, and no result is lost. The next
start reads the feed again from the last cut, and publishes the epochs that Spark has not published. Only a reader whose
sender cannot repeat its input loses input that was not sealed. A commit that has begun is completed before the
directory is closed, even after the timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from runtime.spark.config import SparkLaneError

__all__ = ["CleanStop", "StopParts"]

_POLL_SECONDS: Final = 0.01
"""Poll interval in seconds."""
_QUIET_SECONDS: Final = 0.1
"""Duration of silence in seconds after which a reader counts as read to its end."""
_READING_SECONDS: Final = 2.0
"""Time in seconds after which a reader is shut even if its sender never pauses."""


class StopParts(Protocol):
    """Operations on a runtime that a clean stop needs; called on the reactor's thread unless stated otherwise."""

    def shut_replayed(self) -> None:
        """Stop the inputs that can be read again."""

    def shut_all(self) -> None:
        """Stop all inputs."""

    def taken_bytes(self) -> int:
        """Return the number of bytes taken so far from readers that cannot be read again."""

    def is_waiting(self) -> bool:
        """Return True if a reader that cannot be read again holds bytes for which there was no room yet."""

    def is_applied(self) -> bool:
        """Return True if all accepted input is applied."""

    def seal(self, on_sealed: Callable[[], None]) -> None:
        """Close the epoch unless it is empty; ``on_sealed`` is called on any thread, even after an error."""

    def settle(self) -> int:
        """Return the newest epoch once it is durable; raises the errors of commits. Runs on a thread of the pool."""

    def finish_spark(self, epoch: int, timeout_s: float) -> None:
        """Return once Spark has published and committed an epoch; raise `SparkLaneError` if it does not.

        Runs on a thread of the pool.
        """


class CleanStop:
    """Clean stop of a runtime. Belongs to the reactor's thread."""

    _log = Logger()

    def __init__(
        self, reactor: Any, parts: StopParts, timeout_s: float, in_thread: Callable[[Callable[[], Any]], Deferred[Any]]
    ) -> None:
        """Prepare the stop; ``timeout_s`` is the timeout of the whole stop in seconds."""
        self._reactor = reactor
        self._parts = parts
        self._timeout_s = timeout_s
        self._in_thread = in_thread
        self._deadline_s = 0.0
        self._is_hurried = False
        self._hurry: Deferred[None] = Deferred()

    def hurry(self) -> None:
        """End the stop without waiting any longer."""
        if not self._is_hurried:
            self._is_hurried = True
            self._hurry.callback(None)

    def run(self) -> Deferred[None]:
        """Run the stop; the Deferred fires when everything is published, after the timeout, or on `hurry`."""
        self._deadline_s = self._reactor.seconds() + self._timeout_s
        ended: Deferred[None] = Deferred()

        def end(result: object) -> None:
            del result
            if not ended.called:
                ended.callback(None)

        work = Deferred.fromCoroutine(self._run())
        work.addErrback(self._failed)
        work.addBoth(end)
        self._hurry.addCallback(end)
        return ended

    def _failed(self, failure: Failure) -> None:
        if not self._is_hurried:  # otherwise the parts have been stopped meanwhile
            self._log.failure("stopped without a last epoch", failure=failure)

    async def _run(self) -> None:
        parts = self._parts
        parts.shut_replayed()
        is_whole = await self._read_rest()
        parts.shut_all()
        is_whole = await self._until(parts.is_applied) and is_whole
        if self._is_hurried:
            return
        sealed: Deferred[None] = Deferred()
        parts.seal(lambda: self._reactor.callFromThread(sealed.callback, None))
        if not await self._until(lambda: sealed.called):
            self._give_up("before everything accepted was sealed", "the feed is read again from the last epoch")
            return
        settled = self._in_thread(parts.settle)
        if not await self._until(lambda: settled.called):
            settled.addCallbacks(lambda _: None, self._failed)
            self._give_up("while the last epoch was committed", "the next start publishes it")
            return
        epoch = await settled
        if not is_whole:
            self._log.warn("stopped at epoch {epoch} while input was still arriving: input after this epoch is read "
                           "again from sources that can repeat it", epoch=epoch)  # fmt: skip
        if not self._is_hurried:
            await self._finish_spark(epoch)

    def _give_up(self, where: str, rest: str) -> None:
        if not self._is_hurried:
            self._log.warn("stopped {where}: it took longer than {limit} s (--stop-seconds); {rest}",
                           where=where, limit=self._timeout_s, rest=rest)  # fmt: skip

    async def _finish_spark(self, epoch: int) -> None:
        left_s = max(0.0, self._deadline_s - self._reactor.seconds())
        try:
            await self._in_thread(lambda: self._parts.finish_spark(epoch, left_s))
        except SparkLaneError as error:
            self._log.warn("stopped before Spark had committed epoch {epoch}, the next start publishes the rest: "
                           "{reason}", epoch=epoch, reason=str(error))  # fmt: skip
        else:
            self._log.info("everything accepted is sealed and published at epoch {epoch}", epoch=epoch)

    async def _read_rest(self) -> bool:
        """Wait until readers that cannot be read again are quiet; return False if one never pauses."""
        parts, now_s = self._parts, self._reactor.seconds
        begun_s = quiet_s = now_s()
        seen = parts.taken_bytes()

        def is_quiet() -> bool:
            nonlocal seen, quiet_s
            taken = parts.taken_bytes()
            if taken != seen or parts.is_waiting():
                seen, quiet_s = taken, now_s()
            return bool(now_s() - quiet_s >= _QUIET_SECONDS or now_s() - begun_s >= _READING_SECONDS)

        await self._until(is_quiet)
        return bool(now_s() - quiet_s >= _QUIET_SECONDS)

    async def _until(self, claim: Callable[[], bool]) -> bool:
        """Poll until a condition holds; return False if the timeout or `hurry` comes first."""
        result: list[bool] = [claim()]

        def poll() -> None:
            result[0] = claim()
            if result[0] or self._is_hurried or self._reactor.seconds() >= self._deadline_s:
                loop.stop()

        if not result[0]:
            loop = LoopingCall(poll)
            loop.clock = self._reactor
            await loop.start(_POLL_SECONDS)
        return result[0]
