"""Brokers as four characters and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire.attribution import LARGEST_BROKER, attribution_of, broker_of


@given(st.integers(0, LARGEST_BROKER) | st.integers(0, 10_100))
def test_every_broker_with_an_attribution_is_found_again(broker_id: int) -> None:
    text = attribution_of(broker_id)
    assert 1 <= len(text) <= 4
    assert broker_of(text.ljust(4)) == broker_id


@pytest.mark.parametrize("broker_id", [-1, LARGEST_BROKER + 1, 2**63 - 1])
def test_others_have_none(broker_id: int) -> None:
    assert attribution_of(broker_id) == ""


@pytest.mark.parametrize("text", ["", "    ", "007", "12345", "A00", "a000", "1A00", "A-00", "Ä000"])
def test_what_is_nobodys_attribution_is_no_broker(text: str) -> None:
    assert broker_of(text) is None


def test_the_ends_of_the_range() -> None:
    assert [attribution_of(n) for n in (0, 9_999, 10_000, LARGEST_BROKER)] == ["0", "9999", "A000", "ZZZZ"]
