"""Fields of tuples, and policies for tuples and values that do not fit them."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from runtime.formats.errors import SchemaError
from runtime.formats.values import ValueParser, value_parser

__all__ = ["Field", "Limits", "Malformed"]


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
