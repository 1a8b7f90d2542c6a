"""Several views at one version, read from the frames of one change stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from deltabook.wire.results import WEIGHT, Frame, FrameHeader

__all__ = ["Moment", "added_rows", "as_rows"]

Rows = Counter[tuple[Any, ...]]


class Moment:
    """Collects views of a change stream, from their snapshots on, until all of them are at one version.

    The snapshots may be of several versions: if a connection is full after the first of them, it receives the other
    snapshots later, together with the changes since the first one.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._heads: dict[str, FrameHeader] = {}
        self._is_fresh = False
        self.rows: dict[str, Rows] = {}
        """View → its rows with their multiplicities."""

    def take(self, frame: Frame) -> None:
        """Process the next frame; the views of a complete moment stay as they are."""
        head, name = frame.header, frame.header.view
        if self.is_whole:
            return
        if head.kind == "heartbeat":
            self._is_fresh = len(self.rows) == len(self._names)
            return
        if head.kind == "progress" and name in self.rows:
            self._heads[name] = head
            return
        assert head.kind == ("changes" if name in self.rows else "snapshot"), head
        assert frame.rows is not None
        self.rows[name] = added_rows(self.rows.get(name, Counter()), frame.rows)
        self._heads[name] = head

    @property
    def is_whole(self) -> bool:
        """True if all views are present at one version, by their frames or by a later heartbeat."""
        if len(self.rows) < len(self._names):
            return False
        return (
            self._is_fresh or len({(head.to_epoch, *head.feed.get("feed", ())) for head in self._heads.values()}) == 1
        )

    @property
    def epoch(self) -> int:
        """Epoch of the version."""
        return self._newest().to_epoch

    @property
    def sequence(self) -> int:
        """Number of the last message of the feed that the version covers."""
        return self._newest().feed.get("feed", ("", 0))[1]

    def _newest(self) -> FrameHeader:
        return max(self._heads.values(), key=lambda head: (head.to_epoch, head.feed.get("feed", ("", 0))[1]))


def as_rows(table: pa.Table) -> Rows:
    """Return the rows of a table with a column `weight`; decimals without a fraction become integers."""
    return added_rows(Counter(), table)


def added_rows(rows: Rows, table: pa.Table) -> Rows:
    """Return the rows with the changes of such a table added."""
    found = rows.copy()
    columns = [table[name].to_pylist() for name in table.schema.names if name != WEIGHT]
    for *values, weight in zip(*columns, table[WEIGHT].to_pylist(), strict=True):
        found[tuple(value if value is None or isinstance(value, str) else int(value) for value in values)] += weight
    return +found
