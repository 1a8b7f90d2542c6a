"""Rows as tuples: what is written to a batch is read from it, for every type."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any, Final

import pytest

from runtime.plan import ColumnType
from runtime.views.emission.values import Field
from runtime.views.errors import ViewError
from runtime.views.feeds import ColumnBatch
from runtime.views.rows import change_schema, changes_of
from runtime.views.strings import Strings
from tests.generators.batch_rows import tuples_of

VALUES: Final[dict[ColumnType, list[Any]]] = {
    "int64": [0, -1, 2**63 - 1, -(2**63)],
    "int128": [0, -1, 2**64, -(2**100), 2**63, 2**125],
    "float64": [0.0, -1.5, 1e300, math.inf],
    "string": ["", "a", "Ω"],
    "bool": [True, False],
    "date": [date(1970, 1, 1), date(1900, 2, 28), date(2400, 2, 29)],
    "timestamp": [datetime(1970, 1, 1), datetime(1900, 2, 28, 23, 59, 59, 999999), datetime(2400, 2, 29)],  # noqa: DTZ001
}


def batch_of(*fields: Field) -> ColumnBatch:
    batch = ColumnBatch(fields, 2)
    batch.read |= {field.name for field in fields}
    return batch


@pytest.mark.parametrize("is_nullable", [False, True])
@pytest.mark.parametrize("kind", list(VALUES))
def test_rows_are_read_as_they_were_written(kind: ColumnType, is_nullable: bool) -> None:
    values = [*VALUES[kind], *([None, VALUES[kind][0]] if is_nullable else [])]
    strings = Strings()
    batch = batch_of(Field("n", "int64"), Field("x", kind, is_nullable))
    for number, value in enumerate(values):
        batch.append((number, value), number + 1, strings)
    expected = [((number, value), number + 1) for number, value in enumerate(values)]
    found = tuples_of([batch], strings, is_distinct=True)
    assert found == expected
    assert [type(row[1]) for row, _ in found] == [type(value) for value in values]


@pytest.mark.parametrize("kind", list(VALUES))
def test_arrow_has_the_same_rows(kind: ColumnType) -> None:
    from runtime.plan import Column

    values, strings = [*VALUES[kind], None], Strings()
    batch = batch_of(Field("x", kind, True))
    for value in values:
        batch.append((value,), 1, strings)
    table = changes_of([batch], change_schema([Column("x", kind)]), strings, is_distinct=True)
    assert table is not None
    assert table.column("x").to_pylist() == values
    table.validate(full=True)


def test_equal_rows_of_several_batches_are_added_up() -> None:
    strings = Strings()
    first, second = batch_of(Field("x", "float64", True)), batch_of(Field("x", "float64", True))
    for batch, value, weight in ((first, math.nan, 1), (second, math.nan, 1), (first, 1.0, 1), (second, 1.0, -1)):
        batch.append((value,), weight, strings)
    ((row, weight),) = tuples_of([first, second], strings, is_distinct=False)
    assert math.isnan(row[0])
    assert weight == 2


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int64", 2**63), ("int64", 1.5), ("int64", None), ("date", 3), ("timestamp", "x"), ("float64", "x")],
)
def test_a_value_that_its_column_cannot_hold_is_named(kind: ColumnType, value: Any) -> None:
    batch = batch_of(Field("a", "int64"), Field("x", kind))
    with pytest.raises(ViewError, match=f"expected a {kind} in column x, was"):
        batch.append((1, value), 1, Strings())
    assert batch.rows == 0


def test_a_row_that_is_too_short_is_refused() -> None:
    with pytest.raises(ViewError, match="column b, was 'missing'"):
        batch_of(Field("a", "int64"), Field("b", "int64")).append((1,), 1, Strings())
