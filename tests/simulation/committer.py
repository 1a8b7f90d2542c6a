"""Committer of a simulated process: epochs become durable at once, or in a later turn that the world chooses."""

from __future__ import annotations

import random
from collections.abc import Callable

from runtime.engine.ingest import Committer
from runtime.engine.ingest.committing import Commit, T

__all__ = ["SimulatedCommitter"]


class SimulatedCommitter(Committer):
    """Replaces `runtime.engine.ingest.CommitterThread`; a crash may come while a commit is pending."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._waiting: Commit | None = None

    def begin(self, commit: Commit) -> None:
        """See `Committer`."""
        assert self._waiting is None, "expected the commit before to have ended"
        self._waiting = commit
        if self._chance.random() < 0.3:
            self.step()

    def settle(self) -> None:
        """See `Committer`."""
        self.step()

    def close(self) -> None:
        """See `Committer`."""
        self.step()

    def beside(self, call: Callable[[], T]) -> Callable[[], T]:
        """See `Committer`; the call is made at once, or when its result is needed."""
        if self._chance.random() < 0.5:
            return call
        result = call()
        return lambda: result

    def step(self) -> bool:
        """Make the pending commit; return False if there is none."""
        commit, self._waiting = self._waiting, None
        if commit is None:
            return False
        commit()
        return True
