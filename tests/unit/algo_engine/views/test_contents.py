"""View contents are the sum of all changes, indexes included."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algo_engine.views.contents import ViewContents

CHANGES = st.lists(st.tuples(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), st.sampled_from([-1, 1, 2])))


@given(CHANGES)
def test_rows_and_index_are_the_sum_of_the_changes(changes: list[tuple[tuple[str, int], int]]) -> None:
    contents = ViewContents("v", ("symbol", "price"))
    contents.select(symbol="a")  # the index exists from the start
    model: Counter[tuple[Any, ...]] = Counter()
    for cells, weight in changes:
        contents.apply([cells], [weight])
        model[cells] += weight
        contents._check()
    held = {cells for cells, weight in model.items() if weight}
    assert {tuple(row.values()) for row in contents.select(symbol="a")} == {c for c in held if c[0] == "a"}
    assert Counter(tuple(row.values()) for row in contents.rows()) == +model


def test_a_key_is_found_by_any_columns() -> None:
    contents = ViewContents("v", ("symbol", "side", "price"))
    contents.apply([("A", "B", 1), ("A", "S", 2)], [1, 1])
    assert contents.find(side="S", symbol="A") == {"symbol": "A", "side": "S", "price": 2}
    assert contents.find(symbol="B") is None
    assert len(contents) == 2


@pytest.mark.parametrize("rows", [[], [("A", 1)]])
def test_an_unknown_column_is_refused_and_leaves_no_index(rows: list[tuple[str, int]]) -> None:
    """An index over it would make every later change fail, for all strategies that read the view."""
    contents = ViewContents("touch", ("symbol", "bid"))
    contents.apply(rows, [1] * len(rows))
    for _ in range(2):
        with pytest.raises(ValueError, match="expected columns of touch out of symbol, bid, was sybmol"):
            contents.find(sybmol="A")
    contents.apply([("B", 2)], [1])
    assert contents.find(symbol="B") == {"symbol": "B", "bid": 2}
