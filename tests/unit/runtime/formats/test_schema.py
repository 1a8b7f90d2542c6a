"""Schemas are checked when they are made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from runtime.formats import (
    BITSTAMP_SCHEMA,
    FEED_SCHEMA,
    LOBSTER_SCHEMA,
    CsvFormat,
    Field,
    InputFormatter,
    Limits,
    Malformed,
    Schema,
    SchemaError,
)
from tests.generators.text_buffers import cut, format_all, rows_of


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
        Schema(**({"fields": (Field("a", "int8"),)} | options))


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


def test_a_lobster_message_file() -> None:
    """LOBSTER's message files have no header, and times in decimal seconds."""
    text = b"34200.017459617,5,0,1,2238200,-1\n34200.189607670,1,11885113,21,2238100,1\n"
    rows = rows_of(format_all(InputFormatter(LOBSTER_SCHEMA), cut(text, [7, 40])))
    assert [(str(row[0]), *row[1:]) for row in rows] == [
        ("34200.017459617", 5, 0, 1, 2238200, -1),
        ("34200.189607670", 1, 11885113, 21, 2238100, 1),
    ]


def test_bitstamp_events() -> None:
    """Bitstamp's files name their columns first."""
    text = (
        b"id,timestamp,exchange_timestamp,price,volume,action,direction\n"
        b"65512636,1430524790000,1430524790000,236.5,0.01,created,bid\r\n"
    )
    (row,) = rows_of(format_all(InputFormatter(BITSTAMP_SCHEMA), cut(text, [20, 90])))
    assert [str(value) for value in row] == [
        "65512636", "1430524790000", "1430524790000", "236.50000000", "0.01000000", "created", "bid",
    ]  # fmt: skip


def test_a_schema_knows_its_format() -> None:
    """CSV with commas and lines is what a schema has if nothing is said."""
    assert FEED_SCHEMA.format == CsvFormat()
    assert FEED_SCHEMA.format.name == "csv"
