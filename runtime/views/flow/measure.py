"""What a group keeps about one column, as lines of the group table."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.compiler.program import ColumnType
from runtime.views import limbs
from runtime.views.errors import ViewError, ViewOverflowError
from runtime.views.flow.batch import Field, Vector, words_per_value
from runtime.views.flow.operators import Context
from runtime.views.flow.values import GroupValues, ValueChange

__all__ = ["Grouping", "Measure", "sum_words"]

Integers = npt.NDArray[np.int64]
Line = tuple[int, int]
"""First line and number of lines."""

_VALUES: Final = frozenset({"min", "max", "count_distinct", "sum_distinct"})
_MASK: Final = 2**32 - 1
_WIDEST: Final = 2**30


class Grouping(msgspec.Struct, frozen=True):
    """The groups of a batch's rows."""

    order: Integers
    """Sorts the rows by group."""
    first: Integers
    """Where in this order each group starts."""
    words: Integers
    """The groups' words, shape (groups, width)."""
    slots: Integers
    """The groups' slots."""
    slots_of: Callable[[Integers], Integers]
    """Group words → slots of groups that are held."""


class Measure:
    """One column's lines: how a batch changes them."""

    def __init__(
        self, place: int, field: Field, kinds: AbstractSet[str], *, first_line: int, group_width: int, context: Context
    ) -> None:
        type_ = field[1]
        if kinds & {"sum", "sum_distinct"} and type_ not in ("int64", "int128"):
            raise ViewError(f"expected integers to be added up, was {field[0]} {type_}")
        self.place = place
        """Of the column."""
        self.type: ColumnType = type_
        """Of the column."""
        self.lines: dict[str, Line] = {}
        """Kind of aggregate → its lines; besides ``entries``, the number of values with a count other than 0."""
        self.values: GroupValues | None = None
        """Its distinct values, where they are asked for."""
        self._next = first_line
        self._take("count", 1)
        if "sum" in kinds:
            self._take("sum", 2)
        if kinds & _VALUES:
            self.values = GroupValues(group_width, type_, context, ordered=bool(kinds & {"min", "max"}))
            self._take("entries", 1)
            self._take("count_distinct", 1)
            if "sum_distinct" in kinds:
                self._take("sum_distinct", 2)
            for kind in ("min", "max"):
                if kind in kinds:
                    self._take(kind, words_per_value(type_))

    def _take(self, name: str, number: int) -> None:
        self.lines[name] = (self._next, number)
        self._next += number

    @property
    def end(self) -> int:
        """The line behind its last one."""
        return self._next

    def add(self, held: Integers, vector: Vector, weight: Integers, by: Grouping) -> None:
        """Add the rows of a batch to the lines of its groups, shape (lines, groups)."""
        words = tuple(word[by.order] for word in vector.words)
        weight = weight[by.order]
        valid = None if vector.nulls is None else ~vector.nulls[by.order]
        if valid is not None:
            weight = np.where(valid, weight, 0)
        held[self.lines["count"][0]] += np.add.reduceat(weight, by.first)
        if "sum" in self.lines:
            self._add_sum(held, "sum", words, weight, by.first)
        if self.values is None:
            return
        numbers = np.repeat(np.arange(len(by.first)), np.diff(np.append(by.first, len(by.order))))
        matrix = np.stack(words, axis=1)
        if valid is not None:
            numbers, matrix, weight = numbers[valid], matrix[valid], weight[valid]
        self.values.prepare(matrix, by.slots_of)
        self._add_values(held, by.slots, self.values, self.values.change(by.words, by.slots, numbers, matrix, weight))

    def _add_values(self, held: Integers, slots: Integers, values: GroupValues, change: ValueChange) -> None:
        np.add.at(held[self.lines["entries"][0]], change.groups, change.entries)
        np.add.at(held[self.lines["count_distinct"][0]], change.groups, change.present)
        moved = np.flatnonzero(change.present)
        if not len(moved):
            return
        moved = moved[np.argsort(change.groups[moved], kind="stable")]
        numbers = change.groups[moved]
        start = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        touched = numbers[start]
        if "sum_distinct" in self.lines:
            part = held[:, touched]
            self._add_sum(part, "sum_distinct", tuple(change.words[moved].T), change.present[moved], start)
            held[:, touched] = part
        some = touched[held[self.lines["count_distinct"][0], touched] > 0]
        for kind in ("min", "max"):
            if kind in self.lines:
                line, number = self.lines[kind]
                held[line : line + number, touched] = 0
                held[line : line + number, some] = values.extreme(slots[some], last=kind == "max").T

    def _add_sum(
        self, held: Integers, name: str, words: tuple[Integers, ...], weight: Integers, first: Integers
    ) -> None:
        line = self.lines[name][0]
        high, low = limbs.times(*_parts(words), weight)
        low_sums = np.add.reduceat(low, first)
        if limbs.may_overflow(high):
            top, rest = limbs.split_high(high)
            high_sums = limbs.join_high(np.add.reduceat(top, first), np.add.reduceat(rest, first))
        else:
            high_sums = np.add.reduceat(high, first)
        held[line], held[line + 1] = limbs.normalise(held[line] + high_sums, held[line + 1] + low_sums)


def _parts(words: tuple[Integers, ...]) -> tuple[Integers, Integers]:
    """High and low parts, as in `limbs`, of the words of integers."""
    if len(words) == 1:
        return words[0] >> 32, words[0] & _MASK
    low, high = words
    if ((high > _WIDEST) | (high < -_WIDEST)).any():
        raise ViewOverflowError("expected a summand of at most 94 bits, was a longer one")
    return (high << 32) | ((low >> 32) & _MASK), low & _MASK


def sum_words(high: Integers, low: Integers) -> tuple[Integers, Integers]:
    """The words of an int128 from normal parts."""
    return (high << 32) | low, high >> 32
