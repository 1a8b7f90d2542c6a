"""Few rows of a view are added up as many are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.plan import Column
from runtime.views import rows as view_rows
from runtime.views.emission.values import Field
from runtime.views.feeds import ColumnBatch
from runtime.views.rows import change_schema, changes_of
from runtime.views.strings import Strings

COLUMNS = (Column("price", "int64"), Column("symbol", "string"), Column("total", "int128"))
FIELDS = (Field("price", "int64", True), Field("symbol", "string", True), Field("total", "int128", False))
SCHEMA = change_schema(COLUMNS)
ROWS = st.tuples(
    st.none() | st.integers(0, 2), st.none() | st.sampled_from("ab"), st.integers(0, 1), st.integers(-2, 2)
)
BATCHES = st.lists(st.lists(ROWS, max_size=6), min_size=1, max_size=3)


def batch_of(rows: list[tuple[Any, ...]], strings: Strings) -> ColumnBatch:
    batch = ColumnBatch(FIELDS)
    columns: list[list[int]] = [[], [], [], [], [], []]
    for price, symbol, total, weight in rows:
        words = [price or 0, price is None, 0 if symbol is None else strings.number(symbol), symbol is None]
        for column, word in zip(columns, [*words, total, weight], strict=True):
            column.append(int(word))
    wide = [word for total in columns[4] for word in (total, 0)]
    filled = [*columns[:4], wide]
    batch.fill(np.array(columns[5], np.int64), [np.array(each, np.int64) for each in filled])
    return batch


def counted(table: pa.Table | None) -> dict[tuple[Any, ...], int]:
    if table is None:
        return {}
    found = {tuple(row.values())[:-1]: row["weight"] for row in table.to_pylist()}
    assert len(found) == table.num_rows, "two rows are equal"
    return found


@given(BATCHES)
def test_few_rows_are_added_up_as_many_are(batches: list[list[tuple[Any, ...]]]) -> None:
    strings = Strings(["a", "b"])
    filled = [batch_of(rows, strings) for rows in batches]
    found = changes_of(filled, SCHEMA, strings, is_distinct=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_rows, "_FEW_ROWS", 0)
        expected = changes_of(filled, SCHEMA, strings, is_distinct=False)
    assert counted(found) == {row: weight for row, weight in counted(expected).items() if weight}
    assert found is None or found.schema == SCHEMA


def test_rows_that_cancel_are_no_change() -> None:
    strings = Strings()
    batches = [batch_of([(1, "a", 5, 1)], strings), batch_of([(1, "a", 5, -1)], strings)]
    assert changes_of(batches, SCHEMA, strings, is_distinct=False) is None
