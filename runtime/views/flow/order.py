"""Values as integers that are ordered as SQL orders the values, and rows of such integers sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.compiler.program import ColumnType
from runtime.state import StringPool

__all__ = ["StringOrder", "not_after", "order_words", "sort_order"]

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

_MIN: Final = np.iinfo(np.int64).min
_MAX: Final = np.iinfo(np.int64).max
_STEP: Final = 2**32
_LIMIT: Final = 2**62
_PACKED: Final = 2**62


class StringOrder:
    """A label for each string of a pool that was asked for: labels are ordered as the strings' UTF-8 bytes are.

    A new string gets a label between its neighbours'. Where there is none left, all labels are given anew and
    `generation` grows: whoever keeps labels has to ask for them again.
    """

    def __init__(self, pool: StringPool) -> None:
        self._pool = pool
        self.generation = 0
        self._texts = np.zeros(0, object)  # ascending; Python compares code points, which is the order of UTF-8 bytes
        self._labels = np.zeros(0, np.int64)  # of those
        self._numbers = np.zeros(0, np.int64)  # of those in the pool
        self._label_of = np.full(64, _MIN, np.int64)  # number → label

    def labels(self, numbers: Integers) -> Integers:
        """The labels of pool numbers (-1, for NULL: 0); look at `generation` afterwards."""
        self._learn(numbers)
        return np.where(numbers < 0, 0, self._label_of[np.maximum(numbers, 0)])

    def _learn(self, numbers: Integers) -> None:
        if len(self._pool) > len(self._label_of):
            grown = np.full(2 * len(self._pool), _MIN, np.int64)
            grown[: len(self._label_of)] = self._label_of
            self._label_of = grown
        new = np.unique(numbers[numbers >= 0])
        new = new[self._label_of[new] == _MIN]
        if not len(new):
            return
        texts = np.empty(len(new), object)
        texts[:] = self._pool.decode(new).to_pylist()
        order = np.argsort(texts)
        texts, new = texts[order], new[order]
        places = np.searchsorted(self._texts, texts)
        labels = self._between(places)
        self._texts = np.insert(self._texts, places, texts)
        self._numbers = np.insert(self._numbers, places, new)
        if labels is None:
            self._labels = (np.arange(len(self._texts)) + 1) * min(_STEP, _LIMIT // len(self._texts))
            self.generation += 1
        else:
            self._labels = np.insert(self._labels, places, labels)
        self._label_of[self._numbers] = self._labels

    def _between(self, places: Integers) -> Integers | None:
        """Labels for new strings before these places of the old ones; None where one does not fit."""
        first = np.searchsorted(places, places)  # of the new ones in the same gap
        number = np.arange(len(places)) - first + 1
        count = np.searchsorted(places, places, side="right") - first
        held = len(self._labels)
        low = self._labels[np.maximum(places - 1, 0)] if held else np.zeros(len(places), np.int64)
        low = np.where(places > 0, low, (self._labels[0] if held else 0) - (count + 1) * _STEP)
        high = self._labels[np.minimum(places, held - 1)] if held else low
        high = np.where(places < held, high, low + (count + 1) * _STEP)
        step = (high - low) // (count + 1)
        if (step < 1).any() or (low < -_LIMIT).any() or (high > _LIMIT).any():
            return None
        return low + number * step


def order_words(
    type_: ColumnType,
    nulls: Booleans | None,
    words: Sequence[Integers],
    strings: StringOrder,
    *,
    descending: bool = False,
    nulls_first: bool = False,
) -> list[Integers]:
    """Integers whose lexicographic order is that of the values, NULL last or first.

    NaN is the largest float. The value comes first, and then whether it is NULL: the first integer tells most apart.
    """
    if type_ == "int128":
        parts = [words[1], words[0] ^ _MIN]
    elif type_ == "float64":
        parts = [np.where(words[0] < 0, words[0] ^ _MAX, words[0])]
    elif type_ == "string":
        parts = [strings.labels(words[0])]
    else:
        parts = [words[0]]
    if descending:
        parts = [~part for part in parts]
    if nulls is None:
        return [*parts, np.zeros(len(parts[0]), np.int64)]
    extreme = _MIN if nulls_first else _MAX
    parts = [np.where(nulls, extreme, part) for part in parts]
    return [*parts, np.where(nulls, -1 if nulls_first else 1, 0)]


def sort_order(columns: Sequence[Integers]) -> Integers:
    """The order that sorts rows by these columns, the first counting most; equal rows in any order."""
    key, span = columns[0], _span(columns[0])
    for column in columns[1:]:
        width = _span(column)
        if width == 1:
            continue
        if span * width >= _PACKED:
            key, span = _ranks(key)
            if span == len(key):
                break  # no two rows are equal so far: the rest does not matter
        if span * width >= _PACKED:
            column, width = _ranks(column)  # noqa: PLW2901
        key, span = (key - key.min()) * width + (column - column.min()), span * width
    return np.argsort(key, kind="stable")


def _span(column: Integers) -> int:
    return int(column.max()) - int(column.min()) + 1 if len(column) else 1


def _ranks(column: Integers) -> tuple[Integers, int]:
    """Integers of the same order from 0 up without gaps, and their number."""
    if not len(column):
        return column, 1
    order = np.argsort(column)
    held = column[order]
    rank = np.cumsum(np.append(0, (held[1:] != held[:-1]).astype(np.int64)))
    ranks = np.empty(len(column), np.int64)
    ranks[order] = rank
    return ranks, int(rank[-1]) + 1


def not_after(columns: Sequence[Integers], bound: Sequence[int]) -> Booleans:
    """Which rows come before the bound or are equal to it."""
    before = np.zeros(len(columns[0]), np.bool_)
    equal = np.ones(len(columns[0]), np.bool_)
    for column, value in zip(columns, bound, strict=True):
        before |= equal & (column < value)
        equal &= column == value
    return before | equal
