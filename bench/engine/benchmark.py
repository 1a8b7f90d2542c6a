"""The benchmark of the engine: tasks, barriers, checkpoints of state, derived streams, and the express lane."""

from __future__ import annotations

from bench.engine.barriers import measure_barriers
from bench.engine.express import measure_express
from bench.engine.state import measure_state
from bench.engine.streams import measure_streams
from bench.engine.tasks import measure_tasks
from bench.report import Record

__all__ = ["run"]


def run(quick: bool) -> list[Record]:
    """Run all parts, one after another."""
    return [*measure_tasks(quick), *measure_barriers(quick), *measure_state(quick), *measure_streams(quick),
            *measure_express(quick)]  # fmt: skip
