"""A checksum depends on which rows there are, not on their order, their pieces, or how values are stored."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compiler import Column
from runtime.plan import Linear, View
from runtime.views.checksum import MODULUS, changes_checksum
from runtime.views.materialised import MaterialisedView
from runtime.views.rows import change_schema
from runtime.views.shardruns import decode_table, encode_table

moment = dt.datetime.fromisoformat
KINDS = ("int64", "int128", "float64", "string", "bool", "date", "timestamp")
COLUMNS = tuple(Column(kind, kind, nullable=True) for kind in KINDS)  # type: ignore[arg-type]  # each of them is one
VIEW = View("v", COLUMNS, Linear(()), "linear", "", "")
VALUES = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    st.none() | st.floats(),
    st.none() | st.text(max_size=5),
    st.none() | st.booleans(),
    st.none() | st.dates(),
    st.none() | st.datetimes(moment("1900-01-01"), moment("2200-01-01")),
    st.integers(-3, 3),
)
PLAIN: tuple[Any, ...] = (7, Decimal(5), 1.5, "ab", True, dt.date(2020, 1, 2), moment("2020-01-02T03:04:05"))


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = change_schema(COLUMNS)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def checksum(*rows: tuple[Any, ...]) -> int:
    return changes_checksum(VIEW, table(rows))


@given(st.lists(VALUES, max_size=12), st.integers(0, 12), st.randoms(use_true_random=False))
def test_pieces_in_any_order_add_up(rows: list[tuple[Any, ...]], cut: int, chance: random.Random) -> None:
    whole = checksum(*rows)
    chance.shuffle(rows)
    assert (checksum(*rows[:cut]) + checksum(*rows[cut:])) % MODULUS == whole
    assert changes_checksum(VIEW, pa.concat_tables([table(rows[:cut]), table(rows[cut:])])) == whole
    assert changes_checksum(VIEW, decode_table(encode_table(table(rows)))) == whole


@given(st.lists(VALUES, max_size=12))
def test_rows_that_cancel_leave_nothing(rows: list[tuple[Any, ...]]) -> None:
    turned = [(*row[:-1], -row[-1]) for row in rows]
    assert checksum(*rows, *turned) == 0


@given(st.lists(VALUES, max_size=12))
def test_a_materialised_view_has_the_sum_of_its_changes(rows: list[tuple[Any, ...]]) -> None:
    view = MaterialisedView(COLUMNS)
    view.add(table(rows))
    assert changes_checksum(VIEW, view.rows()) == checksum(*rows)


@pytest.mark.parametrize("place", range(len(KINDS)))
def test_each_column_counts(place: int) -> None:
    others: dict[str, tuple[Any, ...]] = {
        "int64": (0, -7, 2**62), "int128": (Decimal(0), Decimal(5 + 2**64), Decimal(-5)), "float64": (0.0, -1.5, 1e300),
        "string": ("", "ba", "a", "abc", "\0"), "bool": (False,), "date": (dt.date(2020, 1, 3), dt.date(1960, 1, 1)),
        "timestamp": (moment("2020-01-02T03:04:05.000001"), moment("1960-01-01")),
    }  # fmt: skip
    values = [PLAIN[place], None, *others[KINDS[place]]]
    found = {checksum((*PLAIN[:place], value, *PLAIN[place + 1 :], 1)) for value in values}
    assert len(found) == len(values)


def test_the_place_of_a_value_counts() -> None:
    columns = (Column("a", "int64"), Column("b", "int64"))
    view = msgspec.structs.replace(VIEW, columns=columns)

    def of(a: int, b: int) -> int:
        return changes_checksum(view, pa.table([[a], [b], [1]], schema=change_schema(columns)))

    assert len({of(1, 2), of(2, 1), of(1, 1), of(2, 2)}) == 4


def test_equal_numbers_of_floats_are_one_value() -> None:
    """-0.0 is 0.0 in SQL, and every NaN is the same key to a view."""
    strange = -float("nan")
    assert checksum((*PLAIN[:2], -0.0, *PLAIN[3:], 1)) == checksum((*PLAIN[:2], 0.0, *PLAIN[3:], 1))
    assert checksum((*PLAIN[:2], strange, *PLAIN[3:], 1)) == checksum((*PLAIN[:2], float("nan"), *PLAIN[3:], 1))


def test_a_dictionary_is_the_strings_that_it_stands_for() -> None:
    plain = table([(*PLAIN, 1), (*PLAIN[:3], None, *PLAIN[4:], 2), (*PLAIN[:3], "", *PLAIN[4:], 1)])
    packed = plain.set_column(3, "string", plain.column(3).dictionary_encode())
    assert changes_checksum(VIEW, packed) == changes_checksum(VIEW, plain)


def test_doubles_that_duckdb_computes_count_as_null_or_not() -> None:
    recomputed = msgspec.structs.replace(VIEW, view_class="reevaluated")
    first, second, null = (table([(*PLAIN[:2], value, *PLAIN[3:], 1)]) for value in (1.5, 1.5000001, None))
    assert changes_checksum(recomputed, first) == changes_checksum(recomputed, second)
    assert changes_checksum(recomputed, first) != changes_checksum(recomputed, null)
    assert changes_checksum(VIEW, first) != changes_checksum(VIEW, second)
