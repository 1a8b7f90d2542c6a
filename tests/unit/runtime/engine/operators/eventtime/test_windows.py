"""Rows with each of their windows, made piece by piece."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.engine.operators import OperatorError
from runtime.engine.operators.eventtime import Sessions, Windows
from runtime.state import MemoryStore, ObjectSpace

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


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us"), pa.date32()], ids=str)
@pytest.mark.parametrize("side", [-1, 1])
def test_times_whose_windows_do_not_fit_are_an_error(kind: pa.DataType, side: int) -> None:
    """Ends of windows wrapped to negative times, so that rows were lost or in the wrong window."""
    bits = pa.int32() if kind == pa.date32() else pa.int64()
    most = 1 << (bits.bit_width - 2)
    schema = pa.schema([("t", kind)])
    sessions = Sessions(schema, "t", "w", (), most - 1, name="s", space=ObjectSpace(MemoryStore()))
    for operator in (Windows(schema, "t", "w", most - 1, most - 1), Windows(schema, "t", "w", 7, 20), sessions):
        fits = pa.record_batch([pa.array([side * most], bits).view(kind)], schema=schema)
        assert sum(piece.num_rows for piece in operator.add_input(fits)) >= 1
        beyond = pa.record_batch([pa.array([0, side * most + side], bits).view(kind)], schema=schema)
        with pytest.raises(OperatorError, match="expected times from"):
            list(operator.add_input(beyond))
