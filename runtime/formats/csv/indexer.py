"""Indexer of comma-separated text: cuts runs at tuples, and parses whole tuples to columns.

A block without faults takes one call of Arrow's reader. The functions above the class put together the results of a
block that was parsed in parts, or without its byte order mark.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from runtime.formats.csv.delimiters import BYTE_ORDER_MARK, STREAM_START, index_unquoted
from runtime.formats.csv.dialect import CsvDialect
from runtime.formats.csv.outcome import Outcome, WholeFaults
from runtime.formats.csv.quotes import QuotedIndex, is_incomplete
from runtime.formats.csv.reader import Refused
from runtime.formats.csv.reading import Reading, TextReader
from runtime.formats.csv.translation import Translation, translate
from runtime.formats.csv.tuples import Tuples, delimiter_count, has_quotes, has_stray_return, surely_short
from runtime.formats.format import BadTuple, Block, InputFormatIndexer, ParsedBlock, Run, RunIndex, Section
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Schema

__all__ = ["CsvFormat", "CsvIndexer"]


class CsvFormat(CsvDialect, frozen=True):
    """Text of a dialect. Raises `SchemaError` for a dialect that cannot be read unambiguously."""

    @property
    def name(self) -> str:
        """Name of the format in scripts."""
        return "csv"

    def indexer(self, schema: Schema, pushdown: Pushdown) -> CsvIndexer:
        """Return an indexer for the schema; raise `SchemaError` if the schema does not fit the format."""
        return CsvIndexer(schema, self, pushdown)


def joined(left: ParsedBlock, right: ParsedBlock, middle: int) -> ParsedBlock:
    """Join two halves; ``middle`` is the start of the right one."""
    bad = [msgspec.structs.replace(b, index=b.index + left.tuples) for b in _moved(right.bad, middle, 0)]
    return ParsedBlock(
        rows=pa.Table.from_batches([left.rows, right.rows]).combine_chunks().to_batches()[0]
        if left.rows.num_rows + right.rows.num_rows
        else left.rows,
        tuples=left.tuples + right.tuples,
        ends=lambda: np.concatenate((left.ends(), right.ends() + middle)),
        kept=np.concatenate((_kept(left), _kept(right) + left.tuples)),
        bad=(*left.bad, *bad),
        bad_tuples=np.concatenate((left.bad_tuples, right.bad_tuples + left.tuples)),
        nulled=np.concatenate((left.nulled, right.nulled + left.tuples)),
    )


def inserted(rest: ParsedBlock, alone: ParsedBlock, index: int, ends: Any) -> ParsedBlock:
    """Insert a tuple that was removed from a block at this index; ``ends`` are the ends of all tuples."""
    start = int(ends[index - 1]) if index else 0
    kept = _kept(rest)
    rows = rest.rows
    if alone.rows.num_rows:
        place = int(np.searchsorted(kept, index))
        rows = pa.Table.from_batches([rows[:place], alone.rows, rows[place:]]).combine_chunks().to_batches()[0]
    bad = [
        msgspec.structs.replace(b, index=b.index + (b.index >= index))
        for b in _moved(rest.bad, int(ends[index]) - start, start)
    ]
    own = [msgspec.structs.replace(b, index=index, start=b.start + start, stop=b.stop + start) for b in alone.bad]
    return ParsedBlock(
        rows=rows,
        tuples=rest.tuples + alone.tuples,
        ends=lambda: ends,
        kept=_with(kept, _kept(alone), index),
        bad=tuple(sorted((*bad, *own), key=attrgetter("index"))),
        bad_tuples=_with(rest.bad_tuples, alone.bad_tuples, index),
        nulled=_with(rest.nulled, alone.nulled, index),
    )


def _with(indices: Any, alone: Any, index: int) -> Any:
    """Insert the indices of a tuple, and increase the later indices by 1."""
    place = int(np.searchsorted(indices, index))
    return np.concatenate((indices[:place], alone + index, indices[place:] + 1))


def without_mark(parsed: ParsedBlock, place: int) -> ParsedBlock:
    """Return a block that was parsed without the byte order mark at ``place``, with offsets in the text that has it."""

    def ends() -> Any:
        offsets = parsed.ends()
        return offsets + len(BYTE_ORDER_MARK) * (offsets > place)

    return msgspec.structs.replace(
        parsed, ends=ends, delimiters=None, bad=tuple(_moved(parsed.bad, len(BYTE_ORDER_MARK), place))
    )


def _moved(bad: tuple[BadTuple, ...], by: int, behind: int) -> list[BadTuple]:
    return [msgspec.structs.replace(b, start=b.start + by, stop=b.stop + by) if b.start >= behind else b for b in bad]


def _kept(parsed: ParsedBlock) -> Any:
    return np.arange(parsed.tuples) if parsed.kept is None else parsed.kept


_MOST_CUTS = 2
"""Greatest number of refused tuples of a block that are parsed by themselves."""
_DENSE = 16
"""If the first refused tuple is in the first 1/16 of a block, the block probably has many of them."""
_FEWEST_CUT_BYTES = 1 << 14
"""A text of fewer bytes is not parsed around a refused tuple."""


class CsvIndexer(InputFormatIndexer):
    """Indexer that cuts runs by searches from both ends, and passes whole blocks to Arrow's reader.

    A block is read in one call outside the interpreter lock, typed, and only for the wanted columns. If the reader
    refuses the block, tuples with another number of fields are removed, and columns with malformed values are first
    read as bytes. So all values are judged in one place, whatever the neighbours of their tuples are. Values of
    unwanted columns are counted, but not read. Empty tuples are ignored. If tuples end in ``\\n``, a ``\\r`` before the
    ``\\n`` belongs to the end; a ``\\r`` elsewhere outside of quotes is an error.
    """

    initial_state: ClassVar[int] = STREAM_START

    def __init__(self, schema: Schema, dialect: CsvDialect, pushdown: Pushdown) -> None:
        self._dialect = dialect
        self.has_header = dialect.header
        self._width = len(schema.fields)
        self._limit = schema.limits.tuple_bytes
        fields = schema.select(pushdown.parsed_columns)
        self._reader = TextReader(schema, dialect, fields)
        self._outcome = Outcome(schema, pushdown)

    def index(self, run: Run) -> RunIndex:
        """Search from both ends; with quotes, once for each state in which the run may start."""
        if self._dialect.quoting:
            return QuotedIndex(run.data, self._dialect)
        return index_unquoted(run, self._dialect.tuple_delimiter)

    def terminated(self, tail: bytes, state: int) -> bytes | None:
        """Return the tail with a delimiter after it; the tail may already contain the ``\\r`` of ``\\r\\n``.

        Return None if the tail ends inside quotes or after an escape, because the last field is then incomplete. Also
        return None if the end of the tail would become part of the delimiter.
        """
        dialect, delimiter = self._dialect, self._dialect.tuple_delimiter
        if dialect.quoting and is_incomplete(state):
            return None
        if delimiter == b"\r\n" and tail.endswith(b"\r"):
            return tail + b"\n"
        text = tail + delimiter
        return text if dialect.quoting or text.find(delimiter) == len(tail) else None

    def empty_rows(self) -> Any:
        """Return the columns without rows."""
        return self._outcome.empty_rows

    def parse(self, block: Block) -> ParsedBlock:
        """Return the block's columns; a block without faults takes one call of Arrow's reader."""
        text = block.data if isinstance(block.data, bytes) else bytes(block.data)
        mark = next((s.start for s in block.sections if _starts_with_mark(s, text)), None)
        if mark is None:
            return self._parse(text, _MOST_CUTS)
        return without_mark(self._parse(text[:mark] + text[mark + len(BYTE_ORDER_MARK) :], _MOST_CUTS), mark)

    def _parse(self, text: bytes, cuts: int, doubtful: frozenset[int] = frozenset()) -> ParsedBlock:
        translation = translate(text, self._dialect)
        if translation is None:
            return self._parse_halves(text)
        reading: Reading | Refused | None = None
        if self._is_sound(text):
            can_cut = cuts > 0 and len(text) >= _FEWEST_CUT_BYTES
            reading = self._reader.read(translation, at_once=can_cut, doubtful=doubtful)
            if isinstance(reading, Reading):
                if self._is_short(text, reading.rows):
                    parsed = self._outcome.of(reading, None, lambda: Tuples(text, self._dialect), reading.rows, [])
                    return msgspec.structs.replace(parsed, delimiters=partial(delimiter_count, text, self._dialect))
                reading = None
            elif can_cut:
                return self._parse_around(text, reading, cuts - 1)
        return self._parse_bad(text, reading)

    def _parse_around(self, text: bytes, refused: Refused, cuts: int) -> ParsedBlock:
        """Parse the text without a refused tuple, and that tuple by itself."""
        tuples = Tuples(text, self._dialect)
        row = refused.row
        if not len(tuples) // _DENSE <= row < len(tuples):
            return self._parse(text, 0)
        start, stop = int(tuples.ends[row - 1]) if row else 0, int(tuples.ends[row])
        rest = self._parse(text[:start] + text[stop:], cuts)
        alone = self._parse(text[start:stop], 0, refused.positions)
        return inserted(rest, alone, row, tuples.ends)

    def _is_sound(self, text: bytes) -> bool:
        """Return False if a tuple has a stray carriage return or, in text without quotes, may be too long."""
        if not has_quotes(text, self._dialect) and not surely_short(text, self._dialect, self._limit):
            return False
        return not self._has_stray_return(text)

    def _is_short(self, text: bytes, rows: int) -> bool:
        """Return True if no tuple is too long; text without quotes was checked by `_is_sound`."""
        if len(text) <= self._limit or not has_quotes(text, self._dialect):
            return True
        if delimiter_count(text, self._dialect) == rows:
            return surely_short(text, self._dialect, self._limit, plain=True) or self._is_measured_short(text)
        return surely_short(text, self._dialect, self._limit) or self._is_measured_short(text)

    def _is_measured_short(self, text: bytes) -> bool:
        return int(Tuples(text, self._dialect).lengths.max(initial=0)) <= self._limit

    def _has_stray_return(self, text: bytes) -> bool:
        if self._dialect.tuple_delimiter != b"\n" or not has_stray_return(text):
            return False
        return not has_quotes(text, self._dialect) or bool(Tuples(text, self._dialect).stray_returns().any())

    def _parse_bad(self, text: bytes, reading: Reading | Refused | None) -> ParsedBlock:
        """Parse the block without tuples that are bad as a whole: too long, misshapen, or with a stray return."""
        tuples = Tuples(text, self._dialect)
        excluded = np.zeros(len(tuples), np.bool_)
        faults: list[WholeFaults] = []
        lengths = tuples.lengths
        self._exclude(excluded, lengths > self._limit, faults, f"at most {self._limit} bytes", lengths)
        if not isinstance(reading, Refused) or faults:
            if self._dialect.tuple_delimiter == b"\n":
                returns = tuples.stray_returns()
                self._exclude(excluded, returns > 0, faults, "no carriage return inside the tuple", returns)
            reading = self._reader.read(self._rest(tuples, excluded))
        if isinstance(reading, Refused):
            counts = self._reader.misshapen(self._rest(tuples, excluded))
            places = np.flatnonzero(~excluded)[np.fromiter(counts, np.int64, len(counts))]
            widths = dict(zip(places.tolist(), counts.values(), strict=True))
            faults.append(WholeFaults(places, f"{self._width} fields", widths))
            excluded[places] = True
            reading = self._reader.read(self._rest(tuples, excluded))
        alive = np.flatnonzero(~excluded)
        if not isinstance(reading, Reading) or reading.rows != len(alive):
            raise AssertionError(f"the reader and the search for tuples disagree about {text[:200]!r}")
        return self._outcome.of(reading, alive, lambda: tuples, len(tuples), faults)

    @staticmethod
    def _exclude(excluded: Any, wrong: Any, faults: list[WholeFaults], expected: str, measure: Any) -> None:
        places = np.flatnonzero(wrong & ~excluded)
        if len(places):
            faults.append(WholeFaults(places, expected, measure))
            excluded[places] = True

    def _rest(self, tuples: Tuples, excluded: Any) -> Translation:
        translation = translate(tuples.without(np.flatnonzero(excluded)), self._dialect)
        assert translation is not None  # the whole text had one
        return translation

    def _parse_halves(self, text: bytes) -> ParsedBlock:
        """Parse in halves a block that has no spare character to replace a line end; a single such tuple is bad."""
        tuples = Tuples(text, self._dialect)
        if len(tuples) > 1:
            middle = int(tuples.ends[len(tuples) // 2 - 1])
            return joined(self._parse(text[:middle], 0), self._parse(text[middle:], 0), middle)
        fault = WholeFaults(np.zeros(1, np.int64), "a control character or line end that does not occur", {0: "none"})
        return self._outcome.of(self._reader.nothing(), np.zeros(0, np.int64), lambda: tuples, 1, [fault])


def _starts_with_mark(section: Section, text: bytes) -> bool:
    return section.opens and text.startswith(BYTE_ORDER_MARK, section.start)
