"""Transaction block of a session: its status, its savepoints, and the version that its questions read.

```
IDLE ──BEGIN──▶ IN_BLOCK ──error──▶ FAILED ──ROLLBACK TO──▶ IN_BLOCK
  ▲                │ COMMIT, ROLLBACK  │ COMMIT (as ROLLBACK), ROLLBACK
  └────────────────┴───────────────────┘
```

The statements of one simple query message are an implicit block, which reads one version and ends with the message. The
messages of an extended query up to Sync are one transaction too, but each of its questions reads the newest version. A
transaction or a savepoint that is rolled back also loses its settings and cursors.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

import msgspec

from runtime.service.postgres import statements as st
from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.portals import Portal
from runtime.service.postgres.settings import SettingsState
from runtime.service.postgres.statements import Statement

__all__ = ["FAILED", "IDLE", "IN_BLOCK", "SavedState", "TransactionBlock"]

IDLE: Final = b"I"
IN_BLOCK: Final = b"T"
FAILED: Final = b"E"
_MOST_SAVEPOINTS: Final = 100
"""Greatest number of savepoints of a block."""


class SavedState(msgspec.Struct, frozen=True):
    """State of a session at a savepoint."""

    name: str
    """Name of the savepoint."""
    settings: SettingsState
    """Settings of the session."""
    portals: WeakSet[Portal]
    """Portals and cursors of the session."""


class TransactionBlock:
    """State of the transaction of one session."""

    def __init__(self) -> None:
        self.status = IDLE
        """Status byte of ReadyForQuery."""
        self.is_implicit = False
        """True while the statements of a simple query with more than one statement are executed."""
        self.epoch: int | None = None
        """Epoch that all questions of the block read; None before the first question."""
        self.begun: WeakSet[Portal] | None = None
        """Portals and cursors at the begin of the transaction; None before its first command."""
        self._savepoints: list[SavedState] = []

    @property
    def is_pinned(self) -> bool:
        """True if all questions read one epoch."""
        return self.status == IN_BLOCK or self.is_implicit

    def check(self, statement: Statement) -> None:
        """Raise `PostgresError` for a statement that a failed block does not execute."""
        if self.status != FAILED or isinstance(statement, st.End):
            return
        if isinstance(statement, st.Savepoint) and statement.kind == "ROLLBACK":
            return
        raise PostgresError(
            "25P02", "expected ROLLBACK, as the transaction has failed, was another statement",
            hint="A failed transaction executes no statement until it ends.",
        )  # fmt: skip

    def fail(self) -> None:
        """Record the error of a statement."""
        if self.status == IN_BLOCK:
            self.status = FAILED

    def end(self) -> None:
        """Discard the version and the savepoints; the caller sets the status."""
        self.epoch, self.is_implicit, self.begun = None, False, None
        self._savepoints.clear()

    def savepoint(
        self, statement: st.Savepoint, settings: SettingsState, portals: WeakSet[Portal]
    ) -> SavedState | None:
        """Set, release or return to a savepoint; ``settings`` and ``portals`` are those of the session now.

        Returns the state to which the session returns; None if nothing is to be undone. Raises
        `PostgresError` for an unknown savepoint, for one too many, and outside of a block.
        """
        name = statement.name
        names = [each.name for each in self._savepoints]
        if self.status == IDLE:
            raise PostgresError("25P01", f"expected a transaction block for {statement.kind}, was none")
        if statement.kind == "SAVEPOINT":
            if len(names) >= _MOST_SAVEPOINTS:
                raise PostgresError("54000", f"expected at most {_MOST_SAVEPOINTS} savepoints, was one more")
            self._savepoints.append(SavedState(name, settings, portals))
            return None
        if name not in names:
            raise PostgresError("3B001", f"expected a savepoint out of {', '.join(names) or 'none'}, was {name[:80]!r}")
        place = len(names) - 1 - names[::-1].index(name)
        savepoint = self._savepoints[place]
        del self._savepoints[place + (statement.kind == "ROLLBACK") :]
        if statement.kind != "ROLLBACK":
            return None
        self.status = IN_BLOCK
        return savepoint
