"""Changes of a view that come in small pieces."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.plan import Column
from runtime.views.materialised import MOST_PIECES, MaterialisedView, PendingChanges, overdue

SCHEMA = pa.schema([("broker_id", pa.int64()), ("weight", pa.int64())])


def _changes(*rows: tuple[int, int]) -> pa.Table:
    brokers, weights = zip(*rows, strict=True)
    return pa.table({"broker_id": brokers, "weight": weights}, schema=SCHEMA)


def _rows(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_joining_adds_up_what_came_until_then() -> None:
    pending = PendingChanges(SCHEMA)
    for broker in range(MOST_PIECES):
        assert overdue([pending], 1) == []
        pending.add(_changes((broker % 7, 1)))
    assert overdue([pending], 1) == [pending]
    pending.join()
    assert (len(pending), bool(pending), overdue([pending], 1)) == (0, True, [])
    pending.add(_changes((3, -1)))
    expected = sorted([*((broker, len(range(broker, MOST_PIECES, 7))) for broker in range(7)), (3, -1)])
    assert sorted(_rows(pending.rows())) == sorted(_rows(pending.take())) == expected
    assert not pending


@pytest.mark.parametrize("taken_before", [False, True])
def test_pending_changes_may_be_empty(taken_before: bool) -> None:
    pending = PendingChanges(SCHEMA)
    if taken_before:
        pending.add(_changes((1, 1)))
        pending.take()
    assert not pending
    assert pending.take().equals(SCHEMA.empty_table())


def test_a_result_that_settles_now_and_then_is_the_same() -> None:
    columns = [Column("broker_id", "int64")]
    late, prompt = MaterialisedView(columns), MaterialisedView(columns)
    for version in range(3 * MOST_PIECES):
        changes = _changes((version * 40 % 9001, 1), (version % 5, -1 if version % 3 else 1))
        late.apply(changes)
        prompt.apply(changes)
        prompt.settle()
        if overdue([late.waiting], 1):
            late.settle()
    assert sorted(_rows(late.rows())) == sorted(_rows(prompt.rows()))
    assert late.changes == prompt.changes


@pytest.mark.parametrize("views", [1, 6, 254, 255, 700])
def test_no_view_is_left_behind(views: int) -> None:
    """However many change in every version: only as many are joined at once as have to be."""
    piece = _changes((1, 1))
    pending = [PendingChanges(SCHEMA) for _ in range(views)]
    longest, most_joined = 0, 0
    for _ in range(4 * MOST_PIECES):
        for each in pending:
            each.add(piece)
        due = overdue(pending, views)
        for each in due:
            each.join()
        most_joined = max(most_joined, len(due))
        longest = max(longest, *map(len, pending))
    assert longest <= 2 * MOST_PIECES
    assert most_joined == 1 + views // (MOST_PIECES - 1)


@pytest.mark.parametrize("views", [254, 700])
def test_views_that_change_in_turns_stay_bounded(views: int) -> None:
    """The longest views change together, however many of them, and none gets longer than when all change."""
    piece = _changes((1, 1))
    pending = [PendingChanges(SCHEMA) for _ in range(views)]
    longest = 0
    for version in range(8 * MOST_PIECES):
        count = 1 + version * 37 % views
        changed = sorted(pending, key=len)[-count:]
        for each in changed:
            each.add(piece)
        for each in overdue(changed, views):
            each.join()
        longest = max(longest, *map(len, pending))
    assert longest <= 2 * MOST_PIECES
