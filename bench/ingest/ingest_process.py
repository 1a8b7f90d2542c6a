"""``python -m bench.ingest.ingest_process``: a whole ingest of TCP sources, with its memory and cost.

Sources, formatter and epochs are the engine's own. The adaptor counts rows and drops them, so that only the path to the
adaptor is measured. The process prints three lines of JSON:

* its memory without sources;
* its memory with idle sources, once a line of standard input has reported that all sources are connected;
* at the end of all streams, the amount of input, its cost, and samples of the memory.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.flow import feed_table
from bench.ingest.feeding import cut, feed
from bench.ingest.texts import csv_lines
from bench.processes import print_line, resident_bytes
from runtime.compiler import Relation
from runtime.engine.ingest import CommitterThread, EpochWriter, Ingest, IngestConfig, IngestListener, Origin
from runtime.formats import FormattedBatch, Schema
from runtime.relations import FEED_SCHEMA, Adaptor, Offsets, Prepared
from runtime.sources import Position, TcpSource

__all__ = ["main"]

_WORKERS: Final = 2
_WARM_ROWS: Final = 200_000
_SAMPLE_SECONDS: Final = 0.05
_EPOCH_SECONDS: Final = 1.0


class _Counting(Adaptor):
    """Adaptor that counts its input and returns no deltas."""

    def __init__(self) -> None:
        self.rows = 0
        self.bad = 0
        self.bytes = 0

    @property
    def schema(self) -> Schema:
        return FEED_SCHEMA

    @property
    def relations(self) -> tuple[Relation, ...]:
        return ()

    def received(self, batch: FormattedBatch) -> pa.RecordBatch:
        self.rows += batch.rows.num_rows
        self.bad += batch.bad
        self.bytes += batch.length
        return super().received(batch)

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        return Prepared(rows, row_ends, np.ones(rows.num_rows, np.bool_))

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        del prepared
        return {}


class _Listener(IngestListener):
    def __init__(self) -> None:
        self.ended = threading.Event()
        self.reason = ""

    def on_finished(self) -> None:
        self.ended.set()

    def on_failed(self, reason: str) -> None:
        self.reason = reason
        self.ended.set()


class _Samples(threading.Thread):
    """Thread that samples the memory and the number of bytes until the streams end, and requests a barrier every
    second."""

    def __init__(self, ingest: Ingest, adaptor: _Counting, listener: _Listener) -> None:
        super().__init__(daemon=True)
        self._ingest, self._adaptor, self._ended = ingest, adaptor, listener.ended
        self.seen: list[tuple[int, int]] = []

    def run(self) -> None:
        barrier = time.perf_counter() + _EPOCH_SECONDS
        while not self._ended.wait(_SAMPLE_SECONDS):
            self.seen.append((self._adaptor.bytes, resident_bytes()))
            if time.perf_counter() > barrier:
                self._ingest.request_barrier()
                barrier += _EPOCH_SECONDS
        self.seen.append((self._adaptor.bytes, resident_bytes()))


def main(arguments: list[str]) -> int:
    """Run an ingest to the end of all streams and print its figures."""
    from twisted.internet import reactor

    loop: Any = reactor
    parser = argparse.ArgumentParser(prog="ingest_process")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sources", type=int, required=True)
    parser.add_argument("--directory", type=Path, required=True)
    options = parser.parse_args(arguments)
    warm = csv_lines(feed_table(_WARM_ROWS, 1000, 1))
    for _ in range(3):
        feed(FEED_SCHEMA, cut(warm, 1 << 14, 1), _WORKERS)
    del warm
    adaptor, listener = _Counting(), _Listener()
    writer = EpochWriter(options.directory, time.time_ns, lambda _: None, committer=CommitterThread())
    print_line({"resident": resident_bytes()})
    origins = {
        number: Origin(
            number,
            f"source{number}",
            TcpSource(loop, "127.0.0.1", options.port, number),
            adaptor,
            Position(sequence=1),
            defer=loop.callFromThread,
        )
        for number in range(options.sources)
    }
    ingest = Ingest(IngestConfig(workers=_WORKERS), writer, origins, listener)
    threading.Thread(target=_measure, args=(loop, ingest, adaptor, listener), daemon=True).start()
    loop.callWhenRunning(ingest.start)
    loop.run(installSignalHandlers=False)
    writer.close()
    return 1 if listener.reason else 0


def _measure(loop: Any, ingest: Ingest, adaptor: _Counting, listener: _Listener) -> None:
    """Measure from the connections to the end of the streams."""
    sys.stdin.readline()
    print_line({"resident": resident_bytes()})
    samples = _Samples(ingest, adaptor, listener)
    start, cpu = time.perf_counter(), time.process_time()
    samples.start()
    listener.ended.wait()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    samples.join()
    if listener.reason:
        sys.stderr.write(f"ingest_process: {listener.reason}\n")
    else:
        print_line({
            "rows": adaptor.rows, "bad": adaptor.bad, "bytes": adaptor.bytes, "seconds": seconds, "cpu_seconds": cpu,
            "samples": samples.seen,
        })  # fmt: skip
    ingest.stop()
    loop.callFromThread(loop.stop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
