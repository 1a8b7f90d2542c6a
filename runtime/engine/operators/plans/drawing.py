"""A plan as a tree: its pipelines, their operators from the last to the first, and what feeds them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from runtime.engine.operators.plans.stages import Feed, Stage, stages_of
from runtime.engine.operators.plans.steps import Step

__all__ = ["drawn"]


def drawn(last: Step) -> str:
    """The plan that ends with this step, a line an operator and another one for what it holds."""
    stages = stages_of(last)
    return "\n".join(_stage(stages[-1], set()))


def _stage(stage: Stage, done: set[int]) -> Iterator[str]:
    title = f"pipeline {stage.number}" + (f" ×{stage.instances}" if stage.instances > 1 else "")
    if stage.number in done:
        yield f"{title}, as above"
        return
    done.add(stage.number)
    yield title
    for step in reversed(stage.steps):
        yield f"  {step.label} → {_columns(step.schema)}"
        if step.state:
            yield f"  │ {step.state}"
        if step.cannot_drain:
            yield f"  │ cannot drain: {step.cannot_drain}"
    for place, feed in enumerate(stage.feeds):
        head, body = ("└─ ", "   ") if place == len(stage.feeds) - 1 else ("├─ ", "│  ")
        for number, line in enumerate(_feed(feed, done)):
            yield (body if number else head) + line


def _feed(feed: Feed, done: set[int]) -> Iterator[str]:
    if isinstance(feed.source, Step):
        order = f", sorted by {', '.join(feed.source.order)}" if feed.source.order else ""
        yield f"{feed.source.label}{order} → {_columns(feed.source.schema)}"
        return
    lines = _stage(feed.source, done)
    yield (f"{feed.label} ─ " if feed.label else "") + next(lines)
    yield from lines


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
