"""Shard ids that Spark's hash partitioning maps one to one onto its partitions.

Spark sends the group of an integer key to partition ``pmod(murmur3(key, 42), partitions)``. Taking 0, 1, 2 … as ids
would let several shards share a partition while others idle, so ids are searched for.
"""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["shard_ids", "spark_partition"]

_SEED: Final = 42
_WORD: Final = 0xFFFFFFFF


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _WORD


def _murmur3(value: int) -> int:
    """Murmur3 (x86, 32 bit) of one 4-byte integer, as Spark's `hash` computes it; a signed 32-bit integer."""
    mixed = (value & _WORD) * 0xCC9E2D51 & _WORD
    mixed = _rotate(mixed, 15) * 0x1B873593 & _WORD
    state = _rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD
    state ^= 4  # length in bytes
    state = (state ^ (state >> 16)) * 0x85EBCA6B & _WORD
    state = (state ^ (state >> 13)) * 0xC2B2AE35 & _WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def spark_partition(key: int, partitions: int) -> int:
    """The partition to which Spark sends the group of this int key."""
    return _murmur3(key) % partitions


@cache
def shard_ids(shards: int) -> tuple[int, ...]:
    """One id per shard: ``shard_ids(n)[i]`` goes to partition i of n."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < shards:
        found.setdefault(spark_partition(candidate, shards), candidate)
        candidate += 1
    return tuple(found[i] for i in range(shards))
