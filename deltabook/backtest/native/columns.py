"""Records as arrays of 64-bit integers, as the kernel reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from exchange_server.matching.inputs import REMAIN
from exchange_server.replay import Record
from runtime.native.library import matching

__all__ = ["columns_of"]

Words = npt.NDArray[np.int64]

_ACTIONS: Final = {
    "B": matching.ADD_BUY,
    "S": matching.ADD_SELL,
    "E": matching.EXECUTE,
    "F": matching.FILL,
    "D": matching.DROP,
    "X": matching.TAKE_OFF,
    "U": matching.REPLACE,
    REMAIN: matching.REMAIN,
}
_ATTRIBUTES: Final = (
    (matching.C_TIME, attrgetter("time_ns")),
    (matching.C_POSITION, attrgetter("position")),
    (matching.C_BROKER, attrgetter("broker_id")),
    (matching.C_VOLUME, attrgetter("volume")),
    (matching.C_PRICE, attrgetter("price_ticks")),
)
_IDS: Final = (
    (matching.C_FILE, matching.C_ORDER, attrgetter("order_id")),
    (matching.C_NEW_FILE, matching.C_NEW, attrgetter("new_id")),
)
_FILE_SHIFT: Final = 64
_MASK: Final = 2**_FILE_SHIFT - 1


def columns_of(records: Sequence[Record], locates: Mapping[str, int]) -> list[Words] | None:
    """Return the columns of records, in the order of `matching.C_TIME` and those behind it.

    ``locates`` is symbol → number of its book. None is returned if a value does not fit a column: a negative id, or
    anything else outside 64 bits.
    """
    columns: dict[int, Words] = {}
    try:
        for place, attribute in _ATTRIBUTES:
            columns[place] = np.array(list(map(attribute, records)), np.int64)
        for file, number, attribute in _IDS:
            columns[file], columns[number] = _ids(list(map(attribute, records)))
        columns[matching.C_ACTION] = np.array([_ACTIONS.get(r.action, matching.OTHER) for r in records], np.int64)
        columns[matching.C_LOCATE] = np.array([locates[r.symbol] for r in records], np.int64)
    except OverflowError:
        return None
    return [columns[place] for place in sorted(columns)]


def _ids(ids: Sequence[int]) -> tuple[Words, Words]:
    """Return the numbers of files and the ids in them; raises `OverflowError` for an id that is negative."""
    try:
        numbers = np.array(ids, np.int64)
    except OverflowError:  # the ids of every file but the first
        files = [number >> _FILE_SHIFT for number in ids]
        low = np.array([number & _MASK for number in ids], np.uint64).view(np.int64)
        if min(files) < 0:
            raise
        return np.array(files, np.int64), low
    if len(numbers) and numbers.min() < 0:
        raise OverflowError(f"expected an id of 0 or more, was {numbers.min()}")
    return np.zeros(len(numbers), np.int64), numbers
