"""Stateful half of the streaming query: one shard of the view program per group.

State in Spark's store is a head value and a map of pages. Each batch writes one run: the payloads of the shard. When
these runs are larger than the base, the whole state is written as a new base. A worker keeps in memory the shards that
it has processed, with the name of the last run that each contains. If the head's chain still has that run, only the
runs after it are replayed; otherwise the shard is rebuilt from the store. A failed attempt leaves nothing in memory,
because a shard is removed from memory before it is changed. Every attempt of a batch writes the same runs, whatever its
worker has in memory, because an attempt that Spark considers lost may still overwrite the files of the attempt that
counts.

The first batch of a new program migrates the shard to that program, and writes a base, so that every run of a chain
belongs to the program that the head names. A shard without a head is at the beginning of the checkpoint: its first
batch fills all views, as if they were new, and also writes a base.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from runtime.spark.config import SparkLaneError
from runtime.spark.garbage import Garbage
from runtime.spark.kernels import worker_kernels
from runtime.spark.planning import Span, load_program, shard_ids
from runtime.spark.reading import TICK, Place
from runtime.views.routing import Part
from runtime.views.shard import ShardState, Step
from runtime.views.shardruns import decode_table, encode_table

__all__ = ["OUTPUT_SCHEMA", "ShardProcessor"]

OUTPUT_SCHEMA: Final = "shard int, from_epoch bigint, to_epoch bigint, view string, kind string, payload binary"
# Schemas of the state as types, not as text, which a worker would have Java parse in every batch.
_HEAD: Final = StructType([StructField("head", BinaryType())])
_PAGE: Final = StructType([StructField("run", LongType()), StructField("page", IntegerType())])
_DATA: Final = StructType([StructField("data", BinaryType())])
_PAGE_BYTES: Final = 1024 * 1024
"""Size in bytes of a page of a run."""
_SMALLEST_BASE_BYTES: Final = 256 * 1024
"""A base is not replaced, however small it is, until the runs after it have more than this number of bytes in total."""
_MOST_LINKS: Final = 256
"""Greatest number of runs of a shard: the head is written with every batch, and a shard that moves reads every run."""


class _Link(msgspec.Struct, frozen=True, array_like=True):
    """Run of a shard's chain: a base, or the payloads of a batch."""

    number: int
    """Number of the run in the shard, under which its pages are stored."""
    nonce: str
    """Random name of the run, by which a worker recognises the state that it has in memory."""
    size: int
    """Size of the run in bytes."""
    crc32: int
    """CRC-32 of the run."""


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """State of a shard at a version."""

    version: int
    """Version of the state."""
    program: int
    """Epoch of the control record with the program of the version."""
    links: tuple[_Link, ...]
    """Runs that make up the state: a base, then later ones."""


class _Batch(msgspec.Struct, frozen=True):
    """Input of a shard for a version."""

    span: Span
    """Epochs of the batch."""
    program: int
    """Epoch of the control record with the program of the batch."""
    delivered: list[tuple[Part, pa.Table | str]]
    """Payloads of parts, or the reasons why there are none."""
    backfill: dict[int, list[tuple[Part, pa.Table | str]]]
    """Number of a new view → its backfill."""


class _Resident(msgspec.Struct):
    """Shard in a worker's memory."""

    state: ShardState
    """The shard."""
    nonce: str
    """Nonce of the last run that the state contains."""
    used: int = 0
    """Number of the shard's last turn, among the turns of all shards in this process."""


_garbage: Final = Garbage()
_residents: dict[tuple[str, int], _Resident] = {}
"""Shards of this worker process; another process may have a newer or an older state of the same shard."""
_UNUSED_TURNS: Final = 8
"""A shard counts as moved to another worker after this number of turns per shard without one of its own."""


def _keep(place: tuple[str, int], resident: _Resident, shards: int) -> None:
    """Keep a shard in memory, and evict shards that have moved to other workers."""
    resident.used = max([resident.used, *(other.used for other in _residents.values())]) + 1
    _residents[place] = resident
    oldest = resident.used - _UNUSED_TURNS * shards
    for other in [key for key, cached in _residents.items() if cached.used < oldest]:
        del _residents[other]


class ShardProcessor(StatefulProcessor):
    """Processor that applies a batch's payloads to a shard, and emits its views' changes, then one completion row."""

    def __init__(self, directory: str, shards: int, base: int = 0, *, compiles: bool = False) -> None:
        """Create the processor of a checkpoint that was begun after version ``base``.

        With ``compiles``, workers compile kernels; otherwise they load the kernels that the driver has requested.
        """
        self._directory = directory
        self._shards = shards
        self._base = base
        self._compiles = compiles

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state, whose schema never changes."""
        self._head = handle.getValueState("head", _HEAD)
        self._pages = handle.getMapState("runs", _PAGE, _DATA)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Process the rows of one shard for one version; raise `SparkLaneError` if the shard has another version."""
        shard_id = int(key[0])
        batch = _sort_out(rows)
        head = self._read_head(batch.program)
        resident = self._resident(shard_id, head)
        if head.version != batch.span.from_epoch:
            raise SparkLaneError(f"expected version {batch.span.from_epoch} in shard {shard_id}, was {head.version}")
        program = load_program(self._directory, batch.program)
        if batch.program != head.program:
            resident.state.migrate(program)
        backfill = {program.views[number].name: given for number, given in batch.backfill.items()}
        step = resident.state.step(batch.delivered, backfill)
        self._write(head, resident, batch)
        _keep((self._directory, shard_id), resident, self._shards)
        _garbage.keep((self._directory, batch.program))
        yield from _output(shard_id, batch.span, step)

    def close(self) -> None:
        """Do nothing, because there is nothing to release."""

    def _read_head(self, program: int) -> _Head:
        stored = self._head.get() if self._head.exists() else None
        if stored is None:
            return _Head(self._base, program, ())
        try:
            return msgspec.msgpack.decode(bytes(stored[0]), type=_Head)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SparkLaneError(
                f"expected the head of a shard's state, was {bytes(stored[0])[:40]!r}: {error}"
            ) from None

    def _resident(self, shard_id: int, head: _Head) -> _Resident:
        resident = _residents.pop((self._directory, shard_id), None)
        nonces = [link.nonce for link in head.links]
        if resident is None or resident.nonce not in nonces:
            program = load_program(self._directory, head.program)
            shard, kernels = shard_ids(self._shards).index(shard_id), worker_kernels(compiles=self._compiles)
            resident = _Resident(ShardState(program, shard, self._shards, kernels=kernels), "")
            later = head.links
        else:
            later = head.links[nonces.index(resident.nonce) + 1 :]
        for link in later:
            resident.state.apply_run(self._read_run(link))
        return resident

    def _read_run(self, link: _Link) -> bytes:
        pages = [self._pages.getValue((link.number, page)) for page in range(-(-link.size // _PAGE_BYTES))]
        run = b"".join(bytes(page[0]) for page in pages if page is not None)
        checksum = zlib.crc32(run)
        if len(run) != link.size or link.crc32 != checksum:
            raise SparkLaneError(
                f"expected {link.size} bytes with checksum {link.crc32} as run {link.number} of a shard's state, "
                f"was {len(run)} with {checksum}"
            )
        return run

    def _write(self, head: _Head, resident: _Resident, batch: _Batch) -> None:
        links = head.links
        number = links[-1].number + 1 if links else 0
        is_base = not links or batch.program != head.program or len(links) >= _MOST_LINKS
        run = b"" if is_base else resident.state.save()
        edits = len(run) + sum(link.size for link in links[1:])
        if is_base or edits > max(links[0].size, _SMALLEST_BASE_BYTES):
            run = resident.state.save_all()
            for link in links:
                for page in range(-(-link.size // _PAGE_BYTES)):
                    self._pages.removeKey((link.number, page))
            links = ()
        for page, start in enumerate(range(0, len(run), _PAGE_BYTES)):
            self._pages.updateValue((number, page), (run[start : start + _PAGE_BYTES],))
        link = _Link(number, os.urandom(8).hex(), len(run), zlib.crc32(run))
        new = _Head(batch.span.to_epoch, batch.program, (*links, link))
        self._head.update((msgspec.msgpack.encode(new),))
        resident.nonce = link.nonce


def _sort_out(rows: Iterator[Row]) -> _Batch:
    """Return the batch's span, program and payloads, in an order that does not depend on the order of the rows."""
    span: Span | None = None
    program = -1
    payloads: list[tuple[int, bytes]] = []
    for row in rows:
        program = int(row["program"])
        payload = bytes(row["payload"])
        if row["map"] == TICK:
            span = msgspec.msgpack.decode(payload, type=Span)
        else:
            payloads.append((row["map"], payload))
    if span is None:
        raise SparkLaneError(f"expected a tick among the rows of a shard, was none among {len(payloads)} payloads")
    delivered: list[tuple[Part, pa.Table | str]] = []
    backfill: dict[int, list[tuple[Part, pa.Table | str]]] = {}
    for code, payload in sorted(payloads):
        place = Place.of_code(code)
        deltas = payload.decode() if place.broken else decode_table(payload)
        given = delivered if place.view is None else backfill.setdefault(place.view, [])
        given.append((place.part, deltas))
    return _Batch(span, program, delivered, backfill)


def _output(shard_id: int, span: Span, step: Step) -> Iterator[Row]:
    def row(view: str, kind: str, payload: bytes) -> Row:
        return Row(
            shard=shard_id,
            from_epoch=span.from_epoch,
            to_epoch=span.to_epoch,
            view=view,
            kind=kind,
            payload=payload,
        )

    for view, changes in step.changes.items():
        yield row(view, "changes", encode_table(changes))
    for view, reason in step.failed.items():
        yield row(view, "failed", reason.encode())
    yield row("", "complete", b"")
