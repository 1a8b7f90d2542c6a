"""Lines of unsigned integers and one letter, read as columns with pyarrow where they are certainly plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

__all__ = ["PLAIN_MAX", "plain_columns"]

PLAIN_MAX: Final = 10**17
"""Largest number that is plain: one with 20 digits or more begins with two zeros then, which is not."""

_NOT_LETTERS: Final = b"0123456789,\n"
_READ_THREADS: Final = False


def plain_columns(text: bytes, names: Sequence[str], letter: str, letters: bytes) -> dict[str, NDArray[Any]] | None:
    """Return the columns of comma-separated lines, or None if one of them may be anything but plain.

    A plain line has as many fields as there are names, the one called ``letter`` a single one of ``letters``, all
    others 1 to 19 digits, at most `PLAIN_MAX` in value. The columns are int64, the letters uint8.
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
        # The letters of the whole text are those of this column, one in each row: there are none elsewhere.
        if not np.array_equal(_bytes_of(array), codes):
            return None
        columns[name] = codes
    return columns


def _bytes_of(array: Any) -> NDArray[np.uint8]:
    """The text of a string column whose every row has one byte; nothing of any other."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    if not (np.diff(offsets) == 1).all():
        return np.zeros(0, np.uint8)
    return np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
