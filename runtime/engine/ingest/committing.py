"""Committers, which run the commits of epochs: on the thread that closes an epoch, or on a thread of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

__all__ = ["Commit", "Committer", "CommitterThread", "InlineCommitter"]

Commit = Callable[[], None]
"""Function that makes one epoch durable. It raises no `Exception`: the writer stores the error, and raises it later to
its owner."""
T = TypeVar("T")


class Committer(Protocol):
    """Runner of commits, one at a time; not thread-safe."""

    def begin(self, commit: Commit) -> None:
        """Make a commit, now or on another thread; the previous commit must have ended."""

    def settle(self) -> None:
        """Wait until no commit is in progress. Not to be called on the committer's thread."""

    def close(self) -> None:
        """Wait until no commit is in progress, and release everything; no commit may follow."""

    def beside(self, call: Callable[[], T]) -> Callable[[], T]:
        """Start ``call`` within a commit; return a function that waits for its end, and returns or raises as it did."""


class InlineCommitter(Committer):
    """Committer that makes each commit at once, on the thread that closes the epoch."""

    def begin(self, commit: Commit) -> None:
        """See `Committer`."""
        commit()

    def settle(self) -> None:
        """Return at once, because no commit is ever in progress."""

    def close(self) -> None:
        """Return at once, because there is nothing to release."""

    def beside(self, call: Callable[[], T]) -> Callable[[], T]:
        """Return ``call`` itself, which is then called when its result is needed."""
        return call


class CommitterThread(Committer):
    """Committer with its own thread, because writing, syncing and SQLite take as long as thousands of messages.

    A second thread does the work of a commit that can be done while the first one waits for the disk.
    """

    def __init__(self) -> None:
        self._commits: Final[queue.SimpleQueue[Commit | None]] = queue.SimpleQueue()
        self._is_idle: Final = threading.Event()
        self._is_idle.set()
        self._thread: threading.Thread | None = None
        self._beside: Final = ThreadPoolExecutor(1, "committer-beside")

    def begin(self, commit: Commit) -> None:
        """See `Committer`."""
        assert self._is_idle.is_set(), "expected the commit before to have ended"
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
            self._thread.start()
        self._is_idle.clear()
        self._commits.put(commit)

    def settle(self) -> None:
        """See `Committer`."""
        self._is_idle.wait()

    def close(self) -> None:
        """See `Committer`."""
        self._is_idle.wait()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._commits.put(None)
            thread.join()
        self._beside.shutdown()

    def beside(self, call: Callable[[], T]) -> Callable[[], T]:
        """See `Committer`."""
        return self._beside.submit(call).result

    def _run(self) -> None:
        while (commit := self._commits.get()) is not None:
            try:
                commit()
            finally:
                del commit  # frees the epoch now, not when the next one arrives
                self._is_idle.set()
