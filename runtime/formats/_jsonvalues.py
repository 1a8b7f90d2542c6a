"""One bad line of JSON: which fields are at fault, and why."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from runtime.formats._jsonreader import path_of, tree_of
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
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)"
    r"([ T]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?"
)
_UNIT_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_LITERALS: Final = (b"NaN", b"Inf")
"""What Arrow's reader takes for numbers although JSON has none of them."""


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a line."""

    field: Field | None
    """The field at fault, None for the line as a whole."""
    reason: str
    """What was there."""
    certain: bool
    """Whether Arrow's reader refuses it for sure; else it must be asked."""


class LineJudge:
    """Looks at a single line in Python; asked only about lines that stand near one that the reader refused.

    What it finds to be good may still be refused by the reader, which is the judge of last resort.
    """

    def __init__(self, fields: Iterable[Field]) -> None:
        self._fields = tuple(fields)
        self._paths = [path_of(field) for field in self._fields]
        tree = tree_of(self._fields)
        self._decoder = msgspec.json.Decoder(_record(tree))
        self._ways: list[tuple[str, ...]] = [()] * len(self._fields)
        self._note_ways(tree, ())

    def faults(self, line: bytes) -> list[Fault]:
        """All that can be seen to be wrong with a line; empty if it seems good."""
        try:
            record = self._decoder.decode(line)
        except msgspec.ValidationError as error:
            return self._misplaced(str(error))
        except (msgspec.DecodeError, RecursionError) as error:
            certain = not any(literal in line for literal in _LITERALS) and not isinstance(error, RecursionError)
            return [Fault(None, f"no JSON: {error}", certain)]
        faults = []
        for field, way in zip(self._fields, self._ways, strict=True):
            value = record
            for name in way:
                value = getattr(value, name)
                if value is None:
                    break
            token = b"" if value is None else bytes(value)
            if token in (b"", b"null"):
                if not field.nullable:
                    faults.append(Fault(field, "null" if token else "missing", certain=True))
            elif reason := _reason(field.parser.arrow_type, token):
                certain = not _is_doubtful(field.parser.arrow_type) or _kind(token) not in ("string", "number")
                faults.append(Fault(field, f"{reason}: {token[:64].decode(errors='replace')}", certain))
        return faults

    def _misplaced(self, message: str) -> list[Fault]:
        """Fields below something that is no object; all of them, if it is not clear which."""
        text, _, where = message.partition(" - at `$.")
        below = where.removesuffix("`")
        fields = [f for f, path in zip(self._fields, self._paths, strict=True) if ".".join(path[:-1]).startswith(below)]
        if not where or not fields:
            return [Fault(None, text, certain=False)]
        return [Fault(field, f"{text} at {below}", certain=False) for field in fields]

    def _note_ways(self, tree: dict[str, Any], way: tuple[str, ...]) -> None:
        for i, node in enumerate(tree.values()):
            if isinstance(node, dict):
                self._note_ways(node, (*way, f"f{i}"))
            else:
                self._ways[node] = (*way, f"f{i}")


def _record(tree: dict[str, Any]) -> Any:
    """A type that keeps the text of each field's value and skips the rest."""
    fields: list[tuple[str, Any, Any]] = [
        (f"f{i}", _record(node) | None, None) if isinstance(node, dict) else (f"f{i}", msgspec.Raw, msgspec.Raw(b""))
        for i, node in enumerate(tree.values())
    ]
    return msgspec.defstruct("Record", fields, rename={f"f{i}": key for i, key in enumerate(tree)})


def _kind(token: bytes) -> str:
    return _KINDS.get(token[0], "number")


def _is_doubtful(arrow_type: Any) -> bool:
    """Whether the rules of the type are Arrow's own, and only approximated here."""
    is_plain = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type)
    return not is_plain and not pa.types.is_string(arrow_type)


def _reason(arrow_type: Any, token: bytes) -> str:
    """Why a token that is not null is no value of a type; empty if it seems to be one."""
    kind = _kind(token)
    if pa.types.is_integer(arrow_type):
        return _integer_reason(arrow_type, token) if kind == "number" else f"a {kind}"
    if pa.types.is_floating(arrow_type):
        if kind != "number":
            return f"a {kind}"
        largest = float(np.finfo(arrow_type.to_pandas_dtype()).max)
        return "out of range" if not math.isfinite(float(token)) or abs(float(token)) > largest else ""
    if pa.types.is_boolean(arrow_type):
        return "" if kind == "boolean" else f"a {kind}"
    if pa.types.is_decimal(arrow_type):
        return _decimal_reason(arrow_type, token) if kind in ("number", "string") else f"a {kind}"
    if pa.types.is_nested(arrow_type):
        return _nested_reason(arrow_type, token, kind)
    if kind != "string":
        return f"a {kind}"
    return "" if pa.types.is_string(arrow_type) else _time_reason(arrow_type, msgspec.json.decode(token, type=str))


def _integer_reason(arrow_type: Any, token: bytes) -> str:
    if not _WHOLE.fullmatch(token):
        return "no whole number"
    bounds = np.iinfo(arrow_type.to_pandas_dtype())
    if token.startswith(b"-") and bounds.min == 0:
        return "negative"
    return "" if len(token) < 40 and bounds.min <= int(token) <= bounds.max else "out of range"


def _decimal_reason(arrow_type: Any, token: bytes) -> str:
    text = msgspec.json.decode(token, type=str) if token.startswith(b'"') else token.decode()
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except (InvalidOperation, ValueError):
        return "no decimal"
    if not isinstance(exponent, int):
        return "no decimal"
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if digits.count(0) < len(digits) and -exponent - zeros > arrow_type.scale:
        return f"more than {arrow_type.scale} digits behind the point"
    whole = max(len(digits) + exponent, 0)
    return "out of range" if whole > arrow_type.precision - arrow_type.scale else ""


def _nested_reason(arrow_type: Any, token: bytes, kind: str) -> str:
    if pa.types.is_list(arrow_type):
        if kind != "array":
            return f"a {kind}"
        parts = [(arrow_type.value_type, item) for item in msgspec.json.decode(token, type=list[msgspec.Raw])]
    else:
        if kind != "object":
            return f"a {kind}"
        members = msgspec.json.decode(token, type=dict[str, msgspec.Raw])
        types = [arrow_type.field(i) for i in range(arrow_type.num_fields)]
        parts = [(member.type, members[member.name]) for member in types if member.name in members]
    reasons = (_reason(type_, bytes(part)) for type_, part in parts if bytes(part) != b"null")
    return next((f"{reason} in it" for reason in reasons if reason), "")


def _time_reason(arrow_type: Any, text: str) -> str:
    is_date = pa.types.is_date(arrow_type)
    matched = _TIMESTAMP.fullmatch(text)
    if matched is None or (is_date and len(text) != len("2000-01-01")):
        return "no date" if is_date else "no timestamp"
    try:
        date.fromisoformat(matched[1])
    except ValueError:
        return "no such day"
    if is_date or matched[6] is None:
        return ""
    return "a finer unit" if len(matched[6]) - 1 > _UNIT_DIGITS[arrow_type.unit] else ""
