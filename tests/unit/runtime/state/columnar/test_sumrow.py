"""Sums of everything as state: what is held can always be written."""

from __future__ import annotations

import pytest

from runtime.state import StateOverflowError, SumRow


def test_a_sum_that_is_too_large_is_refused_and_what_was_held_can_still_be_saved() -> None:
    row = SumRow(2)
    row.add([3, -(2**125)])
    with pytest.raises(StateOverflowError, match="at most 126 bits, was -"):
        row.add([1, -(2**125)])
    again = SumRow(2)
    again.apply_run(row.save_all())
    assert again.values == row.values == (3, -(2**125))


def test_what_is_restored_from_a_run_is_what_was_saved_and_not_dirty() -> None:
    row = SumRow(2)
    dirty = [row.dirty]
    row.add([2**100, 0])
    dirty.append(row.dirty)
    run = row.save()
    row.on_failed()
    assert [*dirty, row.dirty] == [False, True, True]
    again = SumRow(2)
    again.apply_run(run)
    assert again.values == (2**100, 0)
    assert not again.dirty
