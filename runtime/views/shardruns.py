"""Runs of a shard in a checkpoint: its whole state, or its input since the previous run; and their encoding.

The content of a run is captured at once and encoded later, on any thread, while the shard continues. Tables are encoded
in Arrow's IPC format, and the words of structures as they are; both are compressed with LZ4 if they are large. Spark's
stages exchange tables in the same encoding: compression reduces a large batch to a third, and each batch is written and
read several times, by the source, Spark's shuffle, the state store, and a worker that catches up with a shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.epochs.consolidating import consolidate
from runtime.native.structures import Words
from runtime.state import CorruptStateError

__all__ = [
    "RUN_FORMAT",
    "Base",
    "ShardRun",
    "TakenIn",
    "decode_shard_run",
    "decode_table",
    "decode_words",
    "encode_table",
    "encode_words",
]

_CODEC: Final = "lz4"
_PLAIN: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_PACKED: Final = pa.ipc.IpcWriteOptions(use_threads=False, compression=_CODEC)
_READING: Final = pa.ipc.IpcReadOptions(use_threads=False)
_SMALL_BYTES: Final = 16 * 1024
"""Size in bytes below which data is not compressed, because that would take time and save little space."""


def encode_table(table: pa.Table) -> bytes:
    """Encode a table as bytes; equal tables have the same bytes."""
    sink = pa.BufferOutputStream()
    options = _PLAIN if table.nbytes < _SMALL_BYTES else _PACKED
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_table(data: bytes) -> pa.Table:
    """Decode a table of `encode_table`; raise `CorruptStateError` if it is damaged."""
    try:
        return pa.ipc.open_stream(data, options=_READING).read_all()
    except (pa.ArrowException, OSError) as error:
        raise CorruptStateError(f"expected a table, was {data[:16]!r}…: {error}") from None


def encode_words(words: Words) -> bytes:
    """Encode words as bytes; the result is compressed if and only if it has fewer than eight bytes per word."""
    plain = np.ascontiguousarray(words)
    if plain.nbytes >= _SMALL_BYTES:
        packed: bytes = pa.compress(plain, codec=_CODEC, asbytes=True)
        if len(packed) < plain.nbytes:
            return packed
    return plain.tobytes()


def decode_words(data: bytes, count: int) -> Words:
    """Decode ``count`` words of `encode_words`; raise `CorruptStateError` if they are damaged."""
    try:
        plain = pa.decompress(data, 8 * count, codec=_CODEC, asbytes=True) if len(data) < 8 * count else data
        return np.frombuffer(plain, np.int64, count)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptStateError(f"expected {count} words, was {data[:16]!r}…: {error}") from None


RUN_FORMAT: Final = 4
"""Format of runs; a run of another format is refused. Spark's checkpoints record it (`runtime.spark.beginning`)."""


class StoredRecords(msgspec.Struct, frozen=True, array_like=True):
    """Records of a structure."""

    width: int
    """Number of words of a record."""
    count: int
    """Number of records."""
    words: bytes
    """Words of all records; see `encode_words`."""


class ShardRun(msgspec.Struct, frozen=True, array_like=True):
    """A base (with records), or the rows that were processed since the previous run."""

    format: int
    """Format of the run; see `RUN_FORMAT`."""
    is_base: bool
    """True if the run is a base."""
    strings: list[str]
    """Strings of a base; their places are the strings' numbers in the records."""
    structures: dict[str, StoredRecords]
    """Identity of a structure → its records in a base."""
    results: dict[str, bytes]
    """Recomputed view → its rows, or their changes."""
    taken: list[tuple[str, bytes]]
    """Relation or code of a part, with its rows, in the order of arrival."""
    failed: dict[str, str]
    """View → reason for its failure."""
    begun: list[str]
    """Views that have had a version."""


class TakenIn(msgspec.Struct, frozen=True):
    """Rows that were processed since the previous run, not yet encoded."""

    failed: Mapping[str, str]
    """View → reason for its failure."""
    begun: set[str]
    """Views that have had a version."""
    taken: Sequence[tuple[str, pa.Table | pa.RecordBatch]]
    """Relation or code of a part, with its rows, in the order of arrival."""
    columns: Mapping[str, frozenset[str]] | None
    """Relation → columns that are read; rows equal in these columns are added up. None for payloads of maps."""
    results: Mapping[str, Sequence[pa.Table]]
    """Recomputed view → changes of its rows."""

    def encode(self) -> bytes:
        """Encode the run as bytes for `decode_shard_run`."""
        taken = [(name, encode_table(table)) for name, table in self._added_up()]
        results = {name: encode_table(_ordered(pa.concat_tables(tables))) for name, tables in self.results.items()}
        return _encoded(self.failed, self.begun, results=results, taken=taken)

    def _added_up(self) -> Sequence[tuple[str, pa.Table]]:
        if self.columns is None:
            return self.taken
        by_name: dict[str, list[pa.Table]] = {}
        for name, rows in self.taken:
            table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
            by_name.setdefault(name, []).append(table)
        changes = []
        for name, tables in by_name.items():
            whole = pa.concat_tables(tables)
            last = whole.num_columns - 1
            read = [place for place, column in enumerate(whole.column_names[:last]) if column in self.columns[name]]
            rows = whole.select([*read, last])
            changes.append((name, rows if len(tables) == 1 else consolidate(rows, rows.schema)))
        return changes


class Base(msgspec.Struct, frozen=True):
    """Whole state of a shard, not yet encoded: a run that needs no other, with the same bytes for the same content."""

    failed: Mapping[str, str]
    """View → reason for its failure."""
    begun: set[str]
    """Views that have had a version."""
    strings: list[str]
    """Strings in ascending order; records contain their places."""
    records: Mapping[str, Words]
    """Identity of a structure → words of its records."""
    results: Mapping[str, pa.Table]
    """Recomputed view → its rows."""

    def encode(self) -> bytes:
        """Encode the state as bytes for `decode_shard_run`."""
        encoded = {}
        for name, records in self.records.items():
            ordered = records[np.lexsort(records.T[::-1])]
            encoded[name] = StoredRecords(records.shape[1], records.shape[0], encode_words(ordered))
        results = {name: encode_table(_ordered(rows)) for name, rows in self.results.items()}
        return _encoded(self.failed, self.begun, strings=self.strings, structures=encoded, results=results)


def decode_shard_run(data: bytes) -> ShardRun:
    """Decode a run; raise `CorruptStateError` if the bytes are not a run."""
    try:
        run = msgspec.msgpack.decode(data, type=ShardRun)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptStateError(f"expected a run of a shard, was {data[:16]!r}…: {error}") from None
    if run.format != RUN_FORMAT:
        raise CorruptStateError(f"expected a run of format {RUN_FORMAT}, was format {run.format}")
    return run


def _encoded(
    failed: Mapping[str, str],
    begun: set[str],
    *,
    strings: list[str] | None = None,
    structures: Mapping[str, StoredRecords] | None = None,
    results: Mapping[str, bytes],
    taken: list[tuple[str, bytes]] | None = None,
) -> bytes:
    """Encode a run as bytes; it is a base unless ``structures`` is None."""
    run = ShardRun(
        RUN_FORMAT,
        structures is not None,
        strings or [],
        dict(sorted((structures or {}).items())),
        dict(sorted(results.items())),
        taken or [],
        dict(sorted(failed.items())),
        sorted(begun),
    )
    return msgspec.msgpack.encode(run)


def _ordered(table: pa.Table) -> pa.Table:
    """Return the rows in ascending order of their columns."""
    names = [str(place) for place in range(table.num_columns)]  # a column of the view may be called weight too
    keys = [(name, "ascending") for name in names]
    return table.take(pc.sort_indices(table.rename_columns(names), sort_keys=keys)).combine_chunks()
