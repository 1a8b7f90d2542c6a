"""Reader of one column text by text, with malformed values marked: for columns that Arrow's reader refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.csv.conversion import Conversion, UnreadError, conversion_of
from runtime.formats.csv.tokens import to_numpy, trimmed, undecodable
from runtime.formats.values import ValueParser

if TYPE_CHECKING:
    from runtime.formats.fields import Field

__all__ = ["ColumnReader"]

_ERRORS_BY_ROW: Final = 4
_FEW: Final = 32


class ColumnReader:
    """Reader of the texts of one field, which decides as the reader of whole blocks does."""

    def __init__(self, field: Field, null_values: tuple[str, ...], *, trim: bool) -> None:
        self._field = field
        self._parser: ValueParser = field.parser
        self._nulls = pa.array([text.encode() for text in null_values], pa.binary())
        self._trim = trim
        self._conversion: Conversion | None = None if self._parser.textual else conversion_of(self._parser)

    def read(self, tokens: Any) -> tuple[Any, Any]:
        """Return the column of a binary array, NULL for malformed values, and a boolean array of their rows."""
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
        """Return the column with the parser's own condition applied."""
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
        """Return the values; add those that the reader refuses to ``refused``.

        They are found by pattern, else by the reader's message, and the rest by bisection.
        """

        def read(part: slice) -> Any:
            skip = (null | refused)[part]
            if skip.all():
                return pa.nulls(len(skip), self._parser.arrow_type)
            return conversion.values(tokens[part], skip)

        def takes(start: int, stop: int) -> bool:
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
                elif error.row < 0 or (not error.certain and takes(error.row, error.row + 1)):
                    break
                else:
                    refused[error.row] = True

        for start, stop in _refused_parts(len(tokens), takes):
            for position, is_sure in conversion.suspects(tokens[start:stop]).items():
                place = start + position
                refused[place] |= not null[place] and (is_sure or not takes(place, place + 1))
            if not takes(start, stop):
                refused[start:stop] |= [not takes(place, place + 1) for place in range(start, stop)]
        return read(slice(None))


def _texts(tokens: Any, null: Any) -> tuple[Any, Any]:
    """Return texts in UTF-8."""
    refused = undecodable(tokens)
    keep = pa.array(~(refused | null))
    return pc.if_else(keep, tokens, pa.scalar(None, pa.binary())).cast(pa.string()), refused


def _refused_parts(count: int, takes: Callable[[int, int], bool]) -> Iterator[tuple[int, int]]:
    """Yield the small parts that a judge of ranges refuses, by bisection; handling one must not change others."""
    todo = [(0, count)]
    while todo:
        start, stop = todo.pop()
        if takes(start, stop):
            continue
        if stop - start <= _FEW:
            yield start, stop
        else:
            middle = (start + stop) // 2
            todo += [(start, middle), (middle, stop)]
