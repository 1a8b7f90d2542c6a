"""Lines of a block of JSON, and those that are bad by their outer shape alone."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from runtime.formats.format import BadTuple
from runtime.formats.schema import Limits

__all__ = ["Lines"]

_NEWLINE, _RETURN, _QUOTE, _BACKSLASH = b'\n\r"\\'
_OPENING, _CLOSING, _OPENING_ARRAY, _CLOSING_ARRAY = b"{}[]"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_ASCII: Final = 128
_LOWER: Final = 0x20
"""Bit that turns a bracket into a brace."""
_BLANK: Final = np.isin(np.arange(256), list(b" \t\r"))
"""Bytes that may be around an object within its line."""


class Lines:
    """Lines of a block that are not blank, as offsets; `wrong` has a reason for each line that cannot be a tuple.

    `JsonReader` relies on two properties of a line that is not wrong: it begins with ``{`` and ends with ``}``, so that
    no object spans lines; and it is UTF-8, which Arrow's reader does not check.
    """

    def __init__(self, text: bytes, limits: Limits) -> None:
        self._limits = limits
        if text and text[-1] != _NEWLINE:
            text += b"\n"
        self.text = text
        self._bytes = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(self._bytes == _NEWLINE) + 1
        starts = np.empty_like(ends)
        starts[:1], starts[1:] = 0, ends[:-1]
        self.starts, self.ends = starts, ends
        self.wrong: dict[int, tuple[str, str]] = {}
        """Expected and actual shape of each wrong line."""
        if len(ends):
            self._examine()
        self.count = len(self.starts)

    def bad(self, index: int, field: str, expected: str, reason: str) -> BadTuple:
        """Return the description of a bad line."""
        start, stop = int(self.starts[index]), int(self.ends[index]) - 1
        if stop > start and self.text[stop - 1] == _RETURN:
            stop -= 1
        return BadTuple(index, start, stop, field, expected, reason)

    def line(self, index: int) -> bytes:
        """Return one line with its end."""
        return self.text[self.starts[index] : self.ends[index]]

    def text_of(self, indices: Any) -> Any:
        """Return concatenated lines; no copy if they are adjacent in the block."""
        view = memoryview(self.text)
        borders = np.flatnonzero(np.diff(indices) != 1) + 1
        firsts = self.starts[indices[np.concatenate(([0], borders))]].tolist()
        lasts = self.ends[indices[np.concatenate((borders, [len(indices)])) - 1]].tolist()
        pieces = [view[start:stop] for start, stop in zip(firsts, lasts, strict=True)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _examine(self) -> None:
        first, last = self.starts, self.ends - 2
        are_objects = (self._bytes[first] == _OPENING).all() and (self._bytes[last] == _CLOSING).all()
        if not are_objects:
            self._blank_marks()
            first, last = self._drop_blank(*self._trimmed())
        lengths, longest = self.ends - self.starts, self._limits.tuple_bytes
        if lengths.max(initial=0) > longest:
            for index in np.flatnonzero(lengths > longest).tolist():
                self.wrong[index] = (f"at most {longest} bytes", f"{lengths[index]} bytes")
        if not are_objects:
            self._note(self._bytes[first] != _OPENING, "a JSON object", "the line does not begin with {")
            self._note(self._bytes[last] != _CLOSING, "a JSON object", "the line does not end with }")
        if self._bytes.max() >= _ASCII and not self._is_utf8():  # faster than isascii, and outside the interpreter lock
            self._note(self._undecodable(), "UTF-8 text", "bytes that are not UTF-8")
        self._examine_nesting()

    def _note(self, mask: Any, expected: str, reason: str) -> None:
        for index in np.flatnonzero(mask).tolist():
            self.wrong.setdefault(index, (expected, reason))

    def _blank_marks(self) -> None:
        """Replace byte order marks before lines by blank space: files that were joined may contain them."""
        if _BYTE_ORDER_MARK in self.text:
            text = self.text.replace(b"\n" + _BYTE_ORDER_MARK, b"\n   ")
            self.text = b"   " + text[3:] if text.startswith(_BYTE_ORDER_MARK) else text
            self._bytes = np.frombuffer(self.text, np.uint8)

    def _trimmed(self) -> tuple[Any, Any]:
        """Return the places of each line's first and last byte that is not blank; in a blank line last < first."""
        first, last = self.starts.copy(), self.ends - 2
        for places, step in ((first, 1), (last, -1)):
            todo = np.arange(len(places))
            for _ in range(16):
                todo = todo[(places[todo] < self.ends[todo] - 1) & (places[todo] >= self.starts[todo])]
                todo = todo[_BLANK[self._bytes[places[todo]]]]
                if not len(todo):
                    break
                places[todo] += step
            for index in todo.tolist():  # rare: more blank space than that
                line = self.line(index)[:-1]
                lead = len(line) - len(line.lstrip(b" \t\r"))
                places[index] = self.starts[index] + (lead if step > 0 else len(line.rstrip(b" \t\r")) - 1)
        return first, last

    def _drop_blank(self, first: Any, last: Any) -> tuple[Any, Any]:
        """Drop blank lines, except those longer than the limit.

        A line that exceeds the limit and spans buffers is never assembled, and is reported as too long even if it is
        blank. Within one buffer such a line is reported in the same way.
        """
        filled = (first <= last) | (self.ends - self.starts > self._limits.tuple_bytes)
        if not filled.all():
            self.starts, self.ends = self.starts[filled], self.ends[filled]
            first, last = first[filled], last[filled]
        return first, np.maximum(last, 0)

    def _has(self, places: Any) -> Any:
        """Return which lines contain one of these ascending places."""
        return np.searchsorted(places, self.ends) > np.searchsorted(places, self.starts)

    def _is_utf8(self) -> bool:
        """Return True if the text is UTF-8, with one pass outside the interpreter lock."""
        offsets = pa.py_buffer(np.array([0, len(self.text)], np.int64))
        try:
            pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(self.text)).validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True

    def _undecodable(self) -> Any:
        """Return which lines are not UTF-8; only those with a byte beyond ASCII are checked one by one."""
        wrong = self._has(np.flatnonzero(self._bytes >= _ASCII))
        for index in np.flatnonzero(wrong).tolist():
            try:
                self.line(index).decode()
            except UnicodeDecodeError:
                continue
            wrong[index] = False
        return wrong

    def _examine_nesting(self) -> None:
        """Search brackets outside of texts, only if a line has more opening brackets than there may be levels."""
        opening = self._bytes == _OPENING
        if b"[" in self.text:
            opening |= self._bytes == _OPENING_ARRAY
        deepest = self._limits.nesting
        if np.count_nonzero(opening) < len(self.starts) + deepest:  # one in each line, and too few for another level
            return
        places = np.flatnonzero(opening)
        counts = np.searchsorted(places, self.ends) - np.searchsorted(places, self.starts)
        lines = np.flatnonzero(counts > deepest)
        if len(lines):
            deep = lines[self._depths(lines) > deepest]
            self._note(np.isin(np.arange(len(self.starts)), deep), f"at most {deepest} levels", "deeper nesting")

    def _depths(self, lines: Any) -> Any:
        """Return the nesting depth of brackets outside of texts, in lines that have some."""
        lower = self._bytes | _LOWER
        marked = (lower == _OPENING) | (lower == _CLOSING) | (self._bytes == _QUOTE)
        places = np.flatnonzero(marked)
        is_quote = self._bytes[places] == _QUOTE
        if b"\\" in self.text:
            is_quote[is_quote] = ~_is_escaped(self._bytes, places[is_quote])
        first, behind = np.searchsorted(places, self.starts[lines]), np.searchsorted(places, self.ends[lines])
        quotes = np.cumsum(is_quote, dtype=np.int32)
        counts = behind - first
        inside = np.zeros(len(places), np.bool_)
        chosen = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        before = np.where(first > 0, quotes[first - 1], 0)
        inside[chosen] = (quotes[chosen] - np.repeat(before, counts)) & 1
        steps = np.where(lower[places] == _OPENING, 1, -1)
        steps[inside | (self._bytes[places] == _QUOTE)] = 0
        depth = np.append(np.cumsum(steps), 0)
        borders = np.stack((first, behind), axis=1).ravel()
        return np.maximum.reduceat(depth, borders)[::2] - np.where(first > 0, depth[first - 1], 0)


def _is_escaped(text: Any, places: Any) -> Any:
    """Return which places have an odd number of backslashes before them."""
    others = np.concatenate(([-1], np.flatnonzero(text != _BACKSLASH)))
    before = others[np.searchsorted(others, places) - 1]
    return (places - before - 1) % 2 == 1
