"""Values come back equal and of the same type; what cannot come back is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.state import Codec, CorruptStateError

KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
)
HASHABLE = st.recursive(KEYS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HASHABLE, inner, max_size=3) | st.tuples(inner),
    max_leaves=8,
)


@dataclass(frozen=True)
class Trade:
    price: Decimal
    when: datetime
    tags: frozenset[str]


def shape(value: object) -> object:
    """A value with the types of all its parts; sets as they are, since their order is not said."""
    if isinstance(value, (set, frozenset)):
        return type(value), value
    if isinstance(value, (list, tuple)):
        return type(value), [shape(item) for item in value]
    if isinstance(value, dict):
        return [(shape(key), shape(item)) for key, item in value.items()]
    return type(value), repr(value)


@given(value=VALUES)
def test_plain_values_come_back(value: object) -> None:
    codec = Codec(Any, "it")
    codec.check(value)
    assert shape(codec.decode(codec.encode(value))) == shape(value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (int, 2**90),
        (float, -0.0),
        (tuple[int, ...], (1, 2**70)),
        (dict[tuple[str, int], Decimal], {("a", 1): Decimal("1.10")}),
        (Trade, Trade(Decimal("1.50"), datetime(2026, 1, 2, tzinfo=UTC), frozenset({"x"}))),
        (list[Trade | None], [None]),
        (int | None, None),
    ],
)
def test_typed_values_come_back(type_: Any, value: object) -> None:
    codec = Codec(type_, "it")
    found = codec.decode(codec.encode(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", [object(), {1: object()}, bytearray(b"x"), 1j, range(3), type("Sub", (int,), {})(3)])
def test_what_is_not_plain_is_refused(value: object) -> None:
    codec = Codec(Any, "it")
    for call in (codec.encode, codec.check):
        with pytest.raises(TypeError, match="expected a plain Python value"):
            call(value)


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        Codec(Any, "it").check("\ud800")


@given(data=st.binary(max_size=12))
def test_any_bytes_give_a_value_or_say_that_they_are_corrupt(data: bytes) -> None:
    for type_ in (Any, int, Trade, tuple[int, str]):
        codec = Codec(type_, "it")
        try:
            codec.decode(data)
        except CorruptStateError as error:
            assert "object it: expected a value" in str(error)  # noqa: PT017 (either is right)
