"""Which tuples of a refused block are bad, and why; in columns, so that one bad tuple does not make good ones slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.indexer import BadTuple
from runtime.formats.schema import Field, Schema

__all__ = ["FaultSearch", "Faults"]

_RETURN: Final = 13
_ASCII: Final = 128
_EMPTY: Final = np.zeros(0, np.int64)


class Faults(msgspec.Struct, frozen=True, eq=False):
    """What a search found out about a block."""

    good_text: bytes
    """The good tuples alone, malformed values of nullable fields replaced by the text for NULL."""
    row_ends: Any
    """int64 array: where each of them ends in the block."""
    tuple_ends: Any
    """int64 array: where each tuple ends in the block, empty ones left out."""
    bad: tuple[BadTuple, ...]
    """The bad ones, a bounded number."""
    nulled_ends: Any
    """int64 array: for each replaced value where its tuple ends in the block."""


class FaultSearch:
    """Finds the bad tuples of delimited text.

    ``reads(name, texts)`` is the judge: whether the reader takes all of these texts for a column. It is asked only
    about texts that the parser's patterns leave in doubt, all at once, and by halves where it says no.
    ``accepts(text)`` is its word on whole tuples: where only their shape was wrong, the rest is not searched by field.
    """

    def __init__(
        self,
        schema: Schema,
        fields: tuple[Field, ...],
        *,
        tuple_limit_bytes: int,
        fault_limit: int,
        reads: Callable[[str, list[bytes]], bool],
        accepts: Callable[[bytes], bool],
    ) -> None:
        self._fields = fields
        self._names = schema.names
        self._delimiter = schema.field_delimiter
        self._nulls = tuple(text.encode() for text in schema.null_values)
        self._tuple_limit = tuple_limit_bytes
        self._fault_limit = fault_limit
        self._reads = reads
        self._accepts = accepts

    def search(self, text: bytes, ends: Any) -> Faults:
        """Judge every tuple of the block; ``ends`` are the offsets behind each delimiter."""
        lines = _Lines(text, ends)
        bad: list[BadTuple] = []
        alive = np.ones(len(lines.ends), np.bool_)
        self._search_whole(lines, alive, bad)
        table = _Fields(lines, alive, self._delimiter, len(self._names))
        good = np.ones(table.count, np.bool_)
        nulled: dict[int, Any] = {}
        sound = bool(bad) and self._accepts(table.text(good, nulled, self._nulls, self._delimiter))
        for field in () if sound else self._fields:
            column = self._names.index(field.name)
            wrong = self._wrong(field, table, column)
            if field.nullable:
                nulled[column] = wrong
                continue
            for index in table.tuples[wrong & good][: self._fault_limit].tolist():
                value = table.value(index, column)[:64]
                bad.append(lines.bad(index, field.name, field.type, f"{value!r} is not a value of {field.type}"))
            good &= ~wrong
        row_ends = lines.ends[table.tuples[good]]
        nulled = {column: wrong & good for column, wrong in nulled.items() if (wrong & good).any()}
        nulled_ends = [lines.ends[table.tuples[wrong]] for wrong in nulled.values()]
        return Faults(
            good_text=table.text(good, nulled, self._nulls, self._delimiter),
            row_ends=row_ends,
            tuple_ends=lines.ends,
            bad=tuple(sorted(bad, key=lambda fault: fault.index)[: self._fault_limit]),
            nulled_ends=np.sort(np.concatenate(nulled_ends)) if nulled_ends else _EMPTY,
        )

    def _search_whole(self, lines: _Lines, alive: Any, bad: list[BadTuple]) -> None:
        """Faults of tuples as wholes: length, stray carriage returns, number of fields."""
        lengths = lines.ends - lines.starts
        returns = lines.count_of(_RETURN)
        counts = lines.count_of(self._delimiter[0]) + 1
        for wrong, expected, measure, unit in (
            (lengths > self._tuple_limit, f"at most {self._tuple_limit} bytes", lengths, "bytes"),
            (returns > 0, "no carriage return inside the tuple", returns, "carriage returns"),
            (counts != len(self._names), f"{len(self._names)} fields", counts, "fields"),
        ):
            places = np.flatnonzero(wrong & alive)[: self._fault_limit].tolist()
            bad += [lines.bad(index, "", expected, f"{measure[index]} {unit}") for index in places]
            alive &= ~wrong

    def _wrong(self, field: Field, table: _Fields, column: int) -> Any:
        """Which of the table's tuples hold no value of the field's type there."""
        parser = field.parser
        if parser.textual:
            wrong = table.undecodable(column)
            if parser.column_check is not None:
                texts = table.tokens(column).filter(pa.array(~wrong)).cast(pa.string())
                wrong[~wrong] = ~_to_numpy(parser.column_check(texts))
        else:
            tokens = table.tokens(column)
            sure = _matches(tokens, parser.surely_good) if parser.surely_good else np.zeros(table.count, np.bool_)
            wrong = ~_matches(tokens, parser.maybe_good) if parser.maybe_good else np.zeros(table.count, np.bool_)
            wrong &= ~sure
            doubtful = np.flatnonzero(~sure & ~wrong)
            texts_in_doubt = tokens.take(pa.array(doubtful)).to_pylist()
            wrong[doubtful[self._refused(field.name, texts_in_doubt)]] = True
        if field.nullable:
            wrong &= ~_to_numpy(pc.is_in(table.tokens(column), value_set=pa.array(self._nulls, pa.binary())))
        elif not parser.textual and self._nulls:  # the reader would make NULL of it
            wrong |= _to_numpy(pc.is_in(table.tokens(column), value_set=pa.array(self._nulls, pa.binary())))
        return wrong

    def _refused(self, name: str, texts: list[bytes]) -> list[int]:
        """Positions of the texts that the reader does not take: calls proportional to their number × log of all."""
        refused: list[int] = []
        todo = [(0, len(texts))] if texts else []
        while todo:
            start, stop = todo.pop()
            if self._reads(name, texts[start:stop]):
                continue
            if stop - start == 1:
                refused.append(start)
                continue
            middle = (start + stop) // 2
            todo += [(start, middle), (middle, stop)]
        return refused


class _Lines:
    """The tuples of a block that are not empty, as offsets."""

    def __init__(self, text: bytes, ends: Any) -> None:
        self.text = text
        self.bytes = np.frombuffer(text, np.uint8)
        starts = np.concatenate((_EMPTY, ends[:-1])) if len(ends) == 0 else np.concatenate(([0], ends[:-1]))
        stops = ends - 1
        stops = stops - ((stops > starts) & (self.bytes[np.maximum(stops - 1, 0)] == _RETURN))
        filled = stops > starts
        self.starts, self.stops, self.ends = starts[filled], stops[filled], ends[filled]

    def count_of(self, byte: int) -> Any:
        """How often a byte stands in each tuple."""
        places = np.flatnonzero(self.bytes == byte)
        return np.searchsorted(places, self.stops) - np.searchsorted(places, self.starts)

    def bad(self, index: int, field: str, expected: str, reason: str) -> BadTuple:
        return BadTuple(index, int(self.starts[index]), int(self.stops[index]), field, expected, reason)


class _Fields:
    """Where every field of the tuples with the right number of fields stands; zero-copy over the block."""

    def __init__(self, lines: _Lines, alive: Any, delimiter: bytes, width: int) -> None:
        self._lines = lines
        self._data = pa.py_buffer(lines.text)
        self.tuples = np.flatnonzero(alive)
        self.count = len(self.tuples)
        places = np.flatnonzero(lines.bytes == delimiter[0])
        owner = np.searchsorted(lines.starts, places, "right") - 1
        inside = (owner >= 0) & (places < lines.stops[owner]) if len(lines.starts) else np.zeros(len(places), np.bool_)
        inside[inside] = alive[owner[inside]]
        cuts = places[inside].reshape(self.count, width - 1)
        starts, stops = lines.starts[self.tuples, None], lines.stops[self.tuples, None]
        self._starts = np.concatenate((starts, cuts + 1), axis=1)
        self._stops = np.concatenate((cuts, stops), axis=1)

    def tokens(self, column: int) -> Any:
        """The texts of a column, as a binary array."""
        return _slices(self._data, self._starts[:, column], self._stops[:, column])

    def value(self, tuple_index: int, column: int) -> bytes:
        """One text."""
        row = int(np.searchsorted(self.tuples, tuple_index))
        return self._lines.text[self._starts[row, column] : self._stops[row, column]]

    def undecodable(self, column: int) -> Any:
        """Which texts of a column are not UTF-8; only those with a byte beyond ASCII are looked at one by one."""
        high = np.flatnonzero(self._lines.bytes >= _ASCII)
        starts, stops = self._starts[:, column], self._stops[:, column]
        wrong = np.searchsorted(high, stops) > np.searchsorted(high, starts)
        for row in np.flatnonzero(wrong).tolist():
            wrong[row] = not _is_utf8(self._lines.text[starts[row] : stops[row]])
        return wrong

    def text(self, good: Any, nulled: dict[int, Any], nulls: tuple[bytes, ...], delimiter: bytes) -> bytes:
        """The good tuples one behind another, marked values replaced."""
        if not good.any():
            return b""
        if not nulled:
            tuples = self.tuples[good]
            lines = _slices(self._data, self._lines.starts[tuples], self._lines.ends[tuples])
        else:
            null = pa.scalar(nulls[0], pa.binary())
            columns = []
            for column in range(self._starts.shape[1]):
                tokens = self.tokens(column)
                if column in nulled:
                    tokens = pc.if_else(pa.array(nulled[column]), null, tokens)
                columns.append(tokens.filter(pa.array(good)))
            joined = pc.binary_join_element_wise(*columns, pa.scalar(delimiter, pa.binary()))
            lines = pc.binary_join_element_wise(joined, pa.scalar(b"\n", pa.binary()), pa.scalar(b"", pa.binary()))
        offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
        return bytes(lines.buffers()[2][int(offsets[0]) : int(offsets[-1])])


def _slices(data: Any, starts: Any, stops: Any) -> Any:
    """Binary array of slices that are in order and do not overlap: every second element of the offsets interleaved."""
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = starts, stops
    every = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), data])
    return every.take(pa.array(np.arange(0, 2 * count, 2)))


def _matches(tokens: Any, pattern: str) -> Any:
    return _to_numpy(pc.match_substring_regex(tokens, pattern))


def _to_numpy(mask: Any) -> Any:
    return mask.to_numpy(zero_copy_only=False).astype(np.bool_)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
