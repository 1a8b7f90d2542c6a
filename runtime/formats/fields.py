"""Fields of tuples, and what is done with tuples and values that do not fit them."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from runtime.formats.errors import SchemaError
from runtime.formats.values import ValueParser, value_parser

__all__ = ["Field", "Limits", "Malformed"]


class Malformed(StrEnum):
    """What becomes of a tuple, or of one value, that does not fit the schema."""

    FAIL = "fail"
    """The origin fails at the first such tuple."""
    NULL = "null"
    """Of a value in a nullable field only: it becomes NULL and is counted."""
    SKIP = "skip"
    """The tuple is left out and counted."""
    DEAD_LETTER = "dead_letter"
    """The tuple is left out, counted and described in a dead letter."""


class Limits(msgspec.Struct, frozen=True):
    """Bounds on what one tuple may cost."""

    tuple_bytes: int = 1 << 16
    """The longest tuple, delimiter included; a longer one is bad."""
    fields: int = 4096
    """The most fields of a schema."""
    nesting: int = 32
    """The deepest nesting of values, and of types."""
    described: int = 64
    """How many bad tuples of a block are described; the others are counted."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise SchemaError(f"expected a limit of at least 1 for {name}, was {getattr(self, name)}")


class Field(msgspec.Struct, frozen=True):
    """One field of a tuple."""

    name: str
    """Its name, unique within the schema."""
    type: str
    """Its type, one that `runtime.formats.values.value_parser` knows."""
    nullable: bool = False
    """Whether a NULL may stand there."""
    path: str = ""
    """Where it stands in nested formats: names with dots between; empty for its own name."""

    @property
    def parser(self) -> ValueParser:
        """How its texts become values."""
        return value_parser(self.type)
