# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""COPY to a client of PostgreSQL: a million rows from the port, beside Arrow's own CSV of the same rows."""

from __future__ import annotations

import io
import json
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import csv
from twisted.internet import reactor as _reactor
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure

from bench.report import Record, record
from deltabook.wire.access import Access
from deltabook.wire.service import AnsweredColumn
from runtime.plan import Program
from runtime.service.http.limits import SiteLimits
from runtime.service.postgres import PostgresFactory, PostgresParts
from runtime.service.results.hub import Hub
from runtime.service.sandbox import AnswerRows

__all__ = ["copied_s", "measure_copy"]

_ROWS: Final = 1_000_000
_TYPES: Final = ("BIGINT", "VARCHAR", "DECIMAL(21,2)", "DOUBLE", "TIMESTAMP")


class _Answer:
    """Asker that answers every question with the same rows, so that the time of DuckDB is not measured."""

    def __init__(self, table: pa.Table) -> None:
        columns = tuple(AnsweredColumn(name, kind) for name, kind in zip(table.column_names, _TYPES, strict=True))
        self._rows = AnswerRows(columns, table)

    async def ask(self, *_: Any, **__: Any) -> tuple[int, AnswerRows]:
        return 1, self._rows

    def newest(self) -> int:
        return 1


def _table(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    prices = pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    return pa.table({
        "id": numbers,
        "symbol": pa.array([f"S{number}" for number in range(100)] * (rows // 100)),
        "price": prices,
        "share": np.random.default_rng(1).random(rows),
        "at": pa.array(numbers * 1_000_123, pa.timestamp("us")),
    })  # fmt: skip


def _message(code: bytes, content: bytes) -> bytes:
    return code + struct.pack("!i", len(content) + 4) + content


def copied_s(port: int, sql: str) -> float:
    """Return the seconds until a client that only reads has the last byte of a COPY; raise `RuntimeError` for
    an error.
    """
    with socket.create_connection(("127.0.0.1", port)) as client:
        parameters = b"user\0bench\0\0"
        client.sendall(struct.pack("!ii", len(parameters) + 8, 3 << 16) + parameters)
        while not client.recv(65_536).endswith(b"Z\0\0\0\5I"):
            pass
        begun = time.perf_counter()
        client.sendall(_message(b"Q", sql.encode() + b"\0"))
        tail = b""
        while not tail.endswith(b"Z\0\0\0\5I"):
            data = client.recv(1 << 20)
            if not data:
                raise RuntimeError(f"expected an answer to {sql}, was the end of the connection")
            tail = (tail + data)[-64:]
        taken = time.perf_counter() - begun
    if b"COPY " not in tail:
        raise RuntimeError(f"expected an answer to {sql}, was {tail!r}")
    return taken


def measure_copy(quick: bool) -> list[Record]:
    """Measure ``pgwire.copy.FORMAT.rows_per_s``; ``pgwire.copy.rows_per_s`` is the figure of text.

    The columns are bigint, text, numeric, double and timestamp. The port is in a process of its own with a client that
    only reads. The reference writes the same rows with `pyarrow.csv.write_csv` into memory, on one thread, without a
    socket.
    """
    rows, runs = (_ROWS // 10, 1) if quick else (_ROWS, 5)
    command = [sys.executable, "-m", "bench.trading.pgcopy", str(rows), str(runs)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rates: dict[str, list[float]] = json.loads(done.stdout)
    references = rates.pop("reference")
    return [record(f"pgwire.copy.{form}.rows_per_s", found, "rows/s") for form, found in rates.items()] + [
        record("pgwire.copy.rows_per_s", rates["text"], "rows/s", "pyarrow.csv.write_csv, one thread", references)
    ]


def _run(rows: int, runs: int) -> dict[str, list[float]]:
    """Return the rows per second by format, and those of the reference; run the reactor to its end."""
    table = _table(rows)
    reactor: Any = _reactor
    asker: Any = _Answer(table)
    hub = Hub(Program((), (), ()), lambda: 0)
    parts = PostgresParts(hub=hub, asker=asker, relations=tuple, in_thread=deferToThread)
    factory = PostgresFactory(parts, Access(), SiteLimits(), reactor, random=bytes)
    rates: dict[str, list[float]] = {"text": [], "csv": [], "binary": [], "reference": []}

    def measure(port: int) -> None:
        for _ in range(runs):
            for form in ("text", "csv", "binary"):
                rates[form].append(rows / copied_s(port, f"COPY (SELECT 1) TO STDOUT (FORMAT {form})"))
            begun = time.perf_counter()
            csv.write_csv(table, io.BytesIO(), csv.WriteOptions(include_header=False))
            rates["reference"].append(rows / (time.perf_counter() - begun))

    def begin() -> None:
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")
        deferToThread(measure, port.getHost().port).addBoth(finished)

    def finished(result: object) -> None:
        if isinstance(result, Failure):
            result.printTraceback(sys.stderr)
        reactor.stop()

    reactor.callWhenRunning(begin)
    reactor.run(installSignalHandlers=False)
    return rates


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_run(int(sys.argv[1]), int(sys.argv[2]))))
