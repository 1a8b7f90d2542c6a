"""Comma-separated text: where tuples end, and whole tuples as columns by one call of Arrow's reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from runtime.formats.csv.delimiters import index_unquoted
from runtime.formats.csv.dialect import CsvFormat
from runtime.formats.csv.outcome import Outcome, WholeFaults
from runtime.formats.csv.quotes import QuotedIndex, is_incomplete
from runtime.formats.csv.reading import Reading, TextReader
from runtime.formats.csv.translation import translate
from runtime.formats.csv.tuples import Tuples, has_quotes, has_stray_return, surely_short
from runtime.formats.format import Block, InputFormatIndexer, ParsedBlock, Run, RunIndex
from runtime.formats.pushdown import Pushdown

if TYPE_CHECKING:
    from runtime.formats.schema import Schema

__all__ = ["CsvIndexer"]


class CsvIndexer(InputFormatIndexer):
    """Cuts runs by searches from both ends, and gives whole blocks to Arrow's reader.

    A block goes to the reader in one call outside the interpreter lock, typed, and only for the columns that are
    wanted. If the reader refuses it, the tuples of another shape are taken out and columns with malformed values are
    read as bytes first, so that what is a value is decided in one place and does not depend on a tuple's neighbours.
    Values of columns that nobody asked for are not looked at, but counted. Empty tuples are ignored. Where tuples end
    in ``\\n``, a ``\\r`` in front of that belongs to it, and outside of quotes is an error elsewhere.
    """

    def __init__(self, schema: Schema, dialect: CsvFormat, pushdown: Pushdown) -> None:
        self._dialect = dialect
        self._width = len(schema.fields)
        self._limit = schema.limits.tuple_bytes
        fields = schema.select(pushdown.parsed_columns)
        self._reader = TextReader(schema, dialect, fields)
        self._outcome = Outcome(schema, pushdown)

    def index(self, run: Run) -> RunIndex:
        """Two searches, from both ends; with quotes one for each state in which the run may start."""
        if self._dialect.quoting:
            return QuotedIndex(run.data, self._dialect)
        return index_unquoted(run, self._dialect.tuple_delimiter)

    def terminated(self, tail: bytes, state: int) -> bytes | None:
        """The tail and a delimiter; None inside quotes and behind an escape, since its last field is incomplete."""
        if self._dialect.quoting and is_incomplete(state):
            return None
        return tail + self._dialect.tuple_delimiter

    def empty_rows(self) -> Any:
        """No rows of the columns."""
        return self._outcome.empty_rows

    def parse(self, block: Block) -> ParsedBlock:
        """The block's columns; good blocks take one call of Arrow's reader."""
        text = block.data if isinstance(block.data, bytes) else bytes(block.data)
        reading = self._read_good(text)
        if reading is None:
            return self._parse_bad(text)
        parsed = self._outcome.of(reading, None, lambda: Tuples(text, self._dialect), reading.rows, [])
        if len(self._dialect.tuple_delimiter) > 1:
            return parsed
        delimiter, codes = self._dialect.tuple_delimiter[0], np.frombuffer(text, np.uint8)
        return msgspec.structs.replace(
            parsed, delimiters=lambda start, stop: int(np.count_nonzero(codes[start:stop] == delimiter))
        )

    def _read_good(self, text: bytes) -> Reading | None:
        """The whole block at once, unless a tuple of it may be bad as a whole."""
        delimiter = self._dialect.tuple_delimiter
        quotes = has_quotes(text, self._dialect)
        if not quotes and not surely_short(text, delimiter, self._limit):
            return None
        if (
            delimiter == b"\n"
            and has_stray_return(text)
            and not (quotes and not Tuples(text, self._dialect).stray_returns().any())
        ):
            return None
        translation = translate(text, self._dialect)
        reading = self._reader.read(translation) if translation is not None else None
        if not isinstance(reading, Reading):
            return None
        if quotes and len(text) > self._limit:
            # Without delimiters inside quotes every one of them ends a tuple, and a few searches do.
            plain = text.count(delimiter) == reading.rows and surely_short(text, delimiter, self._limit)
            if not plain and int(Tuples(text, self._dialect).lengths.max(initial=0)) > self._limit:
                return None
        return reading

    def _parse_bad(self, text: bytes) -> ParsedBlock:
        """The block without the tuples that are bad as wholes: too long, a stray carriage return, wrong shape."""
        tuples = Tuples(text, self._dialect)
        faults: list[WholeFaults] = []
        lengths = tuples.lengths
        excluded = lengths > self._limit
        if excluded.any():
            faults.append(WholeFaults(np.flatnonzero(excluded), f"at most {self._limit} bytes", lengths, "bytes"))
        if self._dialect.tuple_delimiter == b"\n" and has_stray_return(text):
            returns = tuples.stray_returns()
            places = np.flatnonzero((returns > 0) & ~excluded)
            faults.append(WholeFaults(places, "no carriage return inside the tuple", returns, "carriage returns"))
            excluded[places] = True
        alive = np.flatnonzero(~excluded)
        translation = translate(tuples.without(np.flatnonzero(excluded)), self._dialect)
        assert translation is not None
        reading = self._reader.read(translation)
        if not isinstance(reading, Reading):
            counts = self._reader.misshapen(translation)
            places = alive[np.fromiter(counts, np.int64, len(counts))]
            widths = dict(zip(places.tolist(), counts.values(), strict=True))
            faults.append(WholeFaults(places, f"{self._width} fields", widths, "fields"))
            excluded[places] = True
            alive = np.flatnonzero(~excluded)
            translation = translate(tuples.without(np.flatnonzero(excluded)), self._dialect)
            assert translation is not None
            reading = self._reader.read(translation)
        if not isinstance(reading, Reading) or reading.rows != len(alive):
            raise AssertionError(f"the reader and the search for tuples disagree about {text[:200]!r}")
        return self._outcome.of(reading, alive, lambda: tuples, len(tuples), faults)
