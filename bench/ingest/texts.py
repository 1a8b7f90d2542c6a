"""Generated text: feed messages as CSV and JSON lines, and rows of 20 columns as both."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

__all__ = ["csv_lines", "json_lines", "wide_table"]

_WIDE: Final = 20
_NAMES: Final = ("ACME", "GLOBEX", "INITECH", "UMBRELLA")


def csv_lines(table: pa.Table) -> bytes:
    """Return the rows as CSV, without a header and without quotes."""
    out = io.BytesIO()
    pacsv.write_csv(table, out, pacsv.WriteOptions(include_header=False, quoting_style="none"))
    return out.getvalue()


def json_lines(table: pa.Table) -> bytes:
    """Return the rows as JSON objects, with keys in the order of the columns, without blanks."""
    pieces: list[Any] = []
    for place, name in enumerate(table.column_names):
        column = table.column(name).combine_chunks()
        quote = '"' if pa.types.is_string(column.type) else ""
        pieces += [("{" if place == 0 else ",") + f'"{name}":{quote}', column.cast(pa.string()), quote]
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    if isinstance(lines, pa.ChunkedArray):
        lines = lines.combine_chunks()
    last = lines.offset + len(lines)
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32)
    return bytes(data.slice(int(ends[lines.offset]), int(ends[last] - ends[lines.offset])))


def wide_table(rows: int, seed: int) -> pa.Table:
    """Return rows of 20 columns: eight integers, eight prices with two decimals, four names."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for place in range(_WIDE):
        if place % 5 == 4:
            columns[f"c{place:02d}"] = pa.array(_NAMES).take(pa.array(rng.integers(0, len(_NAMES), rows)))
        elif place % 2 == 0:
            columns[f"c{place:02d}"] = pa.array(rng.integers(0, 10**7, rows))
        else:
            columns[f"c{place:02d}"] = pa.array(rng.integers(1, 10**6, rows) / 100)
    return pa.table(columns)
