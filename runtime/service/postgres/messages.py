"""Messages of the PostgreSQL protocol, version 3: a bounded reader of the client's, and writers of the server's.

Source: PostgreSQL's documentation, *Frontend/Backend Protocol*, *Message Formats*.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from runtime.service.postgres.errors import PostgresError, UnreadableMessageError

__all__ = [
    "BIND_COMPLETE",
    "CANCEL_REQUEST",
    "CLOSE_COMPLETE",
    "COPY_DONE",
    "EMPTY_QUERY",
    "GSS_REQUEST",
    "NO_DATA",
    "PARSE_COMPLETE",
    "PORTAL_SUSPENDED",
    "PROTOCOL_3",
    "TLS_REQUEST",
    "Field",
    "Fields",
    "MessageBuffer",
    "StartupBuffer",
    "authentication",
    "backend_key",
    "command_complete",
    "copy_data",
    "copy_out",
    "error_response",
    "negotiate_version",
    "notice_response",
    "parameter_description",
    "parameter_status",
    "ready_for_query",
    "row_description",
]

PROTOCOL_3: Final = 3 << 16
CANCEL_REQUEST: Final = 80877102
TLS_REQUEST: Final = 80877103
GSS_REQUEST: Final = 80877104

PARSE_COMPLETE: Final = b"1\x00\x00\x00\x04"
BIND_COMPLETE: Final = b"2\x00\x00\x00\x04"
CLOSE_COMPLETE: Final = b"3\x00\x00\x00\x04"
NO_DATA: Final = b"n\x00\x00\x00\x04"
PORTAL_SUSPENDED: Final = b"s\x00\x00\x00\x04"
EMPTY_QUERY: Final = b"I\x00\x00\x00\x04"
COPY_DONE: Final = b"c\x00\x00\x00\x04"

_LONGEST_STARTUP: Final = 10_000
"""As in PostgreSQL."""
_LEAST_STARTUP: Final = 8
_KNOWN: Final = frozenset(b"BCDEFHPQSXcdfp")
"""First bytes of messages that a client may send once it is let in; F is one that is refused with an error."""


class Field(msgspec.Struct, frozen=True):
    """A column of an answer."""

    name: str
    oid: int
    """Of its type."""
    size: int = -1
    """Bytes of a value, -1 where they vary."""
    modifier: int = -1
    """Precision and scale of a type that has them."""


class StartupBuffer:
    """The bytes of a client before it has said which protocol it speaks: messages without a first byte."""

    def __init__(self) -> None:
        self._data = b""

    def __len__(self) -> int:
        """Bytes that are held."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._data += data

    def next(self) -> tuple[int, bytes] | None:
        """The code and the content of the next message, None while it is not all there."""
        if len(self._data) < 4:
            return None
        (length,) = struct.unpack_from("!i", self._data)
        if not _LEAST_STARTUP <= length <= _LONGEST_STARTUP:
            raise UnreadableMessageError(
                f"expected a first message of {_LEAST_STARTUP} to {_LONGEST_STARTUP} bytes, was one of {length}"
            )
        if len(self._data) < length:
            return None
        (code,) = struct.unpack_from("!i", self._data, 4)
        content, self._data = self._data[8:length], self._data[length:]
        return code, content

    def rest(self) -> bytes:
        """What lies behind the last message."""
        data, self._data = self._data, b""
        return data


class MessageBuffer:
    """The bytes of a client that was heard out; holds at most one message and what came with it."""

    def __init__(self, longest_bytes: int) -> None:
        self.longest_bytes = longest_bytes
        """A longer message is refused."""
        self._data = bytearray()
        self._begin = 0

    def __len__(self) -> int:
        """Bytes that are held."""
        return len(self._data) - self._begin

    def add(self, data: bytes) -> None:
        """Take bytes of the client."""
        if self._begin:
            del self._data[: self._begin]
            self._begin = 0
        self._data += data

    def next(self) -> tuple[bytes, bytes] | None:
        """First byte and content of the next message, None while it is not all there.

        Raises `UnreadableMessageError` as soon as it is known that there will be none.
        """
        if len(self) < 5:
            return None
        code, length = struct.unpack_from("!Bi", self._data, self._begin)
        if code not in _KNOWN:
            raise UnreadableMessageError(f"expected a message of the protocol, was one that begins with {code:#04x}")
        if length < 4:
            raise UnreadableMessageError(f"expected a message of at least 4 bytes, was one of {length}")
        if length > self.longest_bytes:
            raise UnreadableMessageError(
                f"expected a message of at most {self.longest_bytes} bytes, was one of {length}"
            )
        end = self._begin + 1 + length
        if len(self._data) < end:
            return None
        content = bytes(self._data[self._begin + 5 : end])
        self._begin = end
        return bytes((code,)), content


class Fields:
    """Reads the fields of a message one after another; raises `UnreadableMessageError` for what is not there."""

    def __init__(self, content: bytes, what: str) -> None:
        self._content, self._what, self._at = content, what, 0

    def text(self) -> str:
        """A string that ends with a zero byte."""
        end = self._content.find(b"\0", self._at)
        if end < 0:
            raise self._error("a string that ends")
        raw, self._at = self._content[self._at : end], end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise PostgresError("22021", f"expected text in UTF-8, was the byte {raw[error.start]:#04x}") from None

    def byte(self) -> bytes:
        """One byte."""
        return self.raw(1)

    def int16(self) -> int:
        """A number of two bytes."""
        return int(struct.unpack("!h", self.raw(2))[0])

    def int32(self) -> int:
        """A number of four bytes."""
        return int(struct.unpack("!i", self.raw(4))[0])

    def count(self, each_bytes: int) -> int:
        """How many of something follow; not more than there are bytes for."""
        entries = self.int16() & 0xFFFF
        if entries * each_bytes > len(self._content) - self._at:
            raise self._error(f"{entries} entries")
        return entries

    def value(self) -> bytes | None:
        """A length and so many bytes; None for the length -1."""
        length = self.int32()
        if length == -1:
            return None
        if length < 0:
            raise self._error("a length")
        return self.raw(length)

    def raw(self, size: int) -> bytes:
        """So many bytes."""
        if size > len(self._content) - self._at:
            raise self._error(f"{size} bytes more")
        self._at += size
        return self._content[self._at - size : self._at]

    def end(self) -> None:
        """There is nothing more."""
        if self._at != len(self._content):
            raise self._error("its end")

    def _error(self, expected: str) -> UnreadableMessageError:
        size = len(self._content)
        return UnreadableMessageError(f"expected {expected} in {self._what}, was byte {self._at} of {size}")


def _message(code: bytes, content: bytes) -> bytes:
    return code + struct.pack("!i", len(content) + 4) + content


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\0", b"?") + b"\0"


def authentication(code: int, content: bytes = b"") -> bytes:
    """What the client is asked for; 0: it is let in."""
    return _message(b"R", struct.pack("!i", code) + content)


def negotiate_version(unknown: Sequence[str]) -> bytes:
    """Version 3.0 is spoken, without these options of the protocol."""
    return _message(b"v", struct.pack("!ii", PROTOCOL_3, len(unknown)) + b"".join(map(_text, unknown)))


def parameter_status(name: str, value: str) -> bytes:
    """A setting and its value."""
    return _message(b"S", _text(name) + _text(value))


def backend_key(number: int, secret: int) -> bytes:
    """What a request to cancel has to name."""
    return _message(b"K", struct.pack("!iI", number, secret))


def ready_for_query(status: bytes) -> bytes:
    """Idle (I), in a transaction block (T), or in one that has failed (E)."""
    return _message(b"Z", status)


def command_complete(tag: str) -> bytes:
    """What was done."""
    return _message(b"C", _text(tag))


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    """The columns of the rows to come, text (0) or binary (1)."""
    parts = [struct.pack("!h", len(fields))]
    for field, form in zip(fields, formats, strict=True):
        described = struct.pack("!ihihih", 0, 0, field.oid, field.size, field.modifier, form)
        parts += [_text(field.name), described]
    return _message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return _message(b"t", struct.pack(f"!h{len(oids)}i", len(oids), *oids))


def copy_out(columns: int, *, is_binary: bool) -> bytes:
    """Copied data follow."""
    form = int(is_binary)
    return _message(b"H", struct.pack(f"!bh{columns}h", form, columns, *[form] * columns))


def copy_data(content: bytes) -> bytes:
    """A piece of copied data that is no row."""
    return _message(b"d", content)


def error_response(error: PostgresError) -> bytes:
    """An error."""
    return _reported(b"E", error.severity, error.sqlstate, str(error), _details(error))


def notice_response(message: str, sqlstate: str = "01000", *, severity: str = "WARNING", hint: str = "") -> bytes:
    """Something that the user should know."""
    return _reported(b"N", severity, sqlstate, message, {"H": hint} if hint else {})


def _details(error: PostgresError) -> dict[str, str]:
    details = {"D": error.detail, "H": error.hint, "P": str(error.position) if error.position else ""}
    return {code: text for code, text in details.items() if text}


def _reported(code: bytes, severity: str, sqlstate: str, message: str, details: Mapping[str, str]) -> bytes:
    fields = {"S": severity, "V": severity, "C": sqlstate, "M": message, **details}
    return _message(code, b"".join(name.encode() + _text(text) for name, text in fields.items()) + b"\0")
