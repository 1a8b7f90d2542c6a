"""Arrow's CSV reader for blocks, with the schema's types; doubtful columns are read as bytes.

The fixed cost of a call of Arrow's reader is about the time in which the reader reads hundreds of tuples: Arrow reads
each text in a thread of its own, for which the caller waits. A short text, such as a feed delivers while the load is
low, is therefore read here tuple by tuple if it is plain: ASCII, without quotes, with integers that consist of digits
alone. Every other text, including one with a malformed value, is read by Arrow's reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.csv as pacsv

from runtime.formats.csv.delimiters import BYTE_ORDER_MARK, QUOTE
from runtime.formats.csv.tuples import has_quotes

if TYPE_CHECKING:
    from runtime.formats.csv.dialect import CsvDialect
    from runtime.formats.schema import Field, Schema

__all__ = ["BlockReader", "FewTuples", "Refused"]

_MOST_BYTES: Final = 4096
"""Greatest length in bytes of a text that is read tuple by tuple."""
_MOST_DIGITS: Final = 19
"""Greatest number of digits of an integer that is read here."""
_INT64: Final = pa.int64()
_STRING: Final = pa.string()


class FewTuples:
    """Reader of int64 and string columns of short, plain texts, with the results of Arrow's reader; immutable."""

    def __init__(self, schema: Schema, field_delimiter: bytes, fields: Sequence[Field]) -> None:
        """Prepare the reader for the wanted ``fields``."""
        self._delimiter = field_delimiter
        self._width = len(schema.fields)
        names = schema.names
        self._columns = [(names.index(each.name), each.parser.arrow_type == _INT64) for each in fields]
        self._arrow_schema = pa.schema([(each.name, each.parser.arrow_type) for each in fields])
        is_plain = all(each.parser.arrow_type in (_INT64, _STRING) for each in fields)
        has_numeric_nulls = any(value.isdigit() for value in schema.null_values)
        self._reads_any = bool(fields) and is_plain and not has_numeric_nulls

    def read(self, text: bytes) -> Any:
        """Return the wanted columns of tuples that end in a line end, as a table; None if not short and plain."""
        if not self._reads_any or len(text) > _MOST_BYTES or not text.isascii() or b"\r" in text:
            return None
        *lines, rest = text.split(b"\n")
        delimiter, width = self._delimiter, self._width
        rows = [line.split(delimiter) for line in lines]
        if rest or not rows or b"" in lines or any(len(row) != width for row in rows):
            return None
        columns = list(zip(*rows, strict=True))
        arrays = []
        for place, is_number in self._columns:
            values = columns[place]
            if not is_number:
                arrays.append(pa.array([value.decode() for value in values], _STRING))
            elif all(map(bytes.isdigit, values)) and max(map(len, values)) <= _MOST_DIGITS:
                numbers = list(map(int, values))
                if max(numbers) >= 1 << 63:
                    return None
                arrays.append(pa.array(numbers, _INT64))
            else:
                return None
        return pa.Table.from_arrays(arrays, schema=self._arrow_schema)


_WHOLE: Final = 2**31 - 1
_COLUMN: Final = re.compile(r"In CSV column #(\d+)")
_ZONE: Final = re.compile(r"expected (?:no|a) zone offset")
_MOST_CONVERSIONS: Final = 64
"""Number of cached option objects of Arrow's reader; each is for one set of columns that are read as bytes."""
_ROW: Final = re.compile(r"^(?:In CSV column #\d+|CSV parse error): Row #(\d+)")


class Refused(msgspec.Struct, frozen=True):
    """Reason for which the reader refuses a text as a whole."""

    position: int | None
    """Position of the read field with a malformed value; None if a tuple has another number of fields."""
    row: int
    """Index of the first such tuple that the reader finds; -1 if unknown."""
    other_zone: bool = False
    """True for a timestamp with an offset from UTC that should have none, or without an offset that should have one."""

    @property
    def positions(self) -> frozenset[int]:
        """Position of the field, if there is one."""
        return frozenset() if self.position is None else frozenset((self.position,))


class BlockReader:
    """Reader of whole tuples that end in a line end. ``fields`` are the wanted ones, in schema order."""

    def __init__(self, schema: Schema, dialect: CsvDialect, fields: Sequence[Field]) -> None:
        self._fields = fields
        self._positions = {schema.names.index(f.name): i for i, f in enumerate(fields)}
        self._width = len(schema.fields)
        self._dialect = dialect
        self._null_values = list(schema.null_values)
        self._read_options = pacsv.ReadOptions(column_names=list(schema.names), use_threads=False, block_size=_WHOLE)
        self._quoted_options = self._parsing(None, quoting=dialect.quoting)
        self._plain_options = self._parsing(None, quoting=False)
        self._few = FewTuples(schema, dialect.field_delimiter, fields)
        self._conversion = lru_cache(_MOST_CONVERSIONS)(self._new_conversion)

    def read(self, text: bytes, as_bytes: frozenset[int] = frozenset(), zoned: frozenset[int] = frozenset()) -> Any:
        """Return the columns as a table, or the reason of a refusal.

        The columns at the positions ``as_bytes`` are not converted, and the timestamps at the positions ``zoned`` are
        expected to have an offset from UTC.
        """
        options = self._options_for(text)
        if options is self._plain_options and not (as_bytes or zoned):
            table = self._few.read(text)
            if table is not None:
                return table
        try:
            return self._read(text, options, self._conversion(as_bytes, zoned))
        except pa.ArrowInvalid as error:
            column, row = _COLUMN.match(str(error)), _ROW.search(str(error))
            position = None if column is None else self._positions[int(column[1])]
            other_zone = column is not None and _ZONE.search(str(error)) is not None
            return Refused(position, int(row[1]) - 1 if row is not None else -1, other_zone)

    def misshapen(self, text: bytes) -> dict[int, int]:
        """Return the index of each tuple with another number of fields, and that number."""
        counts: dict[int, int] = {}

        def note(row: Any) -> str:
            counts[row.number - 1] = row.actual_columns
            return "skip"

        if not text.isascii():  # the reader passes the tuple to `note` as text, but its bytes may not be UTF-8
            text = text.translate(_ASCII_ONLY)
        options = pacsv.ConvertOptions(column_types={self._first: pa.binary()}, include_columns=[self._first])
        self._read(text, self._parsing(note, quoting=has_quotes(text, self._dialect)), options)
        return counts

    def _options_for(self, text: bytes) -> Any:
        """Return the options: quoting slows down Arrow's search for line ends, so it is on only if there are quotes."""
        return self._quoted_options if has_quotes(text, self._dialect) else self._plain_options

    @property
    def _first(self) -> str:
        return str(self._read_options.column_names[0])

    def _read(self, text: bytes, parse_options: Any, convert_options: Any) -> Any:
        # The reader would drop a byte order mark, which is data in the middle of a stream, and needs at least one byte.
        if not text or text.startswith(BYTE_ORDER_MARK):
            text = b"\n" + text
        return pacsv.read_csv(
            pa.BufferReader(text),
            read_options=self._read_options,
            parse_options=parse_options,
            convert_options=convert_options,
        )

    def _parsing(self, invalid_row_handler: Any, *, quoting: bool) -> Any:
        dialect = self._dialect
        return pacsv.ParseOptions(
            delimiter=dialect.field_delimiter.decode(),
            quote_char=QUOTE.decode() if quoting else False,
            double_quote=quoting,
            escape_char=dialect.escape.decode() if quoting and dialect.escape else False,
            newlines_in_values=quoting,
            ignore_empty_lines=True,
            invalid_row_handler=invalid_row_handler,
        )

    def _new_conversion(self, as_bytes: frozenset[int], zoned: frozenset[int]) -> Any:
        """Return options that convert by the schema's types alone: nothing is guessed and no text is null by itself."""
        types = {f.name: f.parser.arrow_type for f in self._fields}
        for position, field in enumerate(self._fields):
            if position in as_bytes:
                types[field.name] = pa.binary()
            elif position in zoned:
                types[field.name] = pa.timestamp(types[field.name].unit, "UTC")
        types = types or {self._first: pa.binary()}  # no columns would mean all of them
        return pacsv.ConvertOptions(
            check_utf8=True,
            column_types=types,
            include_columns=list(types),
            null_values=self._null_values,
            strings_can_be_null=False,
            auto_dict_encode=False,
        )


_ASCII_ONLY: Final = bytes(range(128)) + b"?" * 128
