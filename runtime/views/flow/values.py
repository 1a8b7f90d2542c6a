"""The distinct values of a column per group: how many there are, their sum, the first and the last."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.compiler.program import ColumnType
from runtime.state.columnar.arrangement import CountedTable, groups_of
from runtime.views.flow.batch import words_per_value
from runtime.views.flow.operators import Context
from runtime.views.flow.order import order_words
from runtime.views.flow.runs import SortedRuns

__all__ = ["GroupValues", "ValueChange"]

Integers = npt.NDArray[np.int64]
SlotsOf = Callable[[Integers], Integers]
"""Group words → slots of groups that are held."""


class ValueChange(msgspec.Struct, frozen=True):
    """What a batch did to the values of its groups; one entry per (group, value)."""

    groups: Integers
    """Number of the group within the batch."""
    words: Integers
    """The value's words, shape (n, words per value)."""
    entries: Integers
    """1 where a value is counted for the first time, -1 where its count is 0 again."""
    present: Integers
    """1 where the count becomes positive, -1 where it is positive no longer."""


class GroupValues:
    """(group, value) → count, without NULLs; a value is present if its count is positive.

    Where first or last values are asked for, those present stand in sorted runs, under the slot of their group.
    """

    def __init__(self, group_width: int, type_: ColumnType, context: Context, *, ordered: bool) -> None:
        self._group_width = group_width
        self._type: ColumnType = type_
        self._strings = context.strings
        self.table = CountedTable(group_width + words_per_value(type_), ["count"])
        self._runs = SortedRuns(len(self._order(np.zeros((0, words_per_value(type_)), np.int64)))) if ordered else None
        self._generation = self._strings.generation

    def change(
        self, groups: Integers, slots: Integers, numbers: Integers, words: Integers, weight: Integers
    ) -> ValueChange:
        """Count values, given by the numbers of their groups and their words; of the groups the words and slots."""
        rows = np.concatenate([groups[numbers], words], axis=1)
        order, first = groups_of(rows)
        weight = np.add.reduceat(weight[order], first) if len(first) else weight
        kept = order[first[weight != 0]]
        rows, numbers, weight = rows[kept], numbers[kept], weight[weight != 0]
        own, old, new = self.table.add(rows, weight[None, :])
        present = (new[0] > 0).astype(np.int64) - (old[0] > 0)
        values = rows[:, self._group_width :]
        if self._runs is not None:
            self._runs.discard(own[present < 0])
            come = present > 0
            self._runs.add(own[come], slots[numbers[come]], self._order(values[come]))
        return ValueChange(numbers, values, (new[0] != 0).astype(np.int64) - (old[0] != 0), present)

    def extreme(self, slots: Integers, *, last: bool) -> Integers:
        """The words of the first or the last value of each group, given by slots of groups that have values."""
        assert self._runs is not None
        found = self._runs.last(slots) if last else self._runs.first(slots)
        return self.table.keys_of(found)[:, self._group_width :]

    def prepare(self, words: Integers, slots_of: SlotsOf) -> None:
        """Build the runs anew if the table was restored, or if these new values made all strings' labels others."""
        if self._runs is None:
            return
        self._order(words)
        if not self.table.restored and self._generation == self._strings.generation:
            return
        self.table.restored = False
        slots = self.table.live_slots()
        slots = slots[self.table.get(slots)[0] > 0]
        rows = self.table.keys_of(slots)
        order = self._order(rows[:, self._group_width :])
        self._generation = self._strings.generation
        self._runs.clear()
        self._runs.add(slots, slots_of(rows[:, : self._group_width]), order)

    def _order(self, words: Integers) -> list[Integers]:
        # Without NULLs the last integer says nothing.
        return order_words(self._type, None, tuple(words.T), self._strings)[:-1]
