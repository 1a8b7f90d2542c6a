"""Schemas are checked when they are made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from runtime.formats import (
    CsvFormat,
    Field,
    Limits,
    Malformed,
    Schema,
    SchemaError,
)
from runtime.relations import FEED_SCHEMA


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ()}, "at least one field"),
        ({"fields": (Field("a", "int8"), Field("a", "int8"))}, "distinct names"),
        ({"fields": (Field("a", "int7"),)}, "expected a type out of bool, char"),
        ({"malformed": Malformed.NULL}, "a tuple cannot become NULL"),
        ({"limits": Limits(fields=1), "fields": (Field("a", "int8"), Field("b", "int8"))}, "at most 1 fields, was 2"),
        ({"limits": Limits(nesting=1), "fields": (Field("a", "array<array<int8>>"),)}, "nested at most 1 deep, was 2"),
    ],
)
def test_what_is_not_a_schema(options: dict[str, Any], message: str) -> None:
    """A schema that contradicts itself says what was expected."""
    with pytest.raises(SchemaError, match=message):
        Schema(**({"fields": (Field("a", "int8"),)} | options), format=CsvFormat())


@pytest.mark.parametrize("limit", ["tuple_bytes", "fields", "nesting", "described"])
def test_limits_are_at_least_one(limit: str) -> None:
    """A limit of nothing would make everything bad."""
    with pytest.raises(SchemaError, match=f"at least 1 for {limit}, was 0"):
        Limits(**{limit: 0})


def test_unknown_column() -> None:
    """Asking for a column that is not there names those that are."""
    with pytest.raises(SchemaError, match=r"expected columns out of sequence, .*, was nothing"):
        FEED_SCHEMA.select(("nothing",))


def test_selected_columns_stand_in_schema_order() -> None:
    """Whatever the order in which they are asked for."""
    assert [field.name for field in FEED_SCHEMA.select(("price", "sequence"))] == ["sequence", "price"]
    assert FEED_SCHEMA.arrow_schema(frozenset(("price",))) == pa.schema([pa.field("price", pa.int64(), False)])


def test_a_schema_knows_its_format() -> None:
    """The feed of the exchange is CSV with commas and lines."""
    assert FEED_SCHEMA.format == CsvFormat()
    assert FEED_SCHEMA.format.name == "csv"
