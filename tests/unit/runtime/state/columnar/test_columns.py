"""Columns of every type become words and come back; equal values, and only they, have equal words.

Integers of 128 bits are the same in Arrow, as words and in Python.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.state import (
    ARROW_TYPES,
    WIDE,
    KeyColumn,
    StringPool,
    decimals_of_integers,
    decimals_of_words,
    decode_words,
    encode_words,
    unscaled_as,
    width_of,
    words_of_decimals,
)
from runtime.state.columnar import columns as state_columns

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int128": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)
    | st.sampled_from([Decimal(2**64), Decimal(-(2**64)), Decimal(2**63), Decimal(-1), Decimal(0)]),
    "float64": st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, math.inf]),
    "string": st.text(max_size=4),
    "bool": st.booleans(),
    "date": st.dates(),
    "timestamp": st.datetimes(min_value=dt.datetime(1900, 1, 1), max_value=dt.datetime(2200, 1, 1)),  # noqa: DTZ001 (the column has no zone)
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[KeyColumn], list[list[Any]]]:
    """Columns and their values, of one length."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    rows = draw(st.integers(0, 8))
    columns = [KeyColumn(f"c{n}", type_, draw(st.booleans())) for n, type_ in enumerate(types)]
    values = [
        draw(st.lists(st.none() | VALUES[c.type] if c.nullable else VALUES[c.type], min_size=rows, max_size=rows))
        for c in columns
    ]
    return columns, values


@given(tables(), st.integers(0, 3))
def test_words_come_back_as_the_values(table: tuple[list[KeyColumn], list[list[Any]]], skipped: int) -> None:
    columns, values = table
    arrays = [pa.array(v, ARROW_TYPES[c.type]).slice(skipped) for c, v in zip(columns, values, strict=True)]
    pool = StringPool()
    words = encode_words(columns, arrays, pool)
    assert words.shape == (len(arrays[0]), width_of(columns))
    back = decode_words(columns, words, pool)
    assert [a.type for a in back] == [a.type for a in arrays]
    assert [a.to_pylist() for a in back] == [a.to_pylist() for a in arrays]
    rows = list(zip(*[a.to_pylist() for a in arrays], strict=True))
    for row, word in zip(rows, words.tolist(), strict=True):
        assert [r == row for r in rows] == [w == word for w in words.tolist()], "equal values, and only they"


def test_null_is_not_zero_and_minus_zero_is_zero() -> None:
    column = [KeyColumn("x", "float64", nullable=True)]
    words = encode_words(column, [pa.array([None, 0.0, -0.0, math.nan, -math.nan])], StringPool()).tolist()
    assert words[0] != words[1]
    assert words[1] == words[2] == [0, 0]
    assert words[3] == words[4]
    assert math.isnan(
        decode_words(column, encode_words(column, [pa.array([math.nan])], StringPool()), StringPool())[0][0].as_py()
    )


def test_null_where_none_may_be_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected no NULL in column x, was 1 of 2"):
        encode_words([KeyColumn("x", "int64")], [pa.array([1, None])], StringPool())


def test_chunks_are_put_together() -> None:
    chunked = pa.chunked_array([["a"], ["b", "a"]])
    pool = StringPool()
    words = encode_words([KeyColumn("x", "string")], [chunked], pool)
    assert words.tolist() == [[0], [1], [0]]


def test_a_number_of_a_pool_is_never_given_again() -> None:
    pool = StringPool(["x"])
    assert pool.encode(pa.array(["b", "x", None, "a", "b"])).tolist() == [1, 0, -1, 2, 1]
    again = StringPool(["x"])
    again.extend(pool.added_since(1))
    assert again.decode(pool.encode(pa.array(["a", None, "b"]))).to_pylist() == ["a", None, "b"]
    assert len(pool) == len(again) == 3


@pytest.mark.parametrize("few", [0, 64], ids=["by Arrow", "one by one"])
def test_few_strings_are_converted_as_many_are(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_columns, "_FEW", few)
    pool = StringPool(["b"])
    column = pa.array(["a", None, "b", "", "a"])
    numbers = pool.encode(column.slice(1))
    assert pool.added_since(0) == ["b", "", "a"]
    assert numbers.tolist() == [-1, 0, 1, 2]
    assert numbers.dtype == np.int64
    assert pool.decode(numbers).equals(column.slice(1))


@given(st.lists(st.none() | st.integers(-(2**127), 2**127 - 1)), st.integers(0, 3))
def test_words_are_the_two_halves(numbers: list[int | None], skipped: int) -> None:
    """The words of a slice are those of its rows."""
    found = decimals_of_integers(numbers)
    assert found.type == WIDE
    assert found.is_null().to_pylist() == [number is None for number in numbers]
    words = words_of_decimals(found.slice(skipped))
    given_numbers = [number or 0 for number in numbers[skipped:]]
    assert [(int(high) << 64) + (int(low) % 2**64) for low, high in words] == given_numbers
    again = decimals_of_words(np.asarray(words)[:, ::1])
    assert words_of_decimals(again).tolist() == words.tolist()


def test_128_bits_are_the_most() -> None:
    with pytest.raises(OverflowError):
        decimals_of_integers([2**127])


def test_scales_are_changed_without_a_cast() -> None:
    prices = pa.array([Decimal("1.25"), None, Decimal("-3.00")], pa.decimal128(38, 2))
    assert unscaled_as(prices.slice(1)).to_pylist() == [None, -300]
    assert unscaled_as(unscaled_as(prices), prices.type).equals(prices)
