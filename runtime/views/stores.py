"""What statements look things up in: indexes over a map, each kept from the map's deltas alone.

* `Whole`: sums of everything.
* `Totals`: sums per some of the map's keys.
* `Ranges`: the same, and in ranges of one more key.
* `Members`: all keys that match some of them (fan-out).

Equal indexes over one map are one, however many views read it (`IndexSet`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import ColumnType, Lookup, Range
from runtime.state import OrderedIndex, SumRow, SumTable
from runtime.state.exactsums import Exact, fit, largest, total_of
from runtime.views.frames import Delta, Frame, KeyVector, aggregated, integers, nullable_words, plain_words

__all__ = ["IndexSet", "IndexSpec", "Members", "Ranges", "Saved", "Totals", "Whole", "read"]

Integers = npt.NDArray[np.int64]


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


class IndexSpec(msgspec.Struct, frozen=True):
    """Which index over a map."""

    on: tuple[str, ...]
    """Keys that are given, by name in order."""
    ordered: str | None = None
    """The key that ranges are about."""
    binds: tuple[str, ...] = ()
    """Keys that are found."""
    watches_signs: bool = False
    """Whether it is asked for negative sums."""

    @property
    def code(self) -> str:
        """A stable name."""
        return f"{','.join(self.on)};{self.ordered or ''};{','.join(self.binds)};{int(self.watches_signs)}"


class Whole:
    """Sums of everything."""

    def __init__(self, sums: int) -> None:
        self.table = SumRow(sums)

    def add(self, delta: Delta) -> None:
        """Take over a delta of the map."""
        self.table.add([total_of(value) for value in delta.sums])

    def read(self, frame: Frame, lookup: Lookup) -> list[Exact]:
        """Per row of the frame, the sums; its rows are taken out while there is nothing."""
        if not any(self.table.values):
            frame.take(np.zeros(0, np.int64))
        return self.table.repeated(frame.rows)


class Totals:
    """Sums per values of some keys; rows with a NULL among them match nothing and are left out."""

    def __init__(self, spec: IndexSpec, types: dict[str, ColumnType], sums: int) -> None:
        self._on = spec.on
        self._is_partial = set(spec.on) != set(types)
        self.table = SumTable(_width(types[name] for name in spec.on), sums)

    def add(self, delta: Delta) -> None:
        """Take over a delta of the map."""
        words, known = plain_words([delta.keys[name] for name in self._on], len(delta))
        sums = delta.sums
        if known is not None:
            words, sums = words[known], [value[known] for value in sums]
        if self._is_partial:
            words, sums = aggregated(words, sums)
        self.table.add(words, sums)

    def read(self, frame: Frame, lookup: Lookup) -> list[Exact]:
        """Per row of the frame, the sums; rows that match nothing are taken out of it."""
        words, known = plain_words([frame.keys[bound] for _, bound in lookup.on], frame.rows)
        slots = self.table.lookup(words)
        matches = slots >= 0 if known is None else (slots >= 0) & known
        if not matches.all():
            frame.take(matches)
            slots = slots[matches]
        return self.table.values(slots)


class Ranges:
    """Sums per values of some keys and in ranges of another, in an ordered index."""

    def __init__(self, spec: IndexSpec, types: dict[str, ColumnType], sums: int) -> None:
        assert spec.ordered is not None
        self._on, self._ordered = spec.on, spec.ordered
        self._is_partial = {*spec.on, spec.ordered} != set(types)
        width = _width(types[name] for name in spec.on)
        self.table = OrderedIndex(width, sums, watches_signs=spec.watches_signs)

    def add(self, delta: Delta) -> None:
        """Take over a delta of the map."""
        vectors = [delta.keys[name] for name in (*self._on, self._ordered)]
        words, known = plain_words(vectors, len(delta))
        sums = delta.sums
        if known is not None:
            words, sums = words[known], [value[known] for value in sums]
        if self._is_partial:
            words, sums = aggregated(words, sums)
        self.table.add(np.ascontiguousarray(words[:, :-1]), words[:, -1], sums)

    def read(self, frame: Frame, lookup: Lookup) -> list[Exact]:
        """Per row of the frame, the sums of all ranges together; rows that match no group are taken out of it."""
        words, known = plain_words([frame.keys[bound] for _, bound in lookup.on], frame.rows)
        groups = self.table.groups(words)
        matches = groups >= 0 if known is None else (groups >= 0) & known
        for name in _bounds(lookup.ranges):
            nulls = frame.keys[name].nulls if name in frame.keys else None
            if nulls is not None:
                matches = matches & ~nulls
        if not matches.all():
            frame.take(matches)
            groups = groups[matches]
        found: dict[tuple[object, bool], list[Exact]] = {}
        total: list[Exact] | None = None
        for part in lookup.ranges or (Range(1),):
            total = _added(total, self._range(part, groups, frame, found), part.sign)
        assert total is not None
        return total

    def _range(
        self, part: Range, groups: Integers, frame: Frame, found: dict[tuple[object, bool], list[Exact]]
    ) -> list[Exact]:
        if part.high is None:
            top = self.table.totals(groups)
        else:
            top = self._below(part.high, not part.high_strict, groups, frame, found)
        if part.low is None:
            return top
        low = self._below(part.low, part.low_strict, groups, frame, found)
        result = [_minus(a, b) for a, b in zip(top, low, strict=True)]
        if part.high is None:
            return result
        # Bounds that cross each other hold nothing between them.
        lows, highs = integers(part.low, frame), integers(part.high, frame)
        crossed = (lows >= highs if part.low_strict and part.high_strict else lows > highs).astype(np.bool_)
        return [np.where(crossed, 0, value) for value in result] if crossed.any() else result

    def _below(
        self, bound: object, inclusive: bool, groups: Integers, frame: Frame,
        found: dict[tuple[object, bool], list[Exact]],
    ) -> list[Exact]:  # fmt: skip
        if (bound, inclusive) not in found:
            values = integers(bound, frame)  # type: ignore[arg-type]  # an expression, hashable
            found[bound, inclusive] = self.table.below(groups, values, inclusive=inclusive)
        return found[bound, inclusive]


class Members:
    """All keys that match given values of some of them, with their sums."""

    def __init__(self, spec: IndexSpec, types: dict[str, ColumnType], sums: int) -> None:
        self._on, self._binds, self._types = spec.on, spec.binds, types
        self._on_width = _width(types[name] for name in spec.on)
        width = self._on_width + _width(types[name] for name in spec.binds) + len(spec.binds)
        self.table = SumTable(width, sums)
        self._places = OrderedIndex(self._on_width, 1, is_sparse=True)

    def add(self, delta: Delta) -> None:
        """Take over a delta of the map."""
        given, known = plain_words([delta.keys[name] for name in self._on], len(delta))
        words = np.concatenate([given, nullable_words([delta.keys[name] for name in self._binds], len(delta))], axis=1)
        sums = delta.sums
        if known is not None:
            words, sums = words[known], [value[known] for value in sums]
        before, after, slots = self.table.add(words, sums)
        was = np.logical_or.reduce([(value != 0).astype(np.bool_) for value in before])
        holds = np.logical_or.reduce([(value != 0).astype(np.bool_) for value in after])
        self._place(words, slots, holds.astype(np.int64) - was)

    def rebuild(self) -> None:
        """Find all places again, after runs were taken over."""
        self._places = OrderedIndex(self._on_width, 1, is_sparse=True)
        slots = self.table.live_slots()
        self._place(self.table.words(slots), slots, np.ones(len(slots), np.int64))

    def _place(self, words: Integers, slots: Integers, change: Integers) -> None:
        moved = change != 0
        self._places.add(np.ascontiguousarray(words[moved, : self._on_width]), slots[moved], [change[moved]])
        self._places.save()  # never stored: it follows from the table
        self._places.on_saved()

    def read(self, frame: Frame, lookup: Lookup) -> list[Exact]:
        """Per row of the frame, one row for every key that matches; its keys are bound."""
        words, known = plain_words([frame.keys[bound] for _, bound in lookup.on], frame.rows)
        groups = self._places.groups(words)
        if known is not None:
            groups = np.where(known, groups, -1)
        rows, slots = self._places.members(groups)
        frame.take(rows)
        found = self.table.words(slots)
        place = self._on_width
        vectors: dict[str, KeyVector] = {}
        for name in self._binds:
            width = _width([self._types[name]])
            nulls = found[:, place] != 0
            part = np.ascontiguousarray(found[:, place + 1 : place + 1 + width])
            vectors[name] = KeyVector(self._types[name], part, nulls if nulls.any() else None)
            place += 1 + width
        frame.bind_keys(lookup.name, vectors)
        return self.table.values(slots)


Index = Whole | Totals | Ranges | Members


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

    def like(self) -> IndexSet:
        """A set over the same map with the same indexes, with nothing in them."""
        alike = IndexSet(self._types, self.sum_names)
        for spec in self.indexes:
            alike.index(spec)
        return alike

    def fill(self, delta: Delta) -> None:
        """Give what the map holds to the indexes that were made since the last `fill` or `add`."""
        fresh, self._fresh = self._fresh, []
        for index in fresh:
            index.add(delta)

    def add(self, delta: Delta) -> None:
        """Take over a delta of the map."""
        self._fresh = []
        for index in self.indexes.values():
            index.add(delta)

    def restored(self) -> None:
        """All runs are applied."""
        for index in self.indexes.values():
            if isinstance(index, Members):
                index.rebuild()


def spec_of(lookup: Lookup) -> IndexSpec:
    """The index that a lookup reads."""
    return IndexSpec(tuple(key for key, _ in lookup.on), lookup.ordered, lookup.binds)


def read(frame: Frame, lookup: Lookup, indexes: IndexSet) -> None:
    """Bind what a lookup finds; rows that match nothing leave the frame."""
    sums = indexes.index(spec_of(lookup)).read(frame, lookup)
    frame.bind_sums(lookup.name, indexes.sum_names, sums)


def _width(types: Iterable[ColumnType]) -> int:
    return sum(2 if kind == "int128" else 1 for kind in types)


def _minus(left: Exact, right: Exact) -> Exact:
    left, right = fit(largest(left) + largest(right), left, right)
    return left - right


def _added(total: list[Exact] | None, values: list[Exact], sign: int) -> list[Exact]:
    if total is None:
        return values if sign == 1 else [-value for value in values]
    result = []
    for held, value in zip(total, values, strict=True):
        left, right = fit(largest(held) + largest(value), held, value)
        result.append(left + right if sign == 1 else left - right)
    return result


def _bounds(ranges: Sequence[Range]) -> set[str]:
    names: set[str] = set()
    todo = [bound for part in ranges for bound in (part.low, part.high) if bound is not None]
    while todo:
        expr = todo.pop()
        name = getattr(expr, "name", None)
        if name is not None:
            names.add(name)
        todo += getattr(expr, "args", ())
    return names
