"""Types of PostgreSQL, the corresponding types of DuckDB, and the decoding of the values of parameters."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

import msgspec

from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.messages import Field
from runtime.service.postgres.tokens import tokens, unquoted

__all__ = [
    "BY_NAME",
    "BY_OID",
    "TEXT",
    "TYPES",
    "PgType",
    "ResultType",
    "array_name",
    "literal",
    "result_field",
    "result_type",
    "type_oid",
    "typed_expression",
]


class PgType(msgspec.Struct, frozen=True):
    """Type of PostgreSQL."""

    name: str
    """Name as in ``pg_type.typname``."""
    oid: int
    """OID of the type."""
    array_oid: int
    """OID of the type of arrays with these elements; 0 if there is none."""
    size: int
    """Size of a value in bytes, -1 if it varies."""
    category: str
    """Category as in ``pg_type.typcategory``."""
    duckdb: str
    """Name of the type in DuckDB."""
    sql: str = ""
    """Name of the type in SQL, if it differs."""


TYPES: Final = (
    PgType("bool", 16, 1000, 1, "B", "BOOLEAN", "boolean"),
    PgType("bytea", 17, 1001, -1, "U", "BLOB"),
    PgType("char", 18, 1002, 1, "Z", "VARCHAR", '"char"'),
    PgType("name", 19, 1003, 64, "S", "VARCHAR"),
    PgType("int8", 20, 1016, 8, "N", "BIGINT", "bigint"),
    PgType("int2", 21, 1005, 2, "N", "SMALLINT", "smallint"),
    PgType("int4", 23, 1007, 4, "N", "INTEGER", "integer"),
    PgType("regproc", 24, 1008, 4, "N", "VARCHAR"),
    PgType("text", 25, 1009, -1, "S", "VARCHAR"),
    PgType("oid", 26, 1028, 4, "N", "UINTEGER"),
    PgType("json", 114, 199, -1, "U", "VARCHAR"),
    PgType("float4", 700, 1021, 4, "N", "FLOAT", "real"),
    PgType("float8", 701, 1022, 8, "N", "DOUBLE", "double precision"),
    PgType("unknown", 705, 0, -2, "X", "VARCHAR"),
    PgType("bpchar", 1042, 1014, -1, "S", "VARCHAR", "character"),
    PgType("varchar", 1043, 1015, -1, "S", "VARCHAR", "character varying"),
    PgType("date", 1082, 1182, 4, "D", "DATE"),
    PgType("time", 1083, 1183, 8, "D", "TIME", "time without time zone"),
    PgType("timestamp", 1114, 1115, 8, "D", "TIMESTAMP", "timestamp without time zone"),
    PgType("timestamptz", 1184, 1185, 8, "D", "TIMESTAMP WITH TIME ZONE", "timestamp with time zone"),
    PgType("interval", 1186, 1187, 16, "T", "INTERVAL"),
    PgType("numeric", 1700, 1231, -1, "N", "DECIMAL(38, 9)"),
    PgType("regclass", 2205, 2210, 4, "N", "VARCHAR"),
    PgType("regtype", 2206, 2211, 4, "N", "VARCHAR"),
    PgType("uuid", 2950, 2951, 16, "U", "UUID"),
    PgType("jsonb", 3802, 3807, -1, "U", "VARCHAR"),
)
BY_NAME: Final = {kind.name: kind for kind in TYPES}
BY_OID: Final = {kind.oid: kind for kind in TYPES}
_BY_ARRAY_OID: Final = {kind.array_oid: kind for kind in TYPES if kind.array_oid}
TEXT: Final = BY_NAME["text"]
_BY_DUCKDB_TYPE: Final = {
    "BOOLEAN": "bool", "TINYINT": "int2", "UTINYINT": "int2", "SMALLINT": "int2", "USMALLINT": "int4",
    "INTEGER": "int4", "UINTEGER": "oid", "BIGINT": "int8", "UBIGINT": "numeric", "HUGEINT": "numeric",
    "UHUGEINT": "numeric", "FLOAT": "float4", "DOUBLE": "float8", "VARCHAR": "text", "DATE": "date", "TIME": "time",
    "TIMESTAMP": "timestamp", "TIMESTAMP_S": "timestamp", "TIMESTAMP_MS": "timestamp", "TIMESTAMP_NS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz", "INTERVAL": "interval", "BLOB": "bytea", "UUID": "uuid",
}  # fmt: skip
"""Type of DuckDB → the name of PostgreSQL's type."""
_SQL_NAMES: Final = {
    **{name: kind for kind in TYPES for name in (kind.name, kind.sql) if name},
    "char": BY_NAME["bpchar"], "dec": BY_NAME["numeric"], "decimal": BY_NAME["numeric"], "double": BY_NAME["float8"],
    "float": BY_NAME["float8"], "int": BY_NAME["int4"],
}  # fmt: skip
"""Name of a type in SQL, in lower case → the type."""
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
_LIST: Final = re.compile(r"(.*)\[\d*\]", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)
_DIGITS: Final = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_MOST_DIGITS: Final = 38
"""Greatest number of digits of DuckDB's DECIMAL."""
_ELEMENT: Final = re.compile(r"""(?:\s*"((?:[^"\\]|\\.)*)"\s*|((?:[^,"{}\\]|\\.)+))(,|\Z)""", re.DOTALL)
"""Pattern of an element of an array as text, quoted or not, and of the comma after it."""
_NESTED: Final = ("STRUCT(", "MAP(", "UNION(")
_POSTGRES_EPOCH: Final = datetime(2000, 1, 1)  # noqa: DTZ001 (PostgreSQL's timestamps have no zone)
_DECIMALS_PER_DIGIT: Final = 4
"""Number of decimal digits in each digit of a binary numeric."""
_SPECIAL_NUMERIC: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


class ResultType(msgspec.Struct, frozen=True):
    """Type of a column of an answer."""

    element: PgType
    """The type itself, or the type of an array's elements."""
    is_array: bool = False
    """True for an array."""
    modifier: int = -1
    """Modifier as in ``pg_attribute.atttypmod``: digits and scale of a numeric; -1 for none."""

    @property
    def oid(self) -> int:
        """OID of the type."""
        return self.element.array_oid if self.is_array else self.element.oid


def array_name(kind: PgType) -> str:
    """Return the name of the type of arrays with these elements."""
    return f"_{kind.name}"


def result_type(duckdb: str) -> ResultType:
    """Return PostgreSQL's type for a type of DuckDB; text if there is none."""
    if match := _LIST.fullmatch(duckdb):
        is_nested = _LIST.fullmatch(match[1]) or match[1].startswith(_NESTED)
        return ResultType(TEXT) if is_nested else ResultType(result_type(match[1]).element, is_array=True)
    if match := _DECIMAL.fullmatch(duckdb):
        return ResultType(BY_NAME["numeric"], modifier=((int(match[1]) << 16) | int(match[2])) + 4)
    return ResultType(BY_NAME[_BY_DUCKDB_TYPE.get(duckdb, "text")])


def result_field(name: str, duckdb: str) -> Field:
    """Return the description of a column of an answer."""
    kind = result_type(duckdb)
    return Field(name, kind.oid, -1 if kind.is_array else kind.element.size, kind.modifier)


def type_oid(name: str) -> int | None:
    """Return the OID of the type with this name in SQL, in lower case without a length; None for an unknown name."""
    kind = _SQL_NAMES.get(name.removesuffix("[]").strip())
    if kind is None:
        return None
    return kind.array_oid if name.endswith("[]") else kind.oid


def typed_expression(sql: str, oid: int) -> str:
    """Return a constant as an expression of the type of this OID, or unchanged for 0.

    The text of a string is read as a value of the type, as `literal` does, because PostgreSQL's texts of arrays and
    bytes differ from DuckDB's. Raises `PostgresError` for an unknown type, and for a text that is not of the type.
    """
    element, kind = _BY_ARRAY_OID.get(oid), BY_OID.get(oid)
    if not oid:
        return f"({sql})"
    if element is None and kind is None:
        raise PostgresError("0A000", f"expected a parameter of a known type, was one of OID {oid}")
    own = tokens(sql)
    if len(own) == 1 and own[0].kind == "string":
        if sql[0] in "'$":
            return literal(unquoted(own[0]).encode(), oid, is_binary=False)
        if sql[0] in "eEuU" and (kind is None or kind.name == "bytea"):
            name = kind.name if kind is not None else "array"
            raise PostgresError("0A000", f"expected '…' or $$…$$ as the text of a {name}, was {sql[:80]}")
    if kind is not None and kind.name == "numeric":
        number = "".join(token.text for token in own)
        if _NUMBER.fullmatch(number):
            return literal(number.encode(), oid, is_binary=False)
        return f"({sql})"  # not cast, because DuckDB's DECIMAL would round it
    duckdb = f"{element.duckdb}[]" if element is not None else kind.duckdb if kind is not None else ""
    return f"CAST({sql} AS {duckdb})"


def literal(value: bytes | None, oid: int, *, is_binary: bool) -> str:
    """Return the value of a parameter as a literal of its type in SQL.

    Raises `PostgresError` for an unknown type, and for a value that is not of the type. A value without a type is a
    string literal, to which DuckDB gives the type required by its context.
    """
    element = _BY_ARRAY_OID.get(oid)
    kind = BY_OID.get(oid or TEXT.oid)
    if element is None and kind is None:
        raise PostgresError("0A000", f"expected a parameter of a known type, was one of OID {oid}")
    if value is None:
        duckdb = f"{element.duckdb}[]" if element else kind.duckdb if kind and oid else ""
        return f"CAST(NULL AS {duckdb})" if duckdb else "NULL"
    if element is not None:
        return _array(_binary_array(value, element) if is_binary else _text_array(_utf8(value)), element)
    assert kind is not None
    text = _BINARY[kind.name](value) if is_binary else _utf8(value)
    return _typed(text, kind if oid else None)


def _typed(text: str, kind: PgType | None) -> str:
    quoted = "'" + text.replace("'", "''") + "'"
    if kind is None or kind.name == "unknown":
        return quoted
    if kind.name == "bytea":
        if text.startswith("\\x"):
            return f"unhex('{_hexadecimal(text[2:])}')"
        return f"encode({quoted})"
    if kind.name == "numeric":
        return f"CAST('{_plain(text)}' AS {_type_of_numerics([text])})"
    return f"CAST({quoted} AS {kind.duckdb})"


def _array(texts: Sequence[str | None], element: PgType) -> str:
    """Return an array as a literal; all numerics have one type, because DuckDB would round them to the scale of one."""
    if element.name == "numeric":
        duckdb = _type_of_numerics([text for text in texts if text is not None])
        elements = ["NULL" if text is None else f"CAST('{_plain(text)}' AS {duckdb})" for text in texts]
    else:
        duckdb = element.duckdb
        elements = ["NULL" if text is None else _typed(text, element) for text in texts]
    return f"CAST(ARRAY[{', '.join(elements)}] AS {duckdb}[])"


def _plain(text: str) -> str:
    """Return a number of few enough digits without an exponent, and any other text as part of a string literal."""
    if _NUMBER.fullmatch(text) and (number := Decimal(text)).adjusted() < _MOST_DIGITS:
        return format(number, "f")
    return text.replace("'", "''")


def _type_of_numerics(texts: Sequence[str]) -> str:
    """Return DuckDB's type of numerics: a decimal of the greatest scale, so that nothing is rounded, or DOUBLE."""
    plain = [_plain(text) for text in texts]
    scale = max((len(text.partition(".")[2]) for text in plain), default=0)
    is_decimal = scale <= _MOST_DIGITS and all(_DIGITS.fullmatch(text) for text in plain)
    return f"DECIMAL({_MOST_DIGITS}, {scale})" if is_decimal else "DOUBLE"


def _hexadecimal(text: str) -> str:
    if not re.fullmatch(r"([0-9a-fA-F]{2})*", text):
        raise PostgresError("22P02", "expected bytes as hexadecimal digits after \\x, was something else")
    return text


def _utf8(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise PostgresError("22021", f"expected text in UTF-8, was the byte {value[error.start]:#04x}") from None
    if "\0" in text:
        raise PostgresError("22021", "expected text without zero bytes, was one with them")
    return text


def _text_array(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array ``{…}``."""
    content = text[1:-1]
    if not (text.startswith("{") and text.endswith("}")):
        raise PostgresError("22P02", f"expected an array {{…}}, was {text[:80]!r}")
    elements, at = list[str | None](), 0
    has_more = bool(content.strip())
    while has_more:
        match = _ELEMENT.match(content, at)
        if match is None or (match[1] is None and not match[2].strip()):
            if content[at:].lstrip().startswith("{"):
                raise PostgresError("0A000", "expected an array of one dimension, was one of more")
            raise PostgresError(
                "22P02", f"expected an element of an array at character {at + 2}, was {content[at : at + 80]!r}"
            )
        raw = match[2].strip() if match[1] is None else match[1]
        is_null = match[1] is None and raw.upper() == "NULL"
        elements.append(None if is_null else re.sub(r"\\(.)", r"\1", raw, flags=re.DOTALL))
        at, has_more = match.end(), match[3] == ","
    return elements


def _binary_array(value: bytes, element: PgType) -> list[str | None]:
    try:
        dimensions, _, _ = struct.unpack_from("!iii", value)
        if dimensions == 0:
            return []
        if dimensions != 1:
            raise PostgresError("0A000", f"expected an array of one dimension, was one of {dimensions}")
        (count,) = struct.unpack_from("!i", value, 12)
        at, elements = 20, list[str | None]()
        if count < 0:
            raise struct.error
        for _ in range(count):
            (length,) = struct.unpack_from("!i", value, at)
            at += 4
            if length < 0:
                elements.append(None)
                continue
            if at + length > len(value):
                raise struct.error
            elements.append(_BINARY[element.name](value[at : at + length]))
            at += length
    except struct.error:
        raise PostgresError("22P03", f"expected a binary array of {element.name}, was one that is cut off") from None
    return elements


def _unpacked(form: str, value: bytes, name: str) -> tuple[int | float, ...]:
    try:
        return struct.unpack(form, value)
    except struct.error:
        size = struct.calcsize(form)
        raise PostgresError("22P03", f"expected {size} bytes for a binary {name}, was {len(value)}") from None


def _integer(form: str, name: str):  # type: ignore[no-untyped-def]
    return lambda value: str(_unpacked(form, value, name)[0])


def _float(form: str, name: str):  # type: ignore[no-untyped-def]
    return lambda value: repr(_unpacked(form, value, name)[0])


def _boolean(value: bytes) -> str:
    return "true" if _unpacked("!b", value, "bool")[0] else "false"


def _date(value: bytes) -> str:
    days = int(_unpacked("!i", value, "date")[0])
    try:
        return date.fromordinal(days + _POSTGRES_EPOCH.toordinal()).isoformat()
    except (ValueError, OverflowError):
        raise _outside("date") from None


def _timestamp(value: bytes) -> str:
    micros = int(_unpacked("!q", value, "timestamp")[0])
    try:
        return (_POSTGRES_EPOCH + timedelta(microseconds=micros)).isoformat(" ")
    except OverflowError:
        raise _outside("timestamp") from None


def _time(value: bytes) -> str:
    micros = int(_unpacked("!q", value, "time")[0])
    if not 0 <= micros < 86_400_000_000:
        raise _outside("time")
    return (_POSTGRES_EPOCH + timedelta(microseconds=micros)).time().isoformat()


def _interval(value: bytes) -> str:
    micros, days, months = _unpacked("!qii", value, "interval")
    return f"{months} months {days} days {micros} microseconds"


def _numeric(value: bytes) -> str:
    """Return the text of a binary numeric, whose digits have the base 10,000.

    The place value of the first digit is ``10000**weight``; that of each later digit is a ten-thousandth of the
    previous place value.
    """
    if len(value) < 8:
        raise PostgresError("22P03", f"expected 8 bytes or more for a binary numeric, was {len(value)}")
    count, weight, sign, scale = struct.unpack_from("!HhHH", value)
    if sign in _SPECIAL_NUMERIC:
        return _SPECIAL_NUMERIC[sign]
    digits = _unpacked(f"!{count}H", value[8:], "numeric")
    if weight > 1_000 or weight < -1_000 or scale > 4_000 or any(digit > 9_999 for digit in digits):
        raise _outside("numeric")
    places = {weight - number: int(digit) for number, digit in enumerate(digits)}
    whole = "".join(f"{places.get(place, 0):04d}" for place in range(max(weight, 0), -1, -1)).lstrip("0") or "0"
    fraction = "".join(f"{places.get(place, 0):04d}" for place in range(-1, -1 - -(-scale // _DECIMALS_PER_DIGIT), -1))[
        :scale
    ]
    return ("-" if sign else "") + whole + (f".{fraction}" if fraction else "")


def _uuid(value: bytes) -> str:
    if len(value) != 16:
        raise PostgresError("22P03", f"expected 16 bytes for a binary uuid, was {len(value)}")
    return value.hex()


def _jsonb(value: bytes) -> str:
    return _utf8(value[1:])


def _outside(name: str) -> PostgresError:
    return PostgresError("22008", f"expected a {name} in the supported range, was one outside it")


_BINARY: Final = {
    **dict.fromkeys(
        ("text", "varchar", "bpchar", "name", "char", "json", "unknown", "regclass", "regtype", "regproc"), _utf8
    ),
    "bool": _boolean,
    "int2": _integer("!h", "int2"),
    "int4": _integer("!i", "int4"),
    "int8": _integer("!q", "int8"),
    "oid": _integer("!I", "oid"),
    "float4": _float("!f", "float4"),
    "float8": _float("!d", "float8"),
    "numeric": _numeric,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": lambda value: _timestamp(value) + "+00",
    "interval": _interval,
    "bytea": lambda value: "\\x" + value.hex(),
    "uuid": _uuid,
    "jsonb": _jsonb,
}
"""Type → function that decodes a binary value to text."""
