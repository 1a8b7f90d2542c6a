"""Sums in two parts are exact up to 94 bits and refused beyond, never wrapped."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.views import ViewOverflowError, limbs
from runtime.views.evaluate import wide_array

NEAR = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63), 2**63, 2**94 - 1, -(2**94) + 1]


def whole(array: pa.Array) -> list[int]:
    return [int(v) if isinstance(v, Decimal) else v for v in array.to_pylist()]


@given(st.lists(st.sampled_from(NEAR) | st.integers(-(2**94) + 1, 2**94 - 1)))
def test_what_is_split_and_joined_is_the_same(numbers: list[int]) -> None:
    high, low = limbs.split(wide_array(list(numbers)))
    assert ((low >= 0) & (low < 2**32)).all()
    assert whole(limbs.join(high, low)) == numbers


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_64_bits_are_split_without_decimals(numbers: list[int]) -> None:
    high, low = limbs.split(pa.array(numbers, pa.int64()))
    assert whole(limbs.join(high, low)) == numbers
    assert pa.types.is_integer(limbs.join(high, low).type)


def test_a_slice_is_split_where_it_starts() -> None:
    high, low = limbs.split(wide_array([5, 2**80, -7])[1:])
    assert whole(limbs.join(high, low)) == [2**80, -7]


@given(st.lists(st.tuples(st.integers(-(2**90), 2**90), st.sampled_from([1, -1, 2, -3])), max_size=8))
def test_weighted_parts_add_up_to_the_weighted_sum(rows: list[tuple[int, int]]) -> None:
    high, low = limbs.split(wide_array([v for v, _ in rows]))
    high, low = limbs.times(high, low, np.array([w for _, w in rows], np.int64))
    top, rest = limbs.split_high(high)
    summed = limbs.join_high(np.array([top.sum()]), np.array([rest.sum()]))
    found = whole(limbs.join(*limbs.normalise(summed, np.array([low.sum()], np.int64))))
    assert found == [sum(v * w for v, w in rows)]


@pytest.mark.parametrize("number", [2**95, -(2**95), 2**126])
def test_a_summand_of_95_bits_is_refused(number: int) -> None:
    with pytest.raises(ViewOverflowError, match="expected a summand of at most 94 bits"):
        limbs.split(wide_array([number]))


def test_a_weight_that_makes_it_too_long_is_refused() -> None:
    high, low = limbs.split(wide_array([2**93]))
    with pytest.raises(ViewOverflowError, match="weighted summand"):
        limbs.times(high, low, np.array([4]))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_past_the_limit_is_refused_even_where_64_bits_wrap(sign: int) -> None:
    limit = np.array([sign * limbs.HIGH_LIMIT])
    with np.errstate(over="ignore"), pytest.raises(ViewOverflowError, match="expected a sum"):
        limbs.normalise(limit + limit, np.array([0]))
    with pytest.raises(ViewOverflowError, match="expected a sum"):
        limbs.join_high(np.array([sign * 2**31]), np.array([0]))


def test_only_summands_past_64_bits_may_overflow() -> None:
    assert not limbs.may_overflow(np.full(100_000, 2**31))
    assert limbs.may_overflow(np.full(3, 2**61))
    assert not limbs.may_overflow(np.zeros(0, np.int64))


def test_low_parts_with_large_weights_add_up_exactly() -> None:
    high, low = limbs.times(np.zeros(8, np.int64), np.full(8, 2**32 - 1), np.full(8, 2**30 - 1))
    top, rest = limbs.normalise(np.array([high.sum()]), np.array([low.sum()]))
    assert limbs.join(top, rest).to_pylist() == [8 * (2**32 - 1) * (2**30 - 1)]
