"""Arrays, structs and long decimals: the reader of JSON lines, so that a value is the same value there and here."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.csv.conversion import UnreadError, too_small
from runtime.formats.csv.tokens import content, matches, trimmed, undecodable, without
from runtime.formats.jsonlines.reader import JsonReader, Refusal
from runtime.formats.jsonlines.values import LineJudge
from runtime.formats.schema import Field
from runtime.formats.values import ValueParser

__all__ = ["JsonTexts"]

_NULL: Final = b'{"value":null}\n'


class JsonTexts:
    """A `Conversion`: each text as the value of a line; of a struct no members but those of the type."""

    def __init__(self, parser: ValueParser) -> None:
        self._parser = parser
        around = (b'{"value":', b"}\n") if parser.nested else (b'{"value":"', b'"}\n')
        self._before, self._behind = (pa.scalar(part, pa.binary()) for part in around)
        fields = [Field("value", parser.name, nullable=True)]
        self._reader = JsonReader(fields, unexpected="error")
        self._judge = LineJudge(fields)
        self._is_exact = _is_exact(parser.arrow_type)

    def unreadable(self, tokens: Any) -> Any:
        """What is not UTF-8, or no number: its characters could have a meaning in JSON."""
        if self._parser.nested:
            return undecodable(tokens)
        return self.refused(tokens) | too_small(tokens, self._parser.arrow_type)

    def refused(self, tokens: Any) -> Any:
        """By pattern."""
        return ~matches(tokens, self._parser.maybe_good)

    def suspects(self, tokens: Any) -> dict[int, bool]:
        """By the judge of single lines."""
        lines = ((i, b'{"value":%b}' % text) for i, text in enumerate(tokens.to_pylist()))
        return {i: self._is_exact for i, line in lines if self._judge.faults(line)}

    def values(self, tokens: Any, skip: Any) -> Any:
        """One object a line."""
        if len(tokens) == 0:
            return pa.array([], self._parser.arrow_type)
        if self._parser.nested:
            for line_end in (b"\n", b"\r"):  # blank between the parts of JSON, and as a tab still wrong inside of texts
                tokens = pc.replace_substring(tokens, line_end, b"\t")
        else:
            tokens = trimmed(tokens)
        lines = pc.binary_join_element_wise(self._before, tokens, self._behind, pa.scalar(b"", pa.binary()))
        reading = self._reader.read(content(without(lines, skip, _NULL)), len(tokens))
        if isinstance(reading, Refusal):
            raise UnreadError(reading.line if reading.line < len(tokens) else -1, certain=False)
        return reading.rows.column(0)

    def unfit(self, values: Any, tokens: Any) -> None:
        """The reader takes nothing that does not fit."""


def _is_exact(arrow_type: Any) -> bool:
    """Whether the rules of the type are those of JSON, so that its judge is never stricter than Arrow's reader."""
    if pa.types.is_nested(arrow_type):
        return all(_is_exact(arrow_type.field(i).type) for i in range(arrow_type.num_fields))
    return any(rule(arrow_type) for rule in (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string))
