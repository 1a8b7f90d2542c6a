"""The registry of value parsers: which types a field may have, and which texts are values of them.

All formats share it, so that an int64 is the same int64 in each. The conversion itself is Arrow's, in columns and
outside the interpreter lock; a parser here adds what is needed to find the one bad value among many good ones without
converting them one by one: a pattern of what is surely good, and one outside which everything is surely bad.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.errors import SchemaError

__all__ = ["ValueParser", "register", "registered_types", "value_parser"]


class ValueParser(msgspec.Struct, frozen=True, eq=False):
    """How texts become values of one type."""

    name: str
    """The type as schemas and error messages write it."""
    arrow_type: Any
    """The `pyarrow.DataType` of the column."""
    surely_good: str = ""
    """RE2 pattern of texts that convert without doubt, empty for none; must accept nothing that Arrow refuses."""
    maybe_good: str = ""
    """RE2 pattern of texts that may convert, empty for all; must match everything that Arrow takes."""
    column_check: Callable[[Any], Any] | None = None
    """A further condition on converted values, from an Arrow array to a boolean one; None for none."""

    @property
    def textual(self) -> bool:
        """Whether every well-encoded text is a value, so that an empty field is an empty text."""
        return bool(pa.types.is_string(self.arrow_type))


def _integer(name: str, arrow_type: Any, safe_digits: int) -> ValueParser:
    sign = "" if name.startswith("u") else "-?"
    return ValueParser(
        name=name,
        arrow_type=arrow_type,
        surely_good=rf"^{sign}[0-9]{{1,{safe_digits}}}$",
        maybe_good=r"^[ \t]*-?(0[xX])?[0-9a-fA-F]+[ \t]*$",
    )


def _float(name: str, arrow_type: Any) -> ValueParser:
    return ValueParser(name=name, arrow_type=arrow_type, surely_good=r"^-?[0-9]{1,18}(\.[0-9]{1,18})?$")


def _one_character(column: Any) -> Any:
    return pc.equal(pc.utf8_length(column), 1)


_PLAIN: Final[dict[str, ValueParser]] = {}


def register(parser: ValueParser) -> None:
    """Add a type; a name that is taken is an error, so that no format changes the meaning of another's schema."""
    if parser.name in _PLAIN:
        raise SchemaError(f"expected a new type name, was {parser.name!r}, which is registered")
    _PLAIN[parser.name] = parser


for _parser in (
    _integer("int8", pa.int8(), 2),
    _integer("int16", pa.int16(), 4),
    _integer("int32", pa.int32(), 9),
    _integer("int64", pa.int64(), 18),
    _integer("uint8", pa.uint8(), 2),
    _integer("uint16", pa.uint16(), 4),
    _integer("uint32", pa.uint32(), 9),
    _integer("uint64", pa.uint64(), 19),
    _float("float32", pa.float32()),
    _float("float64", pa.float64()),
    ValueParser("bool", pa.bool_(), surely_good=r"^(true|false|0|1)$"),
    ValueParser("string", pa.string()),
    ValueParser("char", pa.string(), column_check=_one_character),
    ValueParser("date", pa.date32()),
):
    register(_parser)

_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_TIMESTAMP: Final = re.compile(r"timestamp\((s|ms|us|ns)\)")


def value_parser(name: str) -> ValueParser:
    """The parser of a type such as ``int64``, ``decimal(18,4)`` or ``timestamp(ns)``; raises `SchemaError`.

    >>> value_parser("decimal(18,4)").arrow_type
    Decimal128Type(decimal128(18, 4))
    """
    if (plain := _PLAIN.get(name)) is not None:
        return plain
    try:
        if (decimal := _DECIMAL.fullmatch(name)) is not None:
            return ValueParser(name, pa.decimal128(int(decimal[1]), int(decimal[2])), maybe_good=r"^[-+0-9.eE \t]+$")
    except ValueError as error:
        raise SchemaError(f"expected a decimal of at most 38 digits, was {name!r}: {error}") from None
    if (timestamp := _TIMESTAMP.fullmatch(name)) is not None:
        return ValueParser(name, pa.timestamp(timestamp[1]))
    raise SchemaError(f"expected a type out of {', '.join(registered_types())}, was {name!r}")


def registered_types() -> tuple[str, ...]:
    """The names that `value_parser` takes, parameters written as letters."""
    return (*sorted(_PLAIN), "decimal(P,S)", "timestamp(s|ms|us|ns)")
