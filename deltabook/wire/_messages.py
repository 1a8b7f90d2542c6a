"""Messages with fixed fields, as in ITCH and OUCH: tables of their fields, an encoder and a decoder."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from deltabook.wire.errors import WireError

__all__ = [
    "DecodedMessage",
    "Kind",
    "MessageField",
    "MessageTable",
    "MessageType",
    "Value",
    "alpha",
    "decode",
    "encode",
    "number",
    "table",
]

Value = int | str

_LETTERS: Final = {1: "B", 2: "H", 4: "I", 6: "6s", 8: "Q"}
"""Format in `struct` of an unsigned integer, by its width; an integer of six bytes is packed as bytes."""


class Kind(StrEnum):
    """Type of a field's bytes."""

    ALPHA = "alpha"
    UINT = "uint"
    SIGNED = "signed"
    PRICE4 = "price4"
    PRICE8 = "price8"
    TIMESTAMP = "timestamp"


_KINDS: Final = {"u": Kind.UINT, "p4": Kind.PRICE4, "p8": Kind.PRICE8, "t": Kind.TIMESTAMP}
"""Kind of an integer, by its notation in a table."""


class MessageField(msgspec.Struct, frozen=True):
    """One field of a message."""

    name: str
    """Name of the field; the same name means the same in every message."""
    offset: int
    """Offset of the field in bytes; the message's type byte is at 0."""
    width: int
    """Width of the field in bytes."""
    kind: Kind
    """Type of the field's bytes."""


class MessageType(msgspec.Struct, frozen=True):
    """One type of message."""

    type: str
    """Letter of the message."""
    name: str
    """Name of the message in the specification."""
    length: int
    """Length in bytes without a length prefix, including the type byte and, for a message with options, the two bytes
    of the appendage's length.
    """
    fields: tuple[MessageField, ...]
    """Fields except the type byte, in order and without gaps."""
    has_options: bool
    """True if an appendage of options follows the message (OUCH 5.0)."""
    layout: str
    """Type byte and fields as a `struct` format."""


class DecodedMessage(msgspec.Struct, frozen=True):
    """A message as values."""

    type: str
    """Letter of the message."""
    fields: dict[str, Value]
    """Fields by name, in order; alphas are without trailing blanks."""
    options: dict[int, Value] = {}
    """Options of the appendage, by tag (OUCH 5.0)."""


MessageTable = Mapping[str, MessageType]
"""Messages of one direction, by letter."""


def table(text: str, *, name_end: int = 28, common: str = "") -> MessageTable:
    """Parse a table of messages: each line has a letter, a name up to column ``name_end``, and the fields.

    A field is ``name:width`` for an alpha. An integer is ``name:uN`` with N bytes, ``name:p4`` and ``name:p8`` for
    prices, and ``name:t6`` for a time. ``+`` at the end means that options follow, after the two bytes of their length.
    The fields in ``common`` are the first fields of every message.
    """
    messages = [
        _message(line[0], line[3:name_end].strip(), common + line[name_end:]) for line in text.strip().splitlines()
    ]
    return {message.type: message for message in messages}


def _message(letter: str, name: str, text: str) -> MessageType:
    fields: list[MessageField] = []
    end = 1
    words = text.split()
    has_options = bool(words) and words[-1] == "+"
    for word in words[:-1] if has_options else words:
        field, _, width = word.partition(":")
        kind = Kind.ALPHA if width.isdigit() else _KINDS.get(width) or _KINDS[width[0]]
        fields.append(MessageField(field, end, int(width.lstrip("upt")), kind))
        end += fields[-1].width
    layout = ">c" + "".join(f"{f.width}s" if f.kind is Kind.ALPHA else _LETTERS[f.width] for f in fields)
    return MessageType(letter, name, end + 2 * has_options, tuple(fields), has_options, layout)


def encode(messages: MessageTable, type_: str, values: Mapping[str, Value]) -> bytes:
    """Return a message as bytes.

    Raise `WireError` for an unknown type, for missing and unknown fields, and for values that do not fit their fields.
    """
    message = messages.get(type_)
    if message is None:
        raise WireError(f"expected a type out of {' '.join(messages)}, was {type_!r}")
    packed: list[int | bytes] = [type_.encode("ascii")]
    for field in message.fields:
        if field.name not in values:
            raise WireError(f"expected {field.name} in a message {type_}, was not given")
        value = values[field.name]
        if field.kind is Kind.ALPHA:
            packed.append(alpha(field, value, type_))
        elif field.kind is Kind.TIMESTAMP:
            packed.append(number(field, value, type_).to_bytes(field.width))
        else:
            packed.append(number(field, value, type_))
    if len(values) != len(message.fields):
        unknown = ", ".join(sorted(set(values) - {field.name for field in message.fields}))
        raise WireError(f"expected fields of a message {type_}, was {unknown}")
    return struct.pack(message.layout, *packed)


def decode(messages: MessageTable, data: bytes) -> tuple[MessageType, dict[str, Value]]:
    """Return the type of the message at the beginning of ``data``, and the values of its fields.

    Raise `WireError` for an unknown type or another length. Bytes after the fields are accepted only if options may
    follow.
    """
    letter = data[:1].decode("latin-1")
    message = messages.get(letter)
    if message is None:
        raise WireError(f"expected a type out of {' '.join(messages)}, was {letter!r} in {data[:64]!r}")
    if len(data) < message.length or (len(data) > message.length and not message.has_options):
        raise WireError(f"expected {message.length} bytes of a message {letter}, was {len(data)} in {data[:64]!r}")
    unpacked = struct.unpack_from(message.layout, data)[1:]
    return message, {field.name: _value(field, raw) for field, raw in zip(message.fields, unpacked, strict=True)}


def _value(field: MessageField, raw: Any) -> Value:
    """Return the value of a field, given what `struct` has unpacked."""
    if field.kind is Kind.ALPHA:
        return str(raw, "latin-1").rstrip(" ")
    return int.from_bytes(raw) if field.kind is Kind.TIMESTAMP else int(raw)


def number(field: MessageField, value: Value, where: str) -> int:
    """Return a value if it fits an integer field, else raise `WireError`."""
    bits = 8 * field.width
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if field.kind is Kind.SIGNED else (0, (1 << bits) - 1)
    if isinstance(value, str) or not low <= value <= high:
        raise WireError(f"expected an integer of {low} to {high} for {field.name} of {where}, was {value!r}")
    return value


def alpha(field: MessageField, value: Value, where: str) -> bytes:
    """Return the padded bytes of an alpha; raise `WireError` unless the value is ASCII text that fits."""
    if not isinstance(value, str) or not value.isascii() or len(value) > field.width:
        raise WireError(f"expected at most {field.width} ASCII characters for {field.name} of {where}, was {value!r}")
    return value.encode("ascii").ljust(field.width)
