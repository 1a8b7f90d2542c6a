"""Byte offsets of the ends of rows in their stream, computed for a batch only when one of its offsets is read."""

from __future__ import annotations

from typing import Any, overload

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.formats import FormattedBatch

__all__ = ["RowEnds"]
Booleans = npt.NDArray[np.bool_]


class _Part(msgspec.Struct, frozen=True, eq=False):
    """Consecutive rows of one batch, or a selection of them."""

    batch: FormattedBatch
    """Batch of the rows."""
    start: int
    """Place of the part's first row: in ``chosen`` if the part is a selection, else in the batch."""
    stop: int
    """Place that follows the place of the part's last row."""
    chosen: Any = None
    """Places of the selected rows in the batch; None if the part is not a selection."""

    def slice(self, start: int, stop: int) -> _Part:
        return _Part(self.batch, self.start + start, self.start + stop, self.chosen)

    def where(self, mask: Booleans) -> _Part:
        rows = np.flatnonzero(mask) + self.start if self.chosen is None else self.chosen[self.start : self.stop][mask]
        return _Part(self.batch, 0, len(rows), rows)

    def at(self, index: int) -> int:
        batch = self.batch
        row = self.start + index if self.chosen is None else int(self.chosen[self.start + index])
        if row == batch.rows.num_rows - 1 and not batch.bad:  # no other offset of the batch has to be computed
            return batch.end_offset
        return int(batch.row_ends[row])

    def tuples_at(self, index: int) -> int:
        batch = self.batch
        row = self.start + index if self.chosen is None else int(self.chosen[self.start + index])
        if row == batch.rows.num_rows - 1 and not batch.bad:
            return batch.first_tuple + batch.tuples
        if batch.layout is not None and batch.layout.kept is None and batch.first_tuple >= 0:
            return batch.first_tuple + row + 1  # every tuple has a row: nothing to look up
        return int(batch.tuple_numbers[row]) + 1

    def ends(self) -> Any:
        ends = self.batch.row_ends
        return ends[self.start : self.stop] if self.chosen is None else ends[self.chosen[self.start : self.stop]]


class RowEnds:
    """Byte offset of the end of each row: an int64 array that is computed only when it is read.

    Taking a slice or a selection by a mask computes no offset. The last row of a batch without bad tuples ends where
    the batch ends. So if only the end of the last row is read, no offset is computed.
    """

    __slots__ = ("_length", "_parts")

    def __init__(self, parts: tuple[_Part, ...]) -> None:
        self._parts = tuple([part for part in parts if part.stop > part.start])
        self._length = sum([part.stop - part.start for part in parts])

    @classmethod
    def of(cls, *batches: FormattedBatch) -> RowEnds:
        """Return the row ends of consecutive batches."""
        return cls(tuple([_Part(batch, 0, batch.rows.num_rows) for batch in batches]))

    def __add__(self, other: RowEnds) -> RowEnds:
        return RowEnds(self._parts + other._parts)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice | Booleans) -> RowEnds: ...
    def __getitem__(self, key: int | slice | Booleans) -> int | RowEnds:
        if isinstance(key, slice):
            start, stop, step = key.indices(self._length)
            if step != 1:
                raise IndexError(f"expected neighbouring rows, was every {step}th")
            return RowEnds(tuple(part.slice(a, b) for part, a, b in self._overlaps(start, max(start, stop))))
        if isinstance(key, np.ndarray):
            if len(key) != self._length:
                raise IndexError(f"expected a mask of {self._length} rows, was one of {len(key)}")
            overlaps = self._overlaps(0, self._length)
            cuts = np.cumsum([0, *(b - a for _, a, b in overlaps)])
            chosen = [part.where(key[cuts[i] : cuts[i + 1]]) for i, (part, _, _) in enumerate(overlaps)]
            return RowEnds(tuple(chosen))
        if key == -1 and self._length:
            last = self._parts[-1]
            return last.at(last.stop - last.start - 1)
        row = key + self._length if key < 0 else key
        if not 0 <= row < self._length:
            raise IndexError(f"expected a row below {self._length}, was {key}")
        ((part, index, _),) = self._overlaps(row, row + 1)
        return part.at(index)

    def tuple_count(self) -> int:
        """Return the number of tuples of the stream up to and including the tuple of the last row."""
        if not self._length:
            return 0
        return self._parts[-1].tuples_at(self._parts[-1].stop - self._parts[-1].start - 1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        del copy
        ends = np.concatenate([np.zeros(0, np.int64), *(part.ends() for part in self._parts)])
        return ends if dtype is None else ends.astype(dtype)

    def _overlaps(self, start: int, stop: int) -> list[tuple[_Part, int, int]]:
        """Return the parts that contain these rows, each with the range of the rows in the part."""
        overlaps: list[tuple[_Part, int, int]] = []
        end = self._length
        for part in reversed(self._parts):  # the usual request is for the last row
            begin = end - (part.stop - part.start)
            if begin < stop and end > start:
                overlaps.append((part, max(start, begin) - begin, min(stop, end) - begin))
            if begin <= start:
                break
            end = begin
        return overlaps[::-1]
