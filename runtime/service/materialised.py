"""A view's full result, kept by adding up its changes."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from runtime.compiler.program import Column
from runtime.state import ARROW_TYPES, KeyColumn, KeyedTable, StringPool, decode_words, encode_words, width_of

__all__ = ["MaterialisedView", "json_rows"]

_WEIGHT: Final = "weight"
_INT64_LIMIT: Final = 2**63


class MaterialisedView:
    """The rows of one view at its version, with their multiplicities. One owner at a time."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self._keys = tuple(KeyColumn(c.name, c.type, nullable=True) for c in columns)
        self._pool = StringPool()
        self._table = KeyedTable(width_of(self._keys), [_WEIGHT])
        self.version = 0
        self.changes = 0

    def __len__(self) -> int:
        """Distinct rows."""
        return len(self._table)

    def total(self) -> int:
        """Rows, repeated ones counted."""
        return int(self._table.get(self._table.live_slots())[0].sum())

    def apply(self, changes: pa.Table | None, version: int) -> None:
        """Add a version's changes (None: there were none)."""
        self.version = version
        if changes is None or not changes.num_rows:
            return
        self.changes += changes.num_rows
        *columns, weight = (c.combine_chunks() for c in changes.columns)
        words = encode_words(self._keys, columns, self._pool)
        keys, inverse = np.unique(words, axis=0, return_inverse=True)
        added = np.zeros(len(keys), np.int64)
        np.add.at(added, inverse.reshape(-1), weight.to_numpy())
        slots = self._table.lookup(keys)
        old = np.where(slots >= 0, self._table.get(np.maximum(slots, 0))[0], 0)
        new = old + added
        if (new < 0).any():
            raise ValueError(
                f"expected to remove rows that are there at version {version}, was {int((new < 0).sum())} not"
            )
        stays = new > 0
        self._table.put(keys[stays], new[stays][None, :])
        self._table.delete(keys[~stays & (slots >= 0)])
        self._table.save()
        self._table.on_saved()

    def rows(self) -> pa.Table:
        """Columns and ``weight``, in no order."""
        slots = self._table.live_slots()
        arrays = decode_words(self._keys, self._table.keys_of(slots), self._pool)
        fields = [
            pa.field(c.name, ARROW_TYPES[c.type], metadata={"scale": str(c.scale)} if c.scale else None)
            for c in self.columns
        ]
        schema = pa.schema([*fields, pa.field(_WEIGHT, pa.int64())])
        return pa.Table.from_arrays([*arrays, pa.array(self._table.get(slots)[0])], schema=schema)


def json_rows(columns: Sequence[Column], table: pa.Table) -> list[list[Any]]:
    """Rows as JSON values, repeated by weight and sorted by their columns from the left, NULL first.

    Integers past 64 bits and decimals are `Decimal`, to be encoded as JSON numbers.
    """
    *values, weights = (column.to_pylist() for column in table.columns)
    lists = [[_json_value(v, column.scale) for v in held] for held, column in zip(values, columns, strict=True)]
    rows = [list(row) for *row, weight in zip(*lists, weights, strict=True) for _ in range(weight)]
    rows.sort(key=lambda row: [(value is not None, value if value is not None else 0) for value in row])
    return rows


def _json_value(value: Any, scale: int) -> Any:
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, Decimal | int):
        whole = int(value)
        if scale:
            sign, digits, _ = Decimal(whole).as_tuple()
            return Decimal((sign, digits, -scale))  # scaleb would round at 28 digits
        return whole if -_INT64_LIMIT <= whole < _INT64_LIMIT else Decimal(whole)
    return value.isoformat()
