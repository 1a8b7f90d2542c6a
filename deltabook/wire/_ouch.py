"""Messages with fixed fields, as in both versions of OUCH: tables of their fields, an encoder and a decoder."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from deltabook.wire.errors import WireError

__all__ = ["DecodedOuch", "Kind", "MessageTable", "OuchField", "OuchMessage", "Value", "alpha", "number", "table"]

Value = int | str

_LETTERS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Kind(StrEnum):
    """Type of a field's bytes."""

    ALPHA = "alpha"
    UINT = "uint"
    SIGNED = "signed"


class OuchField(msgspec.Struct, frozen=True):
    """One field of a message."""

    name: str
    """Name of the field; the same name means the same in every message."""
    offset: int
    """Offset of the field in bytes; the message's type byte is at 0."""
    width: int
    """Width of the field in bytes."""
    kind: Kind
    """Type of the field's bytes."""

    @property
    def layout(self) -> str:
        """Letter of the field in a `struct` format."""
        if self.kind is Kind.ALPHA:
            return f"{self.width}s"
        letter = _LETTERS[self.width]
        return letter.lower() if self.kind is Kind.SIGNED else letter


class OuchMessage(msgspec.Struct, frozen=True):
    """One type of message."""

    type: str
    """Letter of the message."""
    name: str
    """Name of the message in the specification."""
    length: int
    """Length in bytes, including the type byte and, for a message with options, the two bytes of the appendage's
    length.
    """
    fields: tuple[OuchField, ...]
    """Fields except the type byte, in order and without gaps."""
    has_options: bool
    """True if an appendage of options follows the message."""

    @property
    def layout(self) -> str:
        """Type byte and fields as a `struct` format without the byte order."""
        return "c" + "".join(field.layout for field in self.fields)


class DecodedOuch(msgspec.Struct, frozen=True):
    """A message as values."""

    type: str
    """Letter of the message."""
    fields: dict[str, Value]
    """Fields by name, in order; alphas are without trailing blanks."""
    options: dict[int, Value] = {}
    """Options of the appendage, by tag (5.0)."""


MessageTable = Mapping[str, OuchMessage]
"""Messages of one direction, by letter."""


def table(text: str) -> MessageTable:
    """Parse a table of messages: each line has a letter, a name up to column 28, and the fields.

    A field is ``name:width`` for an alpha and ``name:uN`` for an integer of N bytes; ``+`` at the end means that
    options follow, after the two bytes of their length.
    """
    messages = [_message(line) for line in text.strip().splitlines()]
    return {message.type: message for message in messages}


def _message(line: str) -> OuchMessage:
    fields: list[OuchField] = []
    end = 1
    words = line[28:].split()
    has_options = bool(words) and words[-1] == "+"
    for word in words[:-1] if has_options else words:
        name, _, width = word.partition(":")
        kind = Kind.ALPHA if width.isdigit() else Kind.UINT
        fields.append(OuchField(name, end, int(width.lstrip("u")), kind))
        end += fields[-1].width
    return OuchMessage(line[0], line[3:28].strip(), end + 2 * has_options, tuple(fields), has_options)


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
        packed.append(alpha(field, value, type_) if field.kind is Kind.ALPHA else number(field, value, type_))
    if len(values) != len(message.fields):
        unknown = ", ".join(sorted(set(values) - {field.name for field in message.fields}))
        raise WireError(f"expected fields of a message {type_}, was {unknown}")
    return struct.pack(">" + message.layout, *packed)


def decode(messages: MessageTable, data: bytes) -> tuple[OuchMessage, dict[str, Value]]:
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
    unpacked = struct.unpack_from(">" + message.layout, data)[1:]
    return message, {
        field.name: value.decode("latin-1").rstrip(" ") if field.kind is Kind.ALPHA else value
        for field, value in zip(message.fields, unpacked, strict=True)
    }


def number(field: OuchField, value: Value, where: str) -> int:
    """Return a value if it fits an integer field, else raise `WireError`."""
    bits = 8 * field.width
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if field.kind is Kind.SIGNED else (0, (1 << bits) - 1)
    if isinstance(value, str) or not low <= value <= high:
        raise WireError(f"expected an integer of {low} to {high} for {field.name} of {where}, was {value!r}")
    return value


def alpha(field: OuchField, value: Value, where: str) -> bytes:
    """Return the padded bytes of an alpha; raise `WireError` unless the value is ASCII text that fits."""
    if not isinstance(value, str) or not value.isascii() or len(value) > field.width:
        raise WireError(f"expected at most {field.width} ASCII characters for {field.name} of {where}, was {value!r}")
    return value.encode("ascii").ljust(field.width)
