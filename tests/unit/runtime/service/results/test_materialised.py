"""A view's result is the sum of its changes, and its JSON is exact, complete and in one order."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compiler import Column
from runtime.engine.operators.evaluate import wide_array
from runtime.service.results.materialised import FullRows, json_rows
from runtime.state import ARROW_TYPES
from runtime.views.materialised import MaterialisedView

COLUMNS = (Column("name", "string", nullable=True), Column("x", "int64"))
Row = tuple[Any, ...]


def table(columns: tuple[Column, ...], rows: list[tuple[Row, int]]) -> pa.Table:
    values = list(zip(*(row for row, _ in rows), strict=True)) or [()] * len(columns)
    arrays = [
        wide_array(list(held)) if c.type == "int128" else pa.array(held, ARROW_TYPES[c.type])
        for held, c in zip(values, columns, strict=True)
    ]
    weights = pa.array([weight for _, weight in rows], pa.int64())
    return pa.table([*arrays, weights], names=[*(c.name for c in columns), "weight"])


@given(st.lists(st.lists(st.tuples(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2)),
                                   st.integers(1, 2)), max_size=5), max_size=6), st.randoms())  # fmt: skip
def test_the_result_is_what_its_changes_add_up_to(added: list[list[tuple[Row, int]]], random: Any) -> None:
    view = MaterialisedView(COLUMNS)
    held: Counter[Row] = Counter()
    for rows in added:
        changes = list(rows)
        for row, count in rows:
            held[row] += count
        for row in [row for row in held if random.random() < 0.3]:
            changes.append((row, -1))
            held[row] -= 1
        held = +held
        view.apply(table(COLUMNS, changes))
        assert len(view) == len(held)
        found = view.rows().to_pylist()
        assert Counter({(r["name"], r["x"]): r["weight"] for r in found}) == held


def test_a_version_without_changes_changes_nothing() -> None:
    view = MaterialisedView(COLUMNS)
    view.apply(None)
    assert (len(view), view.changes) == (0, 0)


def test_a_row_that_is_removed_before_it_comes_is_not_shown() -> None:
    view = MaterialisedView(COLUMNS)
    view.apply(table(COLUMNS, [(("a", 1), -1), (("b", 2), 3)]))
    assert (len(view), view.total(), json_rows(COLUMNS, view.shown())) == (1, 3, [["b", 2]] * 3)
    view.apply(table(COLUMNS, [(("a", 1), 1)]))
    assert (len(view), view.total()) == (1, 3)
    assert view.rows().num_rows == 1


def test_a_column_may_be_called_weight() -> None:
    columns = (Column("weight", "int64"),)
    view = MaterialisedView(columns)
    view.apply(table(columns, [((5,), 2)]))
    assert json_rows(columns, view.rows()) == [[5], [5]]


def test_rows_repeat_by_weight_and_are_sorted_with_null_first() -> None:
    rows = table(COLUMNS, [(("b", 1), 1), ((None, 9), 1), (("a", 10), 2), (("a", 2), 1)])
    assert json_rows(COLUMNS, rows) == [[None, 9], ["a", 2], ["a", 10], ["a", 10], ["b", 1]]


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, 2**63, -(2**63) - 1, 12345678901234567890123456789012345678])
def test_integers_of_any_size_are_json_numbers(number: int) -> None:
    columns = (Column("x", "int128"),)
    rows = json_rows(columns, table(columns, [((number,), 1)]))
    assert msgspec.json.Encoder(decimal_format="number").encode(rows) == f"[[{number}]]".encode()


@pytest.mark.parametrize(
    ("number", "scale", "text"),
    [
        (5, 1, "0.5"),
        (-25, 2, "-0.25"),
        (100, 2, "1.00"),
        (12345678901234567890123456789012345675, 1, "1234567890123456789012345678901234567.5"),
    ],
)
def test_decimals_keep_every_digit(number: int, scale: int, text: str) -> None:
    columns = (Column("x", "int128", scale=scale),)
    (row,) = json_rows(columns, table(columns, [((number,), 1)]))
    assert row == [Decimal(text)]
    assert msgspec.json.Encoder(decimal_format="number").encode(row[0]).decode() == text


def test_null_and_decimals_sort_together() -> None:
    columns = (Column("x", "int128", nullable=True, scale=1),)
    rows = table(columns, [((2**70,), 1), ((None,), 1), ((-5,), 1)])
    assert [row[0] for row in json_rows(columns, rows)] == [None, Decimal("-0.5"), Decimal(2**70).scaleb(-1)]


@given(
    st.lists(st.tuples(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 9)), st.integers(1, 4)), max_size=8,
             unique_by=lambda row: row[0]),
    st.integers(1, 6),
)  # fmt: skip
def test_pages_of_any_length_are_the_rows_one_behind_the_other(rows: list[tuple[Row, int]], page: int) -> None:
    whole = FullRows(COLUMNS, table(COLUMNS, rows)).sorted()
    expected = sorted(
        ([*row] for row, weight in rows for _ in range(weight)), key=lambda row: [(v is not None, v or 0) for v in row]
    )
    assert len(whole) == len(expected)
    begins = range(0, max(1, len(whole)), page)
    assert [row for begin in begins for row in whole.json(begin, begin + page)] == expected
    arrow = [whole.arrow(begin, begin + page) for begin in begins]
    assert [[*row.values()] for one in arrow for row in one.to_pylist()] == expected
    assert all(one.num_rows <= page for one in arrow)


def test_a_page_of_rows_that_do_not_repeat_is_not_copied() -> None:
    held = table((Column("x", "int64"),), [((number,), 1) for number in range(100)])
    page = FullRows((Column("x", "int64"),), held).arrow(90, 95)
    assert page["x"].chunk(0).buffers()[1].address == held["x"].chunk(0).buffers()[1].address


@pytest.mark.parametrize("type_", ["int64", "int128"])
@pytest.mark.parametrize("number", [5, -25, 2**63 - 1, -(2**63)])
def test_arrow_has_decimals_of_every_integer_with_a_scale(type_: Any, number: int) -> None:
    columns = (Column("x", type_, nullable=True, scale=3),)
    found = FullRows(columns, table(columns, [((number,), 1), ((None,), 2)])).arrow(0, 3)
    assert found.schema.field("x").type == pa.decimal128(38, 3)
    assert found["x"].to_pylist() == [Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -3)), None, None]


def test_numbers_as_text_are_the_same_numbers() -> None:
    columns = (Column("x", "int128", scale=1), Column("y", "float64"), Column("z", "int64", nullable=True))
    rows = FullRows(columns, table(columns, [((2**70, 0.5, -1), 1)]))
    assert rows.json(0, 1, as_text=True) == [["118059162071741130342.4", 0.5, "-1"]]


def test_columns_of_one_name_are_shown_both() -> None:
    columns = (Column("x", "int64"), Column("x", "int64", nullable=True))
    held = pa.Table.from_arrays([pa.array([2, 1]), pa.array([None, 3]), pa.array([1, 1])], names=["x", "x", "weight"])
    assert FullRows(columns, held).sorted().json(0, 2) == [[1, 3], [2, None]]
    assert FullRows(columns, held).arrow(0, 2).column_names == ["x", "x"]
