"""Ends of quoted tuples: a vectorised scan for a known start state, and an index for all start states.

The effect of a quote depends on the byte before it. Adjacent quotes form a chain. Only the length of a chain and the
byte before it matter:

```
                         before it: a delimiter (a field starts)     before it: anything else
 even number of quotes   outside stays outside, inside inside        the same
 odd number of quotes    outside and inside change places            outside in any case
```

So two facts determine the state after a chain: which chain was the last that leaves the text outside in any case, and
whether the number of later chains at which outside and inside change places is odd. That takes two cumulative
operations over the chains and no loop over bytes. Data with quotes soon has a chain that leaves the text outside in any
case. Scans that start in the middle of the data therefore soon agree, whatever state they started in. So a small window
at the end of a run is enough to find the run's last tuple delimiter and end state before its start state is known.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from runtime.formats.csv.delimiters import BYTE_ORDER_MARK, QUOTE, STREAM_START, delimiter_ends, long_cut, matched
from runtime.formats.format import RunIndex, TupleRange

if TYPE_CHECKING:
    from runtime.formats.csv.dialect import CsvDialect

__all__ = ["FIELD_START", "QuotedIndex", "Scan", "has_sure_end", "is_incomplete", "matched_bytes", "scan"]

FIELD_START: Final = 0
"""State at the start of a field or a tuple."""
_FIELD: Final = 1
"""State in a field outside of quotes."""
_QUOTED: Final = 2
"""State inside quotes."""
_QUOTE_IN_QUOTED: Final = 3
"""State after a quote inside quotes, which closes them unless another follows."""
_ESCAPE: Final = 4
"""State after an escape in a field outside of quotes."""
_ESCAPE_IN_QUOTED: Final = 5
"""State after an escape inside quotes."""
_MATCHED: Final = 8
"""This number plus n is the state in a field outside of quotes after n bytes of a tuple delimiter."""
_WINDOW: Final = 1 << 10
"""Size in bytes of the first window that is scanned."""
_GROWTH: Final = 8
"""Factor by which the window grows."""
_QUOTE_CODE: Final = QUOTE[0]


def is_incomplete(state: int) -> bool:
    """Return True if the text before this state ends inside quotes or after an escape."""
    return state in {_QUOTED, _ESCAPE, _ESCAPE_IN_QUOTED}


def matched_bytes(state: int) -> int:
    """Return the number of bytes of a tuple delimiter before this state."""
    return state - _MATCHED if _MATCHED < state < STREAM_START else 0


class Scan(msgspec.Struct, frozen=True, eq=False):
    """Structure of a text, given the state at its start."""

    ends: Any
    """int64 array of the offset after each real tuple delimiter."""
    end_state: int
    """State at the end of the text."""
    chains: Any
    """int64 array of the start of each chain of quotes."""
    inside: Any
    """Boolean array, one longer than ``chains``: True if the text before the chain, or after the last, is in quotes."""
    escaped: Any
    """Boolean array of the bytes after an escape; None if there are none."""

    def outside(self, places: Any) -> Any:
        """Return which of these offsets, at which there are no quotes, are outside of quotes and not escaped."""
        outside = ~self.inside[np.searchsorted(self.chains, places)]
        return outside if self.escaped is None else outside & ~self.escaped[places]


def scan(text: bytes, dialect: CsvDialect, state: int = FIELD_START) -> Scan:
    """Scan a whole text from a start state; bytes of a delimiter that were matched before must be part of the text."""
    width = len(dialect.tuple_delimiter)
    codes = np.frombuffer(text, np.uint8)
    escaped = _escaped(codes, dialect, state)
    quotes = np.flatnonzero(codes == _QUOTE_CODE)
    delimiters = delimiter_ends(text, dialect.tuple_delimiter) - width
    if escaped is not None:
        quotes, delimiters = quotes[~escaped[quotes]], delimiters[~escaped[delimiters]]
    is_first = np.empty(len(quotes), np.bool_)  # slices and no np.diff: short texts are scanned as well
    is_first[:1] = True
    np.not_equal(quotes[1:], quotes[:-1] + 1, out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    chains = quotes[firsts]
    lengths = np.empty(len(firsts), np.int64)
    lengths[:-1], lengths[-1:] = firsts[1:], len(quotes)
    odd = ((lengths - firsts) & 1) == 1
    at_start = _follow_delimiter(codes, chains, delimiters + width, dialect, escaped)
    if len(chains) and chains[0] == 0:
        at_start[0] = state in {FIELD_START, _QUOTE_IN_QUOTED}
    inside = _inside(odd, at_start, state in {_QUOTED, _ESCAPE_IN_QUOTED})
    ends = delimiters[~inside[np.searchsorted(chains, delimiters)]] + width
    end_state = _end_state(text, dialect, state, escaped, ends)
    if end_state is None:  # it ends in a quote, or far from any delimiter
        if inside[-1]:
            end_state = _QUOTED
        elif len(quotes) and quotes[-1] == len(text) - 1 and (at_start[-1] or inside[-2]):
            end_state = _QUOTE_IN_QUOTED
        else:
            end_state = _FIELD
    elif inside[-1]:
        end_state = _ESCAPE_IN_QUOTED if end_state == _ESCAPE else _QUOTED
    return Scan(ends, end_state, chains, inside, escaped)


def _inside(odd: Any, at_start: Any, inside: bool) -> Any:
    """Return whether the text before each chain, and after the last, is inside quotes, by the module's table."""
    changes = np.zeros(len(odd) + 1, np.int64)
    (odd & at_start).cumsum(out=changes[1:])
    latest = np.zeros(len(odd) + 1, np.int64)  # the last chain, from 1, that ends outside whatever was before
    closing = (odd & ~at_start).nonzero()[0] + 1
    latest[closing] = closing
    np.maximum.accumulate(latest, out=latest)
    before = changes[latest]
    if inside:
        before[latest == 0] = -1
    return ((changes - before) & 1) == 1


def _escaped(codes: Any, dialect: CsvDialect, state: int) -> Any:
    """Return which bytes, and whether the end, follow an escape that is not itself escaped; None if there are none."""
    if not dialect.escape:
        return None
    begins = state in {_ESCAPE, _ESCAPE_IN_QUOTED}
    escapes = np.flatnonzero(codes == dialect.escape[0])
    if len(escapes) == 0 and not begins:
        return None
    escaped = np.zeros(len(codes) + 1, np.bool_)
    if begins:
        escaped[0] = True
        escapes = escapes[escapes > 0]
    is_first = np.ones(len(escapes), np.bool_)
    np.not_equal(escapes[1:], escapes[:-1] + 1, out=is_first[1:])
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(escapes)), 0))
    active = escapes[(np.arange(len(escapes)) - firsts) % 2 == 0]
    escaped[active + 1] = True
    return escaped


def _follow_delimiter(codes: Any, chains: Any, ends: Any, dialect: CsvDialect, escaped: Any) -> Any:
    """Return whether a field starts at each chain that is outside of quotes; not valid for a chain at offset 0."""
    before = np.maximum(chains - 1, 0)
    fields = codes[before] == dialect.field_delimiter[0]
    if escaped is not None:
        fields &= ~escaped[before]
    if len(dialect.tuple_delimiter) == 1 and escaped is None:
        return fields | (codes[before] == dialect.tuple_delimiter[0])
    if len(ends) == 0:
        return fields
    return fields | (ends[np.minimum(np.searchsorted(ends, chains), len(ends) - 1)] == chains)


def _end_state(text: bytes, dialect: CsvDialect, state: int, escaped: Any, ends: Any) -> int | None:
    """Return the state at the end if that is outside of quotes; None for a quote or an ordinary byte at the end."""
    if not text:
        return state
    if escaped is not None and escaped[len(text)]:
        return _ESCAPE
    if len(ends) and ends[-1] == len(text):
        return FIELD_START
    if escaped is not None and escaped[len(text) - 1]:
        return _FIELD
    if text.endswith(dialect.field_delimiter):
        return FIELD_START
    start = max(int(ends[-1]) if len(ends) else 0, len(text) - len(dialect.tuple_delimiter) + 1)
    if escaped is not None:
        start = max((place + 1 for place in range(start, len(text)) if escaped[place]), default=start)
    part = matched(text[start:], dialect.tuple_delimiter)
    return _MATCHED + part if part else None


class QuotedIndex(RunIndex):
    """Index of a run's cuts for every state in which it may start.

    A window at the end is scanned as if it started outside of quotes, and as if inside. If both scans agree, nothing
    before the window matters; otherwise the window grows, up to the whole run.
    """

    def __init__(self, data: bytes, dialect: CsvDialect) -> None:
        self._data = data
        self._dialect = dialect
        self._is_plain = QUOTE not in data and not (dialect.escape and dialect.escape in data)
        self._tail = None if self._is_plain else self._settled_tail()
        self._cuts: dict[int, TupleRange] = {}
        self.cut(FIELD_START)  # while no lock is held; other starts are rarer

    @property
    def end_state(self) -> int | None:
        return self._tail.end_state if self._tail is not None else None

    def cut(self, state: int) -> TupleRange:
        cut = self._cuts.get(state)
        if cut is None:
            cut = self._cuts[state] = self._cut(state) if self._data else TupleRange(-1, -1, state)
        return cut

    def _cut(self, state: int) -> TupleRange:
        if state >= STREAM_START:
            return self._opening(state - STREAM_START)
        if self._is_plain and state not in {_ESCAPE, _ESCAPE_IN_QUOTED}:
            return TupleRange(-1, -1, _QUOTED) if state == _QUOTED else self._plain_cut(matched_bytes(state))
        if self._tail is None:
            return self._scanned(state, len(self._data))
        size = _WINDOW
        while (cut := self._scanned(state, size)).first < 0:
            size *= _GROWTH
        return TupleRange(cut.first, self._tail.last, self._tail.end_state)

    def _opening(self, already: int) -> TupleRange:
        """Return the cut at the start of a stream: after a byte order mark its first field starts."""
        head = BYTE_ORDER_MARK[:already] + self._data[: len(BYTE_ORDER_MARK)]
        if head.startswith(BYTE_ORDER_MARK):
            rest = len(BYTE_ORDER_MARK) - already
            cut = QuotedIndex(self._data[rest:], self._dialect).cut(FIELD_START)
            return TupleRange(cut.first + rest, cut.last + rest, cut.end_state) if cut.is_delimited else cut
        if BYTE_ORDER_MARK.startswith(head):
            return TupleRange(-1, -1, STREAM_START + len(head))
        return self.cut(_FIELD if already else FIELD_START)

    def _plain_cut(self, already: int) -> TupleRange:
        """Return the cut of a run that starts outside of quotes and contains no quotes."""
        data = self._data
        cut = long_cut(data, self._dialect.tuple_delimiter, already)
        if cut.end_state:
            state = _MATCHED + cut.end_state
        elif cut.last == len(data) or data.endswith(self._dialect.field_delimiter):
            state = FIELD_START
        else:
            state = _FIELD
        return TupleRange(cut.first, cut.last, state)

    def _scanned(self, state: int, size: int) -> TupleRange:
        """Return the cut of the run's first bytes, preceded by the matched bytes of a delimiter."""
        already = matched_bytes(state)
        text = self._dialect.tuple_delimiter[:already] + self._data[:size]
        scanned = scan(text, self._dialect, _FIELD if already else state)
        if len(scanned.ends) == 0:
            return TupleRange(-1, -1, scanned.end_state)
        return TupleRange(int(scanned.ends[0]) - already, int(scanned.ends[-1]) - already, scanned.end_state)

    def _settled_tail(self) -> TupleRange | None:
        """Return the last delimiter and the end state, if no start state changes them."""
        size = _WINDOW
        while True:
            start = _neutral(self._data, max(len(self._data) - size, 1), self._dialect)
            if start is None:
                return None
            outside, inside = _both(self._data[start:], self._dialect)
            if outside.end_state == inside.end_state and len(outside.ends) and len(inside.ends):
                last = int(outside.ends[-1])
                if last == int(inside.ends[-1]):
                    return TupleRange(-1, start + last, outside.end_state)
            if size >= len(self._data):
                return None
            size *= _GROWTH


def has_sure_end(text: bytes, dialect: CsvDialect) -> bool:
    """Return True if some delimiter of the text ends a tuple for every start state; the search may miss one."""
    if not dialect.escape or dialect.escape not in text:
        return _sure_end(dialect).search(text) is not None
    start = _neutral(text, 1, dialect)
    if start is None:
        return False
    outside, inside = _both(text[start : start + _WINDOW], dialect)
    return len(np.intersect1d(outside.ends, inside.ends, assume_unique=True)) > 0


@cache
def _sure_end(dialect: CsvDialect) -> re.Pattern[bytes]:
    """Return the pattern of a tuple delimiter that is outside of quotes for every start state.

    A single quote after an ordinary byte leaves the text outside of quotes, up to the next quote.
    """
    end, field = dialect.tuple_delimiter, dialect.field_delimiter
    return re.compile(rb'[^"%s]"[^"]*?%s' % (re.escape(field + end), re.escape(end)))


def _both(text: bytes, dialect: CsvDialect) -> tuple[Scan, Scan]:
    """Scan the text as if it started outside of quotes, and inside."""
    return scan(text, dialect, _FIELD), scan(text, dialect, _QUOTED)


def _neutral(data: bytes, start: int, dialect: CsvDialect) -> int | None:
    """Return the next place that is in no chain, escape or delimiter: its state is only inside or outside of quotes."""
    before = dialect.tuple_delimiter + dialect.escape
    for place in range(start, min(start + _WINDOW, len(data))):
        if data[place] != _QUOTE_CODE and data[place - 1] not in before:
            return place
    return None
