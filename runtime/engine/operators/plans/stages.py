"""The pipelines of a plan: chains of steps that run as one, and what flows between them.

A pipeline begins at a step with several inputs, at one whose input goes elsewhere too, behind an exchange or a gather,
and behind a scan. Barriers pass from pipeline to pipeline; within one, from operator to operator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from runtime.engine.operators.chain import Chain
from runtime.engine.operators.operator import Operator
from runtime.engine.operators.plans.steps import Place, Step, in_order
from runtime.engine.operators.rowwise import Union
from runtime.state import ObjectSpace

__all__ = ["Feed", "Stage", "stages_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """What comes in at a port."""

    source: Stage | Step
    """A stage, or a scan."""
    schema: pa.Schema
    """Of its batches."""
    keys: tuple[str, ...] = ()
    """Rows go to the instance that the hash of these says; (): instance to instance, or all into one."""
    label: str = ""
    """Of the exchange or gather on the way, for people."""


@dataclass(slots=True, eq=False)
class Stage:
    """One pipeline."""

    number: int
    """From 1, in an order in which every stage follows what feeds it."""
    feeds: tuple[Feed, ...]
    """By port."""
    instances: int
    """How many of it run side by side."""
    steps: list[Step] = field(default_factory=list)
    """From its input on; none where batches only pass through."""
    schema: pa.Schema | None = None
    """Of what passes through; None where there are steps."""

    @property
    def output(self) -> pa.Schema:
        """Of its output."""
        return self.steps[-1].schema if self.steps else self.schema

    def chain(self, instance: int, space: ObjectSpace | None) -> Chain:
        """New operators for an instance."""
        made: list[Operator] = []
        for number, step in enumerate(self.steps, 1):
            assert step.make is not None
            made.append(step.make(Place(f"pipeline{self.number}/operator{number}/{instance}", space)))
        return Chain(made or [Union(self.output, 1)])


def stages_of(last: Step) -> list[Stage]:
    """The pipelines of the plan that ends with this step; the last one gives its output, in one instance or several."""
    steps = list(in_order(last))
    readers: dict[int, int] = {}
    for step in steps:
        for each in step.inputs:
            readers[id(each)] = readers.get(id(each), 0) + 1
    stages: list[Stage] = []
    stage_of: dict[int, Stage] = {}

    def passing(feed: Feed, instances: int) -> Stage:
        stages.append(Stage(len(stages) + 1, (feed,), instances, schema=feed.schema))
        return stages[-1]

    def feed_of(step: Step) -> Feed:
        if step.kind not in ("exchange", "gather"):
            return Feed(step if step.kind == "scan" else stage_of[id(step)], step.schema)
        (inner,) = step.inputs
        if inner.kind == "scan":  # a scan cannot spread rows
            if id(inner) not in stage_of:
                stage_of[id(inner)] = passing(Feed(inner, inner.schema), 1)
            source: Stage | Step = stage_of[id(inner)]
        else:
            source = stage_of[id(inner)]
        return Feed(source, step.schema, step.spread if step.kind == "exchange" else (), step.label)

    for step in steps:
        if step.kind != "operator":
            continue
        first = step.inputs[0]
        if len(step.inputs) == 1 and first.kind == "operator" and readers[id(first)] == 1:
            stage = stage_of[id(first)]
        else:
            stage = Stage(0, tuple(feed_of(each) for each in step.inputs), step.instances)
            stages.append(stage)
            stage.number = len(stages)
        stage.steps.append(step)
        stage_of[id(step)] = stage
    if last.kind != "operator":
        passing(feed_of(last), last.instances)
    return stages
