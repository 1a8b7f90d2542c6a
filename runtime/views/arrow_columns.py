"""Binds the columns of Arrow tables to the arrays of a batch: 3 µs a table, where pyarrow's objects take 3 µs a column.

The columns of a record batch are exported at once, by Arrow's C data interface, and a compiled kernel reads the
addresses of their values (`library.arrow`). Only columns of 64 bits that a relation declares without NULL are bound;
the others are converted through numpy, and so are all columns as long as a node of the graph is interpreted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from runtime.native.library import arrow
from runtime.native.structures import Batch, Structure
from runtime.views.emission.values import Field

__all__ = ["BIND_SOURCE", "ColumnBinding"]

BIND_SOURCE: Final = '''"""Binds the columns of an Arrow record batch."""

from runtime.native.library.arrow import bind_columns
from runtime.native.plain import jit, root


@jit
def step(address):
    return bind_columns(root(address))
'''
_BOUND: Final = {"int64": pa.int64(), "timestamp": pa.timestamp("us")}
_EXPORTED_CELLS: Final = 10
_WEIGHT_PLACE: Final = 1


class ColumnBinding(Structure):
    """Binds columns to one batch of fields."""

    def __init__(self, batch: Batch, places: dict[Field, int], kernel: Callable[[int], int]) -> None:
        """``places``: the fields that nodes read, with the places of their values; ``kernel``: of `BIND_SOURCE`."""
        super().__init__(3)
        self._places, self._kernel = places, kernel
        self._exported = np.zeros(_EXPORTED_CELLS, np.int64)
        self._exported_address = self._exported.ctypes.data
        self.put(arrow.NUMBERS, np.array([self._exported_address, 0]))
        self.put(arrow.COLUMNS, np.zeros(0, np.int64))
        self.link(arrow.BATCH, batch)
        self._schema = pa.schema([])
        self._rest: tuple[Field, ...] | None = None
        self._bound: pa.RecordBatch | None = None

    def bind(self, table: pa.Table | pa.RecordBatch) -> tuple[Field, ...] | None:
        """Bind what can be; return the fields that are left to the caller, None: all of them and the weights.

        The values stay bound, and the table in memory, until the next call.
        """
        schema = table.schema
        if not schema.equals(self._schema):
            self._prepare(schema)
        if self._rest is None:
            return None
        batch = table if isinstance(table, pa.RecordBatch) else _whole(table)
        if batch is None:
            return None
        self._bound = batch
        batch._export_to_c(self._exported_address)
        return None if self._kernel(self.address) else self._rest

    def release(self) -> None:
        """Let the table go whose values are bound; the batch must have other arrays by now."""
        self._bound = None

    def _prepare(self, schema: pa.Schema) -> None:
        """Decide for tables of a schema which columns are bound."""
        self._schema, self._rest = schema, None
        last = len(schema) - 1
        if last < 0 or schema.types[last] != pa.int64():
            return
        columns, rest = [(last, _WEIGHT_PLACE)], []
        for field, place in self._places.items():
            number = schema.get_field_index(field.name)
            kind = _BOUND.get(field.type)
            if number >= 0 and kind is not None and not field.nullable and schema.types[number] == kind:
                columns.append((number, place))
            else:
                rest.append(field)
        self._rest = tuple(rest)
        self.put(arrow.COLUMNS, np.array(columns, np.int64).reshape(-1))
        self.views[arrow.NUMBERS][arrow.COUNT] = len(columns)


def _whole(table: pa.Table) -> pa.RecordBatch | None:
    """Return a table as one record batch; None if it has no rows."""
    batches = table.to_batches()
    if len(batches) > 1:
        batches = table.combine_chunks().to_batches()
    return batches[0] if len(batches) == 1 else None
