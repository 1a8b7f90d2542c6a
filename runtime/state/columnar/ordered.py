"""An ordered aggregate index: sums of a range of an ordered key, per group, kept by batches of deltas.

Entries are (group, key) → sums. A query asks for the sums of all entries of a group below a key; a range is the
difference of two of them. Both cost the batch times a logarithm, whatever the number of entries.

Two layouts, one behaviour. While groups × the range of the keys is small the sums stand in dense arrays with running
totals along the key. Otherwise they stand in *runs*: sorted arrays with running totals, each several times smaller
than the one before it, as in a log-structured merge tree; a query adds up what the runs say, and a batch becomes a run
that is merged with its smaller neighbours. Deltas are added, so that no run is ever looked into to change it.

Tried and rejected: Fenwick trees over ranks (21 dependent gathers per query at two million keys, and a rebuild for
every new key), sorted blocks in a matrix (every batch touches most blocks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state.columnar.dense import Dense
from runtime.state.columnar.exactsums import Exact, arrow_of, checked, exact_of, grouped
from runtime.state.columnar.keyindex import KeyIndex
from runtime.state.columnar.packing import Packing
from runtime.state.columnar.runs import Spine
from runtime.state.columnar.sums import SumTable
from runtime.state.errors import CorruptStateError

__all__ = ["OrderedIndex"]

Integers = npt.NDArray[np.int64]

_MOST_CELLS: Final = 1 << 17
_FULL: Final = b"full"


class OrderedIndex:
    """Group words of ``width`` and an int64 key → ``sums`` exact sums; entries whose sums are all 0 are gone.

    Not thread-safe: one owner at a time.
    """

    def __init__(self, width: int, sums: int, *, watches_signs: bool = False) -> None:
        """``watches_signs``: `has_negative` is asked."""
        self._width = width
        self._sums = sums
        self._watches_signs = watches_signs
        self._net: SumTable | None = None  # while runs hide what an entry's sums are: the sums that are negative
        self._negative = 0
        self._groups = KeyIndex(width)
        self._packing = Packing(0, 0)
        self._layout: Dense | Spine = self._empty()
        self._edits: list[tuple[Integers, Integers, list[Exact]]] = []
        self._in_flight: list[tuple[Integers, Integers, list[Exact]]] = []
        self._edited = 0
        self._most_edits = _MOST_CELLS
        self._is_rewritten = False  # the edits were too many to keep: the next save writes everything

    def __len__(self) -> int:
        """Entries held; those that later deltas cancel may still count until runs are merged."""
        return self._layout.entries()

    @property
    def dirty(self) -> bool:
        """Whether anything was added since the last save."""
        return bool(self._edits) or self._is_rewritten

    def groups(self, words: Integers) -> Integers:
        """The number of each group, -1 where there is none; groups may repeat."""
        if not self._width:
            return np.full(len(words), 0 if len(self._groups) else -1, np.int64)
        return self._groups.lookup(words)

    def group_words(self, groups: Integers) -> Integers:
        """The words of groups, shape (n, width)."""
        return self._groups.keys_of(groups)

    def all_groups(self) -> Integers:
        """Every group that has had entries since the last rebuild."""
        return self._groups.live_slots()

    def add(
        self,
        words: Integers,
        keys: Integers,
        values: list[Exact],
        bounds: Sequence[int] | None = None,
        span: tuple[int, int] | None = None,
        *,
        repeats: bool = False,
    ) -> None:
        """Add deltas: group words (n, width), keys (n), and n of each sum; ``repeats``: (group, key) pairs may repeat.

        What is known spares a look at them: ``bounds`` of the magnitudes of each sum, ``span`` of the keys.
        Raises `StateOverflowError` for a sum past 126 bits.
        """
        if not len(keys):
            return
        for value in values:
            checked(value)
        groups = self._group_numbers(words)
        self._make_room(groups, keys, span)
        self._layout.add(groups, keys, values, bounds)
        if self._net is not None:
            self._watch(*(_distinct(groups, keys, values) if repeats else (groups, keys, values)))
        self._edits.append((groups, keys, values))
        self._edited += len(keys)
        if self._edited > self._most_edits:
            self._most_edits = 4 * len(self) + _MOST_CELLS
            if self._edited > self._most_edits:
                self._edits, self._edited, self._is_rewritten = [], 0, True

    def bounds(self) -> list[int]:
        """Per sum, a number that no sum of a range is further from 0 than."""
        return self._layout.bounds()

    def below(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> list[Exact]:
        """Per row, the sums of its group's entries below a bound; zeros where the group is -1."""
        known = groups >= 0
        if known.all():
            return self._layout.below(groups, bounds, inclusive=inclusive)
        found = self._layout.below(np.where(known, groups, 0), bounds, inclusive=inclusive)
        return [np.where(known, sums, 0) for sums in found]

    def above(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> list[Exact]:
        """Per row, the sums of its group's entries above a bound; no group is -1."""
        return self._layout.above(groups, bounds, inclusive=inclusive)

    def totals(self, groups: Integers) -> list[Exact]:
        """Per row, the sums of all entries of its group; zeros where the group is -1."""
        known = groups >= 0
        if known.all():
            return self._layout.totals(groups)
        return [np.where(known, sums, 0) for sums in self._layout.totals(np.where(known, groups, 0))]

    def between(self, groups: Integers, low: int, high: int) -> list[Exact]:
        """Per group, the sums of its entries from ``low`` to ``high``, both inclusive; no group is -1."""
        return self._layout.between(groups, low, high)

    def prefix(self, numbers: Sequence[int], *, inclusive: bool, is_above: bool) -> Callable[[int], list[int]]:
        """From a bound to the sums of these numbers below it, or ``is_above`` of all that is not; until the next `add`.

        Of an index without group words; ``inclusive``: the bound counts as below.
        """
        return self._layout.prefix(numbers, inclusive=inclusive, is_above=is_above)

    def first_reaching(self, number: int, target: int) -> int | None:
        """The least key up to which (inclusive) one sum is at least ``target``; no entry of it may be negative.

        None where even the sum of everything is less. Of an index without group words.
        """
        return self._layout.first_reaching(number, target)

    def total(self, numbers: Sequence[int]) -> list[int]:
        """The sums of these numbers over everything, of an index without group words."""
        return self._layout.total(numbers)

    def has_negative(self, numbers: Sequence[int]) -> bool:
        """Whether any entry has a negative sum among those of these numbers; only where ``watches_signs``.

        It may say so of other sums too, which costs the caller no more than time.
        """
        assert self._watches_signs
        return self._layout.has_negative(numbers) if isinstance(self._layout, Dense) else self._negative > 0

    def span(self) -> tuple[int, int] | None:
        """Bounds between which all keys lie, not always tight; None while no entry was ever there."""
        return self._layout.span()

    def entries(self) -> tuple[Integers, Integers, list[Exact]]:
        """All entries by group and key: group numbers, keys, sums."""
        return self._layout.content()

    def keys_of_group(self, group: int) -> Integers:
        """The distinct keys of one group, ascending; perhaps some whose entries are gone since the last merge."""
        return self._layout.keys_of_group(group)

    def save(self) -> pa.RecordBatch:
        """What was added since the last save, as a run; `on_saved` or `on_failed` must follow before the next."""
        if self._is_rewritten:
            self._in_flight, self._edits, self._edited = [], [], 0
            return self.save_all()
        self._in_flight += self._edits
        self._edits, self._edited = [], 0
        if not self._in_flight:
            return self._run(np.zeros(0, np.int64), np.zeros(0, np.int64), [np.zeros(0, np.int64)] * self._sums)
        groups = np.concatenate([edit[0] for edit in self._in_flight])
        keys = np.concatenate([edit[1] for edit in self._in_flight])
        values = [np.concatenate([edit[2][i] for edit in self._in_flight]) for i in range(self._sums)]
        return self._run(groups, keys, values)

    def save_all(self) -> pa.RecordBatch:
        """Everything held, as a run that stands alone."""
        run = self._run(*self.entries())
        return run.replace_schema_metadata({_FULL: b""})

    def on_saved(self) -> None:
        """The last save is durable."""
        self._in_flight = []
        self._is_rewritten = False

    def on_failed(self) -> None:
        """The last save is lost: its edits go out with the next."""
        self._edits = self._in_flight + self._edits
        self._edited = sum(len(edit[0]) for edit in self._edits)
        self._in_flight = []

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Take over a run written by `save` or `save_all`; leaves nothing dirty."""
        names = self._names()
        if run.schema.names != names:
            raise CorruptStateError(f"expected a run of {names}, was {run.schema.names}")
        if run.schema.metadata and _FULL in run.schema.metadata:
            self._clear()
        words = np.stack([run.column(i).to_numpy() for i in range(self._width)] or [np.zeros(0)], axis=1)
        words = words.astype(np.int64) if self._width else np.zeros((run.num_rows, 0), np.int64)
        keys = run.column(self._width).to_numpy()
        values = [exact_of(run.column(self._width + 1 + i)) for i in range(self._sums)]
        if len(keys):
            groups = self._group_numbers(words)
            self._make_room(groups, keys)
            self._layout.add(groups, keys, values)
            if not self._watches_signs or not isinstance(self._layout, Spine):
                return
            if self._net is None:
                self._net, self._negative = SumTable(2, self._sums), 0
                self._watch(*self._layout.content())
            else:
                self._watch(*_distinct(groups, keys, values))

    def _empty(self) -> Dense | Spine:
        return Dense(self._sums, 1, self._packing)

    def _watch(self, groups: Integers, keys: Integers, values: list[Exact]) -> None:
        """Count the entries that have a negative sum, where the layout does not show them."""
        if self._net is None:
            return
        before, after, _ = self._net.add(np.stack([groups, keys], axis=1), values)
        for old, new in zip(before, after, strict=True):
            self._negative += int((new < 0).sum()) - int((old < 0).sum())

    def _clear(self) -> None:
        self._groups = KeyIndex(self._width)
        self._packing = Packing(0, 0)
        self._layout = self._empty()
        self._net, self._negative = None, 0

    def _group_numbers(self, words: Integers) -> Integers:
        if not self._width:
            if not len(self._groups):
                self._groups.insert(np.zeros((1, 0), np.int64))
            return np.zeros(len(words), np.int64)
        found = self._groups.lookup(words)
        if (found < 0).any():
            self._groups.insert(np.unique(words[found < 0], axis=0))
            found = self._groups.lookup(words)
        return found

    def _make_room(self, groups: Integers, keys: Integers, span: tuple[int, int] | None = None) -> None:
        """See to it that the layout can take these groups and keys; change it where it cannot."""
        top = int(np.maximum.reduce(groups)) if self._width else 0
        if span is None or not self._packing.holds(*span):
            span = int(keys.min()), int(keys.max())
        lowest, highest = span
        if isinstance(self._layout, Spine) and len(self._groups) > 2 * self._layout.known_groups + 1024:
            self._renumber(groups)
            top = int(self._groups.capacity) - 1 if self._width else 0
        packing = self._packing
        if not packing.holds(lowest, highest) or (isinstance(self._layout, Dense) and top >= self._layout.groups):
            packing = packing.widened(lowest, highest)
            self._lay_out(packing, top)

    def _lay_out(self, packing: Packing, top: int) -> None:
        count = 1 if not self._width else max(2 * (top + 1), 4)
        content = self._layout.content()
        self._packing = packing
        if isinstance(self._layout, Dense) and count << packing.bits <= _MOST_CELLS:
            self._layout = Dense(self._sums, count, packing)
        else:
            if self._watches_signs and isinstance(self._layout, Dense):
                self._net = SumTable(2, self._sums)
                self._watch(*content)
            self._layout = Spine(self._sums, packing)
        if len(content[0]):
            self._layout.add(*content)

    def _renumber(self, new: Integers) -> None:
        """Forget groups without entries; ``new`` are the numbers that a batch under way has been given."""
        assert isinstance(self._layout, Spine)
        used = np.union1d(self._layout.content()[0], new)
        pending = [edit[0] for edit in (*self._edits, *self._in_flight)]
        used = np.unique(np.concatenate([used, *pending]))
        live = self._groups.live_slots()
        self._groups.remove(np.setdiff1d(live, used, assume_unique=True))
        self._layout.known_groups = len(self._groups)

    def _names(self) -> list[str]:
        return [*(f"g{i}" for i in range(self._width)), "key", *(f"s{i}" for i in range(self._sums))]

    def _run(self, groups: Integers, keys: Integers, values: list[Exact]) -> pa.RecordBatch:
        words = self._groups.keys_of(groups)
        arrays: list[Any] = [pa.array(np.ascontiguousarray(words[:, i])) for i in range(self._width)]
        arrays += [pa.array(keys), *(arrow_of(value) for value in values)]
        return pa.RecordBatch.from_arrays(arrays, names=self._names())

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._groups._check()
        self._layout._check()
        groups, keys, values = self.entries()
        assert (self._groups.live_slots()[np.searchsorted(self._groups.live_slots(), groups)] == groups).all()
        order = np.lexsort((keys, groups))
        assert (order == np.arange(len(order))).all(), "entries stand by group and key"
        assert not len(keys) or any((value != 0).any() for value in values)


def _distinct(groups: Integers, keys: Integers, values: list[Exact]) -> tuple[Integers, Integers, list[Exact]]:
    """Entries that may repeat, each once with the sum of what it has."""
    order = np.lexsort((keys, groups))
    groups, keys = groups[order], keys[order]
    starts = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1])))
    return groups[starts], keys[starts], [grouped(value[order], starts) for value in values]
