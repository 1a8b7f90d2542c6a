"""COPY (SUBSCRIBE view) TO STDOUT: changes of a view as rows that begin with their epoch and their weight.

```
hub ──Message──▶ CopyingListener ──line_encoder, once for all subscribers of one format──▶ connection
      ▲ pause, resume: as over HTTP, changes for slow subscribers wait in the view's one bounded queue
```
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from twisted.internet.defer import Deferred

from runtime.plan import Column
from runtime.service.postgres import messages
from runtime.service.postgres.encoding import (
    BINARY_HEADER,
    BINARY_TRAILER,
    binary_values,
    combined,
    copy_lines,
    data_rows,
    text_values,
)
from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.statements import CopyOptions
from runtime.service.postgres.system_tables import duckdb_type
from runtime.service.postgres.types import BY_NAME, ResultType, result_type
from runtime.service.results.materialised import with_point
from runtime.service.subscriptions import Listener, Message

__all__ = ["CopyingListener", "copy_begin", "encoded_rows", "line_encoder", "with_header"]

_INT8: Final = ResultType(BY_NAME["int8"])
_ROWS: Final = 32 * 1024
"""Number of rows that are encoded together."""


def encoded_rows(table: pa.Table, kinds: list[ResultType], form: str) -> bytes | memoryview:
    """Return rows as messages of COPY; ``form`` is text, csv or binary."""
    columns = [combined(column) for column in table.columns]
    if form == "binary":
        values = [binary_values(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        return data_rows(values, table.num_rows, b"d")
    values = [text_values(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return copy_lines(values, kinds, table.num_rows, is_csv=form == "csv")


def with_header(rows: bytes | memoryview) -> bytes:
    """Return messages of binary rows with the header in the first of them, where clients expect it."""
    if not rows:
        return messages.copy_data(BINARY_HEADER + BINARY_TRAILER)
    (length,) = struct.unpack_from("!i", rows, 1)
    return b"".join((b"d", struct.pack("!i", length + len(BINARY_HEADER)), BINARY_HEADER, rows[5:]))


def copy_begin(names: list[str], options: CopyOptions) -> list[bytes]:
    """Return the messages that precede those of the rows."""
    begin = [messages.copy_out(len(names), is_binary=options.format == "binary")]
    if options.header and options.format != "binary":
        titles = [pa.array([name.encode()], pa.binary()) for name in names]
        kinds = [ResultType(BY_NAME["text"])] * len(names)
        begin.append(bytes(copy_lines(titles, kinds, 1, is_csv=options.format == "csv")))
    return begin


@lru_cache(maxsize=256)
def line_encoder(columns: tuple[Column, ...], form: str) -> Callable[[Message], bytes]:
    """Return the encoder of a view's messages in a format; cached, so that all subscribers share encoded messages."""
    kinds = [_INT8, _INT8, *(result_type(duckdb_type(column)) for column in columns)]

    def encode(message: Message) -> bytes:
        rows = message.rows
        assert rows is not None
        *value_columns, weights = rows.columns
        epochs = pa.chunked_array([pa.array(np.full(rows.num_rows, message.header.to_epoch, np.int64))])
        shown = [
            with_point(values, column.scale) if column.scale else values
            for column, values in zip(columns, value_columns, strict=True)
        ]
        table = pa.Table.from_arrays([epochs, weights, *shown], names=[str(place) for place in range(len(shown) + 2)])
        pieces = [encoded_rows(table.slice(at, _ROWS), kinds, form) for at in range(0, table.num_rows, _ROWS)]
        return b"".join(pieces)

    return encode


class CopyingListener(Listener):
    """Listener that copies a view's changes to a subscriber's connection.

    The Deferred ``ended`` fails with `PostgresError` when the subscription ends, and never has a result.
    """

    def __init__(
        self, columns: tuple[Column, ...], options: CopyOptions, epoch: int | None, write: Callable[[bytes], None]
    ) -> None:
        """Send rows with ``write``; ``epoch`` is the newest one that the client has, None to begin with all rows."""
        self._columns, self._options, self._epoch, self._write = columns, options, epoch, write
        self._encode = line_encoder(columns, options.format)
        self._is_begun = epoch is not None
        self._has_header = options.format != "binary"
        self.ended: Deferred[None] = Deferred()
        self.rows = 0
        """Number of rows sent."""

    def write(self, message: Message) -> None:
        """Send the rows of a message; see `Listener`."""
        if self.ended.called:
            return
        header = message.header
        if header.kind == "error":
            self.ended.errback(PostgresError("55000", f"view {header.view} ends: {header.reason}"))
        elif header.kind == "snapshot" and self._is_begun:
            reason = header.reason or f"the view was refilled at epoch {header.to_epoch}"
            self.ended.errback(
                PostgresError("55000", reason, hint="SUBSCRIBE without AS OF begins with all rows of the view.")
            )
        elif header.kind in ("snapshot", "changes"):
            self._is_begun, self._epoch = True, header.to_epoch
            if message.rows is not None and message.rows.num_rows:
                self._write_rows(message.encoded(self._encode))
                self.rows += message.rows.num_rows
        elif header.kind == "progress" and self._options.progress:
            self._write_rows(self._progress(header.to_epoch))

    def _write_rows(self, rows: bytes) -> None:
        self._write(rows if self._has_header else with_header(rows))
        self._has_header = True

    def flush(self) -> None:
        """Do nothing, because the transport writes once a turn."""

    def finish(self) -> None:
        """End the subscription, because the view was dropped; see `Listener`."""
        if not self.ended.called:
            self.ended.errback(PostgresError("55000", "the view was dropped"))

    def _progress(self, epoch: int) -> bytes:
        """Return a row of weight 0 that reports an epoch which the view has reached."""
        arrays = [pa.array([epoch]), pa.array([0]), *(pa.nulls(1) for _ in self._columns)]
        kinds = [_INT8, _INT8, *(result_type(duckdb_type(column)) for column in self._columns)]
        table = pa.Table.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])
        return bytes(encoded_rows(table, kinds, self._options.format))
