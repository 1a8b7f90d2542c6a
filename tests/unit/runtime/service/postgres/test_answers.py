"""Answers and cursors: a cursor moves as a list with a place does, and chunks are bounded."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from deltabook.wire.service import AnsweredColumn
from runtime.service.postgres.portals import Cursor, ShownRows
from runtime.service.postgres.statements import Fetch
from runtime.service.sandbox import AnswerRows

ROWS = 5


def cursor() -> Cursor:
    return Cursor(ShownRows.of_text(("n",), [(str(number),) for number in range(ROWS)]), [0])


def model(place: int, fetch: Fetch) -> tuple[list[int], int]:
    """The rows of a FETCH and the new place, step by step as PostgreSQL's manual describes it."""
    count = fetch.count
    if fetch.direction in {"ABSOLUTE", "RELATIVE"}:
        assert count is not None
        wanted = place + count if fetch.direction == "RELATIVE" else count if count >= 0 else ROWS + 1 + count
        place = max(0, min(ROWS + 1, wanted))
        return ([place - 1] if 1 <= place <= ROWS else []), place
    steps = ROWS + 1 if count is None else count
    if steps == 0:
        return ([place - 1] if 1 <= place <= ROWS else []), place
    step = 1 if (fetch.direction == "FORWARD") == (steps > 0) else -1
    shown = []
    for _ in range(abs(steps)):
        place = max(0, min(ROWS + 1, place + step))
        if not 1 <= place <= ROWS:
            break
        shown.append(place - 1)
    return shown, place


@given(
    some.lists(
        some.builds(
            lambda direction, count: Fetch("c", direction, count, moves=False),
            some.sampled_from(["FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE"]),
            some.integers(-8, 8),
        )
        | some.builds(
            lambda direction: Fetch("c", direction, None, moves=False), some.sampled_from(["FORWARD", "BACKWARD"])
        ),
        max_size=8,
    )
)
def test_a_cursor_moves_as_the_manual_says(fetches: list[Fetch]) -> None:
    found, place = cursor(), 0
    for fetch in fetches:
        shown, place = model(place, fetch)
        assert [row for part in found.move(fetch) for row in part] == shown
        assert found.at == place


@pytest.mark.parametrize(("rows", "width", "chunk"), [(0, 1, 32 * 1024), (100_000, 1, 32 * 1024), (1_000, 5_000, 104)])
def test_chunks_are_bounded_in_rows_and_bytes(rows: int, width: int, chunk: int) -> None:
    table = pa.table({"a": pa.array([b"x" * width] * rows, pa.binary(width))})
    shown = ShownRows(AnswerRows((AnsweredColumn("a", "BLOB"),), table))
    assert shown.chunk_rows == pytest.approx(chunk, rel=0.02)
    assert len(shown) == rows
