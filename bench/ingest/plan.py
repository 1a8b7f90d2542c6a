"""How much is measured: all of it, or with BENCH_QUICK the same figures from less."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["BUFFERS", "FORMATS", "WINDOW", "WORKERS", "Plan", "plan_of"]

FORMATS: Final = ("csv", "json", "native", "itch")
BUFFERS: Final = {"4k": 1 << 12, "64k": 1 << 16, "256k": 1 << 18, "1m": 1 << 20}
"""Sizes of raw buffers in bytes, by the name that the figures carry."""
WORKERS: Final = (1, 2)
WINDOW: Final = 64
"""Buffers are shuffled within groups of so many."""

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


class Plan(msgspec.Struct, frozen=True):
    """Amounts of one run."""

    input_bytes: int
    """Of each format, at least."""
    block_bytes: int
    """What is generated and then repeated."""
    rounds: int
    """Counted ones; one more comes first and warms up."""
    wide_bytes: int
    """Input of 20 columns, for the projection."""
    slice_messages: int
    """How many ITCH messages `itchfeed` reads."""
    memory_bytes: int
    """How much goes through one ingest process while its memory is watched."""
    memory_from_bytes: int
    """From where on it is watched."""
    epoch_messages: int
    """How many go from a file into epochs, of each format."""
    commit_seconds: float
    """How long a feed is committed while the parts of a commit are timed."""
    sources: tuple[int, ...]
    """How many TCP sources send at once."""
    sources_seconds: float
    """For how long."""
    sources_bytes_per_s: int
    """How much all of them send in a second."""


def plan_of(quick: bool) -> Plan:
    """The plan; a quick one has the same figures."""
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
