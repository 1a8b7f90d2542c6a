"""Shards of a view program whose kernels are compiled before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from runtime.compiler import Program
from runtime.native.cache import default_kernels
from runtime.views import ShardState, ViewError
from runtime.views.code import sources_of

__all__ = ["compile_shards", "compiled_shard"]


def compile_shards(program: Program, shards: int) -> None:
    """Compile the kernels of a program for Spark's workers; raise `ViewError` if one cannot be compiled."""
    _compile(sources_of(program, "payloads", shards))


def compiled_shard(
    program: Program, shard: int = 0, shards: int = 1, *, inputs: Literal["payloads", "relations"] = "payloads"
) -> ShardState:
    """Return a shard without rows; raise `ViewError` if a kernel cannot be compiled.

    If the environment disables compilation, as in tests, the kernels are interpreted.
    """
    if not _compile(ShardState(program, shard, shards, inputs=inputs).sources()):
        return ShardState(program, shard, shards, inputs=inputs)
    state = ShardState(program, shard, shards, inputs=inputs, kernels=default_kernels())
    assert state.is_compiled
    return state


def _compile(sources: Sequence[str]) -> bool:
    """Compile kernels; return False if compilation is disabled."""
    kernels = default_kernels()
    if not kernels.status().is_on:
        return False
    report = kernels.compile_now(sources)
    if report.failures:
        raise ViewError(f"expected kernels that compile, was {dict(report.failures)}")
    return True
