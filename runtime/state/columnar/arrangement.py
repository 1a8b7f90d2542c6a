"""Tables that batches are added to, and rows arranged by a key so that all rows of a key are found at once.

A join has to enumerate the rows of each key of a batch. The rows of a key lie one behind the other in an *extent* of
one flat array; an extent that is full moves to the end with twice the room, a row that goes is replaced by the last of
its extent. So both a change and an enumeration cost what they touch, whatever is held. Only the rows are state; extents
are built from them.

Rejected: chains of rows (a numpy step per link, so that one key with many rows makes as many steps) and sorted runs (a
search per run, and a sort of everything now and then).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state.columnar.keyindex import KeyIndex
from runtime.state.columnar.table import KeyedTable
from runtime.state.errors import StateError

__all__ = ["MOST_MATCHES", "Arrangement", "CountedTable", "groups_of", "ranges"]

Words = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int64]

_SMALLEST: Final = 64
MOST_MATCHES: Final = 20_000_000
"""A batch whose rows match more rows would take gigabytes to say so."""
_SLACK: Final = 4
"""Extents are laid out anew when they take up more than this many places per row."""


def groups_of(words: Words) -> tuple[Slots, Slots]:
    """An order in which equal rows follow one another, and where in it each group of equal rows starts."""
    if not len(words):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if not words.shape[1]:
        return np.arange(len(words)), np.zeros(1, np.int64)
    mixed = words[:, 0] if words.shape[1] == 1 else _mixed(words)
    order = np.argsort(mixed)
    rows = words[order]
    differs = (rows[1:] != rows[:-1]).any(axis=1)
    if words.shape[1] > 1 and (differs & (mixed[order][1:] == mixed[order][:-1])).any():
        order = np.lexsort(words.T)  # two rows with one hash may lie in any order: sort by the rows themselves
        rows = words[order]
        differs = (rows[1:] != rows[:-1]).any(axis=1)
    return order, np.concatenate([[0], np.flatnonzero(differs) + 1])


def _mixed(words: Words) -> npt.NDArray[np.uint64]:
    mixed = np.zeros(len(words), np.uint64)
    for column in range(words.shape[1]):
        mixed ^= words[:, column].view(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return mixed


def ranges(starts: Slots, lengths: Slots) -> Slots:
    """``start, start + 1, …`` for each pair, one behind the other."""
    before = np.cumsum(lengths) - lengths
    total = int(before[-1] + lengths[-1]) if len(lengths) else 0
    return np.repeat(starts - before, lengths) + np.arange(total)


class CountedTable(KeyedTable):
    """A keyed table whose values are added to; a key is held as long as one of its values is not 0."""

    def __init__(self, width: int, values: Sequence[str]) -> None:
        super().__init__(width, values)
        self.restored = False
        """Whether runs were applied: whoever builds something from the table builds it anew and resets this."""

    def apply_run(self, run: pa.RecordBatch) -> None:
        super().apply_run(run)
        self.restored = True

    def enter(self, keys: Words) -> tuple[Slots, Words]:
        """Slots of keys, made where they were not held, and their values (0 for new ones); keys must not repeat.

        `write` must follow with the same keys.
        """
        slots, made = self._index.insert(keys)
        self._grow()
        self._values[:, slots[made]] = 0
        return slots, self._values[:, slots]

    def write(self, keys: Words, slots: Slots, values: Words) -> None:
        """Set what `enter` entered; keys whose values are all 0 go."""
        if not len(keys):
            return
        self.put_at(slots, values)
        gone = (values == 0).all(axis=0)
        if gone.any():
            self.delete_at(slots[gone])

    def add(self, keys: Words, deltas: Words) -> tuple[Slots, Words, Words]:
        """Add to the values of these keys, which must not repeat: slots (of keys that went: until now), old, new."""
        slots, old = self.enter(keys)
        new = old + deltas
        self.write(keys, slots, new)
        return slots, old, new


class Arrangement(CountedTable):
    """Rows with weights, and for each key its rows.

    ``key`` says which words of a row make its key: (place, False) the word, (place, True) the word's sign, by which an
    int64 becomes the two words of an int128.
    """

    def __init__(self, width: int, key: Sequence[tuple[int, bool]]) -> None:
        super().__init__(width, ["weight"])
        self._key = tuple(key)
        self._clear()

    def _clear(self) -> None:
        self._keys = KeyIndex(len(self._key))
        self._start = np.zeros(_SMALLEST, np.int64)  # key slot → where its extent begins
        self._length = np.zeros(_SMALLEST, np.int64)  # key slot → rows in it
        self._room = np.zeros(_SMALLEST, np.int64)  # key slot → places in it
        self._items = np.zeros(_SMALLEST, np.int64)  # place → row slot
        self._end = 0  # places given to extents, those that they left among them
        self._key_of = np.full(_SMALLEST, -1, np.int64)  # row slot → key slot
        self._place_of = np.zeros(_SMALLEST, np.int64)  # row slot → place

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Take over a run; extents that are there follow the rows that come and go, which costs the run alone."""
        if self.restored or not len(self):
            super().apply_run(run)
            return
        keys, held = self._rows_of(run)
        slots = self._index.lookup(keys)
        self._unlink(slots[(slots >= 0) & ~held])
        KeyedTable.apply_run(self, run)
        made = keys[held & (slots < 0)]
        self._key_of = _grown(self._key_of, self._index.capacity, -1)
        self._place_of = _grown(self._place_of, self._index.capacity, 0)
        self._link(self._index.lookup(made), made)

    def key_words(self, rows: Words) -> Words:
        """The keys of rows, shape (n, words of the key)."""
        words = np.empty((len(rows), len(self._key)), np.int64)
        for column, (place, sign) in enumerate(self._key):
            words[:, column] = rows[:, place] >> 63 if sign else rows[:, place]
        return words

    def change(self, rows: Words, weight: Words) -> None:
        """Add to the weights of these rows, which must not repeat."""
        self._refresh()
        slots, old, new = self.add(rows, weight[None, :])
        self._key_of = _grown(self._key_of, self._index.capacity, -1)
        self._place_of = _grown(self._place_of, self._index.capacity, 0)
        gone = (old[0] != 0) & (new[0] == 0)
        self._unlink(slots[gone])
        made = (old[0] == 0) & (new[0] != 0)
        self._link(slots[made], rows[made])
        if self._end > _SLACK * len(self) + 16 * _SMALLEST:
            self._compact()

    def probe(self, keys: Words) -> tuple[Slots, Slots]:
        """All rows of these keys, which may repeat: (number of the key, slot of the row) pairs, by key."""
        self._refresh()
        key_slots = self._keys.lookup(keys)
        found = np.flatnonzero(key_slots >= 0)
        key_slots = key_slots[found]
        lengths = self._length[key_slots]
        if int(lengths.sum()) > MOST_MATCHES:
            raise StateError(
                f"expected at most {MOST_MATCHES:,} matching rows in a batch, was {int(lengths.sum()):,}: "
                "join by more columns, or sum over the join"
            )
        return np.repeat(found, lengths), self._items[ranges(self._start[key_slots], lengths)]

    def weights(self, slots: Slots) -> Words:
        """The weights of rows."""
        weights: Words = self._values[0, slots]
        return weights

    def _refresh(self) -> None:
        if self.restored:
            self.restored = False
            self._clear()
            slots = self.live_slots()
            self._key_of = _grown(self._key_of, self._index.capacity, -1)
            self._place_of = _grown(self._place_of, self._index.capacity, 0)
            self._link(slots, self.keys_of(slots))

    def _link(self, slots: Slots, rows: Words) -> None:
        """Put rows at the end of their extents."""
        if not len(slots):
            return
        keys = self.key_words(rows)
        order, first = groups_of(keys)
        added = np.diff(np.append(first, len(order)))
        key_slots, made = self._keys.insert(keys[order[first]])
        capacity = self._keys.capacity
        self._start, self._length = _grown(self._start, capacity, 0), _grown(self._length, capacity, 0)
        self._room = _grown(self._room, capacity, 0)
        fresh = key_slots[made]
        self._start[fresh] = self._length[fresh] = self._room[fresh] = 0
        self._make_room(key_slots, self._length[key_slots] + added)
        places = ranges(self._start[key_slots] + self._length[key_slots], added)
        moved = slots[order]
        self._items[places] = moved
        self._place_of[moved] = places
        self._key_of[moved] = np.repeat(key_slots, added)
        self._length[key_slots] += added

    def _make_room(self, key_slots: Slots, needed: Slots) -> None:
        full = needed > self._room[key_slots]
        key_slots, needed = key_slots[full], needed[full]
        if not len(key_slots):
            return
        lengths = self._length[key_slots]
        room = np.where(lengths == 0, needed, 2 * needed)  # a key that has grown once will grow again
        starts = self._end + np.cumsum(room) - room
        self._end += int(room.sum())
        if self._end > len(self._items):
            self._items = _grown(self._items, max(self._end, 2 * len(self._items)), 0)
        moved = self._items[ranges(self._start[key_slots], lengths)]
        places = ranges(starts, lengths)
        self._items[places] = moved
        self._place_of[moved] = places
        self._start[key_slots], self._room[key_slots] = starts, room

    def _unlink(self, slots: Slots) -> None:
        """Take rows out of their extents; the last rows of an extent fill the holes."""
        if not len(slots):
            return
        slots = slots[np.argsort(self._key_of[slots], kind="stable")]
        keys = self._key_of[slots]
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        removed = np.diff(np.append(first, len(keys)))
        key_slots = keys[first]
        left = self._length[key_slots] - removed
        limit = self._start[key_slots] + left
        self._key_of[slots] = -1
        holes = self._place_of[slots]
        holes = holes[holes < np.repeat(limit, removed)]
        tail = self._items[ranges(limit, removed)]
        moved = tail[self._key_of[tail] >= 0]
        self._items[holes] = moved
        self._place_of[moved] = holes
        self._length[key_slots] = left
        self._keys.remove(key_slots[left == 0])

    def _compact(self) -> None:
        key_slots = self._keys.live_slots()
        lengths = self._length[key_slots]
        items = self._items[ranges(self._start[key_slots], lengths)]
        self._start[key_slots] = np.cumsum(lengths) - lengths
        self._room[key_slots] = lengths
        self._items, self._end = items, len(items)
        self._place_of[items] = np.arange(len(items))

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        super()._check()
        self._refresh()
        self._keys._check()
        slots = self.live_slots()
        assert (self.weights(slots) != 0).all()
        assert (self._items[self._place_of[slots]] == slots).all()
        assert (self._keys.keys_of(self._key_of[slots]) == self.key_words(self.keys_of(slots))).all()
        keys = self._keys.live_slots()
        assert int(self._length[keys].sum()) == len(self)
        assert ((self._length[keys] > 0) & (self._length[keys] <= self._room[keys])).all()
        by_place = keys[np.argsort(self._start[keys])]
        ends = self._start[by_place] + self._room[by_place]
        assert (ends[:-1] <= self._start[by_place[1:]]).all()
        assert (ends[-1:] <= self._end).all()
        numbers, found = self.probe(self._keys.keys_of(keys))
        assert (self._key_of[found] == keys[numbers]).all()
        assert (np.sort(found) == slots).all()


def _grown(array: Slots, size: int, fill: int) -> Slots:
    if len(array) >= size:
        return array
    larger = np.full(size, fill, np.int64)
    larger[: len(array)] = array
    return larger
