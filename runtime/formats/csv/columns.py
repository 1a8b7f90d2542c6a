"""One column, text by text, the ones that hold no value marked: for columns that Arrow's reader refuses as wholes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from runtime.formats.csv.dialect import BYTE_ORDER_MARK
from runtime.formats.values import ValueParser

if TYPE_CHECKING:
    from runtime.formats.schema import Field

__all__ = ["ColumnReader", "to_numpy"]

_SEPARATOR: Final = b"\x01"
_NO_VALUE: Final = b"\x01\r\n"
_WHOLE: Final = 2**31 - 1
_ROW: Final = re.compile(r"In CSV column #0: Row #(\d+)")
_ERRORS_BY_ROW: Final = 8
_FEW: Final = 32
_MOST_DIGITS: Final = 24


class ColumnReader:
    """Reads the texts of one field. What is a value is decided by the same reader that reads whole blocks."""

    def __init__(self, field: Field, null_values: tuple[str, ...], *, trim: bool) -> None:
        self._field = field
        self._parser: ValueParser = field.parser
        self._nulls = pa.array([text.encode() for text in null_values], pa.binary())
        self._trim = trim
        self._options: dict[str, Any] = {}
        if not self._parser.textual and not self._parser.nested:
            self._options = {
                "read_options": pacsv.ReadOptions(column_names=["value", "end"], use_threads=False, block_size=_WHOLE),
                "parse_options": pacsv.ParseOptions(
                    delimiter=_SEPARATOR.decode(), quote_char=False, double_quote=False, escape_char=False
                ),
                "convert_options": pacsv.ConvertOptions(
                    column_types={"value": self._parser.arrow_type}, include_columns=["value"], null_values=[""]
                ),
            }

    def read(self, tokens: Any) -> tuple[Any, Any]:
        """From a binary array the column, and a boolean array of the rows that hold no value; there it has NULL."""
        if self._trim:
            tokens = trimmed(_as_text(tokens, pa.string())).cast(pa.binary())
        null = to_numpy(pc.is_in(tokens, value_set=self._nulls))
        if self._field.nullable or not self._parser.textual:
            wrong = np.zeros(len(tokens), np.bool_) if self._field.nullable else null
        else:
            wrong, null = np.zeros(len(tokens), np.bool_), np.zeros(len(tokens), np.bool_)
        if self._parser.textual:
            values, refused = _texts(tokens, null)
        elif self._parser.nested:
            values, refused = self._nested(tokens, null)
        else:
            values, refused = self._plain(tokens, null)
        return self.checked(values, wrong | refused)

    def checked(self, values: Any, wrong: Any) -> tuple[Any, Any]:
        """The column with the parser's own condition applied."""
        if self._parser.column_check is None:
            return values, wrong
        failed = ~to_numpy(pc.fill_null(self._parser.column_check(values), True))
        if failed.any():
            values = pc.if_else(pa.array(~failed), values, pa.scalar(None, values.type))
        return values, wrong | failed

    def _plain(self, tokens: Any, null: Any) -> tuple[Any, Any]:
        refused = (_lengths(tokens) == 0) & ~null
        content = _content(tokens)
        if any(code in content for code in _NO_VALUE):
            refused |= _matches(tokens, f"[{_NO_VALUE.decode()}]")
        for _ in range(_ERRORS_BY_ROW):
            try:
                return self._converted(tokens, null | refused), refused
            except pa.ArrowInvalid as error:
                refused[_row_of(error)] = True
        refused |= self._refused_by_pattern(tokens, null | refused)
        return self._converted(tokens, null | refused), refused

    def _takes(self, tokens: Any) -> bool:
        try:
            self._converted(tokens, np.zeros(len(tokens), np.bool_))
        except pa.ArrowInvalid as error:
            _row_of(error)
            return False
        return True

    def _converted(self, tokens: Any, skip: Any) -> Any:
        """The values of the texts, NULL for those that are skipped; raises `pyarrow.ArrowInvalid`."""
        if len(tokens) == 0:
            return pa.array([], self._parser.arrow_type)
        if skip.any():
            tokens = pc.if_else(pa.array(skip), pa.scalar(b"", pa.binary()), tokens)
        lines = pc.binary_join_element_wise(tokens, pa.scalar(b"\n", pa.binary()), pa.scalar(_SEPARATOR, pa.binary()))
        data = _content(lines)
        if data.startswith(BYTE_ORDER_MARK):  # the reader would drop it
            data = b"\n" + data
        table = pacsv.read_csv(pa.BufferReader(data), **self._options)
        return _one_chunk(table.column(0))

    def _refused_by_pattern(self, tokens: Any, skip: Any) -> Any:
        parser = self._parser
        sure = _matches(tokens, parser.surely_good) if parser.surely_good else np.zeros(len(tokens), np.bool_)
        refused = ~_matches(tokens, parser.maybe_good) if parser.maybe_good else np.zeros(len(tokens), np.bool_)
        refused &= ~sure & ~skip
        doubtful = np.flatnonzero(~sure & ~refused & ~skip)
        texts = tokens.take(pa.array(doubtful))
        one_by_one = _out_of_range(texts, parser.arrow_type) if pa.types.is_integer(parser.arrow_type) else None

        def reads(start: int, stop: int) -> bool:
            return self._takes(texts[start:stop])

        refused[doubtful[_refused(len(texts), reads, one_by_one)]] = True
        return refused

    def _nested(self, tokens: Any, null: Any) -> tuple[Any, Any]:
        """Arrays and structs: JSON, members as the type has them."""
        refused = np.zeros(len(tokens), np.bool_)
        texts = pc.if_else(pa.array(null), pa.scalar(b"null", pa.binary()), tokens)
        if not self._reads_nested(texts):
            refused[_refused(len(texts), lambda start, stop: self._reads_nested(texts[start:stop]))] = True
            texts = pc.if_else(pa.array(refused), pa.scalar(b"null", pa.binary()), texts)
        values = _json(texts, self._parser.arrow_type)
        if not self._field.nullable:  # the word null is JSON, but no value here
            refused |= to_numpy(values.is_null()) & ~null
        return values, refused

    def _reads_nested(self, texts: Any) -> bool:
        try:
            return len(_json(texts, self._parser.arrow_type)) == len(texts)
        except pa.ArrowInvalid:
            return False


def trimmed(texts: Any) -> Any:
    """Texts without the blanks and tabs around them."""
    return pc.ascii_trim(texts, characters=" \t")


def to_numpy(mask: Any) -> Any:
    """A boolean Arrow array without NULL as one that can be changed."""
    return mask.to_numpy(zero_copy_only=False).astype(np.bool_)


def _lengths(tokens: Any) -> Any:
    return np.diff(np.frombuffer(tokens.buffers()[1], np.int32)[tokens.offset : tokens.offset + len(tokens) + 1])


def _texts(tokens: Any, null: Any) -> tuple[Any, Any]:
    """Texts in UTF-8; only those with a byte beyond ASCII are looked at, and by halves."""
    refused = np.zeros(len(tokens), np.bool_)
    if not _is_text(tokens):
        refused[_refused(len(tokens), lambda start, stop: _is_text(tokens[start:stop]), _undecodable(tokens))] = True
    keep = pa.array(~(refused | null))
    return pc.if_else(keep, tokens, pa.scalar(None, pa.binary())).cast(pa.string()), refused


def _is_text(tokens: Any) -> bool:
    try:
        tokens.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _json(texts: Any, arrow_type: Any) -> Any:
    """Values of JSON texts; raises `pyarrow.ArrowInvalid`."""
    if len(texts) == 0:
        return pa.array([], arrow_type)
    lines = pc.binary_join_element_wise(
        pa.scalar(b'{"value":', pa.binary()), texts, pa.scalar(b"}\n", pa.binary()), pa.scalar(b"", pa.binary())
    )
    data = _content(lines)
    table = pajson.read_json(
        pa.BufferReader(data),
        read_options=pajson.ReadOptions(use_threads=False, block_size=_WHOLE),
        parse_options=pajson.ParseOptions(
            explicit_schema=pa.schema([("value", arrow_type)]),
            unexpected_field_behavior="error",
            newlines_in_values=data.count(b"\n") > len(texts),
        ),
    )
    return _one_chunk(table.column(0))


def _out_of_range(texts: Any, arrow_type: Any) -> Callable[[int, int], list[int]]:
    """The same as Arrow's reader: digits with a sign if the type has one, or hexadecimal ones of the type's width."""
    is_signed = pa.types.is_signed_integer(arrow_type)
    bits = arrow_type.bit_width
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    digits = re.compile(rb"-?[0-9]+" if is_signed else rb"[0-9]+")
    hexadecimal = re.compile(rb"0[xX][0-9a-fA-F]{1,%d}" % (bits // 4))

    def is_good(text: bytes) -> bool:
        text = text.strip(b" \t")
        if digits.fullmatch(text):
            significant = text.lstrip(b"-").lstrip(b"0")[:_MOST_DIGITS] or b"0"
            value = -int(significant) if text.startswith(b"-") else int(significant)
            return bool(least <= value <= most)
        return hexadecimal.fullmatch(text) is not None

    def one_by_one(start: int, stop: int) -> list[int]:
        return [start + i for i, text in enumerate(texts[start:stop].to_pylist()) if not is_good(text)]

    return one_by_one


def _undecodable(tokens: Any) -> Callable[[int, int], list[int]]:
    def one_by_one(start: int, stop: int) -> list[int]:
        return [start + i for i, text in enumerate(tokens[start:stop].to_pylist()) if not _decodes(text)]

    return one_by_one


def _decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refused(
    count: int, takes: Callable[[int, int], bool], one_by_one: Callable[[int, int], list[int]] | None = None
) -> list[int]:
    """Positions that a judge of ranges does not take: by halves, and one by one where it is dense."""
    refused: list[int] = []
    todo = [(0, count)] if count else []
    while todo:
        start, stop = todo.pop()
        if takes(start, stop):
            continue
        if stop - start == 1:
            refused.append(start)
        elif stop - start <= _FEW:
            if one_by_one is not None:
                refused += one_by_one(start, stop)
                continue
            todo += [(i, i + 1) for i in range(start, stop)]
        else:
            middle = (start + stop) // 2
            todo += [(start, middle), (middle, stop)]
    return sorted(refused)


def _row_of(error: Exception) -> int:
    row = _ROW.match(str(error))
    if row is None:
        raise error
    return int(row[1]) - 1


def _matches(tokens: Any, pattern: str) -> Any:
    return to_numpy(pc.match_substring_regex(tokens, pattern))


def _as_text(tokens: Any, text_type: Any) -> Any:
    """The same bytes under another name, not checked."""
    return pa.Array.from_buffers(text_type, len(tokens), tokens.buffers(), offset=tokens.offset)


def _content(lines: Any) -> bytes:
    """The bytes of a binary array one behind another."""
    _, offsets, data = lines.buffers()
    places = np.frombuffer(offsets, np.int32)
    return bytes(data[int(places[lines.offset]) : int(places[lines.offset + len(lines)])]) if data else b""


def _one_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
