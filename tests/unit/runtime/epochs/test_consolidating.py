"""Equal rows are merged, whatever the bits of their floats."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from runtime.epochs.consolidating import consolidate

NEGATIVE_NAN = struct.unpack("<d", bytes.fromhex("000000000000f8ff"))[0]


def consolidated(values: list[float | None], weights: list[int]) -> list[dict[str, object]]:
    merged: list[dict[str, object]] = consolidate(
        pa.table({"x": pa.array(values, pa.float64()), "weight": weights})
    ).to_pylist()
    return merged


def test_equal_rows_are_merged() -> None:
    assert consolidated([1.5, 2.5, 1.5, None, None], [1, 1, 2, 3, -1]) == [
        {"x": 1.5, "weight": 3}, {"x": 2.5, "weight": 1}, {"x": None, "weight": 2},
    ]  # fmt: skip


def test_equal_floats_of_other_bits_cancel() -> None:
    """A NaN of either sign is one value, and so are 0.0 and -0.0: what one adds, the other removes."""
    assert consolidated([float("nan"), 0.0], [1, 1]) != []
    assert np.isnan(NEGATIVE_NAN)
    assert consolidated([float("nan"), NEGATIVE_NAN, 0.0, -0.0], [1, -1, -1, 1]) == []
