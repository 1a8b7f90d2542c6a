"""Bytes and messages per second of each format, for sizes of buffers and numbers of workers, beside the format's
reference."""

from __future__ import annotations

import gc
import statistics
from collections import defaultdict
from typing import Final

from bench.ingest import references
from bench.ingest.feeding import WrongCountError, cut, feed
from bench.ingest.material import RECORD, Material
from bench.ingest.plan import BUFFERS, WORKERS, Plan
from bench.report import Record, record
from runtime.formats import Pushdown, RawBuffer

__all__ = ["SCALING_BUFFER", "measure_itchfeed", "measure_projection", "measure_rates", "measure_tiled"]

SCALING_BUFFER: Final = "256k"
"""Size of buffers whose rates with one and two workers give `scaling_2_1`."""
_PROJECTION_WORKERS: Final = 2
_PROJECTION_BUFFER: Final = 1 << 18


class _Rates:
    """Bytes per second, round by round."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self.ours: dict[tuple[str, int], list[float]] = defaultdict(list)
        self.theirs: dict[int, list[float]] = defaultdict(list)

    def measure_round(self, cuttings: dict[str, list[RawBuffer]]) -> None:
        """Measure one round for each number of workers.

        The formatter, with each size of buffer, runs between two readings of the reference.
        """
        material = self._material
        for workers in WORKERS:
            before = self._read(workers)
            for buffer, raws in cuttings.items():
                fed = feed(material.schema, raws, workers)
                _expect(material, fed.rows)
                self.ours[buffer, workers].append(len(material.data) / fed.seconds)
            self.theirs[workers].append(statistics.mean((before, self._read(workers))))

    def _read(self, threads: int) -> float:
        rows, seconds = self._material.read(threads)
        _expect(self._material, rows)
        return len(self._material.data) / seconds

    def clear(self) -> None:
        """Discard the rates so far, which were for warming up."""
        self.ours.clear()
        self.theirs.clear()


def measure_rates(material: Material, plan: Plan) -> list[Record]:
    """Return the figures of one format."""
    cuttings = {name: cut(material.data, size, seed=size) for name, size in BUFFERS.items()}
    gc.collect()
    gc.freeze()  # no source holds so many buffers: the collector must not scan them again and again
    rates = _Rates(material)
    for number in range(plan.rounds + 1):
        rates.measure_round(cuttings)
        if number == 0:
            rates.clear()
    gc.unfreeze()
    return _records(material, rates)


def _records(material: Material, rates: _Rates) -> list[Record]:
    name = f"ingest.{material.format}"
    messages = material.rows / len(material.data)
    records = []
    for buffer in BUFFERS:
        for workers in WORKERS:
            ours, theirs = rates.ours[buffer, workers], rates.theirs[workers]
            threads = workers if material.threaded else 1
            reference = f"{material.reference}, {threads} thread{'s' if threads > 1 else ''}"
            key = f"{name}.{buffer}.{workers}"
            ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
            records += [
                record(f"{key}.ratio", ratios, "ratio", reference),
                record(f"{key}.bytes_per_s", ours, "bytes/s", reference, theirs),
                record(
                    f"{key}.messages_per_s",
                    [rate * messages for rate in ours],
                    "messages/s",
                    reference,
                    [rate * messages for rate in theirs],
                ),
            ]
    one, two = rates.ours[SCALING_BUFFER, 1], rates.ours[SCALING_BUFFER, 2]
    scaling = [b / a for a, b in zip(one, two, strict=True)]
    theirs = [b / a for a, b in zip(rates.theirs[1], rates.theirs[2], strict=True)] if material.threaded else []
    reference = f"{material.reference}: the same" if theirs else ""
    return [*records, record(f"{name}.scaling_2_1", scaling, "ratio", reference, theirs)]


def measure_projection(material: Material, plan: Plan) -> Record:
    """Measure how much faster formatting is if only two of the columns are requested."""
    names = material.schema.names
    wanted = Pushdown(columns=(names[2], names[-2]))
    raws = cut(material.data, _PROJECTION_BUFFER, seed=1)
    gains = []
    for number in range(plan.rounds + 1):
        everything = feed(material.schema, raws, _PROJECTION_WORKERS)
        few = feed(material.schema, raws, _PROJECTION_WORKERS, wanted)
        _expect(material, everything.rows)
        _expect(material, few.rows)
        if number:
            gains.append(everything.seconds / few.seconds)
    return record(f"ingest.{material.format}.projection_gain", gains, "ratio", f"all {len(names)} columns")


def measure_itchfeed(material: Material, plan: Plan, records: list[Record]) -> list[Record]:
    """Measure `itchfeed` on a slice, and how many times faster the formatter was with one worker, according to
    `records`.
    """
    block = material.data[: _messages_end(material.data, plan.slice_messages)]
    theirs = []
    for _ in range(plan.rounds):
        messages, seconds = references.itchfeed(block)
        theirs.append(messages / seconds)
    ours = next(r for r in records if r.what == f"ingest.itch.{SCALING_BUFFER}.1.messages_per_s")
    ratios = [ours.value / rate for rate in theirs]
    return [
        record("ingest.itch.itchfeed.ratio", ratios, "ratio", "itchfeed (Python), one object a message"),
        record("ingest.itch.itchfeed.messages_per_s", theirs, "messages/s"),
    ]


def measure_tiled(material: Material, plan: Plan, records: list[Record]) -> list[Record]:
    """Compare the formatter's rates in `records` with numpy on native records, in runs that fit the cache."""
    found = []
    for workers in WORKERS:
        theirs = []
        for _ in range(plan.rounds):
            rows, seconds = references.numpy_records(material.data, RECORD, workers, tiled=True)
            _expect(material, rows)
            theirs.append(len(material.data) / seconds)
        ours = next(r for r in records if r.what == f"ingest.native.{SCALING_BUFFER}.{workers}.bytes_per_s")
        ratios = [ours.value / rate for rate in theirs]
        found.append(record(f"ingest.native.tiled.{workers}.ratio", ratios, "ratio", "numpy by runs of 16,384 records"))
    return found


def _messages_end(data: bytes, messages: int) -> int:
    """Return the offset after this number of length-prefixed messages, or after all."""
    at = 0
    for _ in range(messages):
        if at >= len(data):
            break
        at += 2 + int.from_bytes(data[at : at + 2], "big")
    return at


def _expect(material: Material, rows: int) -> None:
    if rows != material.rows:
        raise WrongCountError(f"expected {material.rows} rows of {material.format}, was {rows}")
