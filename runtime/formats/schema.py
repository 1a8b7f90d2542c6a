"""The schema of an origin: its fields and how its text is cut into tuples and fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from runtime.formats.errors import SchemaError
from runtime.formats.values import ValueParser, value_parser

__all__ = ["FEED_SCHEMA", "Field", "Schema"]


class Field(msgspec.Struct, frozen=True):
    """One field of a tuple."""

    name: str
    """Its name, unique within the schema."""
    type: str
    """Its type, one that `runtime.formats.values.value_parser` knows."""
    nullable: bool = False
    """Whether a NULL may stand there; a malformed value then becomes NULL and is counted."""

    @property
    def parser(self) -> ValueParser:
        """How its texts become values."""
        return value_parser(self.type)


class Schema(msgspec.Struct, frozen=True):
    """The fields of an origin's tuples, in the order in which they stand there."""

    fields: tuple[Field, ...]
    """At least one."""
    tuple_delimiter: bytes = b"\n"
    """One byte; behind ``\\n`` a ``\\r`` before it belongs to the delimiter."""
    field_delimiter: bytes = b","
    """One byte."""
    header: bool = False
    """Whether the first tuple of the stream names the fields; it is skipped."""
    null_values: tuple[str, ...] = ("",)
    """Texts that mean NULL in nullable fields; the first one also stands in for a malformed value."""
    quoting: bool = False
    """Whether fields may be quoted; only False so far: quotes are ordinary characters."""

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if not names or len(set(names)) != len(names):
            raise SchemaError(f"expected at least one field and distinct names, was {names}")
        for field in self.fields:
            value_parser(field.type)
        for what, delimiter in (("tuple", self.tuple_delimiter), ("field", self.field_delimiter)):
            if len(delimiter) != 1:
                raise SchemaError(f"expected a {what} delimiter of one byte, was {delimiter!r}")
        if self.tuple_delimiter == self.field_delimiter or self.field_delimiter in b"\r\n":
            raise SchemaError(f"expected a field delimiter of its own, was {self.field_delimiter!r}")
        if self.quoting:
            raise SchemaError("expected quoting False, was True: quoted fields are not read yet")
        if any(field.nullable for field in self.fields) and not self.null_values:
            raise SchemaError("expected null_values for nullable fields, was ()")
        if len(self.fields) == 1 and self.fields[0].nullable and not self.null_values[0]:
            raise SchemaError("expected a first null value with letters for a single field, was '': an empty tuple")

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' names, in order."""
        return tuple(field.name for field in self.fields)

    def select(self, columns: tuple[str, ...] | None) -> tuple[Field, ...]:
        """The named fields in schema order, all for None; raises `SchemaError` for a name that is not there."""
        if columns is None:
            return self.fields
        if unknown := set(columns) - set(self.names):
            raise SchemaError(f"expected columns out of {', '.join(self.names)}, was {', '.join(sorted(unknown))}")
        return tuple(field for field in self.fields if field.name in columns)

    def arrow_schema(self, columns: tuple[str, ...] | None = None) -> Any:
        """The `pyarrow.Schema` of what a formatter makes of it."""
        return pa.schema([pa.field(f.name, f.parser.arrow_type, f.nullable) for f in self.select(columns)])


FEED_SCHEMA = Schema(
    (
        Field("sequence", "int64"),
        Field("time_ns", "int64"),
        Field("order_id", "int64"),
        Field("broker_id", "int64"),
        Field("action", "string"),
        Field("volume", "int64"),
        Field("price", "int64"),
        Field("symbol", "string"),
    )
)
"""The exchange's feed lines, see `deltabook.wire.text.FeedMessage`."""
