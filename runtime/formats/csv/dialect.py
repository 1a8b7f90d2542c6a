"""Dialect of comma-separated text: its delimiters, quotes and blanks."""

from __future__ import annotations

from typing import Final

import msgspec

from runtime.formats.csv.delimiters import QUOTE, is_bordered
from runtime.formats.errors import SchemaError

__all__ = ["CsvDialect"]

_LONGEST_DELIMITER: Final = 8
_ASCII: Final = 128


class CsvDialect(msgspec.Struct, frozen=True):
    """Notation of text with delimiters. Raises `SchemaError` for a dialect that cannot be read unambiguously."""

    tuple_delimiter: bytes = b"\n"
    """One to eight bytes; if it is ``\\n``, a ``\\r`` before it belongs to the delimiter."""
    field_delimiter: bytes = b","
    """One ASCII byte."""
    header: bool = False
    """True if the first tuple of the stream names the fields; it is skipped."""
    quoting: bool = False
    """True if a field may be in double quotes, with delimiters, line ends and doubled quotes inside. An opening quote
    is a field's first byte; a quote elsewhere in an unquoted text is an ordinary character. Text after the closing
    quote is part of the value too.
    """
    escape: bytes = b""
    """With quoting, one ASCII byte that makes the next one ordinary, in and outside of quotes; none if empty."""
    trim: bool = False
    """True to strip blanks and tabs around a value, inside quotes too. A quote after blanks is an ordinary byte."""

    def __post_init__(self) -> None:
        end, field, escape = self.tuple_delimiter, self.field_delimiter, self.escape
        if not 1 <= len(end) <= _LONGEST_DELIMITER:
            raise SchemaError(f"expected a tuple delimiter of 1 to {_LONGEST_DELIMITER} bytes, was {end!r}")
        if not _is_text(end):
            raise SchemaError(f"expected a tuple delimiter in UTF-8, was {end!r}")
        if len(field) != 1 or field[0] >= _ASCII:
            raise SchemaError(f"expected a field delimiter of one ASCII byte, was {field!r}")
        if field in end or field in b"\r\n":
            raise SchemaError(f"expected a field delimiter of its own, was {field!r} beside {end!r}")
        if escape and not self.quoting:
            raise SchemaError(f"expected an escape only with quoting, was {escape!r}")
        if len(escape) > 1 or (escape and escape[0] >= _ASCII):
            raise SchemaError(f"expected an escape of one ASCII byte, was {escape!r}")
        if self.quoting:
            special = (QUOTE, escape) if escape else (QUOTE,)
            if any(s in end or s == field for s in special) or escape in {QUOTE, b"\r", b"\n"}:
                raise SchemaError(
                    f"expected quote, escape and delimiters of their own, was {QUOTE!r}, {escape!r}, {end!r}, {field!r}"
                )
            if is_bordered(end):
                raise SchemaError(f"expected a tuple delimiter that cannot overlap itself beside quotes, was {end!r}")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
