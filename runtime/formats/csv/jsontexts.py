"""Arrays, structs and long decimals: the reader of JSON lines, so that a value is the same value there and here."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats._jsonreader import JsonReader, Refusal
from runtime.formats.csv.conversion import UnreadError
from runtime.formats.csv.tokens import content, matches, trimmed, undecodable, without
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
        self._reader = JsonReader([Field("value", parser.name, nullable=True)], unexpected="error")

    def unreadable(self, tokens: Any) -> Any:
        """What is not UTF-8, or no number: its characters could have a meaning in JSON."""
        return undecodable(tokens) if self._parser.nested else self.refused(tokens)

    def refused(self, tokens: Any) -> Any:
        """By pattern."""
        return ~matches(tokens, self._parser.maybe_good)

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
