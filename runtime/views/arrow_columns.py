"""Binds the columns of Arrow tables to the arrays of a batch, in 3 µs a table; pyarrow's objects take 3 µs a column.

The columns of a record batch are exported at once, by Arrow's C data interface, and a compiled kernel reads the
addresses of their values (`library.arrow`). Only columns of 64 bits that a relation declares without NULL are bound;
the others are converted through numpy. While a node of the graph is interpreted, all columns are converted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
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
"""Size of Arrow's C structure ``ArrowArray`` in cells of 8 bytes."""
_WEIGHT_PLACE: Final = 1
"""Place of the weights in a batch."""


class _Plan(NamedTuple):
    """Columns to bind in record batches of one schema."""

    schema: pa.Schema
    """The schema."""
    columns: npt.NDArray[np.int64]
    """Pairs of the number of a bound column and the place of its values in the batch."""
    rest: tuple[Field, ...] | None
    """Fields that are not bound; None if no field is bound."""


class ColumnBinding(Structure):
    """Binds columns to one batch of fields."""

    def __init__(self, batch: Batch, places: dict[Field, int], kernel: Callable[[int], int]) -> None:
        """Prepare to bind the columns of record batches to the arrays of ``batch``.

        ``places`` maps the fields that nodes read to the places of their values. ``kernel`` is the compiled
        `BIND_SOURCE`.
        """
        super().__init__(3)
        self._places, self._kernel = places, kernel
        self._exported = np.zeros(_EXPORTED_CELLS, np.int64)
        self._exported_address = self._exported.ctypes.data
        self.put(arrow.NUMBERS, np.array([self._exported_address, 0]))
        self.put(arrow.COLUMNS, np.zeros(0, np.int64))
        self.link(arrow.BATCH, batch)
        self._plan = self._before = _Plan(pa.schema([]), np.zeros(0, np.int64), None)
        self._bound: pa.RecordBatch | None = None

    def bind(self, batch: pa.RecordBatch) -> tuple[Field, ...] | None:
        """Bind the columns that can be bound; return the other fields, or None if nothing is bound, not even weights.

        The values stay bound, and the record batch stays in memory, until the next call.
        """
        if not batch.schema.equals(self._plan.schema):
            self._choose(batch.schema)
        if self._plan.rest is None:
            return None
        self._bound = batch
        batch._export_to_c(self._exported_address)
        return None if self._kernel(self.address) else self._plan.rest

    def release(self) -> None:
        """Release the rows whose values are bound; the batch must refer to other arrays by now."""
        self._bound = None

    def _choose(self, schema: pa.Schema) -> None:
        """Switch to the plan of a schema.

        The last two plans are kept, because rows come in two schemas: with columns that no node reads, and without
        them.
        """
        known = self._before if schema.equals(self._before.schema) else self._planned(schema)
        self._before, self._plan = self._plan, known
        self.put(arrow.COLUMNS, known.columns)
        self.views[arrow.NUMBERS][arrow.COUNT] = len(known.columns) // 2

    def _planned(self, schema: pa.Schema) -> _Plan:
        """Return the plan for record batches of a schema: which columns are bound."""
        last = len(schema) - 1
        if last < 0 or schema.types[last] != pa.int64():
            return _Plan(schema, np.zeros(0, np.int64), None)
        columns, rest = [(last, _WEIGHT_PLACE)], []
        for field, place in self._places.items():
            number = schema.get_field_index(field.name)
            kind = _BOUND.get(field.type)
            if number >= 0 and kind is not None and not field.nullable and schema.types[number] == kind:
                columns.append((number, place))
            else:
                rest.append(field)
        return _Plan(schema, np.array(columns, np.int64).reshape(-1), tuple(rest))
