"""Reader of few plain tuples, one by one: a call of Arrow's reader takes as long as hundreds of them.

Arrow reads each text through a thread of its own, and the caller waits until that has had its turn. Read here are
tuples of a feed as they come when there is time: ASCII, without quotes, integers of digits alone. Everything else
is left to Arrow's reader, which reports its errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from runtime.formats.fields import Field
    from runtime.formats.schema import Schema

__all__ = ["FewTuples"]

_MOST_BYTES: Final = 4096
_MOST_DIGITS: Final = 19
_INT64: Final = pa.int64()
_STRING: Final = pa.string()


class FewTuples:
    """Reader of int64 and string columns as Arrow's reader does it; immutable."""

    def __init__(self, schema: Schema, field_delimiter: bytes, fields: Sequence[Field]) -> None:
        """``fields`` are the wanted ones."""
        self._delimiter = field_delimiter
        self._width = len(schema.fields)
        names = schema.names
        self._columns = [(names.index(each.name), each.parser.arrow_type == _INT64) for each in fields]
        self._arrow_schema = pa.schema([(each.name, each.parser.arrow_type) for each in fields])
        is_plain = all(each.parser.arrow_type in (_INT64, _STRING) for each in fields)
        has_numeric_nulls = any(value.isdigit() for value in schema.null_values)
        self._reads_any = bool(fields) and is_plain and not has_numeric_nulls

    def read(self, text: bytes) -> Any:
        """Return the wanted columns of tuples that end in a line end, as a table; None if not few and plain."""
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
