"""Tables and words as bytes, for the wire between Spark's stages and for shards' runs: Arrow's IPC format, with LZ4.

The payloads of a large batch take a third of their size. They are written and read several times: by the source, by
Spark's shuffle, into the store of states, and again by a worker that has to catch up with a shard.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state import CorruptStateError

__all__ = ["decode_table", "decode_words", "encode_table", "encode_words"]

Words = npt.NDArray[np.int64]

_CODEC: Final = "lz4"
_PLAIN: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_PACKED: Final = pa.ipc.IpcWriteOptions(use_threads=False, compression=_CODEC)
_READING: Final = pa.ipc.IpcReadOptions(use_threads=False)
_SMALL_BYTES: Final = 16 * 1024
"""Less is not compressed: it would take longer to write and hardly less room."""


def encode_table(table: pa.Table) -> bytes:
    """Return a table as bytes, the same for equal tables."""
    sink = pa.BufferOutputStream()
    options = _PLAIN if table.nbytes < _SMALL_BYTES else _PACKED
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_table(data: bytes) -> pa.Table:
    """Return the table that `encode_table` was given; raise `CorruptStateError`."""
    try:
        return pa.ipc.open_stream(data, options=_READING).read_all()
    except (pa.ArrowException, OSError) as error:
        raise CorruptStateError(f"expected a table, was {data[:16]!r}…: {error}") from None


def encode_words(words: Words) -> bytes:
    """Return words as bytes; fewer than eight a word if they are compressed."""
    plain = np.ascontiguousarray(words)
    if plain.nbytes >= _SMALL_BYTES:
        packed: bytes = pa.compress(plain, codec=_CODEC, asbytes=True)
        if len(packed) < plain.nbytes:
            return packed
    return plain.tobytes()


def decode_words(data: bytes, count: int) -> Words:
    """Return the words that `encode_words` was given, so many; raise `CorruptStateError`."""
    try:
        plain = pa.decompress(data, 8 * count, codec=_CODEC, asbytes=True) if len(data) < 8 * count else data
        return np.frombuffer(plain, np.int64, count)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptStateError(f"expected {count} words, was {data[:16]!r}…: {error}") from None
