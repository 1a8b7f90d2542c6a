"""JSON lines: one object a line, whose values are found by key and path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from runtime.formats.format import Block, InputFormatIndexer, ParsedBlock, Run, SettledIndex, TupleRange
from runtime.formats.jsonlines.faults import FaultSearch
from runtime.formats.jsonlines.lines import Lines
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Malformed

if TYPE_CHECKING:
    from runtime.formats.schema import Schema

__all__ = ["JsonFormat", "JsonIndexer"]

_NO_DELIMITER = SettledIndex(TupleRange(-1, -1))


class JsonFormat(msgspec.Struct, frozen=True):
    """JSON lines (UTF-8, one object a line); see `JsonIndexer` for the values of each type."""

    @property
    def name(self) -> str:
        """Name of the format in scripts."""
        return "json"

    def indexer(self, schema: Schema, pushdown: Pushdown) -> JsonIndexer:
        """Return an indexer; raise `SchemaError` if the paths of fields collide."""
        return JsonIndexer(schema, pushdown)


class JsonIndexer(InputFormatIndexer):
    """Indexer that reads blocks with Arrow's JSON reader, and finds the values that this reader wrongly accepts.

    **Tuples.** A line end always ends a tuple, because a JSON text cannot contain a raw one. A line may have a byte
    order mark at its start, blank space around the object, and ``\\r`` at its end; blank lines are not tuples. A line
    that is not exactly one object, not UTF-8, or longer or deeper nested than the schema's limits is bad.

    **Keys.** Keys may have any order. The value of a key that belongs to no wanted field is skipped: it only has to be
    well-formed; Arrow's reader also accepts NaN and Infinity here. A missing key is a NULL, and so is every field below
    a missing or null object. A wanted key that occurs twice makes its value malformed.

    **Values.** A field's type determines the JSON values that fit:

    * integers: numbers in the type's range, without point or exponent;
    * floats: finite numbers in the type's range;
    * decimals: numbers, or texts with a number, that fit the type's scale and precision;
    * bool: true or false;
    * string and char: texts;
    * dates: texts such as ``2026-01-31``;
    * timestamps: texts in the form of ISO 8601, not finer than the type's unit, and in UTC unless they name an offset;
    * arrays: lists, which may contain null;
    * structs: objects whose members may be missing.

    ``null_values`` of the schema are for formats that have no NULL of their own. A number that not even a float64 can
    hold makes its tuple bad, whatever its key is.
    """

    def __init__(self, schema: Schema, pushdown: Pushdown) -> None:
        wanted = schema.select(pushdown.columns)
        self._limits = schema.limits
        self._pushdown = pushdown
        self._names = [field.name for field in wanted]
        self._search = FaultSearch(
            schema.select(pushdown.parsed_columns),
            null_malformed=schema.malformed_nullable == Malformed.NULL,
        )
        self._is_projected = len(self._search.empty.schema) > len(wanted)
        self._empty = self._search.empty.select(self._names)

    def index(self, run: Run) -> SettledIndex:
        """Search for the first and the last line end, without joining the pieces."""
        begin = 0
        for piece in run.pieces:
            if (first := bytes(piece).find(b"\n")) >= 0:
                break
            begin += len(piece)
        else:
            return _NO_DELIMITER
        end = run.length
        for piece in reversed(run.pieces):
            if (last := bytes(piece).rfind(b"\n")) >= 0:
                return SettledIndex(TupleRange(begin + first + 1, end - len(piece) + last + 1))
            end -= len(piece)
        raise AssertionError("a delimiter that was found from the left was not found from the right")

    def parse(self, block: Block) -> ParsedBlock:
        """Parse the block; a good one takes one call of Arrow's reader."""
        lines = Lines(bytes(block.data), self._limits)
        if not lines.count:
            return ParsedBlock(self._empty, 0, lambda: lines.ends)
        result = self._search.search(lines)
        rows, kept = result.rows, result.kept
        if (mask := self._pushdown.wanted(rows)) is not None:
            places = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            if len(places) < rows.num_rows:
                rows = rows.filter(mask)
                kept = places if kept is None else kept[places]
        return ParsedBlock(
            rows.select(self._names) if self._is_projected else rows,
            lines.count,
            lambda: lines.ends,
            kept,
            tuple(lines.bad(*fault) for fault in result.bad[: self._limits.described]),
            np.array([fault[0] for fault in result.bad], np.int64),
            result.nulled,
        )

    def terminated(self, tail: bytes, state: int) -> bytes:
        """Return the tail and a line end."""
        del state
        return tail + b"\n"

    def empty_rows(self) -> pa.RecordBatch:
        """Return the wanted columns without rows."""
        return self._empty
