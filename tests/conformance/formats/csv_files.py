"""Valid CSV files of every shape, read as a whole by `pyarrow.csv`."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from runtime.formats import Field, Schema
from runtime.formats.csv import CsvFormat
from tests.conformance.formats.sample import Sample
from tests.conformance.formats.texts import SCALARS, random_scalar, random_word

__all__ = ["CsvFiles"]

_DELIMITERS = (b"\n", b"\n", b"\n", b"|", b"\x00", b"\n\n", b"||", b"<>", b"--\n", b"aba", b"<end>\r\n", b"=#=#=#=#")
_ESCAPE = "\\"
_NULLS = (("",), ("NULL",), ("NULL", ""), ("-", "n/a"))  # at an end, the start of a delimiter belongs to one


@dataclass(frozen=True)
class _Style:
    """Style of a file."""

    tuple_delimiter: bytes
    field_delimiter: str
    quoting: bool
    escape: bool
    trim: bool
    header: bool
    carriage_returns: bool
    null_values: tuple[str, ...]

    @property
    def forbidden(self) -> str:
        """Characters that no unquoted text contains."""
        quote = '"' if self.quoting else ""
        escape = _ESCAPE if self.escape else ""
        blank = " \t" if self.trim else ""
        return self.tuple_delimiter.decode() + self.field_delimiter + "\r\n" + quote + escape + blank


def _random_style(rng: random.Random, *, quoting: bool) -> _Style:
    tuple_delimiter = rng.choice([text for text in _DELIMITERS if not (quoting and _overlaps_itself(text))])
    field_delimiter = rng.choice([c for c in ",,,;|\t" if c.encode() not in tuple_delimiter])
    return _Style(
        tuple_delimiter=tuple_delimiter,
        field_delimiter=field_delimiter,
        quoting=quoting,
        escape=quoting and rng.random() < 0.4,
        trim=rng.random() < 0.2,
        header=rng.random() < 0.3,
        carriage_returns=tuple_delimiter == b"\n" and rng.random() < 0.4,
        null_values=rng.choice([texts for texts in _NULLS if not set("".join(texts)) & set(tuple_delimiter.decode())]),
    )


def _random_schema(rng: random.Random, style: _Style) -> Schema:
    width = rng.choice((1, 2, 3, 4, 6, 12, 300) if rng.random() < 0.1 else (1, 2, 3, 4, 6))
    fields = [
        Field(f"f{number}", rng.choice(SCALARS), nullable=width > 1 and rng.random() < 0.4) for number in range(width)
    ]
    form = CsvFormat(
        tuple_delimiter=style.tuple_delimiter,
        field_delimiter=style.field_delimiter.encode(),
        header=style.header,
        quoting=style.quoting,
        escape=_ESCAPE.encode() if style.escape else b"",
        trim=style.trim,
    )
    return Schema(tuple(fields), format=form, null_values=style.null_values)


class _Writer:
    """Writes fields in a style, for the formatter and for the oracle."""

    def __init__(self, rng: random.Random, style: _Style, *, lone: bool) -> None:
        self._rng, self._style, self._lone = rng, style, lone

    def field(self, field: Field) -> tuple[str, str]:
        """Return the text of a value for the formatter, and that for the library."""
        rng, style = self._rng, self._style
        if field.nullable and rng.random() < 0.2:
            null = rng.choice(style.null_values)
            return self._blanks(null), null
        text = random_scalar(rng, field)
        if field.type == "string" and style.quoting and rng.random() < 0.5:
            text += rng.choice(
                (style.field_delimiter, style.tuple_delimiter.decode(), '"', "\n", "\r\n", '""', _ESCAPE)
            )
            text += random_word(rng, 4)
        elif field.type in {"string", "char"}:
            text = "".join(c for c in text if c not in style.forbidden)
        if field.type == "char" and len(text) != 1:
            text = "x"
        if field.type == "string" and (self._lone or text in style.null_values):
            text += "x"
        if style.trim:
            text = text.strip(" \t")
        if style.quoting and (set(text) & set(style.forbidden) or rng.random() < 0.3):
            quoted = self._quoted(text)
            return quoted, quoted
        return self._blanks(text), text

    def _quoted(self, text: str) -> str:
        if self._style.escape:
            text = text.replace(_ESCAPE, 2 * _ESCAPE)
        pieces = text.split('"')
        quote = _ESCAPE + '"' if self._style.escape and self._rng.random() < 0.5 else '""'
        return '"' + quote.join(pieces) + '"'

    def _blanks(self, text: str) -> str:
        if not self._style.trim:
            return text
        blanks = ("", " ", "  ") if self._style.field_delimiter == "\t" else ("", " ", "\t", "\t ")
        return self._rng.choice(blanks) + text + self._rng.choice(blanks)


class CsvFiles:
    """Random files of one random schema and style; with ``quoting`` None it is random too."""

    def __init__(self, rng: random.Random, *, quoting: bool | None = None) -> None:
        self._style = _random_style(rng, quoting=rng.random() < 0.5 if quoting is None else quoting)
        self.schema = _random_schema(rng, self._style)

    def sample(self, rng: random.Random, rows: int | None = None) -> Sample:
        """Return a random file."""
        style, schema = self._style, self.schema
        writer = _Writer(rng, style, lone=len(schema.fields) == 1)
        count = rng.choice((0, 1, 2, 20, 60, 200)) if rows is None else rows
        count = min(count, 6) if len(schema.fields) > 100 else count
        data, library = bytearray(), bytearray()
        if style.header:
            data += style.field_delimiter.join(schema.names).encode() + _end(rng, style)
        start = len(data)
        ends, breaks = [], [start]
        for number in range(count):
            texts = [writer.field(field) for field in schema.fields]
            data += style.field_delimiter.join(text for text, _ in texts).encode()
            library += style.field_delimiter.join(text for _, text in texts).encode() + b"\n"
            breaks.append(len(data))
            if number < count - 1 or rng.random() < 0.6:
                data += _end(rng, style)
            ends.append(len(data))
            if rng.random() < 0.05 and number < count - 1:
                data += _end(rng, style)  # an empty tuple, which is none
        return Sample(
            schema=schema,
            data=bytes(data),
            table=_read(bytes(library), schema, style),
            ends=ends,
            breaks=[*breaks, *(place for place, byte in enumerate(data) if byte in b'"\\\r')],
            spread="rest" if style.quoting or _overlaps_itself(style.tuple_delimiter) else "tuple",
            start=start,
        )


def _overlaps_itself(delimiter: bytes) -> bool:
    """Return True if bytes before a delimiter can make it begin earlier."""
    return any(delimiter.startswith(delimiter[place:]) for place in range(1, len(delimiter)))


def _end(rng: random.Random, style: _Style) -> bytes:
    return b"\r\n" if style.carriage_returns and rng.random() < 0.7 else style.tuple_delimiter


def _read(text: bytes, schema: Schema, style: _Style) -> Any:
    """Return the library's parse; it runs twice, since one option for all columns determines if texts may be NULL."""
    if not text:
        return schema.arrow_schema().empty_table()
    tables = [
        pacsv.read_csv(
            pa.BufferReader(text),
            read_options=pacsv.ReadOptions(column_names=list(schema.names), use_threads=False, block_size=1 << 26),
            parse_options=pacsv.ParseOptions(
                delimiter=style.field_delimiter,
                quote_char='"' if style.quoting else False,
                double_quote=style.quoting,
                escape_char=_ESCAPE if style.escape else False,
                newlines_in_values=style.quoting,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=schema.arrow_schema(),
                null_values=list(style.null_values),
                strings_can_be_null=texts_are_null,
                quoted_strings_can_be_null=True,
            ),
        )
        for texts_are_null in (False, True)
    ]
    columns = [tables[field.nullable].column(field.name) for field in schema.fields]
    return pa.table(columns, names=list(schema.names))
