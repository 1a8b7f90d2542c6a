"""Batches take the rows of Arrow tables as they are, and join chunks of what is read, once."""

from __future__ import annotations

from typing import Any, Final, cast

import pyarrow as pa
import pytest

from runtime.views.arrow_columns import ColumnBinding
from runtime.views.emission.values import Field
from runtime.views.feeds import ColumnBatch
from runtime.views.strings import Strings
from tests.generators.batch_rows import tuples_of

FIELDS: Final = (Field("n", "int64"), Field("unread", "int64"), Field("s", "string"), Field("weight", "int64"))
ROWS: Final = [(n, -n, f"s{n}", 100 + n) for n in range(9)]


class Binding:
    """Binds nothing, and remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[pa.RecordBatch] = []

    def bind(self, rows: pa.RecordBatch) -> None:
        self.given.append(rows)


def table() -> pa.Table:
    """The relation has a column that is called like the weight of a row."""
    columns = [pa.array(column) for column in zip(*ROWS, strict=True)]
    return pa.Table.from_arrays([*columns, pa.array([1] * len(ROWS))], names=["n", "unread", "s", "weight", "weight"])


def filled(rows: pa.Table | pa.RecordBatch, read: set[str]) -> tuple[list[Any], list[pa.RecordBatch]]:
    batch, strings, binding = ColumnBatch(FIELDS), Strings(), Binding()
    batch.read |= read
    batch.binding = cast(ColumnBinding, binding)
    batch.fill_arrow(rows, strings)
    places = [number for number, field in enumerate(FIELDS) if field.name in read]
    got = tuples_of([batch], strings, is_distinct=True) if rows.num_rows else []
    return [(tuple(row[place] for place in places), weight) for row, weight in got], binding.given


@pytest.mark.parametrize("chunks", [1, 2, 9])
def test_chunks_are_joined_once_without_unread_columns(chunks: int) -> None:
    """What the binding gets is what the other columns are read from."""
    size = -(-len(ROWS) // chunks)
    rows = pa.concat_tables([table().slice(start, size) for start in range(0, len(ROWS), size)])
    got, (given,) = filled(rows, {"n", "s"})
    assert got == [((n, s), 1) for n, _, s, _ in ROWS]
    assert given.schema.names == (["n", "s", "weight"] if chunks > 1 else ["n", "unread", "s", "weight", "weight"])


def test_a_column_called_weight_is_not_the_weight() -> None:
    rows = pa.concat_tables([table().slice(0, 4), table().slice(4)])
    assert filled(rows, {"s", "weight"})[0] == [((f"s{n}", 100 + n), 1) for n in range(9)]


def test_a_record_batch_is_taken_as_it_is() -> None:
    (rows,) = table().to_batches()
    got, (given,) = filled(rows, {"n", "s"})
    assert given is rows
    assert got == [((n, f"s{n}"), 1) for n in range(9)]


def test_a_table_without_rows_empties_the_batch() -> None:
    assert filled(table().slice(0, 0), {"n", "s"})[0] == []
