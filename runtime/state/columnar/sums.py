"""A keyed table of exact sums, to which batches of deltas are added."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state.columnar.exactsums import Exact, arrow_of, checked, exact_of, fit, largest, summed
from runtime.state.columnar.keyindex import KeyIndex
from runtime.state.errors import CorruptStateError

__all__ = ["SumTable"]

Integers = npt.NDArray[np.int64]

_FEW: Final = 64
_ROOM: Final = 2**62


class SumTable:
    """Key words of ``width`` → ``sums`` exact sums; a key whose sums are all 0 is gone.

    Not thread-safe: one owner at a time.
    """

    def __init__(self, width: int, sums: int) -> None:
        self._width = width
        self._index = KeyIndex(width)
        self._values: list[Exact] = [np.zeros(self._index.capacity, np.int64) for _ in range(sums)]
        self._bounds = [0] * sums  # no value is further from 0
        self._seen: tuple[Integers, Integers] | None = None
        self.restored = False
        """Whether runs were applied: whoever builds something from the table builds it anew and resets this."""
        self._touched: list[Integers] = []
        self._in_flight: list[Integers] = []

    def __len__(self) -> int:
        return len(self._index)

    @property
    def dirty(self) -> bool:
        """Whether anything was added since the last save."""
        return bool(self._touched)

    def lookup(self, words: Integers) -> Integers:
        """The slot of each key, -1 where there is none; keys may repeat."""
        return self._index.lookup(words)

    def words(self, slots: Integers) -> Integers:
        """Keys of live slots, shape (n, width)."""
        return self._index.keys_of(slots)

    def live_slots(self) -> Integers:
        """Slots of all keys held."""
        return self._index.live_slots()

    def values(self, slots: Integers) -> list[Exact]:
        """Per sum, the values of these slots; 0 where a slot is -1."""
        known = slots >= 0
        if known.all():
            return [value[slots] for value in self._values]
        return [np.where(known, value[np.maximum(slots, 0)], 0) for value in self._values]

    def add(self, words: Integers, deltas: list[Exact]) -> tuple[list[Exact], list[Exact], Integers]:
        """Add n of each sum to keys that do not repeat; gives the values before and after, and each key's slot.

        Raises `StateOverflowError` for a sum past 126 bits; the table is then of no more use.

        The slots of keys that are gone may be given to others by the next `add`.
        """
        slots = self._slots(words)
        before, after = [], []
        gone = np.True_
        for number, delta in enumerate(deltas):
            value = self._grown(number)
            old = value[slots]
            self._bounds[number] += largest(delta)
            if self._bounds[number] >= _ROOM:
                self._bounds[number] = largest(value) + largest(delta)
            old, delta = fit(self._bounds[number], old, delta)  # noqa: PLW2901 (the same, perhaps wider)
            new = checked(old + delta)
            if new.dtype == object and value.dtype != object:
                value = self._values[number] = value.astype(object)
            value[slots] = new
            before.append(old)
            after.append(new)
            gone = gone & (new == 0)
        if gone.any():
            self._index.remove(slots[gone.astype(np.bool_)])
            self._seen = None
        self._touched.append(words)
        return before, after, slots

    def difference(self, words: Integers, values: list[Exact]) -> tuple[Integers, list[Exact]]:
        """What `add` has to be given so that these keys, each once, have these sums and no others are held."""
        seen = self._seen_slots(words)
        slots = self.lookup(words) if seen is None else seen
        deltas = [summed(new, -old) for new, old in zip(values, self.values(slots), strict=True)]
        if int(np.count_nonzero(slots >= 0)) == len(self):
            return words, deltas
        others = np.setdiff1d(self.live_slots(), slots)
        gone = [-value for value in self.values(others)]
        return (
            np.concatenate([words, self.words(others)]),
            [np.concatenate(pair) for pair in zip(deltas, gone, strict=True)],
        )

    def _seen_slots(self, words: Integers) -> Integers | None:
        """The slots of the keys that were changed last, if it is these."""
        if self._seen is not None and self._seen[0].shape == words.shape and (self._seen[0] == words).all():
            return self._seen[1]
        return None

    def _slots(self, words: Integers) -> Integers:
        """Slots of keys, made where there were none; a table of few keys is often changed in the same ones again."""
        seen = self._seen_slots(words)
        if seen is not None:
            return seen
        slots, _ = self._index.insert(words)
        self._seen = (words, slots) if len(words) <= _FEW else None
        return slots

    def save(self) -> pa.RecordBatch:
        """The present values of all keys touched since the last save; `on_saved` or `on_failed` must follow."""
        self._in_flight += self._touched
        self._touched = []
        if not self._in_flight:
            return self._run(np.zeros((0, self._width), np.int64))
        words = np.concatenate(self._in_flight)
        return self._run(np.unique(words, axis=0) if self._width else words[:1])

    def save_all(self) -> pa.RecordBatch:
        """Everything held, as a run that stands alone."""
        return self._run(self._index.keys_of(self._index.live_slots()))

    def on_saved(self) -> None:
        """The last save is durable."""
        self._in_flight = []

    def on_failed(self) -> None:
        """The last save is lost: its edits go out with the next."""
        self._touched = self._in_flight + self._touched
        self._in_flight = []

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Take over a run written by `save` or `save_all`; leaves nothing dirty."""
        names = self._names()
        if run.schema.names != names:
            raise CorruptStateError(f"expected a run of {names}, was {run.schema.names}")
        words = np.zeros((run.num_rows, self._width), np.int64)
        for place in range(self._width):
            words[:, place] = run.column(place).to_numpy()
        values = [exact_of(run.column(self._width + i)) for i in range(len(self._values))]
        slots = self.lookup(words)
        self._seen = None
        self.restored = True
        known = slots[slots >= 0]
        self._index.remove(known)
        for value in self._values:
            value[known] = 0
        held = np.zeros(run.num_rows, np.bool_)
        for value in values:
            held |= (value != 0).astype(np.bool_)
        slots, _ = self._index.insert(words[held])
        for number, value in enumerate(values):
            if value.dtype == object:
                self._values[number] = self._values[number].astype(object)
            self._grown(number)[slots] = value[held]
            self._bounds[number] = max(self._bounds[number], largest(value))

    def _grown(self, number: int) -> Exact:
        value = self._values[number]
        if len(value) < self._index.capacity:
            grown = np.zeros(self._index.capacity, value.dtype)
            grown[: len(value)] = value
            value = self._values[number] = grown
        # A slot that is used again still has what its last key left, which is 0 by then.
        return value

    def _names(self) -> list[str]:
        return [*(f"k{i}" for i in range(self._width)), *(f"s{i}" for i in range(len(self._values)))]

    def _run(self, words: Integers) -> pa.RecordBatch:
        arrays = [pa.array(np.ascontiguousarray(words[:, i])) for i in range(self._width)]
        arrays += [arrow_of(value) for value in self.values(self.lookup(words))]
        return pa.RecordBatch.from_arrays(arrays, names=self._names())

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._index._check()
        held = self.values(self.live_slots())
        assert not len(self) or sum((value != 0).astype(np.int64) for value in held).min() > 0
