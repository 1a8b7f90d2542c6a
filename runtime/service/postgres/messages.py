"""Messages of the PostgreSQL protocol, version 3: bounded readers of the client's messages, writers of the server's.

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
"""Greatest length of a startup message in bytes, as in PostgreSQL."""
_LEAST_STARTUP: Final = 8
_KNOWN: Final = frozenset(b"BCDEFHPQSXcdfp")
"""First bytes of messages that an authenticated client may send; F is refused with an error."""


class Field(msgspec.Struct, frozen=True):
    """Column of an answer."""

    name: str
    """Name of the column."""
    oid: int
    """OID of the column's type."""
    size: int = -1
    """Size of a value in bytes, -1 if it varies."""
    modifier: int = -1
    """Precision and scale of a type that has them."""


class StartupBuffer:
    """Buffer of a client's messages up to the startup message; each message begins with its length."""

    def __init__(self) -> None:
        self._data = b""

    def __len__(self) -> int:
        """Return the number of buffered bytes."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Append bytes of the client."""
        self._data += data

    def next(self) -> tuple[int, bytes] | None:
        """Return code and content of the next message; None if it is incomplete.

        Raises `UnreadableMessageError` for an invalid length.
        """
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
        """Take the bytes after the last message."""
        data, self._data = self._data, b""
        return data


class MessageBuffer:
    """Buffer of a client's messages after the startup message; each message begins with a type byte."""

    def __init__(self, longest_bytes: int) -> None:
        self.longest_bytes = longest_bytes
        """Length in bytes above which a message is refused."""
        self._data = bytearray()
        self._begin = 0

    def __len__(self) -> int:
        """Return the number of buffered bytes."""
        return len(self._data) - self._begin

    def add(self, data: bytes) -> None:
        """Append bytes of the client."""
        if self._begin:
            del self._data[: self._begin]
            self._begin = 0
        self._data += data

    def next(self) -> tuple[bytes, bytes] | None:
        """Return first byte and content of the next message; None if it is incomplete.

        Raises `UnreadableMessageError` as soon as the message is known to be malformed.
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
    """Reader of the fields of a message, one after the other; raises `UnreadableMessageError` for a missing field."""

    def __init__(self, content: bytes, what: str) -> None:
        """Begin before the first field; ``what`` names the message in errors."""
        self._content, self._what, self._at = content, what, 0

    def text(self) -> str:
        """Read a string that ends with a zero byte; raise `PostgresError` if it has no end or is not in UTF-8."""
        end = self._content.find(b"\0", self._at)
        if end < 0:
            raise self._error("a string that ends")
        raw, self._at = self._content[self._at : end], end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise PostgresError("22021", f"expected text in UTF-8, was the byte {raw[error.start]:#04x}") from None

    def byte(self) -> bytes:
        """Read one byte."""
        return self.raw(1)

    def int16(self) -> int:
        """Read a number of two bytes."""
        return int(struct.unpack("!h", self.raw(2))[0])

    def int32(self) -> int:
        """Read a number of four bytes."""
        return int(struct.unpack("!i", self.raw(4))[0])

    def count(self, each_bytes: int) -> int:
        """Read a number of entries; raise an error if the rest has fewer than ``each_bytes`` for each of them."""
        entries = self.int16() & 0xFFFF
        if entries * each_bytes > len(self._content) - self._at:
            raise self._error(f"{entries} entries")
        return entries

    def value(self) -> bytes | None:
        """Read a length and a value of that many bytes; return None for the length -1."""
        length = self.int32()
        if length == -1:
            return None
        if length < 0:
            raise self._error("a length")
        return self.raw(length)

    def raw(self, size: int) -> bytes:
        """Read ``size`` bytes."""
        if size > len(self._content) - self._at:
            raise self._error(f"{size} bytes more")
        self._at += size
        return self._content[self._at - size : self._at]

    def end(self) -> None:
        """Raise an error if the message has further bytes."""
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
    """Return the authentication request of this code; code 0 means that the client is authenticated."""
    return _message(b"R", struct.pack("!i", code) + content)


def negotiate_version(unknown: Sequence[str]) -> bytes:
    """Return the message that offers version 3.0, without these options of the protocol."""
    return _message(b"v", struct.pack("!ii", PROTOCOL_3, len(unknown)) + b"".join(map(_text, unknown)))


def parameter_status(name: str, value: str) -> bytes:
    """Return the message with the value of a setting."""
    return _message(b"S", _text(name) + _text(value))


def backend_key(number: int, secret: int) -> bytes:
    """Return the message with the number and the secret that a cancel request must contain."""
    return _message(b"K", struct.pack("!iI", number, secret))


def ready_for_query(status: bytes) -> bytes:
    """Return the message with the status of the session: idle (I), in a transaction block (T), in a failed one (E)."""
    return _message(b"Z", status)


def command_complete(tag: str) -> bytes:
    """Return the message at the end of a command, with its tag."""
    return _message(b"C", _text(tag))


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    """Return the message with the columns of the following rows, in text (0) or binary (1) format."""
    parts = [struct.pack("!h", len(fields))]
    for field, form in zip(fields, formats, strict=True):
        described = struct.pack("!ihihih", 0, 0, field.oid, field.size, field.modifier, form)
        parts += [_text(field.name), described]
    return _message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """Return the message with the types of a statement's parameters."""
    return _message(b"t", struct.pack(f"!H{len(oids)}i", len(oids), *oids))


def copy_out(columns: int, *, is_binary: bool) -> bytes:
    """Return the message at the beginning of copied data."""
    form = int(is_binary)
    return _message(b"H", struct.pack(f"!bh{columns}h", form, columns, *[form] * columns))


def copy_data(content: bytes) -> bytes:
    """Return a message with a piece of copied data."""
    return _message(b"d", content)


def error_response(error: PostgresError) -> bytes:
    """Return the message of an error."""
    return _reported(b"E", error.severity, error.sqlstate, str(error), _details(error))


def notice_response(message: str, sqlstate: str = "01000", *, severity: str = "WARNING", hint: str = "") -> bytes:
    """Return the message of a notice for the user."""
    return _reported(b"N", severity, sqlstate, message, {"H": hint} if hint else {})


def _details(error: PostgresError) -> dict[str, str]:
    details = {"D": error.detail, "H": error.hint, "P": str(error.position) if error.position else ""}
    return {code: text for code, text in details.items() if text}


def _reported(code: bytes, severity: str, sqlstate: str, message: str, details: Mapping[str, str]) -> bytes:
    fields = {"S": severity, "V": severity, "C": sqlstate, "M": message, **details}
    return _message(code, b"".join(name.encode() + _text(text) for name, text in fields.items()) + b"\0")
