"""Takes out of a large batch the rows that it both inserts and deletes, before any map adds them up.

Where orders live for much less than a batch nearly all rows go. Two rows cancel if they are equal in all columns that
the maps read and have opposite weights: that changes no sum, so nothing depends on finding all such pairs. They are
found next to one another after a sort by one column that tells most rows apart, such as an order's id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.plan import Call, Col, Expr, Map
from runtime.views.errors import ViewError
from runtime.views.preaggregate import has_dense_keys, is_plain
from runtime.views.relationbatch import RelationBatch

__all__ = ["consolidated"]

Integers = npt.NDArray[np.int64]

_LEAST_ROWS: Final = 50_000
_BLOCK: Final = 1 << 18
"""Rows whose columns stay in a core's cache; what is left of the blocks is matched once more."""
_SAMPLE: Final = 2048
_TRIAL: Final = 4096
_WORTH: Final = 0.3
"""Part of the rows that has to go."""


def consolidated(batch: RelationBatch, maps: Sequence[Map]) -> RelationBatch:
    """The batch without most pairs that cancel for these maps; as it is where it is small or would gain nothing.

    To scatter sums into arrays takes less time than the search; it is worth it where rows have to be sorted, or added
    up in wide numbers.
    """
    if batch.rows < _LEAST_ROWS or all(_holds(quick, m, batch) for quick in (has_dense_keys, is_plain) for m in maps):
        return batch
    telling = _telling_column(batch)
    if telling is None:
        return batch
    trial = _trial_rows(telling)
    used = sorted({name for map_ in maps for expr in _expressions(map_) for name in _names(expr)})
    others = [column for name in used if (column := batch.codes(name)) is not telling]
    columns = [telling, batch.weight, *others]
    if len(_left([column[trial] for column in columns])) > (1 - _WORTH) * len(trial):
        return batch
    return batch.taking(_left_of_blocks(columns))


def _holds(quick: Callable[[Map, RelationBatch], bool], map_: Map, batch: RelationBatch) -> bool:
    try:
        return quick(map_, batch)
    except ViewError:
        return True  # it will be refused by itself, and not its neighbours


def _left_of_blocks(columns: Sequence[Integers]) -> Integers:
    rows = len(columns[0])
    left = []
    for begin in range(0, rows, _BLOCK):
        end = min(begin + _BLOCK, rows)
        stay = _left([column[begin:end] for column in columns])
        if len(stay) > (1 - _WORTH) * (end - begin):  # rows live for longer than a block
            return _left(columns)
        left.append(stay + begin)
    several = np.concatenate(left)
    if len(left) > 1:
        several = several[_left([column[several] for column in columns])]
    return several


def _left(columns: Sequence[Integers]) -> Integers:
    """The rows without neighbours that cancel when they are sorted by the first column; the second is the weight.

    Rows with the same value stay in their order, so a row that comes, goes and comes again as another cancels with
    itself.
    """
    telling, weight, *others = columns
    rows = len(telling)
    if not rows:
        return np.zeros(0, np.int64)
    bits, low = rows.bit_length(), int(telling.min())
    if (int(telling.max()) - low).bit_length() + bits > 63:
        return np.arange(rows)
    order = telling - low
    order <<= bits
    order |= np.arange(rows)
    order.sort()
    firsts = ((order[1:] ^ order[:-1]) < 1 << bits).nonzero()[0]
    order &= (1 << bits) - 1
    before, after = order[firsts], order[firsts + 1]
    cancel = weight[before] == -weight[after]
    for other in others:
        cancel &= other[before] == other[after]
    firsts = _apart(firsts[cancel])
    stay = np.ones(rows, np.bool_)
    stay[order[firsts]] = False
    stay[order[firsts + 1]] = False
    return np.flatnonzero(stay)


def _apart(firsts: Integers) -> Integers:
    """Of ascending numbers those that are no neighbours, every other one of a run: a row cancels once."""
    if not len(firsts):
        return firsts
    begins = np.empty(len(firsts), np.bool_)
    begins[0] = True
    np.not_equal(firsts[1:], firsts[:-1] + 1, out=begins[1:])
    place = np.arange(len(firsts))
    begin = np.maximum.accumulate(np.where(begins, place, 0))
    chosen: Integers = firsts[(place - begin) % 2 == 0]
    return chosen


def _telling_column(batch: RelationBatch) -> Integers | None:
    """The integer column that tells most rows apart, as far as a sample shows; of several the narrowest."""
    step = max(1, batch.rows // _SAMPLE)
    found: list[tuple[int, int, int]] = []
    columns: list[Integers] = []
    for name in batch:
        numbers = batch.numbers(name)
        if numbers is not None:
            sample = np.sort(numbers[::step])
            distinct = int(np.count_nonzero(sample[1:] != sample[:-1]))
            found.append((-distinct, int(sample[-1]) - int(sample[0]), len(columns)))
            columns.append(numbers)
    return columns[min(found)[2]] if found else None


def _trial_rows(column: Integers) -> Integers:
    """All rows whose value is in a small range of those that there are."""
    rows = len(column)
    sample = np.sort(column[:: max(1, rows // _SAMPLE)])
    part = min(len(sample), max(len(sample) // 64, len(sample) * _TRIAL // rows))
    begin = (len(sample) - part) // 2
    low, high = sample[begin], sample[min(begin + part, len(sample) - 1)]
    return np.flatnonzero((column >= low) & (column <= high))


def _expressions(map_: Map) -> Iterator[Expr]:
    if map_.where is not None:
        yield map_.where
    yield from (key.expr for key in map_.keys)
    yield from (total.expr for total in map_.sums)


def _names(expr: Expr) -> Iterable[str]:
    if isinstance(expr, Col):
        return [expr.name]
    return [name for argument in expr.args for name in _names(argument)] if isinstance(expr, Call) else []
