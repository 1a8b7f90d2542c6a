"""The schema of an origin: its fields, how its bytes are cut into them, and what becomes of what does not fit."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from runtime.formats.csv.dialect import CsvFormat
from runtime.formats.errors import SchemaError
from runtime.formats.fields import Field, Limits, Malformed
from runtime.formats.format import Format
from runtime.formats.values import nesting, value_parser

__all__ = ["Schema"]


class Schema(msgspec.Struct, frozen=True):
    """The fields of an origin's tuples, in the order in which they stand there."""

    fields: tuple[Field, ...]
    """At least one."""
    format: Format = CsvFormat()
    """How bytes are cut into tuples and fields."""
    malformed: Malformed = Malformed.DEAD_LETTER
    """What becomes of a tuple that does not fit; not NULL."""
    malformed_nullable: Malformed = Malformed.NULL
    """What becomes of a malformed value of a nullable field: NULL, or else its tuple is bad."""
    null_values: tuple[str, ...] = ("",)
    """Texts that mean NULL in nullable fields; in others they are no value, unless the field holds text."""
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
        """The fields' names, in order."""
        return tuple(field.name for field in self.fields)

    def select(self, columns: tuple[str, ...] | frozenset[str] | None) -> tuple[Field, ...]:
        """The named fields in schema order, all for None; raises `SchemaError` for a name that is not there."""
        if columns is None:
            return self.fields
        if unknown := set(columns) - set(self.names):
            raise SchemaError(f"expected columns out of {', '.join(self.names)}, was {', '.join(sorted(unknown))}")
        return tuple(field for field in self.fields if field.name in columns)

    def arrow_schema(self, columns: tuple[str, ...] | frozenset[str] | None = None) -> Any:
        """The `pyarrow.Schema` of what a formatter makes of it."""
        return pa.schema([pa.field(f.name, f.parser.arrow_type, f.nullable) for f in self.select(columns)])
