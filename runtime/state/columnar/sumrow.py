"""Exact sums of everything: a table without keys, whose one row is Python integers, quicker than arrays of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from runtime.state.columnar.exactsums import Exact, arrow_of, exact_of, of_integers
from runtime.state.errors import CorruptStateError, StateOverflowError

__all__ = ["SumRow"]

_MOST: Final = 2**126


class SumRow:
    """``sums`` exact sums, 0 to begin with.

    Not thread-safe: one owner at a time.
    """

    def __init__(self, sums: int) -> None:
        self.values: tuple[int, ...] = (0,) * sums
        self._is_touched = False

    @property
    def dirty(self) -> bool:
        """Whether anything was added since the last save."""
        return self._is_touched

    def add(self, deltas: Sequence[int]) -> tuple[int, ...]:
        """Add to each sum; gives the new values. Raises `StateOverflowError` for a sum past 126 bits, and adds nothing.

        What is held can be saved at any time: a view that has failed stays in its shard's checkpoints.
        """
        values = tuple([value + delta for value, delta in zip(self.values, deltas, strict=True)])
        if max(values) >= _MOST or min(values) <= -_MOST:
            raise StateOverflowError(f"expected sums of at most 126 bits, was {max(values, key=abs)}")
        self.values = values
        self._is_touched = True
        return values

    def save(self) -> pa.RecordBatch:
        """The present values; `on_saved` or `on_failed` must follow before the next."""
        self._is_touched = False
        return self.save_all()

    def save_all(self) -> pa.RecordBatch:
        """The present values, as a run that stands alone."""
        arrays = [arrow_of(of_integers([value])) for value in self.values]
        return pa.RecordBatch.from_arrays(arrays, names=self._names())

    def on_saved(self) -> None:
        """The last save is durable."""

    def on_failed(self) -> None:
        """The last save is lost: the values go out with the next."""
        self._is_touched = True

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Take over a run written by `save` or `save_all`; leaves nothing dirty."""
        if run.schema.names != self._names() or run.num_rows != 1:
            raise CorruptStateError(f"expected a row of {self._names()}, was {run.num_rows} of {run.schema.names}")
        self.values = tuple(int(exact_of(column)[0]) for column in run.columns)

    def repeated(self, rows: int) -> list[Exact]:
        """Each sum so many times."""
        return [np.repeat(of_integers([value]), rows) for value in self.values]

    def _names(self) -> list[str]:
        return [f"s{number}" for number in range(len(self.values))]
