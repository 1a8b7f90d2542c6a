"""Sort: what stands before a merge join or a streaming aggregation whose input is not sorted yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.engine.operators.columns import concat
from runtime.engine.operators.errors import HeldTooMuchError
from runtime.engine.operators.keys import order_codes
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces

__all__ = ["MOST_HELD", "Sort"]

MOST_HELD = 1 << 23
"""Rows that an operator may hold where nothing else is said."""


class Sort(Operator):
    """The rows of an epoch in the order of their keys, NULL last; rows of equal keys stay as they came."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], *, most_rows: int = MOST_ROWS, most_held: int = MOST_HELD
    ) -> None:
        super().__init__(schema)
        self.most_rows = most_rows
        self._keys = tuple(keys)
        self._most_held = most_held
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows > self._most_held:
            raise HeldTooMuchError(f"expected at most {self._most_held} rows to sort in an epoch, was {self._rows}: "
                                   f"there is no spilling, so ask for barriers more often")  # fmt: skip
        return iter(())

    def drain_input(self, port: int = 0) -> Batches:
        if not self._rows:
            return iter(())
        batch = concat(self._held, self.schema)
        self._held, self._rows = [], 0
        (codes,) = order_codes([[batch.column(name) for name in self._keys]])
        if bool((codes[1:] < codes[:-1]).any()):
            batch = batch.take(pa.array(np.argsort(codes, kind="stable")))
        return pieces(batch, self.most_rows)

    def start_drain(self) -> Batches:
        return self.drain_input()

    def end_of_input(self, port: int = 0) -> Batches:
        return self.drain_input()

    def held_rows(self) -> int:
        return self._rows
