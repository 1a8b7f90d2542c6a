"""Owners, in Python, of the arrays that kernels work on: they make room, and read and restore records.

A structure is a *table*: it has numbered places, and each place has an array of int64 cells or another table. For the
compiled tier a table is an array of addresses, for the plain tier a list of memoryviews. Both tiers work on the same
cells, so the tier of a kernel may change between any two calls. Place 0 is ``META``, an array of numbers such as sizes;
the module of `runtime.native.library` with the structure's kernels names these numbers. No structure is thread-safe:
one owner at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from runtime.native.library import hashing

__all__ = ["Batch", "HashTable", "NullablePlace", "RecordStructure", "Structure", "rows_with_words"]

Words = npt.NDArray[np.int64]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF, _LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)
_GOLDEN_LOW, _GOLDEN_HIGH = _GOLDEN & _LOW_HALF, _GOLDEN >> _HALF
_SMALL: Final = 64
"""Initial room of tables and batches, in records or rows."""
_DIRECT_LEAST: Final = 1 << 16
"""An index may be direct (indexed by the key itself) if its keys span less than this, even with few records."""
_DIRECT_SPREAD: Final = 16
"""An index may also be direct if its keys span less than this number per record."""


class NullablePlace(NamedTuple):
    """Place of a value in a dumped record, and of the word that shows whether it is NULL.

    The words of a NULL value are 0, so that equal records have equal words.
    """

    place: int
    """Place of the value's first word."""
    flag: int = -1
    """Place of a word that is 1 if the value is NULL; -1: no such word exists."""
    presence: int = -1
    """Place of a word that is positive unless the value is NULL; -1: no such word exists."""
    words: int = 1
    """Number of words of the value."""

    def is_there(self, records: Words) -> npt.NDArray[np.bool_]:
        """Return for each record whether the value is not NULL."""
        if self.flag >= 0:
            return np.asarray(records[:, self.flag] == 0)
        if self.presence >= 0:
            return np.asarray(records[:, self.presence] > 0)
        return np.ones(len(records), np.bool_)


class Structure:
    """A table of arrays and of other tables."""

    place_names: tuple[str, ...] = ()
    """Names of the first places, for generated source."""

    def __init__(self, places: int) -> None:
        self.addresses = np.zeros(places, np.int64)
        """The table for the compiled tier; it never moves."""
        self.views: list[Any] = [None] * places
        """The table for the plain tier."""
        self.address = self.addresses.ctypes.data
        """Address of the table."""
        self._arrays: list[Words | Structure | None] = [None] * places

    def place_name(self, place: int) -> str:
        """Return the name of a place in generated source."""
        names = self.place_names
        return names[place] if place < len(names) else f"c{place - len(names)}"

    def put(self, place: int, array: Words) -> None:
        """Put an array (contiguous, int64) at a place."""
        assert array.dtype == np.int64
        assert array.flags.c_contiguous
        self._arrays[place] = array
        self.addresses[place] = array.ctypes.data
        self.views[place] = memoryview(array)  # type: ignore[arg-type]  # it has the buffer protocol

    def link(self, place: int, other: Structure) -> None:
        """Put another table at a place."""
        self._arrays[place] = other
        self.addresses[place] = other.address
        self.views[place] = other.views

    def array(self, place: int) -> Words:
        """Return the array at a place."""
        array = self._arrays[place]
        assert isinstance(array, np.ndarray)
        return array

    def extend(self, place: int, cells: int) -> None:
        """Extend an array to this many cells; the new cells are 0."""
        present = self.array(place)
        grown = np.zeros(cells, np.int64)
        grown[: len(present)] = present
        self.put(place, grown)

    def nbytes(self) -> int:
        """Return the size in bytes of the structure's arrays, without linked tables."""
        return sum(array.nbytes for array in self._arrays if isinstance(array, np.ndarray))


class RecordStructure(Structure, ABC):
    """A structure whose records are part of checkpoints."""

    def __init__(self, places: int) -> None:
        super().__init__(places)
        self.string_places: tuple[NullablePlace, ...] = ()
        """Places, in a dumped record, of the words that stand for strings; a word is the number of a string."""
        self.nullable_places: tuple[NullablePlace, ...] = ()
        """Places of the values in a dumped record that may be NULL; the words of a NULL value are 0."""

    @abstractmethod
    def dump(self) -> Words:
        """Return a copy of the live records, one in each row."""

    @abstractmethod
    def load(self, records: Words) -> None:
        """Replace the records."""

    def mark_strings(self, records: Words, is_used: npt.NDArray[np.bool_]) -> None:
        """Set ``is_used`` at the number of each string that occurs in dumped records."""
        for each in self.string_places:
            is_used[records[each.is_there(records), each.place]] = True

    def renumbered(self, records: Words, numbers: Words) -> Words:
        """Return dumped records in which strings have other numbers: ``numbers[old]`` is the new number.

        The number of a NULL stays 0.
        """
        if not self.string_places:
            return records
        changed = records.copy()
        for each in self.string_places:
            changed[:, each.place] = np.where(each.is_there(records), numbers[records[:, each.place]], 0)
        return changed

    def _check_nulls(self) -> None:
        """Assert that the words of NULL values are 0."""
        records = self.dump()
        for each in self.nullable_places:
            assert not records[~each.is_there(records), each.place : each.place + each.words].any()


class Batch(Structure):
    """Rows with weights, by column: the input of a node, or the changes of a view.

    The places are ``META`` (rows, capacity), the weights, and one array for each column. `widths` has each column's
    number of words per row: 2 for an integer of 128 bits, low word first, and 1 for anything else, also NULL flags.
    """

    ROWS: Final = 0
    ROOM: Final = 1
    place_names = ("meta", "weight")

    def __init__(self, widths: Sequence[int], room: int = _SMALL) -> None:
        super().__init__(2 + len(widths))
        self.widths = tuple(widths)
        self.put(0, np.zeros(2, np.int64))
        self.put(1, np.zeros(0, np.int64))
        for place in range(2, 2 + len(widths)):
            self.put(place, np.zeros(0, np.int64))
        self.grow(room)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.views[0][0])

    @rows.setter
    def rows(self, rows: int) -> None:
        self.views[0][0] = rows

    @property
    def room(self) -> int:
        """Capacity in rows."""
        return int(self.views[0][1])

    def grow(self, room: int) -> None:
        """Make room for at least this many rows."""
        if room <= self.room:
            return
        self.extend(1, room)
        for place, width in enumerate(self.widths, 2):
            self.extend(place, room * width)
        self.views[0][1] = room

    @property
    def weight(self) -> Words:
        """The weights of the rows, not copied."""
        return self.array(1)[: self.rows]

    def column(self, number: int) -> Words:
        """Return the words of a column, not copied."""
        return self.array(2 + number)[: self.rows * self.widths[number]]

    def fill(self, weight: Words, columns: Iterable[Words]) -> None:
        """Replace the rows by these arrays, which are not copied and never written to."""
        self.put(1, weight)
        for place, words in enumerate(columns, 2):
            self.put(place, words)
        self.views[0][0] = len(weight)
        self.views[0][1] = len(weight)


class HashTable(RecordStructure):
    """Key → values, by slot: see `library.hashing`."""

    place_names = ("meta", "cells", "index", "key", "stamps", "touched", "old")

    def __init__(self, key_words: int, value_words: int, *, is_result: bool = False, is_direct: bool = False) -> None:
        """Begin with no records.

        With ``is_result`` the table also has the values that its records had before the current step. With
        ``is_direct`` the key is one word, an integer whose values may be dense; if they are not, the table is hashed.
        """
        super().__init__(7)
        self.key_words, self.value_words = key_words, value_words
        self.is_result = is_result
        """True if the table also has the values that its records had before the current step."""
        self.put(hashing.META, np.zeros(12, np.int64))
        self._meta: Any = self.views[hashing.META]
        self._meta[hashing.WIDTH], self._meta[hashing.STRIDE] = key_words, key_words + value_words
        self._meta[hashing.STEP] = self._meta[hashing.DROPS] = 1
        self.put(hashing.KEY, np.zeros(max(1, key_words), np.int64))
        self.may_be_direct = is_direct and key_words == 1
        """True if a key may be a direct index into the table."""
        self._is_direct = self.may_be_direct
        self._kept_room = 0
        self._begin()

    def _begin(self) -> None:
        meta = self._meta
        for place in (hashing.USED, hashing.ROOM, hashing.FREE, hashing.LIVE, hashing.CHANGED):
            meta[place] = 0
        meta[hashing.DIRECT], meta[hashing.BASE], meta[hashing.MASK] = int(self._is_direct), 0, 2 * _SMALL - 1
        for place in (hashing.CELLS, hashing.STAMPS, hashing.TOUCHED, hashing.OLD):
            self.put(place, np.zeros(0, np.int64))
        self.put(hashing.INDEX, np.zeros(2 * _SMALL, np.int64))
        self._resize(_SMALL)
        if not self.key_words:  # the only record of a table without keys always exists
            meta[hashing.USED] = meta[hashing.LIVE] = 1
            self.array(hashing.INDEX)[0] = 1

    def clear(self, most_room: int) -> None:
        """Remove all records of a table that is not a result; the capacity is reduced to at most ``most_room`` records.

        Records that become empty later are not removed one by one, which would take longer: up to ``most_room``
        records may be in the table before `make_room` removes the empty ones together.
        """
        assert not self.is_result
        meta = self._meta
        self._kept_room = most_room
        meta[hashing.DROPS] = 0
        index = self.array(hashing.INDEX)
        if meta[hashing.ROOM] > most_room or len(index) > _DIRECT_SPREAD * most_room:
            self._begin()
            self._resize(most_room)
            self._reindex()
            return
        self.array(hashing.CELLS)[: meta[hashing.USED] * self.stride] = 0
        if self.key_words:
            index[:] = 0
            for place in (hashing.USED, hashing.FREE, hashing.LIVE):
                meta[place] = 0

    def __len__(self) -> int:
        """Return the number of live records."""
        return int(self._meta[hashing.LIVE])

    @property
    def stride(self) -> int:
        """Number of words of a record."""
        return self.key_words + self.value_words

    def _resize(self, room: int) -> None:
        """Change the capacity to this many records; the index is not changed."""
        self._meta[hashing.ROOM] = room
        self.extend(hashing.CELLS, room * self.stride)
        if self.is_result:
            self.extend(hashing.STAMPS, room)
            self.extend(hashing.TOUCHED, room)
            self.extend(hashing.OLD, room * self.value_words)

    def make_room(self, records: int = 1) -> None:
        """Make room for the scratch key and for this many records in addition to the present ones."""
        meta = self._meta
        if not meta[hashing.DROPS] and meta[hashing.USED] >= self._kept_room:
            self.load(self.dump())
            meta[hashing.DROPS] = 1
        room = int(meta[hashing.ROOM])
        wanted = int(meta[hashing.LIVE]) + records
        if wanted > room or (not meta[hashing.FREE] and meta[hashing.USED] == room):
            while room < wanted or room == meta[hashing.USED]:
                room *= 2
            self._resize(room)
            if not meta[hashing.DIRECT]:
                self._reindex()
        if meta[hashing.DIRECT]:
            offset = int(self.views[hashing.KEY][0]) - int(meta[hashing.BASE])
            if not 0 <= offset <= meta[hashing.MASK]:
                self._reindex(int(self.views[hashing.KEY][0]))

    def _live(self) -> npt.NDArray[np.intp]:
        """Return the slots in the index, ascending."""
        index = self.array(hashing.INDEX)
        return np.sort(index[index != 0] - 1)

    def _reindex(self, key: int | None = None) -> None:
        self._index(self._live(), key)

    def _index(self, slots: npt.NDArray[np.intp], key: int | None = None) -> None:
        """Rebuild the index over these slots; it becomes direct if the keys, including ``key``, allow it."""
        meta, room = self._meta, int(self._meta[hashing.ROOM])
        keys = self.records()[slots, : self.key_words]
        if self._is_direct:
            given = keys[:, 0] if key is None else np.append(keys[:, 0], key)
            low, high = (int(given.min()), int(given.max())) if len(given) else (0, 0)
            if high - low < max(_DIRECT_LEAST, _DIRECT_SPREAD * (len(given) + 1)):
                span = 2 * _SMALL
                while span < 2 * (high - low + 1):
                    span *= 2
                base = low - (span - (high - low + 1)) // 2
                base = max(base, -(2**63))
                index = np.zeros(span, np.int64)
                index[keys[:, 0] - base] = slots + 1
                self.put(hashing.INDEX, index)
                meta[hashing.DIRECT], meta[hashing.BASE], meta[hashing.MASK] = 1, base, span - 1
                return
            self._is_direct = False
        meta[hashing.DIRECT] = 0
        size = 2 * room
        index, home = np.zeros(size, np.int64), _hashes(keys) & (size - 1)
        pending = np.arange(len(slots))
        while len(pending):
            at = home[pending]
            free = index[at] == 0
            index[at[free]] = slots[pending[free]] + 1  # if several slots have the same cell, the last one is written
            pending = pending[index[at] != slots[pending] + 1]
            home[pending] = (home[pending] + 1) & (size - 1)
        self.put(hashing.INDEX, index)
        meta[hashing.MASK] = size - 1

    def records(self) -> Words:
        """Return all slots' words, shape (capacity, words of a record), not copied."""
        return self.array(hashing.CELLS).reshape(-1, self.stride)

    def slots(self) -> npt.NDArray[np.intp]:
        """Return the slots of records that are not empty, ascending."""
        return rows_with_words(self.records()[: self._meta[hashing.USED], self.key_words :])

    def dump(self) -> Words:
        """Return the live records, shape (records, words of a record)."""
        return self.records().take(self.slots(), axis=0)

    def dump_columns(self) -> Words:
        """Return a copy of the live records, shape (words of a record, records); much faster than `dump`."""
        columns = self.records()[: self._meta[hashing.USED]].T.copy()
        if columns[self.key_words :].all(axis=1).any():
            return columns  # the usual case: one of the values, such as the weight, is never 0
        is_live = columns[self.key_words :].any(axis=0)
        return columns if is_live.all() else columns.compress(is_live, axis=1)

    def load(self, records: Words) -> None:
        """Replace the records; keys must not repeat."""
        self._is_direct = self._is_direct or bool(self._meta[hashing.DIRECT])
        self._begin()
        count = len(records)
        room = _SMALL
        while room < count:
            room *= 2
        self._resize(room)
        if not self.key_words:
            if count:
                self.records()[0] = records[0]
            return
        self.records()[:count] = records
        self._meta[hashing.USED] = self._meta[hashing.LIVE] = count
        self._index(np.arange(count))

    def get(self, key: Sequence[int]) -> list[int] | None:
        """Return the values of a key; None if it is missing. For tests and for single look-ups."""
        scratch = self.views[hashing.KEY]
        for place, word in enumerate(key):
            scratch[place] = word
        slot = hashing.find(self.views)
        if slot < 0:
            return None
        return [int(word) for word in self.records()[slot, self.key_words :]]

    def find_all(self, keys: Words) -> Words:
        """Return the slots of ``keys``, an array of shape (keys, key words); all keys must be present."""
        index = self.array(hashing.INDEX)
        if not self.key_words:
            return np.zeros(len(keys), np.int64)
        if self._meta[hashing.DIRECT]:
            return np.asarray(index[keys[:, 0] - self._meta[hashing.BASE]] - 1)
        at, stored = _hashes(keys) & self._meta[hashing.MASK], self.records()[:, : self.key_words]
        pending = np.arange(len(keys))
        while len(pending):
            pending = pending[(stored[index[at[pending]] - 1] != keys[pending]).any(axis=1)]
            at[pending] = (at[pending] + 1) & self._meta[hashing.MASK]
        return np.asarray(index[at] - 1)

    def _check(self) -> None:
        """Assert every invariant."""
        self._check_nulls()
        meta = self._meta
        live = self._live()
        assert len(live) == len(set(live.tolist())) == meta[hashing.LIVE] <= meta[hashing.ROOM]
        assert len(self.array(hashing.INDEX)) == meta[hashing.MASK] + 1
        free, slot = set(), int(meta[hashing.FREE])
        while slot:
            assert slot - 1 not in free
            free.add(slot - 1)
            slot = int(self.records()[slot - 1, 0])
        assert free | set(live.tolist()) == set(range(meta[hashing.USED]))
        assert not free & set(live.tolist())
        assert not self.records()[sorted(free), self.key_words :].any()
        for slot in live.tolist():
            for place in range(self.key_words):
                self.views[hashing.KEY][place] = int(self.records()[slot, place])
            assert hashing.find(self.views) == slot


def rows_with_words(matrix: Words) -> npt.NDArray[np.intp]:
    """Return the places of the rows in which some word is not 0, ascending."""
    words = np.zeros(len(matrix), np.int64)
    for column in matrix.T:  # takes a quarter of the time of `any` over such short rows
        words |= column
    return np.flatnonzero(words)


def _hashes(keys: Words) -> Words:
    """Return `library.hashing.hash_of` of each row."""
    state = np.zeros(len(keys), np.uint64)
    for place in range(keys.shape[1]):
        state ^= keys[:, place].view(np.uint64)
        low, high = state & _LOW_HALF, state >> _HALF
        first, second = high * _GOLDEN_LOW, low * _GOLDEN_HIGH
        carry = (low * _GOLDEN_LOW >> _HALF) + (first & _LOW_HALF) + (second & _LOW_HALF) >> _HALF
        state *= _GOLDEN
        state ^= high * _GOLDEN_HIGH + (first >> _HALF) + (second >> _HALF) + carry
    return state.view(np.int64)
