"""Record batches that have a length without columns, and columns of single bytes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

__all__ = ["characters", "record_batch"]

_STEPS: Final = pa.py_buffer(np.arange((1 << 17) + 1, dtype=np.int32))


def characters(data: Any, validity: Any) -> Any:
    """Return a string array of one byte of ASCII in each row, not copied; all such columns share the offsets."""
    count = len(data)
    steps = _STEPS if 4 * (count + 1) <= _STEPS.size else pa.py_buffer(np.arange(count + 1, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), count, [validity, steps, pa.py_buffer(data)])


def record_batch(arrays: list[Any], schema: Any, count: int) -> Any:
    """Return a `pyarrow.RecordBatch` of ``count`` rows, with or without columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
