"""Schema of an origin: its fields, its format, its limits, and the policies for tuples that do not fit."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pyarrow as pa

from runtime.formats.errors import SchemaError
from runtime.formats.format import Format
from runtime.formats.values import ValueParser, nesting, value_parser

__all__ = ["Field", "Limits", "Malformed", "Schema"]


class Malformed(StrEnum):
    """Policy for a tuple, or for one value, that does not fit the schema."""

    FAIL = "fail"
    """The origin fails at the first such tuple."""
    NULL = "null"
    """The value of a nullable field becomes NULL and is counted; not for whole tuples."""
    SKIP = "skip"
    """The tuple is left out and counted."""
    DEAD_LETTER = "dead_letter"
    """The tuple is left out, counted and described in a dead letter."""


class Limits(msgspec.Struct, frozen=True):
    """Bounds on the cost of one tuple."""

    tuple_bytes: int = 1 << 16
    """Length of the longest tuple, delimiter included; a longer one is bad."""
    fields: int = 4096
    """Greatest number of fields of a schema."""
    nesting: int = 32
    """Deepest nesting of values, and of types."""
    described: int = 64
    """Number of bad tuples of a block that are described; the others are counted."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise SchemaError(f"expected a limit of at least 1 for {name}, was {getattr(self, name)}")


class Field(msgspec.Struct, frozen=True):
    """One field of a tuple."""

    name: str
    """Name of the field, unique within the schema."""
    type: str
    """Type of the field, one that `runtime.formats.values.value_parser` accepts."""
    nullable: bool = False
    """True if the field may be NULL."""
    path: str = ""
    """Path in nested formats: names with dots between; empty for its own name."""

    @property
    def parser(self) -> ValueParser:
        """Parser of the field's texts."""
        return value_parser(self.type)


class Schema(msgspec.Struct, frozen=True):
    """Schema of an origin's tuples, whose fields have the order of the tuple."""

    fields: tuple[Field, ...]
    """Fields of a tuple, at least one."""
    format: Format
    """Format that divides bytes into tuples and fields."""
    malformed: Malformed = Malformed.DEAD_LETTER
    """Policy for a tuple that does not fit; not NULL."""
    malformed_nullable: Malformed = Malformed.NULL
    """Policy for a malformed value of a nullable field: with NULL it becomes NULL, with any other its tuple is bad."""
    null_values: tuple[str, ...] = ("",)
    """Texts that mean NULL in nullable fields; in others they are malformed, unless the field is text."""
    limits: Limits = Limits()
    """Bounds on a tuple."""

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if not names or len(set(names)) != len(names):
            raise SchemaError(f"expected at least one field and distinct names, was {names}")
        if len(names) > self.limits.fields:
            raise SchemaError(f"expected at most {self.limits.fields} fields, was {len(names)}")
        for field in self.fields:
            if (depth := nesting(value_parser(field.type).arrow_type)) > self.limits.nesting:
                raise SchemaError(
                    f"expected types nested at most {self.limits.nesting} deep, was {depth}: {field.name}"
                )
        if self.malformed == Malformed.NULL:
            raise SchemaError("expected malformed fail, skip or dead_letter, was null: a tuple cannot become NULL")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(field.name for field in self.fields)

    def select(self, columns: tuple[str, ...] | frozenset[str] | None) -> tuple[Field, ...]:
        """Return the named fields in schema order, all for None; raise `SchemaError` for an unknown name."""
        if columns is None:
            return self.fields
        if unknown := set(columns) - set(self.names):
            raise SchemaError(f"expected columns out of {', '.join(self.names)}, was {', '.join(sorted(unknown))}")
        return tuple(field for field in self.fields if field.name in columns)

    def arrow_schema(self, columns: tuple[str, ...] | frozenset[str] | None = None) -> Any:
        """Return the `pyarrow.Schema` of a formatter's output."""
        return pa.schema([pa.field(f.name, f.parser.arrow_type, f.nullable) for f in self.select(columns)])
