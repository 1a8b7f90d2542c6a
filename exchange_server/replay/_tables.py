"""Tables of market data, read with pyarrow: rows by column name from CSV or Parquet, and plain lines as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from exchange_server.errors import RecordError, ReplayFileError
from exchange_server.replay.files import READ_ERRORS, check_regular, open_recorded

__all__ = ["column_names", "declared_unit_ns", "is_parquet", "plain_columns", "row_unit", "table_rows"]

PLAIN_MAX: Final = 10**17
"""Largest plain number. Text of 20 or more digits for a number up to this one begins with two zeros, and is not plain.
"""

_NOT_LETTERS: Final = b"0123456789,\n"
_READ_THREADS: Final = False


def plain_columns(text: bytes, names: Sequence[str], letter: str, letters: bytes) -> dict[str, NDArray[Any]] | None:
    """Return the columns of comma-separated lines, or None if a line may not be plain.

    A plain line has as many fields as there are names; the field called ``letter`` is a single one of ``letters``; all
    other fields have 1 to 19 digits and a value of at most `PLAIN_MAX`. The columns are int64, the letters uint8.
    """
    text = text.replace(b"\r\n", b"\n")
    codes = np.frombuffer(text.translate(None, _NOT_LETTERS), np.uint8)
    if not len(codes) or codes.tobytes().translate(None, letters) or b",00" in text or b"\n00" in text:
        return None
    if text.startswith(b"00") or len(codes) != text.count(b"\n") + (not text.endswith(b"\n")):
        return None
    types = {name: pa.string() if name == letter else pa.int64() for name in names}
    try:
        table = csv.read_csv(
            pa.py_buffer(text),
            csv.ReadOptions(use_threads=_READ_THREADS, column_names=list(names), block_size=max(len(text), 1)),
            csv.ParseOptions(quote_char=False, double_quote=False, escape_char=False),
            csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(codes):
        return None
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        array = table[name].combine_chunks()
        if name != letter:
            columns[name] = array.to_numpy(zero_copy_only=True)
            if int(columns[name].max()) > PLAIN_MAX:
                return None
            continue
        # If equal, this column has all letters of the text, one in each row, and no other column has a letter.
        if not np.array_equal(_bytes_of(array), codes):
            return None
        columns[name] = codes
    return columns


def _bytes_of(array: Any) -> NDArray[np.uint8]:
    """Return the text of a string column whose every row has one byte; an empty array for any other column."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    if not (np.diff(offsets) == 1).all():
        return np.zeros(0, np.uint8)
    return np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]


_MAGIC: Final = b"PAR1"
_HEADER_BYTES: Final = 1 << 16
_BATCH_ROWS: Final = 65_536
_BLOCK_BYTES: Final = 4 << 20
_BYTES: Final = "latin-1"
"""Encoding that has a character for each byte, so that lines with bytes that are not UTF-8 can be named."""
_UNITS_NS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def is_parquet(path: Path) -> bool:
    """Return True if a file begins like a Parquet file; False for a missing file.

    Raise `ReplayFileError` for a pipe or a device.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            return file.read(4) == _MAGIC
    except OSError:
        return False


def column_names(path: Path) -> list[str]:
    """Return the names of the columns; raise `ReplayFileError` for an unreadable file."""
    try:
        if is_parquet(path):
            return list(parquet.read_schema(path).names)
        with open_recorded(path) as file:
            line = file.readline(_HEADER_BYTES).decode("ascii", "replace").rstrip("\r\n")
    except (*READ_ERRORS, pa.ArrowException, UnicodeDecodeError) as error:
        raise ReplayFileError(f"expected a readable file, was {error}, at {path}") from error
    return [name.strip().strip('"') for name in line.split(",")]


def row_unit(path: Path) -> str:
    """Return the unit in which `table_rows` numbers the rows: a line of CSV, or a row of Parquet."""
    return "row" if is_parquet(path) else "line"


def declared_unit_ns(path: Path, name: str) -> int:
    """Return the unit of a column of timestamps in Parquet, in nanoseconds; 0 if the file states no unit.

    Raise `ReplayFileError` for an unreadable file.
    """
    if not is_parquet(path):
        return 0
    try:
        type_ = parquet.read_schema(path).field(name).type
    except (*READ_ERRORS, pa.ArrowException) as error:
        raise ReplayFileError(f"expected a readable file, was {error}, at {path}") from error
    return _UNITS_NS[type_.unit] if pa.types.is_timestamp(type_) else 0


def table_rows(
    path: Path, names: Sequence[str], bad: Callable[[int, RecordError], None], optional: Sequence[str] = ()
) -> Iterator[tuple[int, tuple[str | None, ...]]]:
    """Yield the number of each row (see `row_unit`) with the values of these columns as text.

    The value is None for an empty cell and for an ``optional`` column that is missing. ``bad`` is called with the
    number of each line that has another number of fields than the first line. A line without any value is a row of
    empty cells. Raise `ReplayFileError` for a file that is not such a table.
    """
    present = column_names(path)
    if missing := [name for name in names if name not in present]:
        raise ReplayFileError(f"expected columns {', '.join(names)}, was without {', '.join(missing)}, at {path}")
    wanted = [*names, *(name for name in optional if name in present)]
    if repeated := [name for name in wanted if present.count(name) > 1]:
        raise ReplayFileError(f"expected each column once, was {', '.join(repeated)} several times, at {path}")
    absent: list[None] = [None] * (len(optional) - (len(wanted) - len(names)))
    places = [*range(len(names)), *_places(optional, wanted, len(names))]
    try:
        for numbers, batch in (
            _parquet_batches(path, wanted) if is_parquet(path) else _csv_batches(path, present, wanted, bad)
        ):
            columns: list[Sequence[str | None]] = [column.to_pylist() for column in batch]
            columns += [[value] * len(columns[0]) for value in absent]
            yield from zip(numbers, zip(*(columns[place] for place in places), strict=True), strict=True)
    except (*READ_ERRORS, pa.ArrowException, UnicodeDecodeError) as error:
        raise ReplayFileError(f"expected a readable table, was {' '.join(str(error).split())}, at {path}") from error


def _places(optional: Sequence[str], wanted: Sequence[str], begin: int) -> Iterator[int]:
    """Yield the places of the optional columns: existing ones come first in the table, then the empty ones."""
    empty = len(wanted)
    for name in optional:
        if name in wanted[begin:]:
            yield wanted.index(name, begin)
        else:
            yield empty
            empty += 1


def _parquet_batches(path: Path, wanted: Sequence[str]) -> Iterator[tuple[Sequence[int], list[Any]]]:
    begin = 1
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=list(wanted)):
            yield range(begin, begin + batch.num_rows), [_text(batch.column(name)) for name in wanted]
            begin += batch.num_rows


def _csv_batches(
    path: Path, present: Sequence[str], wanted: Sequence[str], bad: Callable[[int, RecordError], None]
) -> Iterator[tuple[Sequence[int], list[Any]]]:
    first = 2  # number of the block's first line; the header is line 1
    left_out: set[int] = set()

    def leave_out(row: csv.InvalidRow) -> str:
        number = first + row.number - 1
        left_out.add(number)
        bad(
            number,
            RecordError(
                f"expected {row.expected_columns} fields, was {row.actual_columns} in {row.text[:100].encode(_BYTES)!r}"
            ),
        )
        return "skip"

    for block in _blocks(path):
        left_out.clear()
        table = csv.read_csv(
            pa.BufferReader(block if block.isascii() else block.decode(_BYTES).encode()),
            csv.ReadOptions(block_size=len(block) * 2, use_threads=False, column_names=list(present)),
            # Blank lines are read, so that the lines after them keep their numbers. A quote is read as a character: a
            # damaged line whose quote has no end would take the lines after it with it.
            csv.ParseOptions(
                ignore_empty_lines=False, invalid_row_handler=leave_out, quote_char=False, double_quote=False
            ),
            csv.ConvertOptions(
                include_columns=list(wanted), column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=True,
            ),
        )  # fmt: skip
        after = first + table.num_rows + len(left_out)
        numbers = [number for number in range(first, after) if number not in left_out]
        yield numbers, [_decoded(table.column(name)) for name in wanted]
        first = after


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield the lines after the first one in blocks of whole lines.

    Arrow's own reader of blocks drops a Python file in a thread of its own, and aborts the process if Python ends then.
    """
    rest = b""
    with open_recorded(path) as file:
        file.readline(_HEADER_BYTES)
        while data := file.read(_BLOCK_BYTES):
            data = rest + data
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                yield data[:end]
            elif len(rest) > _BLOCK_BYTES:
                raise ReplayFileError(f"expected lines of at most {_BLOCK_BYTES} bytes, was a longer one, at {path}")
    if rest:
        yield rest


def _decoded(column: Any) -> Any:
    """Return a column as text, without the quotes around a value, and with NULL for two quotes.

    Bytes that are not UTF-8 are replaced, so that only their rows are unusable.
    """
    if pc.all(pc.string_is_ascii(column)).as_py() is False:
        texts = column.to_pylist()
        encoded = [None if text is None else text.encode(_BYTES) for text in texts]
        column = pa.array([None if each is None else each.decode("utf-8", "replace") for each in encoded], pa.string())
    if pc.any(pc.starts_with(column, '"')).as_py():
        column = pc.replace_substring_regex(column, '^"([^"]*)"$', r"\1")
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    return column


def _text(column: Any) -> Any:
    """Return a column of Parquet as text from which decimals are parsed: numbers in their shortest form.

    Timestamps are numbers of the unit that `declared_unit_ns` returns.
    """
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_boolean(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        number = column.type.to_pandas_dtype()  # a shorter float has a shorter text than the equal Python number
        return pa.array([None if value is None else str(number(value)) for value in column.to_pylist()], pa.string())
    if pa.types.is_dictionary(column.type):
        return _text(column.dictionary_decode())
    return column.cast(pa.string())
