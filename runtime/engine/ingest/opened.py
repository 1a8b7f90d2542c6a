"""What the epoch that is open holds at the step that applies messages, until it is emitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from runtime.engine.ingest.deltas import Deltas
from runtime.epochs import Cut
from runtime.formats import DeadLetter

__all__ = ["OpenEpoch"]

_LARGE_ROWS: Final = 1 << 16
_MOST_LETTERS: Final = 10_000


class OpenEpoch:
    """Counts what is in the open epoch, and gathers what has been applied since the last `Deltas`.

    Small batches are joined, of ten thousand small origins say, and large ones never copied. At most some ten thousand
    malformed tuples of an epoch are described.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """``now_s`` is a monotonic clock."""
        self._now_s = now_s
        self.messages = 0
        """Well-formed messages of the epoch."""
        self._malformed = 0
        self._described = 0
        self._has_changes = False
        self._forget()

    def _forget(self) -> None:
        self._batches: dict[str, list[pa.RecordBatch]] = {}
        self._rows = 0
        self._count = 0
        self._cuts: dict[str, Cut] = {}
        self._letters: list[DeadLetter] = []
        self._set_aside = 0

    @property
    def holds_any(self) -> bool:
        """Whether there is anything that an epoch would have to seal."""
        return bool(self.messages or self._malformed or self._has_changes)

    @property
    def is_large(self) -> bool:
        """Whether to emit what there is before more is added."""
        return self._rows >= _LARGE_ROWS

    def add(self, deltas: Mapping[str, pa.RecordBatch], messages: int) -> None:
        """Add what these messages changed."""
        for name, batch in deltas.items():
            if batch.num_rows:
                self._batches.setdefault(name, []).append(batch)
                self._rows += batch.num_rows
                self._has_changes = True
        self.messages += messages
        self._count += messages

    def must_close(self) -> None:
        """Something has happened that an epoch has to be closed for, though it may bring no row."""
        self._has_changes = True

    def set_aside(self, letters: tuple[DeadLetter, ...], count: int) -> None:
        """Add malformed tuples: so many, of which these are described."""
        if count:
            room = max(0, _MOST_LETTERS - self._described)
            self._letters += letters[:room]
            self._described += len(letters[:room])
            self._malformed += count
            self._set_aside += count

    def moved(self, origin: str, cut: Cut) -> None:
        """An origin's input is cut here if the epoch closes now."""
        self._cuts[origin] = cut

    def take(self) -> Deltas | None:
        """What was gathered; None if that is nothing."""
        if not (self._count or self._set_aside or self._batches):
            return None
        return self._taken(self._cuts, -1)

    def close(self, epoch: int, cuts: Mapping[str, Cut]) -> Deltas:
        """What was gathered, as the last of the epoch; the next one is open then."""
        deltas = self._taken(cuts, epoch)
        self.messages = self._malformed = self._described = 0
        self._has_changes = False
        return deltas

    def _taken(self, cuts: Mapping[str, Cut], closes: int) -> Deltas:
        joined = {
            name: batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            for name, batches in self._batches.items()
        }
        deltas = Deltas(joined, self._count, cuts, tuple(self._letters), self._set_aside, closes, self._now_s())
        self._forget()
        return deltas
