"""ORDER BY … LIMIT … OFFSET: the first rows, while rows come and go.

The best rows stand sorted in a buffer, whose size grows as the square root of the number of rows; all rows stand in a
table without order. What comes after the buffer's bound does not touch it, and when so many of its rows have gone that
the window is no longer full, it is filled again from the table: rarely, so that a row that goes costs little.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.compiler.program import TopNode
from runtime.state import KeyedTable
from runtime.state.columnar.arrangement import CountedTable, groups_of
from runtime.views.flow.batch import Batch, Field, RowCodec
from runtime.views.flow.operators import Context, Operator, place_of
from runtime.views.flow.order import not_after, order_words, sort_order

__all__ = ["Top"]

Integers = npt.NDArray[np.int64]

_SMALLEST: Final = 1024
_PER_NEEDED: Final = 4
_PER_ROOT: Final = 32


class Top(Operator):
    """The change of a window of the sorted rows; rows whose weight is not positive are not there."""

    def __init__(self, node: TopNode, fields: Sequence[Field], context: Context) -> None:
        self.fields = tuple(fields)
        self._limit = node.limit
        self._offset = node.offset
        self._strings = context.strings
        order = [(place_of(fields, name), descending, first) for name, descending, first in node.order]
        named = {place for place, _, _ in order}
        order += [(place, False, False) for place in range(len(fields)) if place not in named]
        self._order = order
        self._has_strings = any(type_ == "string" for _, type_ in fields)
        self._codec = RowCodec([type_ for _, type_ in fields], context.pool)
        self._rows = CountedTable(self._codec.width, ["weight"])
        self._generation = self._strings.generation
        self._forget()

    def _forget(self) -> None:
        self._columns: list[Integers] | None = None  # order words of the buffer's rows, then their slots
        self._bound: list[int] | None = None  # every row that is not in the buffer comes after it; None: no such row
        self._window = self._nothing()

    def _nothing(self) -> tuple[Integers, Integers]:
        return np.zeros((0, self._codec.width), np.int64), np.zeros(0, np.int64)

    def tables(self) -> dict[str, KeyedTable]:
        return {"rows": self._rows}

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        if changes[0] is None:
            return None
        if self._rows.restored:
            self._rows.restored = False
            self._forget()
            self._window = self._read_window()
        rows, weight = self._codec.consolidate(changes[0])
        words = self._words(rows)
        slots, old, new = self._rows.add(rows, weight[None, :])
        was, is_ = old[0] > 0, new[0] > 0
        if self._has_strings and self._generation != self._strings.generation:
            self._columns = None
            words = self._words(rows)
        if self._columns is not None:
            self._leave(slots[was & ~is_])
            come = is_ & ~was
            self._enter([*(word[come] for word in words), slots[come]])
        before, self._window = self._window, self._read_window()
        parts = [(before[0], -before[1]), self._window]
        if self._limit is None:  # the window is what is left out: the change of all rows, less its change
            parts = [(kept, -times) for kept, times in parts]
            parts.append((rows, np.maximum(new[0], 0) - np.maximum(old[0], 0)))
        return self._emitted(parts)

    def _words(self, rows: Integers) -> list[Integers]:
        generation = self._strings.generation
        vectors = self._codec.unpack(rows)
        words: list[Integers] = []
        for place, descending, nulls_first in self._order:
            vector = vectors[place]
            words += order_words(
                vector.type, vector.nulls, vector.words, self._strings, descending=descending, nulls_first=nulls_first
            )
        # A new string of a later column may have given the strings of an earlier one other labels.
        return words if generation == self._strings.generation else self._words(rows)

    def _leave(self, slots: Integers) -> None:
        assert self._columns is not None
        if len(slots):
            gone = np.isin(self._columns[-1], slots)
            if gone.any():
                self._columns = [column[~gone] for column in self._columns]

    def _enter(self, columns: list[Integers]) -> None:
        assert self._columns is not None
        if self._bound is not None:
            near = not_after(columns[:-1], self._bound)
            columns = [column[near] for column in columns]
        if len(columns[-1]):
            self._keep([np.concatenate(pair) for pair in zip(self._columns, columns, strict=True)])

    def _keep(self, columns: list[Integers]) -> None:
        """Sort the buffer; cut it where it is twice as long as it should be."""
        order = sort_order(columns[:-1])
        wanted = self._wanted()
        if len(order) > 2 * wanted:
            order = order[:wanted]
            self._bound = [int(column[order[-1]]) for column in columns[:-1]]
        self._columns = [column[order] for column in columns]

    def _wanted(self) -> int:
        return max(_SMALLEST, _PER_NEEDED * self._needed(), _PER_ROOT * isqrt(len(self._rows)))

    def _needed(self) -> int:
        return self._offset + (self._limit or 0)

    def _read_window(self) -> tuple[Integers, Integers]:
        """The rows of the window and how often each stands in it; without a limit, those that are passed over."""
        if self._columns is None or (self._bound is not None and len(self._columns[-1]) < self._needed()):
            self._fill()
        assert self._columns is not None
        slots = self._columns[-1][: self._needed()]  # each stands for one row at least
        if not len(slots):
            return self._nothing()
        begin, end = (0, self._offset) if self._limit is None else (self._offset, self._offset + self._limit)
        upto = np.cumsum(self._rows.get(slots)[0])
        times = np.clip(upto, begin, end) - np.clip(np.append(0, upto[:-1]), begin, end)
        return self._rows.keys_of(slots[times > 0]), times[times > 0]

    def _fill(self) -> None:
        """Take the best rows out of the table."""
        slots = self._rows.live_slots()
        slots = slots[self._rows.get(slots)[0] > 0]
        wanted = self._wanted()
        self._bound = None
        rest = len(slots) > 2 * wanted
        if rest:
            slots = self._nearest(slots, wanted)
        columns = [*self._words(self._rows.keys_of(slots)), slots]
        self._generation = self._strings.generation
        order = sort_order(columns[:-1])
        if rest:
            order = order[:wanted]
            self._bound = [int(column[order[-1]]) for column in columns[:-1]]
        self._columns = [column[order] for column in columns]

    def _nearest(self, slots: Integers, wanted: int) -> Integers:
        """Rows among which the best ones are, told apart by their first order word alone."""
        place, descending, nulls_first = self._order[0]
        vector = self._codec.column(self._rows.keys_of(slots), place)
        lead = order_words(
            vector.type, vector.nulls, vector.words, self._strings, descending=descending, nulls_first=nulls_first
        )[0]
        nearest: Integers = slots[lead <= np.partition(lead, wanted - 1)[wanted - 1]]
        return nearest

    def _emitted(self, parts: Sequence[tuple[Integers, Integers]]) -> Batch | None:
        rows = np.concatenate([part[0] for part in parts])
        weight = np.concatenate([part[1] for part in parts])
        order, start = groups_of(rows)
        if not len(start):
            return None
        weight = np.add.reduceat(weight[order], start)
        changed = weight != 0
        if not changed.any():
            return None
        return Batch(self._codec.unpack(rows[order[start[changed]]]), weight[changed], distinct=True)
