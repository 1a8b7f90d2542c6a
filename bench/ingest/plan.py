"""Amounts of the measurements; with BENCH_QUICK less data for the same figures."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["BUFFERS", "FORMATS", "WINDOW", "WORKERS", "Plan", "plan_of"]

FORMATS: Final = ("csv", "json", "native", "itch")
BUFFERS: Final = {"4k": 1 << 12, "64k": 1 << 16, "256k": 1 << 18, "1m": 1 << 20}
"""Sizes of raw buffers in bytes, by their name in the figures."""
WORKERS: Final = (1, 2)
WINDOW: Final = 64
"""Number of buffers in a window, within which the buffers are shuffled."""

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


class Plan(msgspec.Struct, frozen=True):
    """Amounts of one run."""

    input_bytes: int
    """Least input of each format in bytes."""
    block_bytes: int
    """Size in bytes of the block that is generated and then repeated."""
    rounds: int
    """Number of counted rounds; one more comes first for warming up."""
    wide_bytes: int
    """Input of 20 columns in bytes, for the projection."""
    slice_messages: int
    """Number of ITCH messages that `itchfeed` reads."""
    memory_bytes: int
    """Bytes that go through one ingest process while its memory is watched."""
    memory_from_bytes: int
    """Bytes after which the memory is watched."""
    epoch_messages: int
    """Number of messages of each format that go from a file into epochs."""
    commit_seconds: float
    """Seconds for which the parts of commits are timed."""
    sources: tuple[int, ...]
    """Numbers of TCP sources that send at once."""
    sources_seconds: float
    """Seconds for which the sources send."""
    sources_bytes_per_s: int
    """Bytes per second of all sources together."""


def plan_of(quick: bool) -> Plan:
    """Return the plan; a quick one has the same figures."""
    if quick:
        return Plan(
            input_bytes=48 * _MIB,
            block_bytes=8 * _MIB,
            rounds=3,
            wide_bytes=32 * _MIB,
            slice_messages=50_000,
            memory_bytes=1 * _GIB,
            memory_from_bytes=_GIB // 10,
            epoch_messages=1_000_000,
            commit_seconds=5.0,
            sources=(1_000, 10_000),
            sources_seconds=3.0,
            sources_bytes_per_s=100_000_000,
        )
    return Plan(
        input_bytes=1 * _GIB,
        block_bytes=32 * _MIB,
        rounds=3,
        wide_bytes=512 * _MIB,
        slice_messages=500_000,
        memory_bytes=10 * _GIB,
        memory_from_bytes=1 * _GIB,
        epoch_messages=4_000_000,
        commit_seconds=20.0,
        sources=(1_000, 10_000),
        sources_seconds=20.0,
        sources_bytes_per_s=100_000_000,
    )
