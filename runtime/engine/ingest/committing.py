"""Who makes epochs durable: the thread that closes them, or one behind it while the next epoch goes on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

__all__ = ["Committer", "CommitterThread", "InlineCommitter"]

Commit = Callable[[], None]
"""Makes one epoch durable; what goes wrong it keeps to itself."""
T = TypeVar("T")


class Committer(Protocol):
    """Makes one commit after the other; one owner at a time."""

    def begin(self, commit: Commit) -> None:
        """Have this made, now or later; the one before has ended."""

    def settle(self) -> None:
        """Return once no commit is under way; from any thread but the committer's."""

    def close(self) -> None:
        """The same, and no other commit follows."""

    def beside(self, call: Callable[[], T]) -> Callable[[], T]:
        """Start ``call``, by a commit; the function that waits for its result or raises its exception."""


class InlineCommitter(Committer):
    """Makes it at once, on the thread that closes the epoch."""

    def begin(self, commit: Commit) -> None:
        """See `Committer`."""
        commit()

    def settle(self) -> None:
        """There is none."""

    def close(self) -> None:
        """There is none."""

    def beside(self, call: Callable[[], T]) -> Callable[[], T]:
        """The call is made when its result is needed."""
        return call


class CommitterThread(Committer):
    """Makes it on a thread of its own: writing, syncing and SQLite take as long as thousands of messages.

    A second thread makes what a commit can do while it waits for the disk.
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
                del commit  # an epoch is let go now, not while the next one waits for it
                self._is_idle.set()
