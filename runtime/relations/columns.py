"""Conversion of kernels' output to Arrow columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["int64_columns"]


def int64_columns(rows: npt.NDArray[np.int64]) -> list[pa.Array]:
    """Return the rows of a contiguous matrix as arrays without NULLs, not copied.

    The function takes half the time of `pyarrow.array`, which inspects the type of its argument.
    """
    count, buffer = rows.shape[1], pa.py_buffer(rows)
    return [
        pa.Array.from_buffers(pa.int64(), count, [None, buffer.slice(8 * count * place, 8 * count)])
        for place in range(len(rows))
    ]
