"""Comma-separated text: Arrow's CSV reader on whole tuples, and a vectorised search for the ones it refuses."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from runtime.formats._faults import FaultSearch
from runtime.formats.indexer import InputFormatIndexer, ParsedBlock
from runtime.formats.schema import Schema

__all__ = ["CsvIndexer"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NEWLINE: Final = 10
_ZERO: Final = np.zeros(1, np.int64)
_GUARD: Final = "guard"


class CsvIndexer(InputFormatIndexer):
    """Tuples that end in a delimiter byte, fields separated by another; no quoting and no escapes yet.

    A block goes to Arrow's reader in one call outside the interpreter lock, typed, and only for ``columns``. If the
    reader refuses it, `FaultSearch` names the bad tuples and the rest is read again, so what is a value is decided in
    one place and does not depend on a tuple's neighbours. Values of columns that nobody asked for are not looked
    at, but counted. Empty tuples are ignored. A ``\\r`` before the tuple delimiter belongs to it, elsewhere it is an
    error. A tuple longer than ``tuple_limit_bytes``, delimiter included, is bad; at most ``fault_limit`` bad tuples
    of a block are described, the others are only left out of its rows.
    """

    def __init__(
        self,
        schema: Schema,
        columns: tuple[str, ...] | None = None,
        *,
        tuple_limit_bytes: int,
        fault_limit: int,
    ) -> None:
        self._fields = schema.select(columns)
        self._arrow_schema = schema.arrow_schema(columns)
        self._empty = _empty(self._arrow_schema)
        self._delimiter = schema.tuple_delimiter
        self._swap = bytes.maketrans(self._delimiter + b"\n", b"\n" + self._delimiter)
        self._limit = tuple_limit_bytes
        self._parse_options = pacsv.ParseOptions(
            delimiter=schema.field_delimiter.decode("latin-1"),
            quote_char=False,
            double_quote=False,
            escape_char=False,
            newlines_in_values=False,
            ignore_empty_lines=True,
        )
        self._column_names = list(schema.names)
        self._null_values = list(schema.null_values) if any(f.nullable for f in self._fields) else []
        self._null_array = pa.array(self._null_values, pa.string())
        self._convert_options = self._conversion([f.name for f in self._fields])
        self._not_null = [i for i, f in enumerate(self._fields) if not f.nullable and not f.parser.textual]
        self._checked = [(i, f.parser.column_check) for i, f in enumerate(self._fields) if f.parser.column_check]
        self._null_texts = [i for i, f in enumerate(self._fields) if f.nullable and f.parser.textual]
        self._faults = FaultSearch(
            schema,
            self._fields,
            tuple_limit_bytes=tuple_limit_bytes,
            fault_limit=fault_limit,
            reads=self.reads,
            accepts=self.accepts,
        )

    @property
    def tuple_limit_bytes(self) -> int:
        """The longest tuple, delimiter included."""
        return self._limit

    def delimiters(self, data: bytes) -> tuple[int, int] | None:
        """Two searches for one byte, from both ends."""
        first = data.find(self._delimiter)
        return None if first < 0 else (first + 1, data.rfind(self._delimiter) + 1)

    def terminated(self, tail: bytes) -> bytes:
        """The tail and a delimiter."""
        return tail + self._delimiter

    def empty_rows(self) -> Any:
        """No rows of the columns."""
        return self._empty

    def parse(self, block: bytes) -> ParsedBlock:
        """The block's columns; good blocks take one call of Arrow's reader."""
        text = block if self._delimiter == b"\n" else block.translate(self._swap)
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE) + 1
        lengths = ends - np.concatenate((_ZERO, ends[:-1]))
        returns = text.count(b"\r") if b"\r" in text else 0
        paired = text.count(b"\r\n") if returns else 0
        tuple_ends = self._without_empty(text, ends, lengths, bool(paired))
        if len(tuple_ends) == 0:
            return ParsedBlock(self._empty, tuple_ends, tuple_ends)
        rows: Any = None
        if returns == paired and int(lengths.max()) <= self._limit:
            rows = self._read_good(text)
        if rows is not None and rows.num_rows == len(tuple_ends):
            return ParsedBlock(self._restored(rows, block), tuple_ends, tuple_ends)
        return self._parse_bad(text, block, ends)

    def reads(self, name: str, texts: list[bytes]) -> bool:
        """Whether Arrow takes every one of these texts for the named column; none may hold a delimiter."""
        lines = b"".join([b"0%s%s\n" % (self._parse_options.delimiter.encode("latin-1"), text) for text in texts])
        options = pacsv.ReadOptions(column_names=[_GUARD + name, name], use_threads=False, block_size=len(lines) + 1)
        try:
            pacsv.read_csv(
                pa.BufferReader(lines),
                read_options=options,
                parse_options=self._parse_options,
                convert_options=self._conversion([name]),
            )
        except pa.ArrowInvalid:
            return False
        return True

    def accepts(self, text: bytes) -> bool:
        """Whether Arrow takes all of these tuples."""
        return not text or self._read_good(text) is not None

    def _conversion(self, names: list[str]) -> Any:
        """How texts become values: by the schema's types alone, nothing is guessed and no text is null by itself."""
        return pacsv.ConvertOptions(
            column_types={f.name: f.parser.arrow_type for f in self._fields if f.name in names},
            include_columns=names,
            null_values=self._null_values,
            strings_can_be_null=False,
            auto_dict_encode=False,
        )

    @staticmethod
    def _without_empty(text: bytes, ends: Any, lengths: Any, has_returns: bool) -> Any:
        """The ends of the tuples that are not empty."""
        if len(ends) == 0 or (int(lengths.min()) > 2 if has_returns else int(lengths.min()) > 1):
            return ends
        empty = lengths == 1
        if has_returns:
            bytes_ = np.frombuffer(text, np.uint8)
            empty |= (lengths == 2) & (bytes_[np.maximum(ends - 2, 0)] == ord("\r"))
        return ends[~empty]

    def _read(self, text: bytes) -> Any:
        """One call of Arrow's reader for the whole block; raises `pyarrow.ArrowInvalid`."""
        if text.startswith(_BYTE_ORDER_MARK):  # the reader would drop it, although it is data in the middle of a stream
            text = b"\n" + text
        options = pacsv.ReadOptions(column_names=self._column_names, use_threads=False, block_size=len(text) + 1)
        table = pacsv.read_csv(
            pa.BufferReader(text),
            read_options=options,
            parse_options=self._parse_options,
            convert_options=self._convert_options,
        )
        return table.combine_chunks().to_batches()[0] if table.num_rows else self._empty

    def _read_good(self, text: bytes) -> Any:
        """The block's rows, or None if anything in it does not fit the schema."""
        try:
            rows = self._read(text)
        except pa.ArrowInvalid:
            return None
        columns = rows.columns
        if any(columns[i].null_count for i in self._not_null):
            return None
        for i in self._null_texts:
            column = columns[i]
            columns[i] = pc.if_else(pc.is_in(column, value_set=self._null_array), pa.scalar(None, pa.string()), column)
        for i, check in self._checked:
            if pc.all(check(columns[i]), min_count=0).as_py() is False:
                return None
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)

    def _restored(self, rows: Any, block: bytes) -> Any:
        """Texts in which the swap of delimiters hid a line end get it back."""
        if self._delimiter == b"\n" or b"\n" not in block:
            return rows
        letter = self._delimiter.decode("latin-1")
        columns = [
            pc.replace_substring(column, letter, "\n") if field.parser.textual else column
            for field, column in zip(self._fields, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)

    def _parse_bad(self, text: bytes, block: bytes, ends: Any) -> ParsedBlock:
        """The block without its bad tuples."""
        faults = self._faults.search(text, ends)
        rows = self._read_good(faults.good_text) if faults.good_text else self._empty
        if rows is None or rows.num_rows != len(faults.row_ends):
            raise AssertionError(f"the reader and the search for faults disagree about {faults.good_text[:200]!r}")
        return ParsedBlock(
            self._restored(rows, block), faults.row_ends, faults.tuple_ends, faults.bad, faults.nulled_ends
        )


def _empty(schema: Any) -> Any:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
