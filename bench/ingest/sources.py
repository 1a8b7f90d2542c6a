"""Cost of many TCP sources at once, and stability of memory while one source sends much data."""

from __future__ import annotations

import resource
import tempfile
from typing import Any

import msgspec

from bench.ingest.feeding import WrongCountError
from bench.ingest.plan import Plan
from bench.processes import BenchProcess
from bench.report import Record, record

__all__ = ["measure_memory", "measure_sources"]

_FILES_BESIDE = 200
_WRITES_PER_S = 10_000
"""Number of writes per second, over all connections."""
_BULK_PIECE = 1 << 20


class _Passed(msgspec.Struct, frozen=True):
    """Figures that an ingest process reports."""

    before: int
    """Memory of the process without sources, in bytes."""
    idle: int
    """Memory with all sources connected and nothing sent, in bytes."""
    samples: tuple[tuple[int, int], ...]
    """Samples while the sources sent: bytes so far, and memory in bytes."""
    bytes: int
    """Number of bytes that came in."""
    rows: int
    """Number of rows that came in."""
    seconds: float
    """Seconds from the first byte to the end of all streams."""
    cpu_seconds: float
    """Processor seconds of all threads of the process in this time."""


def measure_sources(count: int, plan: Plan) -> list[Record]:
    """Measure ``count`` sources that send at the plan's total rate."""
    rate = plan.sources_bytes_per_s
    each = int(rate * plan.sources_seconds / count)
    piece = max(1, rate // _WRITES_PER_S)
    passed = _pass(count, each, min(piece, each), rate)
    name = f"ingest.sources.{count}"
    most = max(resident for _, resident in passed.samples)
    reference = "the same process without sources"
    return [
        record(f"{name}.bytes_per_source", [(most - passed.before) / count], "bytes", reference),
        record(f"{name}.idle_bytes_per_source", [(passed.idle - passed.before) / count], "bytes", reference),
        record(f"{name}.cpu_s_per_source_s", [passed.cpu_seconds / passed.seconds / count], "s/s"),
        record(f"{name}.bytes_per_s", [passed.bytes / passed.seconds], "bytes/s", "as sent", [float(rate)]),
        record(f"{name}.messages_per_s", [passed.rows / passed.seconds], "messages/s"),
    ]


def measure_memory(plan: Plan) -> list[Record]:
    """Measure the memory of an ingest process while one source sends at full speed."""
    passed = _pass(1, plan.memory_bytes, _BULK_PIECE, 0)
    watched = [resident for done, resident in passed.samples if done >= plan.memory_from_bytes]
    reference = "the lowest"
    return [
        record("ingest.memory.growth", [max(watched) / min(watched)], "ratio", reference),
        record("ingest.memory.resident_bytes", [float(resident) for resident in watched], "bytes"),
        record("ingest.memory.bytes_per_s", [passed.bytes / passed.seconds], "bytes/s"),
    ]


def _pass(connections: int, each: int, piece: int, rate: float) -> _Passed:
    """Send a load to an ingest, each in a process of its own; raise `WrongCountError` if anything is missing."""
    _allow_files(connections)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        BenchProcess(
            "bench.ingest.load_process", connections=connections, bytes=each, piece=piece, bytes_per_second=rate
        ) as load,
    ):
        port = load.read_line()["port"]
        with BenchProcess("bench.ingest.ingest_process", port=port, sources=connections, directory=directory) as ingest:
            before = ingest.read_line()["resident"]
            load.read_line()  # all sources are connected
            ingest.write_line()
            idle = ingest.read_line()["resident"]
            load.write_line()
            sent, result = load.read_line(), ingest.read_line()
    _compare(sent, result)
    return _Passed(
        before=before, idle=idle, samples=tuple((done, resident) for done, resident in result["samples"]),
        bytes=result["bytes"], rows=result["rows"], seconds=result["seconds"], cpu_seconds=result["cpu_seconds"],
    )  # fmt: skip


def _compare(sent: dict[str, Any], result: dict[str, Any]) -> None:
    expected, was = (sent["bytes"], sent["rows"], 0), (result["bytes"], result["rows"], result["bad"])
    if was != expected:
        raise WrongCountError(f"expected {expected} bytes, rows and bad tuples, was {was}")


def _allow_files(count: int) -> None:
    """Raise the limit of open files as far as needed, for the processes that are started from here.

    Raises `RuntimeError` if that is not allowed: a figure of fewer sources must not have the same name.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _FILES_BESIDE
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = hard if hard == resource.RLIM_INFINITY else max(hard, wanted)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    except (OSError, ValueError) as error:
        raise RuntimeError(f"expected {wanted} open files to be allowed, was {hard} (ulimit -Hn): {error}") from None
