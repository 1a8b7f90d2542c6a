"""Schema of an origin: its fields, its format, and the policies for tuples that do not fit."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from runtime.formats.errors import SchemaError
from runtime.formats.fields import Field, Limits, Malformed
from runtime.formats.format import Format
from runtime.formats.values import nesting, value_parser

__all__ = ["Schema"]


class Schema(msgspec.Struct, frozen=True):
    """Schema of an origin's tuples, whose fields have the order of the tuple."""

    fields: tuple[Field, ...]
    """Fields of a tuple, at least one."""
    format: Format
    """Format that divides bytes into tuples and fields."""
    malformed: Malformed = Malformed.DEAD_LETTER
    """Policy for a tuple that does not fit; not NULL."""
    malformed_nullable: Malformed = Malformed.NULL
    """Policy for a malformed value of a nullable field: NULL, or else its tuple is bad."""
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
