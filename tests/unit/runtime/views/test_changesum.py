"""Changes of a view that come in small pieces."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.plan import Column
from runtime.views.changesum import MOST_PIECES, ChangeSum, join_longest
from runtime.views.materialised import MaterialisedView

SCHEMA = pa.schema([("broker_id", pa.int64()), ("weight", pa.int64())])


def _changes(*rows: tuple[int, int]) -> pa.Table:
    brokers, weights = zip(*rows, strict=True)
    return pa.table({"broker_id": brokers, "weight": weights}, schema=SCHEMA)


def _rows(table: pa.Table) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_equal_rows_are_one_and_rows_that_cancel_are_gone() -> None:
    changes = ChangeSum(SCHEMA)
    changes.add(_changes((1, 1), (2, 1)))
    changes.add(_changes((1, -1), (2, 1), (3, -1)))
    assert _rows(changes.take()) == [(2, 2), (3, -1)]


def test_a_single_piece_is_added_up_too() -> None:
    changes = ChangeSum(SCHEMA)
    changes.add(_changes((1, -1), (1, 1), (2, 1)))
    assert _rows(changes.join()) == [(2, 1)]


def test_joining_changes_nothing_and_what_follows_is_added() -> None:
    changes = ChangeSum(SCHEMA)
    for broker in range(MOST_PIECES):
        assert join_longest([changes]) == []
        changes.add(_changes((broker % 7, 1)))
    assert join_longest([changes]) == [changes]
    assert len(changes) == 1
    joined = _rows(changes.join())
    assert [broker for broker, _ in joined] == list(range(7))
    assert sum(weight for _, weight in joined) == MOST_PIECES
    changes.add(_changes((0, -joined[0][1])))
    assert _rows(changes.join()) == joined[1:]


@pytest.mark.parametrize("taken_before", [False, True])
def test_what_nothing_came_to_is_empty(taken_before: bool) -> None:
    changes = ChangeSum(SCHEMA)
    if taken_before:
        changes.add(_changes((1, 1)))
        changes.take()
    assert not changes
    assert changes.take().equals(SCHEMA.empty_table())


def test_a_result_that_catches_up_now_and_then_is_the_same() -> None:
    columns = [Column("broker_id", "int64")]
    late, prompt = MaterialisedView(columns), MaterialisedView(columns)
    for version in range(3 * MOST_PIECES):
        changes = _changes((version * 40 % 9001, 1), (version % 5, -1 if version % 3 else 1))
        late.defer(changes, version)
        prompt.apply(changes, version)
        if join_longest([late.waiting]):
            late.catch_up()
    assert _rows(late.rows()) == _rows(prompt.rows())
    assert (late.version, late.changes) == (prompt.version, prompt.changes)


@pytest.mark.parametrize("views", [1, 6, 254, 255, 700])
def test_no_view_waits_for_ever(views: int) -> None:
    """However many change in every version: only as many are joined at once as have to be."""
    one = _changes((1, 1))
    sums = [ChangeSum(SCHEMA) for _ in range(views)]
    longest, most_joined = 0, 0
    for _ in range(4 * MOST_PIECES):
        for each in sums:
            each.add(one)
        most_joined = max(most_joined, len(join_longest(sums)))
        longest = max(longest, *map(len, sums))
    assert longest <= 2 * MOST_PIECES
    assert most_joined == 1 + views // (MOST_PIECES - 1)
