"""Registry of value parsers: the types of fields, and the texts that are values of them.

All formats share the registry, so a type has the same values in each. Arrow converts texts by column, outside the
interpreter lock. To find the bad values among many good ones without converting them one by one, a parser has two
patterns. Every text that matches the first pattern is a value; every value matches the second pattern.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.errors import SchemaError

__all__ = ["ValueParser", "nesting", "register", "registered_types", "value_parser"]


class ValueParser(msgspec.Struct, frozen=True, eq=False):
    """Parser of the texts of one type."""

    name: str
    """The type as schemas and error messages write it."""
    arrow_type: Any
    """The `pyarrow.DataType` of the column."""
    surely_good: str = ""
    """RE2 pattern of texts that Arrow certainly converts; empty for none. It must match nothing that Arrow refuses."""
    maybe_good: str = ""
    """RE2 pattern of texts that Arrow may convert; empty for all. It must match everything that Arrow converts."""
    column_check: Callable[[Any], Any] | None = None
    """Function from an Arrow array of converted values to a boolean one: a further condition on values; None for
    none."""
    digits: int = 0
    """Greatest number of digits of a decimal; 0 for as many as the column's type has."""

    @property
    def textual(self) -> bool:
        """True if the values are texts, so that an empty field is an empty text and not NULL."""
        return bool(pa.types.is_string(self.arrow_type))

    @property
    def nested(self) -> bool:
        """True if the values are arrays or structs; in formats without nesting their text is JSON."""
        return bool(pa.types.is_nested(self.arrow_type))


def nesting(arrow_type: Any) -> int:
    """Return the nesting depth of arrays and structs, 0 for a plain type."""
    if not pa.types.is_nested(arrow_type):
        return 0
    return 1 + max(nesting(arrow_type.field(i).type) for i in range(arrow_type.num_fields))


def _integer(name: str, arrow_type: Any, safe_digits: int) -> ValueParser:
    sign = "" if name.startswith("u") else "-?"
    return ValueParser(
        name=name,
        arrow_type=arrow_type,
        surely_good=rf"^{sign}[0-9]{{1,{safe_digits}}}$",
        maybe_good=r"^[ \t]*-?(0[xX])?[0-9a-fA-F]+[ \t]*$",
    )


def _float(name: str, arrow_type: Any) -> ValueParser:
    return ValueParser(
        name=name,
        arrow_type=arrow_type,
        surely_good=r"^-?[0-9]{1,18}(\.[0-9]{1,18})?$",
        maybe_good=r"(?i)^[ \t]*[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|nan(\(\w*\))?|inf|infinity)[ \t]*$",
    )


def _one_character(column: Any) -> Any:
    return pc.equal(pc.utf8_length(column), 1)


def _decimal(name: str, precision: int, scale: int) -> ValueParser:
    """Return a parser of decimals.

    Its pattern also matches all numbers with an exponent, which only the conversion can check.
    """
    whole, behind = max(precision - scale, 0), max(scale, 0)
    plain = rf"0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{behind}}}0*)?"
    exponential = r"([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+"
    return ValueParser(name, pa.decimal128(precision, scale), maybe_good=rf"^[ \t]*[-+]?({plain}|{exponential})[ \t]*$")


def _numeric(name: str, digits: int, scale: int) -> ValueParser:
    """Return a parser of decimals of at most this many digits, without counting zeros at the end of a fraction.

    The column has room for more digits; a check after the conversion refuses larger numbers.
    """
    if not 1 <= digits <= _LONGEST or scale > digits:
        raise SchemaError(f"expected 1 to {_LONGEST} digits, and no more than these after the point, was {name!r}")
    parser = _decimal(name, max(digits, _LONGEST - scale), scale)
    bound = Decimal((0, (1,), digits - scale))

    def fits(column: Any) -> Any:
        return pc.and_(pc.less(column, bound), pc.greater(column, -bound))

    is_whole = parser.arrow_type.precision == digits
    return msgspec.structs.replace(parser, column_check=None if is_whole else fits, digits=digits)


_DAY: Final = (
    r"([0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)|"
    r"([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)"
)
"""Pattern that matches existing days only."""
_OFFSET: Final = r"(Z|[-+]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_UNIT_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _timestamp(name: str, unit: str) -> ValueParser:
    digits = _UNIT_DIGITS[unit]
    fraction = rf"(\.[0-9]{{1,{digits}}})?" if digits else ""
    time = rf"([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9]{fraction})?)?"
    return ValueParser(name, pa.timestamp(unit), maybe_good=rf"^{_DAY}([ T]{time}{_OFFSET}?)?$")


_BOOL: Final = r"^(0|1|true|True|TRUE|false|False|FALSE)$"
_PLAIN: Final[dict[str, ValueParser]] = {}


def register(parser: ValueParser) -> None:
    """Add a type.

    Raise `SchemaError` for a name that is taken, so that no format changes the meaning of another's schema.
    """
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
    ValueParser("bool", pa.bool_(), surely_good=_BOOL, maybe_good=_BOOL),
    ValueParser("string", pa.string()),
    ValueParser("char", pa.string(), column_check=_one_character),
    ValueParser("date", pa.date32(), maybe_good=rf"^[ \t]*{_DAY}[ \t]*$"),
):
    register(_parser)

_LONGEST: Final = 38
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_TIMESTAMP: Final = re.compile(r"timestamp\((s|ms|us|ns)\)")
_NESTED: Final = re.compile(r"(array|struct)<(.*)>", re.DOTALL)
_NAME: Final = re.compile(r"\s*(\w+)\s*:(.*)", re.DOTALL)
_DEEPEST: Final = 64


@functools.lru_cache(maxsize=1024)
def value_parser(name: str) -> ValueParser:
    """Return the parser of a type such as ``int64``, ``decimal(18,4)``, ``timestamp(ns)``, ``array<int64>`` or
    ``struct<price:int64,sizes:array<int64>>``; raise `SchemaError` for an unknown type.

    >>> value_parser("decimal(18,4)").arrow_type
    Decimal128Type(decimal128(18, 4))
    >>> value_parser("array<struct<a:int8,b:char>>").arrow_type
    ListType(list<item: struct<a: int8, b: string>>)
    """
    return _parser_of(name, _DEEPEST)


def _parser_of(name: str, deepest: int) -> ValueParser:
    if (plain := _PLAIN.get(name)) is not None:
        return plain
    if (decimal := _DECIMAL.fullmatch(name)) is not None:
        try:
            return _decimal(name, int(decimal[1]), int(decimal[2]))
        except ValueError as error:
            raise SchemaError(f"expected a decimal of at most 38 digits, was {name!r}: {error}") from None
    if (numeric := _NUMERIC.fullmatch(name)) is not None:
        return _numeric(name, int(numeric[1]), int(numeric[2]))
    if (timestamp := _TIMESTAMP.fullmatch(name)) is not None:
        return _timestamp(name, timestamp[1])
    if (nested := _NESTED.fullmatch(name)) is not None:
        if deepest == 0:
            raise SchemaError(f"expected types nested at most {_DEEPEST} deep, was {name[:100]!r}")
        return _array(name, nested[2], deepest) if nested[1] == "array" else _struct(name, nested[2], deepest)
    raise SchemaError(f"expected a type out of {', '.join(registered_types())}, was {name!r}")


def _array(name: str, item: str, deepest: int) -> ValueParser:
    parser = _parser_of(item.strip(), deepest - 1)
    check = parser.column_check
    return ValueParser(name, pa.list_(parser.arrow_type), column_check=_items_check(check) if check else None)


def _struct(name: str, members: str, deepest: int) -> ValueParser:
    parsers: dict[str, ValueParser] = {}
    for member in _split(members):
        named = _NAME.fullmatch(member)
        if named is None or named[1] in parsers:
            raise SchemaError(f"expected struct<name:type,...> with distinct names, was {name!r} at {member!r}")
        parsers[named[1]] = _parser_of(named[2].strip(), deepest - 1)
    checks = {member: parser.column_check for member, parser in parsers.items() if parser.column_check}
    arrow_type = pa.struct([pa.field(member, parser.arrow_type) for member, parser in parsers.items()])
    return ValueParser(name, arrow_type, column_check=_members_check(checks) if checks else None)


def _split(members: str) -> list[str]:
    """Return the members of a struct: the parts between commas outside of brackets."""
    parts, depth = [""], 0
    for letter in members:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _items_check(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a check that all items of each array satisfy a condition."""

    def all_items(column: Any) -> Any:
        passed = pc.fill_null(check(pc.list_flatten(column)), True).to_numpy(zero_copy_only=False)
        good = np.ones(len(column), np.bool_)
        good[pc.list_parent_indices(column).to_numpy()[~passed]] = False
        return pa.array(good)

    return all_items


def _members_check(checks: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Return a check that the members of each struct satisfy their conditions."""

    def all_members(column: Any) -> Any:
        good = pa.array(np.ones(len(column), np.bool_))
        for member, check in checks.items():
            good = pc.and_(good, pc.fill_null(check(pc.struct_field(column, member)), True))
        return good

    return all_members


def registered_types() -> tuple[str, ...]:
    """Return the names of the types that `value_parser` accepts, with letters for parameters."""
    return (
        *sorted(_PLAIN),
        "decimal(P,S)",
        "numeric(P,S)",
        "timestamp(s|ms|us|ns)",
        "array<TYPE>",
        "struct<NAME:TYPE,...>",
    )
