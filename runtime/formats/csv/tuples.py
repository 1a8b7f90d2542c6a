"""Offsets of the tuples in a block of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.formats.csv.delimiters import QUOTE, delimiter_ends
from runtime.formats.csv.quotes import has_sure_end, scan

if TYPE_CHECKING:
    from runtime.formats.csv.dialect import CsvDialect

__all__ = ["Tuples", "delimiter_count", "has_quotes", "has_stray_return", "surely_short"]

_RETURN = 13
_LINE_END = 10
_FEWEST_WINDOW_BYTES = 1 << 12
"""Size in bytes of a window below which measuring all tuples is faster than searching each window."""


class Tuples:
    """The tuples of a text that are not empty, as offsets."""

    def __init__(self, text: bytes, dialect: CsvDialect) -> None:
        self.text = text
        self._codes = np.frombuffer(text, np.uint8)
        delimiter = dialect.tuple_delimiter
        self._scan = scan(text, dialect) if has_quotes(text, dialect) else None
        ends = delimiter_ends(text, delimiter) if self._scan is None else self._scan.ends
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))[: len(ends)]
        stops = ends - len(delimiter)
        if delimiter == b"\n":
            stops = stops - ((stops > starts) & (self._codes[np.maximum(stops - 1, 0)] == _RETURN))
        filled = stops > starts
        self.starts, self.stops, self.ends = starts[filled], stops[filled], ends[filled]

    @property
    def lengths(self) -> Any:
        """Length of each tuple in bytes, including its delimiter."""
        return self.ends - self.starts

    def __len__(self) -> int:
        return len(self.ends)

    def stray_returns(self) -> Any:
        """Return for each tuple the number of carriage returns outside of quotes, without that of its delimiter."""
        places = np.flatnonzero(self._codes == _RETURN)
        if self._scan is not None:
            places = places[self._scan.outside(places)]
        return np.searchsorted(places, self.stops) - np.searchsorted(places, self.starts)

    def without(self, excluded: Any) -> bytes:
        """Return the text without these tuples."""
        parts, start = [], 0
        for index in excluded.tolist():
            parts.append(self.text[start : self.starts[index]])
            start = self.ends[index]
        parts.append(self.text[start:])
        return b"".join(parts)


def has_quotes(text: bytes, dialect: CsvDialect) -> bool:
    """Return True if quotes or escapes may hide delimiters from plain searches."""
    return dialect.quoting and (QUOTE in text or (dialect.escape != b"" and dialect.escape in text))


def delimiter_count(text: bytes, dialect: CsvDialect, start: int = 0, stop: int | None = None) -> int:
    """Return the number of tuple delimiters, inside quotes too."""
    delimiter = dialect.tuple_delimiter
    if len(delimiter) > 1:
        return text.count(delimiter, start, stop)
    return int(np.count_nonzero(np.frombuffer(text, np.uint8)[start:stop] == delimiter[0]))


def surely_short(text: bytes, dialect: CsvDialect, limit: int, *, plain: bool = False) -> bool:
    """Return True if every window of half the limit has a delimiter, so that no tuple of the block is too long.

    This takes one search per window and not one per tuple; after False, tuples have to be measured. With ``plain``,
    every delimiter is known to end a tuple.
    """
    if len(text) <= limit:
        return True
    delimiter = dialect.tuple_delimiter
    window = (limit - len(delimiter)) // 2
    if window < _FEWEST_WINDOW_BYTES:
        return False
    places = range(0, len(text) - window, window)
    if not plain and has_quotes(text, dialect):
        return all(has_sure_end(text[start : start + window], dialect) for start in places)
    reach = window + len(delimiter) - 1
    return all(text.find(delimiter, start, start + reach) >= 0 for start in places)


def has_stray_return(text: bytes) -> bool:
    """Return True if some carriage return, in quotes or not, is not followed by a line feed."""
    if b"\r" not in text:
        return False
    codes = np.frombuffer(text, np.uint8)
    stray = codes[:-1] == _RETURN
    stray &= codes[1:] != _LINE_END
    return bool(stray.any() or codes[-1] == _RETURN)
