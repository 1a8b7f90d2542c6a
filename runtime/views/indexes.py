"""Indexes over a map, each kept from the map's deltas alone.

* `Whole`: sums of everything.
* `Totals`: sums per some of the map's keys.
* `Ranges`: the same, and in ranges of one more key.
* `Members`: all keys that match some of them (fan-out).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.compiler.program import ColumnType, Lookup, Range
from runtime.state import OrderedIndex, SumRow, SumTable
from runtime.state.columnar.arrangement import Arrangement
from runtime.state.columnar.exactsums import Exact, fit, total_of
from runtime.views.deltas import Delta, KeyVector, added_up, aggregated, nullable_words, plain_words
from runtime.views.frames import Frame, integers

__all__ = ["Found", "Index", "IndexSpec", "Members", "Ranges", "Totals", "Whole"]

Integers = npt.NDArray[np.int64]
Found = tuple[list[Exact], list[int] | None]
"""Sums per row, and bounds of their magnitudes if they are known."""


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
        self.table.add([total_of(value, bound) for value, bound in zip(delta.sums, delta.bounds, strict=True)])

    def read(self, frame: Frame, lookup: Lookup) -> Found:
        """Per row of the frame, the sums; its rows are taken out while there is nothing."""
        if not any(self.table.values):
            frame.take(np.zeros(0, np.int64))
        return self.table.repeated(frame.rows), None


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
        if self._is_partial or delta.repeats:
            words, sums = aggregated(words, sums)
        self.table.add(words, sums)

    def read(self, frame: Frame, lookup: Lookup) -> Found:
        """Per row of the frame, the sums; rows that match nothing are taken out of it."""
        words, known = plain_words([frame.keys[bound] for _, bound in lookup.on], frame.rows)
        slots = self.table.lookup(words)
        matches = slots >= 0 if known is None else (slots >= 0) & known
        if not matches.all():
            frame.take(matches)
            slots = slots[matches]
        return self.table.values(slots), None


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
        on, key = [delta.keys[name] for name in self._on], delta.keys[self._ordered]
        words, sums = plain_words(on, len(delta))[0], delta.sums
        keys = key.words[:, 0]
        nulls = [vector.nulls for vector in (*on, key) if vector.nulls is not None]
        if nulls:
            known = ~np.logical_or.reduce(nulls)
            words, keys, sums = words[known], keys[known], [value[known] for value in sums]
        if not self._is_partial:
            self.table.add(words, keys, sums, delta.bounds, key.span, repeats=delta.repeats)
            return
        rows, sums = added_up([*words.T, keys], len(keys), sums, delta.bounds)
        if rows is not None:
            words, keys = words[rows], keys[rows]
        self.table.add(words, keys, sums, span=key.span)

    def read(self, frame: Frame, lookup: Lookup) -> Found:
        """Per row of the frame, the sums of all ranges together; rows that match no group are taken out of it."""
        words, known = plain_words([frame.keys[bound] for _, bound in lookup.on], frame.rows)
        groups = self.table.groups(words)
        matches = groups >= 0 if known is None else (groups >= 0) & known
        if any([vector.nulls is not None for vector in frame.keys.values()]):  # noqa: C419 (a list is quicker)
            for name in _bounds(lookup.ranges):
                nulls = frame.keys[name].nulls if name in frame.keys else None
                if nulls is not None:
                    matches = matches & ~nulls
        if not matches.all():
            frame.take(matches)
            groups = groups[matches]
        found: dict[tuple[object, bool], list[Exact]] = {}
        total: list[Exact] | None = None
        bounds, parts = self.table.bounds(), lookup.ranges or (Range(1),)
        for place, part in enumerate(parts, 1):
            values = self._range(part, groups, frame, found)
            total = _added(total, values, part.sign, [place * bound for bound in bounds])
        assert total is not None
        return total, [len(parts) * bound for bound in bounds]

    def _range(
        self, part: Range, groups: Integers, frame: Frame, found: dict[tuple[object, bool], list[Exact]]
    ) -> list[Exact]:
        if part.high is None:
            if part.low is not None and (part.low, part.low_strict) not in found:
                return self.table.above(groups, integers(part.low, frame), inclusive=not part.low_strict)
            top = self.table.totals(groups)
        else:
            top = self._below(part.high, not part.high_strict, groups, frame, found)
        if part.low is None:
            return top
        low = self._below(part.low, part.low_strict, groups, frame, found)
        result = [_minus(a, b, most) for a, b, most in zip(top, low, self.table.bounds(), strict=True)]
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
        self._rows = Arrangement(width, [(place, False) for place in range(self._on_width)])

    def add(self, delta: Delta) -> None:
        """Take over a delta of the map."""
        self._refresh()
        given, known = plain_words([delta.keys[name] for name in self._on], len(delta))
        words = np.concatenate([given, nullable_words([delta.keys[name] for name in self._binds], len(delta))], axis=1)
        sums = delta.sums
        if known is not None:
            words, sums = words[known], [value[known] for value in sums]
        if delta.repeats:
            words, sums = aggregated(words, sums)
        before, after, _ = self.table.add(words, sums)
        was = np.logical_or.reduce([(value != 0).astype(np.bool_) for value in before])
        holds = np.logical_or.reduce([(value != 0).astype(np.bool_) for value in after])
        self._arrange(words, holds.astype(np.int64) - was)

    def _refresh(self) -> None:
        """Arrange all rows again, if runs were taken over."""
        if self.table.restored:
            self.table.restored = False
            self._rows = Arrangement(self._rows.width, [(place, False) for place in range(self._on_width)])
            words = self.table.words(self.table.live_slots())
            self._arrange(words, np.ones(len(words), np.int64))

    def _arrange(self, words: Integers, change: Integers) -> None:
        moved = change != 0
        self._rows.change(words[moved], change[moved])
        self._rows.forget_edits()  # never stored: the rows follow from the table

    def read(self, frame: Frame, lookup: Lookup) -> Found:
        """Per row of the frame, one row for every key that matches; its keys are bound."""
        self._refresh()
        words, known = plain_words([frame.keys[bound] for _, bound in lookup.on], frame.rows)
        rows, slots = self._rows.probe(words if known is None else words[known])
        frame.take(rows if known is None else np.flatnonzero(known)[rows])
        found = self._rows.keys_of(slots)
        place = self._on_width
        vectors: dict[str, KeyVector] = {}
        for name in self._binds:
            width = _width([self._types[name]])
            nulls = found[:, place] != 0
            part = np.ascontiguousarray(found[:, place + 1 : place + 1 + width])
            vectors[name] = KeyVector(self._types[name], part, nulls if nulls.any() else None)
            place += 1 + width
        frame.bind_keys(lookup.name, vectors)
        return self.table.values(self.table.lookup(found)), None


Index = Whole | Totals | Ranges | Members


def _width(types: Iterable[ColumnType]) -> int:
    return sum(2 if kind == "int128" else 1 for kind in types)


def _minus(left: Exact, right: Exact, bound: int) -> Exact:
    left, right = fit(2 * bound, left, right)
    return left - right


def _added(total: list[Exact] | None, values: list[Exact], sign: int, bounds: Sequence[int]) -> list[Exact]:
    if total is None:
        return values if sign == 1 else [-value for value in values]
    result = []
    for held, value, bound in zip(total, values, bounds, strict=True):
        left, right = fit(bound, held, value)
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
