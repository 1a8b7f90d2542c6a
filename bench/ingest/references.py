"""References of the formatter: readers of whole files on the same bytes, in one piece.

Each function returns the number of rows or messages read and the time; the result is released after the clock has
stopped.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson

__all__ = ["Reading", "itch_book", "itchfeed", "numpy_records", "pyarrow_csv", "pyarrow_json"]

Reading = tuple[int, float]
"""Number of rows, and seconds."""

_DAY: Final = datetime.date(2026, 1, 5)
_RECORDS_AT_ONCE: Final = 1 << 14


def pyarrow_csv(data: bytes, types: pa.Schema, threads: int) -> Reading:
    """Run `pyarrow.csv.read_csv` with its default blocks and given types."""
    read = pacsv.ReadOptions(column_names=types.names, use_threads=threads > 1)
    convert = pacsv.ConvertOptions(column_types=types, strings_can_be_null=False)
    parse = pacsv.ParseOptions(quote_char=False)
    return _timed(lambda: pacsv.read_csv(pa.BufferReader(data), read, parse, convert), threads)


def pyarrow_json(data: bytes, types: pa.Schema, threads: int) -> Reading:
    """Run `pyarrow.json.read_json` with its default blocks and given types."""
    read = pajson.ReadOptions(use_threads=threads > 1)
    parse = pajson.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore")
    return _timed(lambda: pajson.read_json(pa.BufferReader(data), read, parse), threads)


def numpy_records(data: bytes, dtype: np.dtype[np.void], threads: int, *, tiled: bool = False) -> Reading:
    """Copy the fields of a structured array over the bytes into contiguous columns, in as many equal parts as threads.

    By default the fields are copied one by one, as is usual. With ``tiled`` they are copied in runs of records that
    stay in the cache, which is faster.
    """
    records = np.frombuffer(data, dtype)
    borders = np.linspace(0, len(records), threads + 1).astype(int).tolist()

    def part(start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        if not tiled:
            return {name: np.ascontiguousarray(records[name][start:stop]) for name in dtype.names or ()}
        columns = {name: np.empty(stop - start, dtype[name]) for name in dtype.names or ()}
        for at in range(start, stop, _RECORDS_AT_ONCE):
            few = records[at : min(at + _RECORDS_AT_ONCE, stop)]
            for name, column in columns.items():
                column[at - start : at - start + len(few)] = few[name]
        return columns

    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        parts = list(pool.map(part, borders[:-1], borders[1:]))
        seconds = time.perf_counter() - start
    return sum(len(next(iter(columns.values()))) for columns in parts), seconds


def itch_book(path: Path) -> Reading:
    """Run `itch-book` (C++) on a file, in one thread: it builds books and makes a table of order messages."""
    import itch_book as library

    feed = library.open(str(path), date=_DAY)
    start = time.perf_counter()
    for batch in feed.batches(tables=("messages",)):
        del batch
    seconds = time.perf_counter() - start
    assert feed.stats is not None
    return int(feed.stats["messages"]), seconds


def itchfeed(data: bytes) -> Reading:
    """Run `itchfeed` (Python) on bytes of whole messages: one object per message."""
    from itch.parser import MessageParser

    start = time.perf_counter()
    messages = sum(1 for _ in MessageParser().parse_stream(data))
    return messages, time.perf_counter() - start


def _timed(read: Callable[[], Any], threads: int) -> Reading:
    usual = pa.cpu_count()
    pa.set_cpu_count(threads)
    try:
        start = time.perf_counter()
        table = read()
        seconds = time.perf_counter() - start
    finally:
        pa.set_cpu_count(usual)
    return int(table.num_rows), seconds
