"""The sum of a view's changes, which come in small pieces."""

from __future__ import annotations

import pyarrow as pa

from runtime.epochs.consolidating import consolidate

__all__ = ["MOST_PIECES", "ChangeSum"]

MOST_PIECES = 256


class ChangeSum:
    """Keeps changes as they come and adds them up when somebody looks, or when there are many of them.

    To add up many takes about a millisecond. Views change together, so an owner of several calls `join` for one of them
    at a time: else all of them would stop for that long at once.
    """

    __slots__ = ("_is_joined", "_pieces", "_schema")

    def __init__(self, schema: pa.Schema) -> None:
        """``schema``: the columns and the weights behind them."""
        self._schema = schema
        self._pieces: list[pa.Table] = []
        self._is_joined = False

    def __bool__(self) -> bool:
        """Whether anything came."""
        return bool(self._pieces)

    @property
    def is_long(self) -> bool:
        """Whether there are so many pieces that it is time to `join` them."""
        return len(self._pieces) >= MOST_PIECES

    def add(self, changes: pa.Table) -> None:
        """Keep changes; the table is not copied."""
        self._pieces.append(changes)
        self._is_joined = False

    def join(self) -> pa.Table:
        """Add up what came, and give it: no two rows are equal, and none has the weight 0."""
        if not self._is_joined:
            pieces = self._pieces or [self._schema.empty_table()]
            self._pieces, self._is_joined = [consolidate(pa.concat_tables(pieces), self._schema)], True
        return self._pieces[0]

    def take(self) -> pa.Table:
        """The same, and begin anew."""
        joined = self.join()
        self._pieces, self._is_joined = [], False
        return joined
