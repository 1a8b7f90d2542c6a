"""Translation of CSV text with any tuple delimiter to lines, which Arrow reads, and of the values back.

Arrow's reader ends tuples only at line ends. A text with another delimiter is therefore translated. First, line feeds
and carriage returns outside of delimiters are replaced by control characters that do not occur in the text; then the
delimiters are replaced by line feeds. `Translation.restored` undoes this in the parsed values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from runtime.formats.csv.dialect import CsvDialect

__all__ = ["Translation", "translate"]

_FEED: Final = 10
_RETURN: Final = 13
_SPARE: Final = (*range(1, 9), 11, 12, *range(14, 32))
"""Control characters that may stand for others."""


class Translation(msgspec.Struct, frozen=True):
    """Text whose tuples are lines, and the replacements that were made in it."""

    text: bytes
    """Text that Arrow reads."""
    back: tuple[tuple[str, str], ...] = ()
    """Pairs of a replacement and the original, by which values are restored, in this order."""

    def restored(self, column: Any) -> Any:
        """Return the values of a column with their original characters."""
        for stand_in, original in self.back:
            if pa.types.is_binary(column.type):
                column = pc.replace_substring(column, stand_in.encode(), original.encode())
            else:
                column = pc.replace_substring(column, stand_in, original)
        return column


def translate(text: bytes, dialect: CsvDialect) -> Translation | None:
    """Translate a text; return None if every control character that could replace a line end occurs in it.

    Delimiters within quotes become line feeds, too; `Translation.restored` restores them in values.
    """
    delimiter = dialect.tuple_delimiter
    if delimiter == b"\n" or (delimiter == b"\r\n" and _has_only_pairs(text)):
        return Translation(text)
    back: list[tuple[str, str]] = []
    if dialect.quoting and text.count(delimiter) and b'"' in text:
        back.append(("\n", delimiter.decode()))
    others = _others(text, delimiter)
    swap = bytearray(range(256))
    special = dialect.field_delimiter + dialect.escape + delimiter
    spare: Iterator[int] = iter(())
    if others:
        spare = (code for code in _SPARE if code not in special and bytes((code,)) not in text)
    for other in others:
        stand_in = next(spare, None)
        if stand_in is None:
            return None
        swap[other] = stand_in
        back.append((chr(stand_in), chr(other)))
    line_end = delimiter[0] if len(delimiter) == 1 else next(spare, None) if others else 10
    if line_end is None:
        return None
    swap[line_end] = 10
    if len(delimiter) > 1:
        text = text.replace(delimiter, bytes((line_end,)))
    return Translation(text.translate(bytes(swap)) if len(delimiter) == 1 or others else text, tuple(back))


def _has_only_pairs(text: bytes) -> bool:
    """Return True if all carriage returns and line feeds are in pairs; Arrow reads each pair as one line end."""
    codes = np.frombuffer(text, np.uint8)
    feeds = codes == _FEED
    returns = codes == _RETURN
    return not len(codes) or bool(not feeds[0] and not returns[-1] and np.array_equal(returns[:-1], feeds[1:]))


def _others(text: bytes, delimiter: bytes) -> list[int]:
    """Return the codes of the line feed and the carriage return, if they occur outside of delimiters."""
    codes = []
    for code in (10, 13):
        letter = bytes((code,))
        inside = delimiter.count(letter)
        if letter in text and (not inside or text.count(letter) != text.count(delimiter) * inside):
            codes.append(code)
    return codes
