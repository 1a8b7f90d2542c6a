"""Record batches with a length even if they have no columns, and columns of single characters."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

__all__ = ["characters", "record_batch"]

_STEPS: Final = pa.py_buffer(np.arange((1 << 17) + 1, dtype=np.int32))
"""Offsets of a column of single characters."""


def characters(data: Any, validity: Any) -> Any:
    """Return the string array whose rows are the single ASCII bytes of ``data``, which are not copied.

    ``validity`` is the bitmap of rows that are not NULL, or None. All short columns share their offsets.
    """
    count = len(data)
    steps = _STEPS if 4 * (count + 1) <= _STEPS.size else pa.py_buffer(np.arange(count + 1, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), count, [validity, steps, pa.py_buffer(data)])


def record_batch(arrays: list[Any], schema: Any, count: int) -> Any:
    """Return a `pyarrow.RecordBatch` of ``count`` rows, with or without columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
