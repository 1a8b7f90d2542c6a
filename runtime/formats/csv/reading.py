"""Reader of a block of text to columns in which every malformed value is marked.

A column that Arrow's reader refuses is read text by text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.csv.conversion import (
    Conversion,
    UnreadError,
    conversion_of,
    is_beyond,
    may_be_hexadecimal,
    may_be_too_small,
    needs_texts,
)
from runtime.formats.csv.reader import BlockReader, Refused
from runtime.formats.csv.tokens import one_chunk, to_numpy, trimmed, undecodable
from runtime.formats.csv.translation import Translation
from runtime.formats.values import ValueParser

if TYPE_CHECKING:
    from runtime.formats.csv.dialect import CsvDialect
    from runtime.formats.schema import Field, Schema

__all__ = ["Absence", "ColumnFaults", "ColumnReader", "Reading", "TextReader"]

_ERRORS_BY_ROW: Final = 4
"""Greatest number of refusals of a column whose message is used to find the value."""
_FEW: Final = 32
"""Greatest number of values that are judged one by one."""


class ColumnReader:
    """Reader of the texts of one field, which decides as the reader of whole blocks does."""

    def __init__(self, field: Field, null_values: tuple[str, ...], *, trim: bool) -> None:
        self._field = field
        self._parser: ValueParser = field.parser
        self._nulls = pa.array([text.encode() for text in null_values], pa.binary())
        self._trim = trim
        self._conversion: Conversion | None = None if self._parser.textual else conversion_of(self._parser)

    def read(self, tokens: Any) -> tuple[Any, Any]:
        """Return the values of ``tokens``, a binary array of texts, and a boolean array that marks the malformed ones.

        A malformed value is NULL in the column.
        """
        if self._trim:
            tokens = trimmed(tokens)
        nothing = np.zeros(len(tokens), np.bool_)
        is_text = self._conversion is None
        null = nothing if is_text and not self._field.nullable else to_numpy(pc.is_in(tokens, value_set=self._nulls))
        wrong = nothing if self._field.nullable else null
        values, refused = _texts(tokens, null) if self._conversion is None else self._values(tokens, null)
        if self._parser.nested and not self._field.nullable:  # the word null is JSON, but no value here
            wrong = wrong | to_numpy(values.is_null())
        return self.checked(values, wrong | refused)

    def checked(self, values: Any, wrong: Any) -> tuple[Any, Any]:
        """Return the column and ``wrong``; a value that fails the parser's own condition is NULL and marked as well."""
        if self._parser.column_check is None:
            return values, wrong
        failed = ~to_numpy(pc.fill_null(self._parser.column_check(values), True))
        if failed.any():
            values = pc.if_else(pa.array(~failed), values, pa.scalar(None, values.type))
        return values, wrong | failed

    def _values(self, tokens: Any, null: Any) -> tuple[Any, Any]:
        assert self._conversion is not None
        refused = self._conversion.unreadable(tokens) & ~null
        values = self._read_around(self._conversion, tokens, null, refused)
        unfit = self._conversion.unfit(values, tokens)
        if unfit is not None and unfit.any():
            refused |= unfit
            values = pc.if_else(pa.array(~unfit), values, pa.scalar(None, values.type))
        return values, refused

    def _read_around(self, conversion: Conversion, tokens: Any, null: Any, refused: Any) -> Any:
        """Return the values, and mark those that the reader refuses in ``refused``.

        Refused values are found first by the type's pattern, then by the reader's messages, and last by bisection.
        """

        def read(part: slice) -> Any:
            skip = (null | refused)[part]
            if skip.all():
                return pa.nulls(len(skip), self._parser.arrow_type)
            return conversion.values(tokens[part], skip)

        def accepts(start: int, stop: int) -> bool:
            try:
                read(slice(start, stop))
            except UnreadError:
                return False
            return True

        by_looks = len(tokens) > _FEW
        for _ in range(_ERRORS_BY_ROW):
            try:
                return read(slice(None))
            except UnreadError as error:
                if by_looks:
                    refused |= conversion.refused(tokens) & ~null
                    by_looks = False
                elif error.row < 0 or (not error.certain and accepts(error.row, error.row + 1)):
                    break
                else:
                    refused[error.row] = True

        for start, stop in _refused_parts(len(tokens), accepts):
            for position, is_sure in conversion.suspects(tokens[start:stop]).items():
                place = start + position
                refused[place] |= not null[place] and (is_sure or not accepts(place, place + 1))
            if not accepts(start, stop):
                refused[start:stop] |= [not accepts(place, place + 1) for place in range(start, stop)]
        return read(slice(None))


def _texts(tokens: Any, null: Any) -> tuple[Any, Any]:
    """Return the texts as strings, with NULL for ``null`` and for texts that are not UTF-8; and which are not UTF-8."""
    refused = undecodable(tokens)
    keep = pa.array(~(refused | null))
    return pc.if_else(keep, tokens, pa.scalar(None, pa.binary())).cast(pa.string()), refused


def _refused_parts(count: int, accepts: Callable[[int, int], bool]) -> Iterator[tuple[int, int]]:
    """Yield the small parts for which ``accepts`` returns False, by bisection.

    The caller may change whether a yielded part is accepted, but not whether others are.
    """
    todo = [(0, count)]
    while todo:
        start, stop = todo.pop()
        if accepts(start, stop):
            continue
        if stop - start <= _FEW:
            yield start, stop
        else:
            middle = (start + stop) // 2
            todo += [(start, middle), (middle, stop)]


_FEW_COLUMNS: Final = 3
"""Number of refused columns of a block from which all columns that may be refused are read as bytes."""
_FEW_ROWS: Final = 16
"""Greatest number of rows of a block that is too small to be a hint for the next block."""


class Absence(StrEnum):
    """Description of a missing text."""

    NULL_TEXT = "a text for NULL"
    """Text that Arrow has read as NULL."""
    NOTHING = "nothing"
    """Field that the tuple lacks."""


class ColumnFaults(msgspec.Struct, frozen=True, eq=False):
    """Rows in which a column has malformed values; the column has NULL there."""

    position: int
    """Position of the column."""
    rows: Any
    """Boolean array, one per row."""
    text: Callable[[int], bytes | str]
    """Function that returns the text of a row, or an `Absence`."""


class Reading(msgspec.Struct, frozen=True, eq=False):
    """Tuples of the right shape as columns."""

    rows: int
    """Number of rows."""
    columns: list[Any]
    """Arrow arrays, one per field that is read."""
    faults: list[ColumnFaults]
    """Columns with malformed values."""


class TextReader:
    """Reader of translated text with the types of ``fields``; a column with malformed values needs another pass."""

    def __init__(self, schema: Schema, dialect: CsvDialect, fields: Sequence[Field]) -> None:
        self._fields = fields
        self._reader = BlockReader(schema, dialect, fields)
        self._columns = [ColumnReader(f, schema.null_values, trim=dialect.trim) for f in fields]
        self._trim = dialect.trim
        self._nulls = pa.array(schema.null_values, pa.string())
        # Arrow trims numbers and dates itself. Texts are trimmed, and arrays and structs parsed, after the call of
        # Arrow.
        self._always_bytes = frozenset(
            i
            for i, f in enumerate(fields)
            if needs_texts(f.parser) or (dialect.trim and not _is_trimmed(f.parser.arrow_type))
        )
        self._doubtful = frozenset(i for i, f in enumerate(fields) if not f.parser.textual)
        self._bounded = frozenset(i for i, f in enumerate(fields) if _is_bounded(f.parser.arrow_type))
        self._decimals = frozenset(i for i, f in enumerate(fields) if pa.types.is_decimal(f.parser.arrow_type))
        # Positions of timestamps with an offset from UTC in the last block: a hint for the next one.
        self._zoned: frozenset[int] = frozenset()

    def read(
        self, translation: Translation, *, at_once: bool = False, doubtful: frozenset[int] = frozenset()
    ) -> Reading | Refused:
        """Return the columns, or the refusal of a tuple with another number of fields.

        With ``at_once``, a malformed value is refused too, instead of being marked by another pass over its column.
        Columns at the positions ``doubtful`` are expected to have malformed values.
        """
        as_bytes, zoned = self._always_bytes | doubtful, self._zoned
        if self._decimals and may_be_too_small(translation.text):
            as_bytes |= self._decimals
        turned: dict[int, Refused] = {}
        while True:
            table = self._reader.read(translation.text, as_bytes, zoned)
            if not isinstance(table, Refused):
                columns = {i: table.column(i) for i in self._bounded - as_bytes}
                beyond = [i for i, column in columns.items() if self._is_beyond(i, column, translation.text)]
                if not beyond:
                    self._zoned = zoned if table.num_rows > _FEW_ROWS else self._zoned
                    return self._finished(table, translation, as_bytes)
                as_bytes |= frozenset(beyond)
            elif table.position is not None and table.other_zone and table.position not in turned:
                turned[table.position] = table
                zoned ^= {table.position}
            elif table.position is None:
                return table
            elif at_once:
                return turned.get(table.position, table)
            else:
                # If several columns are refused, the others are not tried one by one.
                many = len(as_bytes) - len(self._always_bytes) >= _FEW_COLUMNS
                others = self._doubtful if many else frozenset[int]()
                as_bytes |= {table.position} | others

    def _is_beyond(self, position: int, column: Any, text: bytes) -> bool:
        """Return True if a column that Arrow has read from a text may have malformed values."""
        if pa.types.is_signed_integer(column.type):
            return is_beyond(column) and may_be_hexadecimal(text)
        check = self._fields[position].parser.column_check
        return is_beyond(column) or (check is not None and pc.all(check(column), min_count=0).as_py() is False)

    def nothing(self) -> Reading:
        """Return a reading of no tuples."""
        return Reading(0, [pa.array([], f.parser.arrow_type) for f in self._fields], [])

    def misshapen(self, translation: Translation) -> dict[int, int]:
        """Return tuple index → number of fields, for the tuples with another number than the schema has."""
        return self._reader.misshapen(translation.text)

    def _finished(self, table: Any, translation: Translation, as_bytes: frozenset[int]) -> Reading:
        columns, faults = [], []
        for position, field in enumerate(self._fields):
            column = one_chunk(table.column(position))
            if position in as_bytes:
                tokens = translation.restored(column)
                column, wrong = self._columns[position].read(tokens)
                text = _text_of(tokens)
            elif field.parser.textual:
                column, wrong = self._text(position, field, translation.restored(column))
                text = _text_of(column if wrong is None else translation.restored(table.column(position)))
            else:
                wrong = to_numpy(column.is_null()) if not field.nullable and column.null_count else None
                text = _null_text
                if column.type != field.parser.arrow_type:  # timestamps with an offset
                    column = column.cast(field.parser.arrow_type)
            columns.append(column)
            if wrong is not None and wrong.any():
                faults.append(ColumnFaults(position, wrong, text))
        return Reading(table.num_rows, columns, faults)

    def _text(self, position: int, field: Field, column: Any) -> tuple[Any, Any]:
        if self._trim:
            column = trimmed(column)
        if field.nullable and len(self._nulls):
            empty = len(self._nulls) == 1 and not self._nulls[0].as_py()
            null = pc.equal(pc.binary_length(column), 0) if empty else pc.is_in(column, value_set=self._nulls)
            if null.true_count:
                column = pc.if_else(null, pa.scalar(None, pa.string()), column)
        if field.parser.column_check is None:
            return column, None
        return self._columns[position].checked(column, np.zeros(len(column), np.bool_))


def _is_trimmed(arrow_type: Any) -> bool:
    """Return True if Arrow's reader trims blanks around values of this type."""
    types = pa.types
    return not (types.is_boolean(arrow_type) or types.is_timestamp(arrow_type))


def _is_bounded(arrow_type: Any) -> bool:
    """Return True if Arrow's reader accepts values of this type that do not fit it."""
    types = pa.types
    return any(rule(arrow_type) for rule in (types.is_floating, types.is_decimal, types.is_signed_integer))


def _text_of(column: Any) -> Callable[[int], bytes | str]:
    return lambda row: column[row].as_py() if column[row].is_valid else Absence.NULL_TEXT


def _null_text(row: int) -> str:
    del row
    return Absence.NULL_TEXT
