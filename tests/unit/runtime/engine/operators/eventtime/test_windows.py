"""Rows with each of their windows, made piece by piece."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.engine.operators.eventtime import Windows

SCHEMA = pa.schema([("t", pa.int64()), ("v", pa.string())])
ROWS = pa.record_batch([pa.array([-7, 0, 5, 29], pa.int64()), pa.array(list("abcd"))], schema=SCHEMA)


@pytest.mark.parametrize("window", [(10, 10), (3, 10), (5, 20), (1, 7)])
@pytest.mark.parametrize("most_rows", [1, 3, 100])
def test_every_window_of_a_row_comes_once(window: tuple[int, int], most_rows: int) -> None:
    """The latest window of a row comes first, and no piece is larger than it may be."""
    slide, size = window
    expected = []
    for t, v in zip(*ROWS.to_pydict().values(), strict=True):
        start = t // slide * slide
        while start + size > t:
            expected.append((t, v, start))
            start -= slide
    made = Windows(SCHEMA, "t", "w", slide, size, most_rows=most_rows)
    pieces = list(made.add_input(ROWS))
    assert [tuple(row.values()) for piece in pieces for row in piece.to_pylist()] == expected
    assert all(0 < piece.num_rows <= most_rows for piece in pieces)
    assert list(made.add_input(ROWS.slice(0, 0))) == []


def test_windows_are_not_held_as_a_whole() -> None:
    """A row in a billion windows costs what is taken of them."""
    first = next(Windows(SCHEMA, "t", "w", 1, 10**9, most_rows=4).add_input(ROWS))
    assert first.column("w").to_pylist() == [-7, -8, -9, -10]
