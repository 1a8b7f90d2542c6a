"""Judge of one bad line of JSON: finds the fields that are at fault, and the reasons."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from runtime.formats.jsonlines.reader import path_of, tree_of
from runtime.formats.schema import Field

__all__ = ["Fault", "LineJudge"]

_KINDS: Final = {
    ord('"'): "string",
    ord("{"): "object",
    ord("["): "array",
    ord("t"): "boolean",
    ord("f"): "boolean",
    ord("n"): "null",
}
_WHOLE: Final = re.compile(rb"-?\d+")
_Test = Callable[[bytes], str]
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)"
    r"([ T]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?"
)
_UNIT_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_LITERALS: Final = (b"NaN", b"Inf")
"""Texts that Arrow's reader accepts as numbers although they are not JSON."""


class Fault(msgspec.Struct, frozen=True):
    """Fault of a line."""

    field: Field | None
    """Field at fault, None for the line as a whole."""
    reason: str
    """Part of an error message after "was": what is wrong and, if a value is wrong, its first bytes."""
    certain: bool
    """True if Arrow's reader surely refuses the value; False if the reader must be called to find out."""


class LineJudge:
    """Judge of a single line of JSON, written in Python; used only for lines near one that Arrow's reader has refused.

    If the judge finds no fault in a line, Arrow's reader may still refuse the line; then the line is bad.
    """

    def __init__(self, fields: Iterable[Field]) -> None:
        self._fields = tuple(fields)
        self._paths = [path_of(field) for field in self._fields]
        tree = tree_of(self._fields)
        self._decoder = msgspec.json.Decoder(_record(tree))
        ways = dict(_ways(tree))
        types = [field.parser.arrow_type for field in self._fields]
        self._values = [
            (field, ways[i], _test_of(types[i]), _is_doubtful(types[i])) for i, field in enumerate(self._fields)
        ]

    def faults(self, line: bytes) -> list[Fault]:
        """Return all visible faults of a line; an empty list if it seems good."""
        try:
            record = self._decoder.decode(line)
        except msgspec.ValidationError as error:
            return self._misplaced(str(error))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            certain = not any(literal in line for literal in _LITERALS) and not isinstance(error, RecursionError)
            return [Fault(None, f"not JSON: {error}", certain)]
        faults = []
        for field, way, test, is_doubtful in self._values:
            value = record
            for name in way:
                value = getattr(value, name)
                if value is None:
                    break
            token = b"" if value is None else bytes(value)
            if token in (b"", b"null"):
                if not field.nullable:
                    faults.append(Fault(field, "missing or null", certain=True))
            elif reason := test(token):
                certain = not is_doubtful or reason == _misfit(_kind(token))
                faults.append(Fault(field, f"{reason}: {token[:64].decode(errors='replace')}", certain))
        return faults

    def _misplaced(self, message: str) -> list[Fault]:
        """Return the faults of a line that has a value of another kind where an object is expected.

        The faults are those of all fields that the object should contain. If no such field is known, the only fault is
        that of the line as a whole.
        """
        text, _, where = message.partition(" - at `$.")
        below = where.removesuffix("`")
        fields = [f for f, path in zip(self._fields, self._paths, strict=True) if ".".join(path[:-1]).startswith(below)]
        if not where or not fields:
            return [Fault(None, text, certain=False)]
        return [Fault(field, f"{text} at {below}", certain=False) for field in fields]


def _ways(tree: dict[str, Any], way: tuple[str, ...] = ()) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the number of each field, with the names of the attributes that lead to its value in a `_record`."""
    for i, node in enumerate(tree.values()):
        if isinstance(node, dict):
            yield from _ways(node, (*way, f"f{i}"))
        else:
            yield node, (*way, f"f{i}")


def _record(tree: dict[str, Any]) -> Any:
    """Return a type that keeps the text of each field's value and skips the rest."""
    fields: list[tuple[str, Any, Any]] = [
        (f"f{i}", _record(node) | None, None) if isinstance(node, dict) else (f"f{i}", msgspec.Raw, msgspec.Raw(b""))
        for i, node in enumerate(tree.values())
    ]
    return msgspec.defstruct("Record", fields, rename={f"f{i}": key for i, key in enumerate(tree)})


def _kind(token: bytes) -> str:
    return _KINDS.get(token[0], "number")


def _is_doubtful(arrow_type: Any) -> bool:
    """Return True if Arrow has rules of its own for values of the type, which the tests of this module approximate."""
    return not any(is_type(arrow_type) for is_type in (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string))


def _test_of(arrow_type: Any) -> _Test:
    """Return a function that returns why a token is not a value of the type, or "" if it seems to be one."""
    if pa.types.is_integer(arrow_type):
        bounds = np.iinfo(arrow_type.to_pandas_dtype())
        return _of_kind("number", partial(_integer_reason, int(bounds.min), int(bounds.max)))
    if pa.types.is_floating(arrow_type):
        return _of_kind("number", partial(_float_reason, float(np.finfo(arrow_type.to_pandas_dtype()).max)))
    if pa.types.is_boolean(arrow_type):
        return _of_kind("boolean", _no_reason)
    if pa.types.is_string(arrow_type):
        return _of_kind("string", _no_reason)
    if pa.types.is_decimal(arrow_type):
        return _of_kind("number or string", partial(_decimal_reason, arrow_type.precision, arrow_type.scale))
    if pa.types.is_date(arrow_type):
        return _of_kind("string", _date_reason)
    if pa.types.is_timestamp(arrow_type):
        return _of_kind("string", partial(_timestamp_reason, _UNIT_DIGITS[arrow_type.unit]))
    if pa.types.is_list(arrow_type):
        return _of_kind("array", partial(_array_reason, _test_of(arrow_type.value_type)))
    members = [arrow_type.field(i) for i in range(arrow_type.num_fields)]
    return _of_kind("object", partial(_object_reason, {member.name: _test_of(member.type) for member in members}))


def _of_kind(wanted: str, test: _Test) -> _Test:
    def of_kind(token: bytes) -> str:
        kind = _kind(token)
        return test(token) if kind in wanted else _misfit(kind)

    return of_kind


def _misfit(kind: str) -> str:
    return f"{'an' if kind[0] in 'ao' else 'a'} {kind}"


def _no_reason(token: bytes) -> str:
    del token
    return ""


def _integer_reason(lowest: int, highest: int, token: bytes) -> str:
    if not _WHOLE.fullmatch(token):
        return "not a whole number"
    if token.startswith(b"-") and lowest == 0:
        return "negative"
    return "" if len(token) < 40 and lowest <= int(token) <= highest else "out of range"


def _float_reason(largest: float, token: bytes) -> str:
    return "" if abs(float(token)) <= largest else "out of range"


def _decimal_reason(precision: int, scale: int, token: bytes) -> str:
    try:
        _, digits, exponent = Decimal(_text(token)).as_tuple()
    except (InvalidOperation, ValueError):
        return "not a decimal"
    if not isinstance(exponent, int):
        return "not a decimal"
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if any(digits) and -exponent - zeros > scale:
        return f"more than {scale} digits after the point"
    return "out of range" if len(digits) + exponent > precision - scale else ""


def _date_reason(token: bytes) -> str:
    text = _text(token)
    return "not a date" if len(text) != len("2000-01-01") else _day_reason(text)


def _day_reason(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        return "no such day"
    return ""


def _timestamp_reason(most_digits: int, token: bytes) -> str:
    matched = _TIMESTAMP.fullmatch(_text(token))
    if matched is None:
        return "not a timestamp"
    digits = len(matched[6] or ".") - 1
    return "a finer unit" if digits > most_digits else _day_reason(matched[1])


def _array_reason(test: _Test, token: bytes) -> str:
    items = map(bytes, msgspec.json.decode(token, type=list[msgspec.Raw]))
    return next((f"{reason} in it" for item in items if item != b"null" and (reason := test(item))), "")


def _object_reason(tests: dict[str, _Test], token: bytes) -> str:
    members = msgspec.json.decode(token, type=dict[str, msgspec.Raw])
    for name, test in tests.items():
        member = bytes(members.get(name, b"null"))
        if member != b"null" and (reason := test(member)):
            return f"{reason} in it"
    return ""


def _text(token: bytes) -> str:
    return msgspec.json.decode(token, type=str) if token.startswith(b'"') else token.decode()
