"""One sorted input of a join: the rows that wait until the other input has come as far."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pyarrow as pa

from runtime.engine.operators.columns import concat
from runtime.engine.operators.errors import HeldTooMuchError, UnsortedInputError
from runtime.engine.operators.keys import Key, first_at_least, key_at, order_codes

__all__ = ["Side"]


class Side:
    """Batches of one input, sorted by its keys with NULL last, and how far it has come in this epoch."""

    def __init__(self, name: str, schema: pa.Schema, keys: Sequence[str], most_held: int) -> None:
        self.schema = schema
        self.keys = tuple(keys)
        self.rows = 0
        """Rows that wait."""
        self.last: Key | None = None
        """The greatest key of the epoch so far; None before its first row."""
        self.is_done = False
        """Whether nothing more comes in this epoch."""
        self.has_ended = False
        """Whether nothing more comes ever."""
        self._name = name
        self._most_held = most_held
        self._held: deque[pa.RecordBatch] = deque()

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The key columns of a batch of this side."""
        return [batch.column(key) for key in self.keys]

    def push(self, batch: pa.RecordBatch) -> None:
        """Rows of the input; raises `UnsortedInputError`."""
        if not batch.num_rows:
            return
        columns = self.key_columns(batch)
        (codes,) = order_codes([columns])
        first = key_at(columns, 0)
        if (self.last is not None and first < self.last) or bool((codes[1:] < codes[:-1]).any()):
            raise UnsortedInputError(f"expected the {self._name} input sorted by {', '.join(self.keys)}, NULL last, "
                                     f"was another order")  # fmt: skip
        self.last = key_at(columns, batch.num_rows - 1)
        self._held.append(batch)
        self.rows += batch.num_rows

    def take_below(self, bound: Key | None, *, inclusive: bool = False) -> pa.RecordBatch:
        """The waiting rows whose key is below the bound (``inclusive``: or is it); all of them without a bound."""
        taken = []
        while self._held:
            batch = self._held[0]
            columns = self.key_columns(batch)
            rows = batch.num_rows if bound is None else first_at_least(columns, bound, above=inclusive)
            if rows:
                taken.append(batch.slice(0, rows))
                self.rows -= rows
            if rows < batch.num_rows:
                self._held[0] = batch.slice(rows)
                break
            self._held.popleft()
        return concat(taken, self.schema)

    def check_room(self) -> None:
        """Raises `HeldTooMuchError` if more rows wait than may."""
        if self.rows > self._most_held:
            raise HeldTooMuchError(
                f"expected at most {self._most_held} rows of the {self._name} input to wait for the other one, was "
                f"{self.rows}: it is that far ahead, or one key has so many rows; there is no spilling"
            )

    def finish(self) -> None:
        """Nothing more comes in this epoch."""
        self.is_done = True

    def drop(self) -> None:
        """Forget what waits."""
        self._held.clear()
        self.rows = 0

    def restart(self) -> None:
        """A new epoch."""
        self.drop()
        self.last = None
        self.is_done = self.has_ended
