"""What a CSV dialect may be.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from runtime.formats import CsvFormat, SchemaError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"field_delimiter": b"||"}, "field delimiter of one ASCII byte"),
        ({"field_delimiter": b"\xe4"}, "field delimiter of one ASCII byte"),
        ({"field_delimiter": b""}, "field delimiter of one ASCII byte"),
        ({"field_delimiter": b"\r"}, "field delimiter of its own"),
        ({"tuple_delimiter": b""}, "tuple delimiter of 1 to 8 bytes"),
        ({"tuple_delimiter": b"123456789"}, "tuple delimiter of 1 to 8 bytes"),
        ({"tuple_delimiter": b"\xff"}, "tuple delimiter in UTF-8"),
        ({"tuple_delimiter": b","}, "field delimiter of its own"),
        ({"tuple_delimiter": b",\n"}, "field delimiter of its own"),
        ({"escape": b"\\"}, "escape only with quoting"),
        ({"escape": b"ab", "quoting": True}, "escape of one ASCII byte"),
        ({"escape": b'"', "quoting": True}, "quote, escape and delimiters of their own"),
        ({"escape": b"\n", "quoting": True}, "quote, escape and delimiters of their own"),
        ({"tuple_delimiter": b'"\n', "quoting": True}, "quote, escape and delimiters of their own"),
        ({"field_delimiter": b'"', "quoting": True}, "quote, escape and delimiters of their own"),
        ({"tuple_delimiter": b"\n\n", "quoting": True}, "cannot overlap itself beside quotes"),
    ],
)
def test_what_is_no_dialect(options: dict[str, Any], message: str) -> None:
    """Row 17: what could be read in two ways is refused when it is said, not when data come."""
    with pytest.raises(SchemaError, match=message):
        CsvFormat(**options)


@pytest.mark.parametrize("delimiter", [b"\n", b"\r\n", b"||", b"\n\n", b"12345678", "§".encode()])
def test_tuple_delimiters(delimiter: bytes) -> None:
    """Row 13: one to eight bytes, also such that overlap themselves."""
    assert CsvFormat(delimiter).tuple_delimiter == delimiter
