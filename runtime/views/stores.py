"""What statements look things up in: the indexes over a map.

Equal indexes over one map are one, however many views read it (`IndexSet`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from runtime.compiler.program import ColumnType, Lookup
from runtime.views.deltas import Delta
from runtime.views.frames import Frame
from runtime.views.indexes import Index, IndexSpec, Members, Ranges, Totals, Whole

__all__ = ["IndexSet", "Saved", "read", "spec_of"]


class Saved(Protocol):
    """State that a checkpoint writes as runs of edits, see `runtime.state.KeyedTable`."""

    @property
    def dirty(self) -> bool:
        """Whether anything changed since the last save."""

    def save(self) -> pa.RecordBatch:
        """What changed since the last save."""

    def save_all(self) -> pa.RecordBatch:
        """Everything held."""

    def on_saved(self) -> None:
        """The last save is durable."""

    def on_failed(self) -> None:
        """The last save is lost."""

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Take over a run."""


class IndexSet:
    """The indexes over one map."""

    def __init__(
        self, types: dict[str, ColumnType], sum_names: Sequence[str], inherited: Mapping[IndexSpec, Index] | None = None
    ) -> None:
        """``inherited``: indexes over an equal map, which are taken over when they are asked for."""
        self._types = types
        self._inherited = dict(inherited or {})
        self.sum_names = tuple(sum_names)
        self.indexes: dict[IndexSpec, Index] = {}
        self._fresh: list[Index] = []

    def index(self, spec: IndexSpec) -> Index:
        """The index of this kind, made if it is not there."""
        if spec not in self.indexes:
            found = self._inherited.get(spec)
            if found is None:
                found = self._made(spec)
                self._fresh.append(found)
            self.indexes[spec] = found
        return self.indexes[spec]

    def _made(self, spec: IndexSpec) -> Index:
        sums = 1 + len(self.sum_names)
        if spec.binds:
            return Members(spec, self._types, sums)
        if spec.ordered is not None:
            return Ranges(spec, self._types, sums)
        return Totals(spec, self._types, sums) if spec.on else Whole(sums)

    def forget_inherited(self) -> None:
        """All that will be asked for has been: what is left of another program's indexes may go."""
        self._inherited = {}

    def like(self) -> IndexSet:
        """A set over the same map with the same indexes, with nothing in them."""
        alike = IndexSet(self._types, self.sum_names)
        for spec in self.indexes:
            alike.index(spec)
        return alike

    def fill(self, delta: Delta) -> None:
        """Give what the map holds to the indexes that were made since the last `fill` or `add`."""
        while self._fresh:
            self._fresh[-1].add(delta)
            self._fresh.pop()

    def add(self, delta: Delta) -> None:
        """Take over a delta of the map."""
        self._fresh = []
        for index in self.indexes.values():
            index.add(delta)


def spec_of(lookup: Lookup) -> IndexSpec:
    """The index that a lookup reads."""
    return IndexSpec(tuple(key for key, _ in lookup.on), lookup.ordered, lookup.binds)


def read(frame: Frame, lookup: Lookup, indexes: IndexSet) -> None:
    """Bind what a lookup finds; rows that match nothing leave the frame."""
    sums, bounds = indexes.index(spec_of(lookup)).read(frame, lookup)
    frame.bind_sums(lookup.name, indexes.sum_names, sums, bounds)
