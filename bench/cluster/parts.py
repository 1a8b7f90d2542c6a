"""Costs in this process, without Spark, of the views of the points, and of a view that is in one shard."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.cluster.plan import ONE_SHARD, VIEWS
from bench.compiledshard import compiled_shard
from bench.ingest.epochs import ingest_file
from queries import query_path
from runtime.compiler import MARKET_RELATIONS, Program, compile_program, encode_program, read_script
from runtime.epochs import EpochLogReader, Segment
from runtime.views import deliveries
from runtime.views.routing import is_spread

__all__ = ["Parts", "measure_parts"]

_EPOCH_MESSAGES: Final = 20_000
_SHARDS: Final = 4


class Parts(msgspec.Struct, frozen=True):
    """Figures of views without Spark, one for each epoch of the second half; the first half fills the state."""

    messages_per_s: tuple[float, ...]
    """Messages per second of all views in one shard, on one thread: the speed of a machine without Spark."""
    add_up_us: tuple[float, ...]
    """Processor time per message, in microseconds, of summing per map and key; any number of tasks can share this
    work."""
    spread_us: tuple[float, ...]
    """Processor time per message, in microseconds, of the state of distributed views, over all shards together."""
    one_shard_us: tuple[float, ...]
    """Processor time per message, in microseconds, of the state of `ONE_SHARD`."""


def measure_parts(recording: Path, messages: int) -> Parts:
    """Measure the costs on the beginning of a recording; raise `ValueError` if a view is not distributed."""
    program = _program(VIEWS)
    if apart := [view.name for view in program.views if not is_spread(program, view)]:
        raise ValueError(f"expected views that are spread, was {', '.join(apart)}, which the model knows nothing of")
    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as name:
        folder = Path(name)
        with recording.open("rb") as source, (folder / "feed.csv").open("wb") as file:
            file.writelines(itertools.islice(source, messages))
        last = ingest_file(folder / "feed.csv", folder / "run", _EPOCH_MESSAGES, control=encode_program(program))
        log = EpochLogReader(folder / "run" / "epochs")
        segments = [log.read(epoch) for epoch in range(1, last + 1)]
        whole = _follow(program, segments, 1)
        add_up_us, spread_us = _follow(program, segments, _SHARDS)
        _, one_shard_us = _follow(_program([ONE_SHARD]), segments, 1)
    rates = tuple(1e6 / (added + stepped) for added, stepped in zip(*whole, strict=True))
    return Parts(rates, tuple(add_up_us), tuple(spread_us), tuple(one_shard_us))


def _program(names: Sequence[str]) -> Program:
    selects = [select for name in names for select in read_script(query_path(name)).selects]
    return compile_program(selects, MARKET_RELATIONS)


def _follow(program: Program, segments: Sequence[Segment], shards: int) -> tuple[list[float], list[float]]:
    """Return the microseconds per message of summing, and of the state over all shards, for each epoch after the first
    half.
    """
    states = [compiled_shard(program, number, shards) for number in range(shards)]
    add_up, step = [], []
    for segment in segments:
        begun = time.thread_time()
        given = list(deliveries(program, [segment], shards))
        added = time.thread_time()
        for number, state in enumerate(states):
            state.step((d.part, d.deltas) for d in given if d.shard == number)
            state.save()
        messages = max(1, segment.footer.messages)
        add_up.append((added - begun) * 1e6 / messages)
        step.append((time.thread_time() - added) * 1e6 / messages)
    half = len(segments) // 2
    return add_up[half:], step[half:]
