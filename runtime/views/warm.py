"""Kernel sources that are known before there is a row, so that they can be compiled in advance."""

from __future__ import annotations

from runtime.plan import Program
from runtime.views.placement import views_of_shard
from runtime.views.routing import payload_sources
from runtime.views.shard import Inputs, ShardState

__all__ = ["sources_of"]


def sources_of(program: Program, inputs: Inputs, shards: int = 1) -> list[str]:
    """Return the kernel sources of all shards of a program, and of what is given to them, once each."""
    found: dict[str, None] = {}
    layouts = set()
    for shard in range(shards):
        layout = tuple(view.name for view in views_of_shard(program, shard, shards))
        if layout not in layouts:
            layouts.add(layout)
            found |= dict.fromkeys(ShardState(program, shard, shards, inputs=inputs).sources())
    if inputs == "payloads":
        found |= dict.fromkeys(payload_sources(program))
    return list(found)
