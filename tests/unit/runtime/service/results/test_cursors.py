"""Cursors: a result stays as it was, as long as somebody looks at it, and not for ever."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from runtime.compiler import Column
from runtime.service.results.cursors import (
    ClosedCursorError,
    CursorLimits,
    Cursors,
    Kept,
    TooManyCursorsError,
    UnknownCursorError,
)
from runtime.service.results.materialised import FullRows

COLUMNS = (Column("a", "int64"),)
ROW_BYTES = 16


def kept(epoch: int = 1, rows: int = 1, view: str = "v") -> Kept:
    table = pa.table({"a": pa.array(range(rows), pa.int64()), "weight": pa.array([1] * rows, pa.int64())})
    return Kept(view, epoch, 0, FullRows(COLUMNS, table), is_sorted=True)


class Desk:
    """Cursors on a clock."""

    def __init__(self, **limits: int | float) -> None:
        self.clock = Clock()  # type: ignore[no-untyped-call, unused-ignore]
        self.cursors = Cursors(CursorLimits(**limits), self.clock.seconds, b"secret")  # type: ignore[arg-type]


def test_a_cursor_that_is_not_used_is_closed_and_says_why() -> None:
    desk = Desk(unused_s=60)
    first, second = desk.cursors.open(kept(), 10), desk.cursors.open(kept(), 10)
    desk.clock.advance(59)
    assert desk.cursors.used(first.id) is first
    desk.clock.advance(1)
    with pytest.raises(ClosedCursorError, match=f"expected an open cursor, was {second.id}: it was not used for 60 s"):
        desk.cursors.used(second.id)
    assert desk.cursors.used(first.id) is first
    assert (desk.cursors.figures().open, desk.cursors.figures().expired) == (1, 1)


def test_a_cursor_that_is_used_without_end_ends() -> None:
    desk = Desk(unused_s=60, longest_s=100)
    cursor = desk.cursors.open(kept(), 10)
    for _ in range(3):
        desk.clock.advance(33)
        desk.cursors.used(cursor.id)
    desk.clock.advance(1)
    with pytest.raises(ClosedCursorError, match="it was open for 100 s"):
        desk.cursors.used(cursor.id)


def test_a_result_shared_by_cursors_is_held_once() -> None:
    desk = Desk()
    first, second = desk.cursors.open(kept(rows=3), 10), desk.cursors.open(kept(rows=3), 5)
    assert first.kept is second.kept
    assert desk.cursors.figures().held_bytes == 3 * ROW_BYTES
    desk.cursors.close(first.id)
    assert desk.cursors.kept("v", 1, 0, is_sorted=True) is second.kept
    desk.cursors.close(second.id)
    assert (desk.cursors.figures().held_bytes, desk.cursors.kept("v", 1, 0, is_sorted=True)) == (0, None)


def test_another_version_is_another_result() -> None:
    desk = Desk()
    assert desk.cursors.open(kept(1), 10).kept is not desk.cursors.open(kept(2), 10).kept
    assert desk.cursors.kept("v", 1, 0, is_sorted=False) is None


def test_a_closed_cursor_is_gone_and_another_is_unknown() -> None:
    desk = Desk()
    cursor = desk.cursors.open(kept(), 10)
    desk.cursors.close(cursor.id)
    with pytest.raises(ClosedCursorError, match="it was closed by a request"):
        desk.cursors.close(cursor.id)
    number, _, mark = cursor.id.partition("-")
    for name in ("", "x", f"{int(number) + 1}-{mark}", f"{number}-{mark[:-1]}", f"٣-{mark}", "9" * 40, f"{number}-é"):
        with pytest.raises(UnknownCursorError, match="expected a cursor of this runtime since it began"):
            desk.cursors.used(name)


def test_reasons_are_forgotten_before_names_are() -> None:
    desk = Desk(cursors=1, settled_s=0)
    first = desk.cursors.open(kept(), 10)
    for _ in range(1_001):
        desk.cursors.open(kept(), 10)
    with pytest.raises(ClosedCursorError, match="it is closed"):
        desk.cursors.used(first.id)


def test_who_rests_makes_room_and_who_works_does_not() -> None:
    desk = Desk(cursors=2, settled_s=5)
    first, second = desk.cursors.open(kept(1), 10), desk.cursors.open(kept(2), 10)
    with pytest.raises(TooManyCursorsError, match="expected at most 2 cursors that hold"):
        desk.cursors.open(kept(3), 10)
    desk.clock.advance(4)
    desk.cursors.used(first.id)
    desk.clock.advance(1)
    desk.cursors.open(kept(3), 10)
    assert desk.cursors.used(first.id) is first
    with pytest.raises(ClosedCursorError, match="it made room for others"):
        desk.cursors.used(second.id)
    assert desk.cursors.figures().evicted == 1


def test_bytes_are_bounded_and_a_shared_result_is_free() -> None:
    desk = Desk(held_bytes=4 * ROW_BYTES)
    with pytest.raises(TooManyCursorsError, match="expected a result of at most 64 bytes for a cursor, was one of 80"):
        desk.cursors.open(kept(rows=5), 10)
    desk.cursors.open(kept(rows=4), 10)
    desk.cursors.open(kept(rows=4), 10)
    with pytest.raises(TooManyCursorsError):
        desk.cursors.open(kept(2), 10)


@given(
    st.lists(
        st.tuples(st.sampled_from(["open", "use", "close", "wait"]), st.integers(0, 5), st.integers(1, 4)), max_size=40
    )
)
def test_what_is_held_is_what_open_cursors_look_at(steps: list[tuple[str, int, int]]) -> None:
    desk = Desk(cursors=3, held_bytes=6 * ROW_BYTES, unused_s=10, longest_s=25, settled_s=1)
    names: list[str] = []
    for step, which, rows in steps:
        if step == "open":
            try:
                names.append(desk.cursors.open(kept(which, rows), 2).id)
            except TooManyCursorsError:
                assert len(names) > 0
        elif step == "wait":
            desk.clock.advance(rows)
        elif names:
            name = names[which % len(names)]
            try:
                desk.cursors.used(name) if step == "use" else desk.cursors.close(name)
            except ClosedCursorError:
                names.remove(name)
        desk.cursors.expire()
        found = {}
        for name in names:
            try:
                cursor = desk.cursors.used(name)
            except ClosedCursorError:
                continue
            found[cursor.kept.key] = cursor.kept.rows.nbytes
        figures = desk.cursors.figures()
        assert figures.held_bytes == sum(found.values()) <= 6 * ROW_BYTES
        assert figures.open <= 3
