"""Input of each format: its bytes, its schema, and the reference that reads the same bytes in one piece."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from bench.flow import feed_table
from bench.ingest import references
from bench.ingest.itchflow import itch_block
from bench.ingest.plan import Plan
from bench.ingest.references import Reading
from bench.ingest.texts import csv_lines, json_lines, wide_table
from runtime.formats import CsvFormat, Field, Schema
from runtime.formats.itch import itch_schema
from runtime.formats.jsonlines import JsonFormat
from runtime.formats.native import NativeFormat

__all__ = ["RECORD", "Material", "material_of", "wide_material"]

_SEED: Final = 1
_LIVE_ORDERS: Final = 20_000
_ROW_BYTES: Final = {"csv": 52, "json": 137, "native": 52}
_TYPES: Final = {"int64": "int64", "double": "float64", "string": "string"}
RECORD: Final = np.dtype(
    [
        ("sequence", "<i8"),
        ("time_ns", "<i8"),
        ("order_id", "<i8"),
        ("broker_id", "<i4"),
        ("action", "S1"),
        ("volume", "<i4"),
        ("price", "<i8"),
    ]
)
"""Layout of a native record."""
_NATIVE_TYPES: Final = {
    "sequence": "int64",
    "time_ns": "int64",
    "order_id": "int64",
    "broker_id": "int32",
    "action": "char",
    "volume": "int32",
    "price": "int64",
}
_WIDE_BYTES: Final = {"csv": 145, "json": 285}


class Material(msgspec.Struct, frozen=True):
    """Input of one format."""

    format: str
    """Name of the format in the figures."""
    schema: Schema
    """Schema with which the formatter reads the input."""
    data: bytes
    """All bytes: a generated block, repeated."""
    rows: int
    """Number of tuples."""
    reference: str
    """Name of the reference that reads the same bytes in one piece."""
    threaded: bool
    """True if the reference uses as many threads as it is given."""
    read: Callable[[int], Reading]
    """Function that runs the reference with a number of threads."""


def material_of(name: str, plan: Plan, folder: Path) -> Material:
    """Return the input of a format; an ITCH file is also written to the folder, for a reference that reads only
    files.
    """
    makers = {"csv": _csv, "json": _json, "native": _native, "itch": _itch}
    return makers[name](plan, folder)


def wide_material(name: str, plan: Plan) -> Material:
    """Return 20 columns as CSV or JSON, for the projection."""
    rows = plan.block_bytes // _WIDE_BYTES[name]
    table = wide_table(rows, _SEED)
    block = csv_lines(table) if name == "csv" else json_lines(table)
    data, times = _repeated(block, plan.wide_bytes)
    schema = _schema(table.schema, name)
    return _text(name, schema, data, rows * times, table.schema)


def _csv(plan: Plan, folder: Path) -> Material:
    del folder
    table = _flow("csv", plan)
    data, times = _repeated(csv_lines(table), plan.input_bytes)
    return _text("csv", _schema(table.schema, "csv"), data, table.num_rows * times, table.schema)


def _json(plan: Plan, folder: Path) -> Material:
    del folder
    table = _flow("json", plan)
    data, times = _repeated(json_lines(table), plan.input_bytes)
    return _text("json", _schema(table.schema, "json"), data, table.num_rows * times, table.schema)


def _native(plan: Plan, folder: Path) -> Material:
    del folder
    table = _flow("native", plan)
    records = np.zeros(table.num_rows, RECORD)
    for name in RECORD.names or ():
        records[name] = table.column(name).to_numpy()
    data, times = _repeated(records.tobytes(), plan.input_bytes)
    fields = tuple(Field(name, kind) for name, kind in _NATIVE_TYPES.items())
    schema = Schema(fields, format=NativeFormat())
    return Material(
        "native",
        schema,
        data,
        len(records) * times,
        "a numpy structured array, copied into columns",
        True,
        lambda threads: references.numpy_records(data, RECORD, threads),
    )


def _itch(plan: Plan, folder: Path) -> Material:
    block, messages = itch_block(plan.block_bytes, _SEED)
    data, times = _repeated(block, plan.input_bytes)
    path = folder / "messages.itch"
    path.write_bytes(data)
    return Material(
        "itch",
        itch_schema(),
        data,
        messages * times,
        "itch-book (C++)",
        False,
        lambda threads: references.itch_book(path),
    )


def _flow(name: str, plan: Plan) -> pa.Table:
    return feed_table(plan.block_bytes // _ROW_BYTES[name], _LIVE_ORDERS, _SEED)


def _repeated(block: bytes, size: int) -> tuple[bytes, int]:
    """Return the block repeated to reach the size, and the number of repetitions."""
    times = -(-size // len(block))
    return block * times, times


def _schema(types: pa.Schema, name: str) -> Schema:
    fields = tuple(Field(column.name, _TYPES[str(column.type)]) for column in types)
    return Schema(fields, format=JsonFormat() if name == "json" else CsvFormat())


def _text(name: str, schema: Schema, data: bytes, rows: int, types: pa.Schema) -> Material:
    if name == "csv":
        return Material(
            name,
            schema,
            data,
            rows,
            "pyarrow.csv.read_csv",
            True,
            lambda threads: references.pyarrow_csv(data, types, threads),
        )
    return Material(
        name,
        schema,
        data,
        rows,
        "pyarrow.json.read_json",
        True,
        lambda threads: references.pyarrow_json(data, types, threads),
    )
