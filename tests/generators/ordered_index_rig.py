"""Ordered indexes of kernels in both tiers, and the dictionary to which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from runtime.native.library import hashing
from runtime.native.library.entries import BAD, GROUPS, META
from runtime.native.ordered import OrderedIndex
from runtime.native.plain import load_wide, mix, store_wide
from runtime.native.structures import Structure
from runtime.native.tiers import MachineKernel, plain_kernel

Key: TypeAlias = "tuple[tuple[int, ...], int]"
Row: TypeAlias = "tuple[tuple[int, ...], int, Sequence[int]]"
"""Words of a group, key, and the added weight and sums."""

ADD, BELOW, UP_TO, TOTAL, SCAN, HAS_NEGATIVE, FINISH = range(7)
_STOPS_MOST: Final = 64

_SOURCE: Final = """
from runtime.native.library import hashing
from runtime.native.library.entries import GROUPS, PREFIX, VALUES
from runtime.native.library.ordered import (
    add, begin, below, finish, first_position, group_of, is_negative, key_at, locate_group, next_position, total,
    values_at,
)
from runtime.native.plain import array, copy_words, jit, mix, root, table

@jit
def step(p):
    t = root(p)
    numbers, index, rows, results = array(t, 0), table(t, 1), array(t, 2), array(t, 3)
    scratch, values, prefix = array(table(index, GROUPS), hashing.KEY), array(index, VALUES), array(index, PREFIX)
    at, count, words = numbers[0], numbers[1], numbers[2]
    if at == 0:
        begin(index, numbers[3])
    while at < count:
        numbers[0] = at
        row, result = at * (words + 2 + WIDTH), at * (1 + WIDTH)
        operation, key, given = rows[row], rows[row + 1], row + 2 + words
        copy_words(scratch, 0, rows, row + 2, words)
        copy_words(prefix, 0, results, result + 1, WIDTH)
        if operation == 0:
            group = locate_group(index)
            if group < 0:
                return 1
            copy_words(values, 0, rows, given, WIDTH)
            if add(index, group, key, SUMS) < 0:
                return 1
        elif operation == 6:
            finish(index)
        elif operation == 5:
            for number in range(1 + SUMS):
                results[result] |= int(is_negative(index, number))
        else:
            group = group_of(index)
            results[result] = int(group >= 0)
            if group >= 0:
                if operation == 1:
                    below(index, group, key, False, SUMS)
                elif operation == 2:
                    below(index, group, key, True, SUMS)
                elif operation == 3:
                    total(index, group, SUMS)
                else:
                    state, position = 0, first_position(index, group)
                    while position >= 0:
                        values_at(index, group, position, SUMS)
                        found = 0
                        for word in range(WIDTH):
                            found |= prefix[word]
                        if found != 0:
                            state = mix(state, key_at(index, group, position))
                            for word in range(WIDTH):
                                state = mix(state, prefix[word])
                        position = next_position(index, group, position)
                    for word in range(WIDTH):
                        prefix[word] = 0
                    prefix[0] = state
                copy_words(results, result + 1, prefix, 0, WIDTH)
        at += 1
    return 0
"""


def source(sums: int) -> str:
    """Return the kernel that executes operations on an index with ``sums`` sums."""
    return _SOURCE.replace("SUMS", str(sums)).replace("WIDTH", str(1 + 2 * sums))


def words_of(values: Sequence[int]) -> list[int]:
    """Return the words of a weight and sums."""
    words = [values[0], *([0] * (2 * len(values) - 2))]
    for number, value in enumerate(values[1:]):
        store_wide(words, 1 + 2 * number, value)
    return words


def values_of(words: Sequence[int]) -> list[int]:
    """Return the weight and the sums in words."""
    return [int(words[0]), *(load_wide(words, place) for place in range(1, len(words), 2))]


class IndexRig:
    """Index with its kernel.

    The compiled kernel ``machine`` runs, if it is given: in every call, or with ``alternates`` in every other call.
    """

    def __init__(self, index: OrderedIndex, machine: MachineKernel | None = None, *, alternates: bool = False) -> None:
        self.index = index
        self.stops = 0
        """Number of stops of the kernel for lack of room."""
        self._machine, self._alternates, self._calls = machine, alternates, 0
        self._plain = plain_kernel(source(index.sums))
        self._table = Structure(4)
        self._table.put(0, np.zeros(4, np.int64))
        self._table.link(1, index)

    def run(self, operations: Sequence[tuple[int, tuple[int, ...], int, Sequence[int]]]) -> npt.NDArray[np.int64]:
        """Execute operations (number, group, key, values); return the results, a row each."""
        words, width = self.index.group_words, self.index.entry_words
        rows = [[number, key, *group, *words_of(values)] for number, group, key, values in operations]
        self._table.put(2, np.array(rows, np.int64).reshape(-1, words + 2 + width).ravel())
        results = np.zeros(len(rows) * (1 + width), np.int64)
        self._table.put(3, results)
        numbers = self._table.array(0)
        numbers[:] = (0, len(rows), words, sum(number == ADD for number, *_ in operations))
        stops, row = 0, 0
        while self._step():
            self.index.make_room()
            stops, row = (stops + 1, row) if numbers[0] == row else (1, int(numbers[0]))
            assert stops < _STOPS_MOST, "expected room for a row in the end, was none"
            self.stops += 1
        return results.reshape(-1, 1 + width)

    @property
    def is_bad(self) -> bool:
        """True if an entry or a sum has passed ±2^126 (a weight: ±2^62); only `load` resets this."""
        return bool(self.index.views[META][BAD])

    def _step(self) -> int:
        self._calls += 1
        if self._machine is not None and not (self._alternates and self._calls % 2):
            return self._machine(self._table.address)
        return self._plain(self._table.views)

    def add(self, rows: Sequence[Row]) -> None:
        """Add a batch of rows, and check the index."""
        none = ((0,) * self.index.group_words, 0, (0,) * (1 + self.index.sums))
        self.run([*((ADD, *row) for row in rows), (FINISH, *none)])
        self.index._check()

    def entries(self) -> dict[Key, list[int]]:
        """Return the entries by group and key."""
        words = self.index.group_words
        return {(tuple(row[:words]), row[words]): values_of(row[words + 1 :]) for row in self.index.dump().tolist()}

    def group_count(self) -> int:
        """Return the number of groups in the directory."""
        return int(self.index.views[GROUPS][hashing.META][hashing.LIVE])


class IndexModel:
    """Contents of an index in a dictionary."""

    def __init__(self, sums: int) -> None:
        self.sums = sums
        self.entries: dict[Key, list[int]] = {}

    def add(self, rows: Sequence[Row]) -> None:
        """Add a batch of rows."""
        for group, key, values in rows:
            held = self.entries.pop((group, key), [0] * (1 + self.sums))
            held = [left + right for left, right in zip(held, values, strict=True)]
            if any(held):
                self.entries[group, key] = held

    def result(self, number: int, group: tuple[int, ...], key: int, values: Sequence[Any]) -> list[int] | None:
        """Return the result of an operation; None if there is no such group."""
        if number == HAS_NEGATIVE:
            return [int(any(value < 0 for held in self.entries.values() for value in held))]
        members = {at: held for (each, at), held in sorted(self.entries.items()) if each == group}
        if not members and group:
            return None
        if number == SCAN:
            state = 0
            for at, held in members.items():
                for word in (at, *words_of(held)):
                    state = mix(state, word)
            return [state, *([0] * self.sums)]
        inside = [
            held for at, held in members.items() if number == TOTAL or at < key or (number == UP_TO and at == key)
        ]
        return [sum(held[place] for held in inside) for place in range(1 + self.sums)]

    def expected(self, operations: Sequence[tuple[int, tuple[int, ...], int, Sequence[int]]]) -> list[list[int]]:
        """Return the result of `IndexRig.run` for operations that change nothing."""
        rows = []
        for operation in operations:
            result = self.result(*operation)
            if operation[0] == HAS_NEGATIVE:
                assert result is not None
                rows.append([*result, *([0] * (1 + 2 * self.sums))])
            elif result is None:
                rows.append([0] * (2 + 2 * self.sums))
            else:
                rows.append([1, *words_of(result)])
        return rows
