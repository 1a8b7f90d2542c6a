"""Streams compressed as a whole or buffer by buffer, by the codecs' own libraries."""

from __future__ import annotations

import gzip
import random
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import lz4.frame

from runtime.formats import Codec, RawBuffer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["compressed", "encoded_buffers", "encoded_stream", "random_codec"]


def compressed(name: str, data: bytes) -> bytes:
    """Return the bytes in one frame."""
    if name == "gzip":
        return gzip.compress(data, 1)
    if name == "zstd":
        return bytes(zstd.compress(data, 1))
    return bytes(lz4.frame.compress(data))


def random_codec(rng: random.Random) -> Codec:
    """Return a random codec in a random mode."""
    mode: Any = rng.choice(("sequential", "per_buffer"))
    return Codec(rng.choice(("gzip", "zstd", "lz4")), mode, is_sized=mode == "per_buffer" and rng.random() < 0.5)


def encoded_stream(rng: random.Random, codec: Codec, data: bytes) -> bytes:
    """Return the bytes in one frame, or in a few frames one after another."""
    places = [0, *sorted(rng.randint(0, len(data)) for _ in range(rng.choice((0, 0, 1, 3)))), len(data)]
    return b"".join(compressed(codec.name, data[start:stop]) for start, stop in pairwise(places))


def encoded_buffers(codec: Codec, raws: Sequence[RawBuffer]) -> list[RawBuffer]:
    """Return the buffers, each compressed separately."""
    return [
        RawBuffer(
            raw.origin_id,
            raw.sequence_number,
            (len(raw.data).to_bytes(4, "little") if codec.is_sized else b"") + compressed(codec.name, raw.data),
            -1,
        )
        for raw in raws
    ]
