"""Rows by key: how to add up integers per group, whichever way is quickest for the keys at hand.

Keys are packed into one integer. Where its range is small the sums are scattered into arrays over that range; otherwise
the packed keys are sorted with their row numbers in their low bits, and sums are taken run by run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.views.relationbatch import KeyCodes

__all__ = ["Grouping", "grouping", "is_dense"]

Integers = npt.NDArray[np.int64]

_DENSE_LEAST: Final = 1 << 12
_DENSE_PER_ROW: Final = 4
_DENSE_MOST: Final = 1 << 21
_WORD: Final = 1 << 64


class Grouping(ABC):
    """Groups of a batch's rows; some may be of no row."""

    groups: int
    """How many there are; sums are arrays of that length."""

    @abstractmethod
    def total(self, values: Integers) -> Integers:
        """The sum of each group's values, modulo 2**64: exact where it is known to fit."""

    @abstractmethod
    def codes(self, chosen: Integers | None) -> list[Integers]:
        """Each key's code in the groups of these numbers, or in all."""


def grouping(keys: Sequence[KeyCodes], rows: int) -> Grouping:
    """The groups of ``rows`` rows with these keys."""
    sizes, product = _sizes(keys)
    if product == 1:
        return _One([key.low for key in keys])
    if _is_dense(product, rows):
        return _Dense(_packed(keys, sizes), [key.low for key in keys], sizes, product)
    if product >= _WORD // 2:
        return _Sorted(keys, _sorted(_ranked(keys)))
    packed = _packed(keys, sizes)
    fits = (product - 1).bit_length() + rows.bit_length() < 64
    return _Sorted(keys, _sorted_with_rows(packed) if fits else _sorted(packed))


def is_dense(keys: Sequence[KeyCodes], rows: int) -> bool:
    """Whether these keys can be grouped without being sorted."""
    return _is_dense(_sizes(keys)[1], rows)


def _is_dense(product: int, rows: int) -> bool:
    return product <= min(max(_DENSE_LEAST, _DENSE_PER_ROW * rows), _DENSE_MOST)


def _sizes(keys: Sequence[KeyCodes]) -> tuple[list[int], int]:
    """How many values each key may have, and all together."""
    sizes = [key.high - key.low + 1 for key in keys]
    return sizes, math.prod(sizes)


class _One(Grouping):
    """All rows in one group."""

    groups = 1

    def __init__(self, codes: list[int]) -> None:
        self._codes = codes

    def total(self, values: Integers) -> Integers:
        return np.asarray([values.sum()], np.int64)

    def codes(self, chosen: Integers | None) -> list[Integers]:
        groups = 1 if chosen is None else len(chosen)
        return [np.full(groups, code, np.int64) for code in self._codes]


class _Dense(Grouping):
    """A group for each value that the packed key could have."""

    def __init__(self, packed: Integers, lows: list[int], sizes: list[int], groups: int) -> None:
        self._packed = packed
        self._lows = lows
        self._sizes = sizes
        self.groups = groups

    def total(self, values: Integers) -> Integers:
        totals = np.zeros(self.groups, np.int64)
        np.add.at(totals, self._packed, values)
        return totals

    def codes(self, chosen: Integers | None) -> list[Integers]:
        rest = np.arange(self.groups) if chosen is None else chosen
        found = []
        for low, size in zip(self._lows[:0:-1], self._sizes[:0:-1], strict=True):
            above = rest // size
            found.append(rest - above * size + low if size > 1 else np.full(len(rest), low, np.int64))
            rest = above
        return [rest + self._lows[0], *reversed(found)]


class _Sorted(Grouping):
    """A group for each key that there is, in the order of the packed keys."""

    def __init__(self, keys: Sequence[KeyCodes], found: tuple[Integers, Integers | None]) -> None:
        self._keys = keys
        self._order, self._starts = found
        self.groups = len(self._order) if self._starts is None else len(self._starts)

    def total(self, values: Integers) -> Integers:
        ordered = values[self._order]
        totals: Integers = ordered if self._starts is None else np.add.reduceat(ordered, self._starts)
        return totals

    def codes(self, chosen: Integers | None) -> list[Integers]:
        rows = self._order if self._starts is None else self._order[self._starts]
        rows = rows if chosen is None else rows[chosen]
        return [
            key.codes[rows] if isinstance(key.codes, np.ndarray) else np.full(len(rows), key.codes, np.int64)
            for key in self._keys
        ]


def _packed(keys: Sequence[KeyCodes], sizes: Sequence[int]) -> Integers:
    """One integer from 0 for each combination, ordered as the keys are; what wraps on the way wraps back."""
    packed: Integers | None = None
    offset = 0  # of all keys together, taken off once
    for key, size in zip(keys, sizes, strict=True):
        if size > 1:
            packed = key.codes if packed is None else packed * _signed(size) + key.codes
            offset = offset * size + key.low
    assert packed is not None
    return packed - _signed(offset) if offset else packed


def _signed(number: int) -> int:
    """The int64 that is the same modulo 2**64."""
    return (number + _WORD // 2) % _WORD - _WORD // 2


def _ranked(keys: Sequence[KeyCodes]) -> Integers:
    """One integer from 0 for each combination that there is: keys too far apart are numbered first."""
    ranks = np.zeros(0, np.int64)
    for key in keys:
        if isinstance(key.codes, np.ndarray):
            number = np.unique(key.codes, return_inverse=True)[1]
            ranks = number if not len(ranks) else np.unique(ranks * len(number) + number, return_inverse=True)[1]
    return ranks


def _sorted_with_rows(packed: Integers) -> tuple[Integers, Integers | None]:
    """The rows in the order of their keys, and where a key begins; no beginnings where each has one row.

    Sorting plain integers is several times as quick as any argsort.
    """
    bits = len(packed).bit_length()
    both = packed << bits
    both |= np.arange(len(packed))
    both.sort()
    differs = (both[1:] ^ both[:-1]) >= 1 << bits
    both &= (1 << bits) - 1
    return both, _starts(differs)


def _sorted(packed: Integers) -> tuple[Integers, Integers | None]:
    order = np.argsort(packed)
    ordered = packed[order]
    return order, _starts(ordered[1:] != ordered[:-1])


def _starts(differs: npt.NDArray[np.bool_]) -> Integers | None:
    if differs.all():
        return None
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(differs) + 1])
