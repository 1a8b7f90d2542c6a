"""Integers of 128 bits are the same in Arrow, as words and in Python."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.state import WIDE, decimals_of_integers, decimals_of_words, unscaled_as, words_of_decimals


@given(st.lists(st.none() | st.integers(-(2**127), 2**127 - 1)), st.integers(0, 3))
def test_words_are_the_two_halves(numbers: list[int | None], skipped: int) -> None:
    """Of a slice as well."""
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
