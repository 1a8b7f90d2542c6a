"""Conversion of a column of texts to values of one type: by Arrow's reader of CSV, with corrections of its errors."""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from runtime.formats.csv.delimiters import BYTE_ORDER_MARK
from runtime.formats.csv.tokens import content, matches, one_chunk, to_numpy, trimmed, undecodable, without
from runtime.formats.jsonlines.reader import JsonReader, Refusal
from runtime.formats.jsonlines.values import LineJudge
from runtime.formats.schema import Field
from runtime.formats.values import ValueParser

__all__ = [
    "Conversion",
    "UnreadError",
    "conversion_of",
    "is_beyond",
    "may_be_hexadecimal",
    "may_be_too_small",
    "needs_texts",
    "too_small",
]

_SEPARATOR: Final = b"\x01"
_NO_VALUE: Final = b"\x01\r\n"
_WHOLE: Final = 2**31 - 1
_ROW: Final = re.compile(r"In CSV column #0: Row #(\d+)")
_ZONED: Final = r"[T ][0-9:.]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_INFINITE: Final = r"(?i)^[ \t]*[-+]?inf(inity)?[ \t]*$"
_HEXADECIMAL: Final = r"^[ \t]*0[xX]"
_LONGEST_DECIMAL: Final = 38
_SMALL: Final = r"^[ \t]*[-+]?[0-9]*\.?(?P<fraction>[0-9]*)[eE]-0*(?P<power>[0-9]{0,4})[ \t]*$"
_NULL: Final = b'{"value":null}\n'
_TINY: Final = r"[eE]-0*[1-9][0-9]{4}"


class UnreadError(Exception):
    """A reader has refused a column."""

    def __init__(self, row: int, *, certain: bool) -> None:
        super().__init__(f"expected values, was another text at {row}")
        self.row = row
        """Row that the reader names; -1 if it names none."""
        self.certain = certain
        """True if the value of this row is certainly the refused one."""


class Conversion(Protocol):
    """Interface of a conversion for `ColumnReader`."""

    def unreadable(self, tokens: Any) -> Any:
        """Return which texts the reader must not get."""

    def refused(self, tokens: Any) -> Any:
        """Return which texts are surely no values, by pattern; the reader judges the others."""

    def suspects(self, tokens: Any) -> dict[int, bool]:
        """Return the index of each text that seems not to be a value, with True if this is certain; for few texts."""

    def values(self, tokens: Any, skip: Any) -> Any:
        """Return the values, NULL for skipped ones; raise `UnreadError` if the reader refuses one."""

    def unfit(self, values: Any, tokens: Any) -> Any:
        """Return which values the reader has accepted though they do not fit their type, None for none."""


def needs_texts(parser: ValueParser) -> bool:
    """Return True if Arrow's reader of CSV cannot read the type: arrays, structs, decimals that may wrap around."""
    return parser.nested or _may_wrap(parser.arrow_type)


def conversion_of(parser: ValueParser) -> Conversion:
    """Return a conversion by Arrow's reader of CSV, or by that of JSON lines for other types."""
    if not needs_texts(parser):
        return _PlainTexts(parser)
    return JsonTexts(parser)


def is_beyond(column: Any) -> bool:
    """Return True if a column may have misfits: infinite floats, decimals of too many digits, or negative integers.

    Arrow's reader takes the hexadecimal digits of an integer as its bits, so that ``0xFF`` would be -1 as an int8.
    """
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.is_inf(column), min_count=0).as_py())
    if pa.types.is_signed_integer(column.type):
        return bool(pc.any(pc.less(column, 0), min_count=0).as_py())
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


class _PlainTexts:
    """Conversion by Arrow's reader of CSV, in which timestamps with an offset from UTC are a type of their own."""

    def __init__(self, parser: ValueParser) -> None:
        self._parser = parser
        self._type = parser.arrow_type
        self._options = _options(self._type)
        self._zoned: Any = None
        if pa.types.is_timestamp(self._type):
            self._zoned = _options(pa.timestamp(self._type.unit, "UTC"))

    def unreadable(self, tokens: Any) -> Any:
        refused = to_numpy(pc.equal(pc.binary_length(tokens), 0))
        data = content(tokens)
        if any(code in data for code in _NO_VALUE):
            refused |= matches(tokens, f"[{_NO_VALUE.decode()}]")
        return refused | too_small(tokens, self._type) if pa.types.is_decimal(self._type) else refused

    def refused(self, tokens: Any) -> Any:
        parser = self._parser
        refused = ~matches(tokens, parser.maybe_good) if parser.maybe_good else np.zeros(len(tokens), np.bool_)
        if pa.types.is_integer(self._type):
            doubtful = np.flatnonzero(~refused & ~matches(tokens, parser.surely_good))
            refused[doubtful] = _out_of_range(tokens.take(pa.array(doubtful)), self._type)
        return refused

    def suspects(self, tokens: Any) -> dict[int, bool]:
        return dict.fromkeys(range(len(tokens)), False)

    def values(self, tokens: Any, skip: Any) -> Any:
        if len(tokens) == 0:
            return pa.array([], self._type)
        if self._zoned is None or not (zoned := matches(tokens, _ZONED)).any():
            return self._read(tokens, skip, self._options)
        local = self._read(tokens, skip | zoned, self._options)
        return pc.if_else(pa.array(zoned), self._read(tokens, skip | ~zoned, self._zoned).cast(self._type), local)

    def unfit(self, values: Any, tokens: Any) -> Any:
        if pa.types.is_floating(self._type) and is_beyond(values):
            return to_numpy(pc.fill_null(pc.is_inf(values), False)) & ~matches(tokens, _INFINITE)
        if pa.types.is_decimal(self._type) and is_beyond(values):
            return _too_many_digits(values)
        if pa.types.is_signed_integer(self._type) and is_beyond(values):
            return to_numpy(pc.fill_null(pc.less(values, 0), False)) & matches(tokens, _HEXADECIMAL)
        return None

    @staticmethod
    def _read(tokens: Any, skip: Any, options: Any) -> Any:
        end = pa.scalar(b"\n", pa.binary())
        lines = pc.binary_join_element_wise(without(tokens, skip, b""), end, pa.scalar(_SEPARATOR, pa.binary()))
        data = content(lines)
        if data.startswith(BYTE_ORDER_MARK):  # the reader would drop it
            data = b"\n" + data
        try:
            return one_chunk(pacsv.read_csv(pa.BufferReader(data), **options).column(0))
        except pa.ArrowInvalid as error:
            row = _ROW.match(str(error))
            if row is None:
                raise
            raise UnreadError(int(row[1]) - 1, certain=True) from None


def _options(arrow_type: Any) -> dict[str, Any]:
    """Return options for a column of texts, each followed by a separator, so that no line is empty; "" is NULL."""
    return {
        "read_options": pacsv.ReadOptions(column_names=["value", "end"], use_threads=False, block_size=_WHOLE),
        "parse_options": pacsv.ParseOptions(
            delimiter=_SEPARATOR.decode(), quote_char=False, double_quote=False, escape_char=False
        ),
        "convert_options": pacsv.ConvertOptions(
            column_types={"value": arrow_type}, include_columns=["value"], null_values=[""]
        ),
    }


def _may_wrap(arrow_type: Any) -> bool:
    """Return True if a decimal of this type may exceed 128 bits while Arrow scales it; Arrow does not check this."""
    return bool(pa.types.is_decimal(arrow_type) and arrow_type.precision + arrow_type.scale > _LONGEST_DECIMAL)


def may_be_hexadecimal(text: bytes) -> bool:
    """Return True if a text may contain numbers in hexadecimal."""
    return any(letter in text and b"0" + letter in text for letter in (b"x", b"X"))


def may_be_too_small(text: bytes) -> bool:
    """Return True if a text may contain numbers with a negative exponent."""
    return b"e-" in text or b"E-" in text


def too_small(tokens: Any, arrow_type: Any) -> Any:
    """Return which decimals have more decimal places than Arrow's table of powers of ten has entries."""
    wrong = np.zeros(len(tokens), np.bool_)
    if may_be_too_small(content(tokens)):
        parsed = pc.extract_regex(tokens, _SMALL)
        small = np.flatnonzero(to_numpy(parsed.is_valid()))
        parts = parsed.take(pa.array(small))
        power = pc.cast(pc.replace_substring_regex(parts.field("power").cast(pa.string()), "^$", "0"), pa.int64())
        behind = pc.add(pc.binary_length(parts.field("fraction")), power)
        wrong[small] = to_numpy(pc.greater(behind, _LONGEST_DECIMAL + arrow_type.scale))
        wrong |= matches(tokens, _TINY)
    return wrong


def _out_of_range(tokens: Any, arrow_type: Any) -> Any:
    """Return which integers Arrow's reader refuses. The reader accepts digits in the type's range, after a minus sign
    if the type is signed, and hexadecimal digits up to the type's width.
    """
    is_signed = pa.types.is_signed_integer(arrow_type)
    bits = arrow_type.bit_width
    least, most = (1 << bits - 1, (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    texts = trimmed(tokens)
    significant = pc.replace_substring_regex(texts, pattern="^-?0*" if is_signed else "^0*", replacement="")
    length = pc.binary_length(significant)
    bound = pc.if_else(pc.starts_with(texts, pattern="-"), str(least).encode(), str(most).encode())
    bound_length = pc.binary_length(bound)
    fits = pc.or_(
        pc.less(length, bound_length), pc.and_(pc.equal(length, bound_length), pc.less_equal(significant, bound))
    )
    is_number = pc.match_substring_regex(texts, r"^-?[0-9]+$" if is_signed else r"^[0-9]+$")
    is_hexadecimal = pc.match_substring_regex(texts, rf"^0[xX][0-9a-fA-F]{{1,{bits // 4}}}$")
    return ~to_numpy(pc.or_(pc.and_(is_number, fits), is_hexadecimal))


def _too_many_digits(values: Any) -> Any:
    """Return which decimals exceed the precision of their type."""
    most = (1 << 64) - 1
    bound = 10**values.type.precision - 1
    halves = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset :][: 2 * len(values)].reshape(-1, 2)
    low, high = halves[:, 0], halves[:, 1].view(np.int64)
    above = (high > bound >> 64) | ((high == bound >> 64) & (low > np.uint64(bound & most)))
    below = (high < -bound >> 64) | ((high == -bound >> 64) & (low < np.uint64(-bound & most)))
    return (above | below) & to_numpy(values.is_valid())


class JsonTexts:
    """`Conversion` of arrays, structs and long decimals by the reader of JSON lines, so that both formats agree.

    Each text becomes the value of a line. A struct may have no members other than those of its type.
    """

    def __init__(self, parser: ValueParser) -> None:
        self._parser = parser
        around = (b'{"value":', b"}\n") if parser.nested else (b'{"value":"', b'"}\n')
        self._before, self._behind = (pa.scalar(part, pa.binary()) for part in around)
        fields = [Field("value", parser.name, nullable=True)]
        self._reader = JsonReader(fields, unexpected="error")
        self._judge = LineJudge(fields)
        self._is_exact = _is_exact(parser.arrow_type)

    def unreadable(self, tokens: Any) -> Any:
        """Return which texts are not UTF-8 or, for decimals, not numbers: in JSON these might mean something else."""
        if self._parser.nested:
            return undecodable(tokens)
        return self.refused(tokens) | too_small(tokens, self._parser.arrow_type)

    def refused(self, tokens: Any) -> Any:
        """Return which texts do not match the pattern."""
        return ~matches(tokens, self._parser.maybe_good)

    def suspects(self, tokens: Any) -> dict[int, bool]:
        """Return the indices of texts that the judge of single lines refuses."""
        lines = ((i, b'{"value":%b}' % text) for i, text in enumerate(tokens.to_pylist()))
        return {i: self._is_exact for i, line in lines if self._judge.faults(line)}

    def values(self, tokens: Any, skip: Any) -> Any:
        """Read one object a line."""
        if len(tokens) == 0:
            return pa.array([], self._parser.arrow_type)
        if self._parser.nested:
            for line_end in (b"\n", b"\r"):  # a tab is a blank of JSON too, and is refused inside a text as well
                tokens = pc.replace_substring(tokens, line_end, b"\t")
        else:
            tokens = trimmed(tokens)
        lines = pc.binary_join_element_wise(self._before, tokens, self._behind, pa.scalar(b"", pa.binary()))
        reading = self._reader.read(content(without(lines, skip, _NULL)), len(tokens))
        if isinstance(reading, Refusal):
            raise UnreadError(reading.line if reading.line < len(tokens) else -1, certain=False)
        return reading.rows.column(0)

    def unfit(self, values: Any, tokens: Any) -> None:
        """Return None, as the reader accepts nothing that does not fit."""


def _is_exact(arrow_type: Any) -> bool:
    """Return True if the rules of the type are those of JSON, so that its judge is never stricter than Arrow."""
    if pa.types.is_nested(arrow_type):
        return all(_is_exact(arrow_type.field(i).type) for i in range(arrow_type.num_fields))
    return any(rule(arrow_type) for rule in (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string))
