"""Operators in the task-queue engine: each pipeline of a plan is a pipeline of the engine, for every instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from runtime.engine.barriers import Barrier
from runtime.engine.operators.chain import Chain
from runtime.engine.operators.columns import as_schema
from runtime.engine.operators.errors import OperatorError, PlanError
from runtime.engine.operators.exchange import Exchange
from runtime.engine.operators.operator import Batches
from runtime.engine.operators.plans.stages import Feed, Stage, stages_of
from runtime.engine.operators.plans.steps import Step
from runtime.engine.operators.plans.stream import Stream
from runtime.engine.plan import Context, Node, Pipeline, Plan, Source
from runtime.state import ObjectSpace

__all__ = ["OperatorPipeline", "engine_plan"]

_MOST_INPUTS = 16


@dataclass(slots=True)
class _Way:
    """Where a pipeline's output goes: successors by their numbers, all of them or one by hash."""

    successors: list[int]
    exchange: Exchange | None


class OperatorPipeline(Pipeline):
    """A chain of operators as one pipeline; its items are Arrow record batches.

    The engine calls it one at a time and in order, so that operators need no locks; many instances of it run side by
    side behind an exchange. A barrier comes here when all producers of all ports have passed it on; the operators are
    drained in their order, and what they keep is in the object space when the barrier goes on.
    """

    most_inputs = _MOST_INPUTS

    def __init__(self, chain: Chain, schemas: Sequence[pa.Schema], label: str = "") -> None:
        self.cannot_drain = chain.cannot_drain
        self._chain = chain
        self._schemas = tuple(schemas)
        self._label = label
        self._ways: list[_Way] = []
        self._successors = 0

    def __str__(self) -> str:
        return self._label or "operators"

    def add_way(self, successors: int, exchange: Exchange | None) -> None:
        """The next so many successors that are added to the plan get everything, or each its part."""
        numbers = list(range(self._successors, self._successors + successors))
        self._successors += successors
        self._ways.append(_Way(numbers, exchange))

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        for batch in inputs:
            if not isinstance(batch, pa.RecordBatch):
                raise OperatorError(f"expected a record batch, was {type(batch).__name__}")
            if not self._chain.drops_input(context.port):
                typed = as_schema(batch, self._schemas[context.port])
                self._emit(self._chain.add_input(typed, context.port), context)

    def end_of_input(self, port: int, context: Context) -> None:
        self._emit(self._chain.end_of_input(port), context)

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        self._emit(self._chain.start_drain(), context)

    def stop(self, context: Context) -> None:
        if not self._chain.has_ended:  # stopped from outside: what is held goes out as it is
            self._emit(self._chain.start_drain(), context)

    def _emit(self, batches: Batches, context: Context) -> None:
        for batch in batches:
            for way in self._ways:
                if way.exchange is None:
                    for successor in way.successors:
                        context.emit(batch, successor, batch.num_rows)
                    continue
                for instance, part in way.exchange.split(batch):
                    context.emit(part, way.successors[instance], part.num_rows)


def engine_plan(
    stream: Stream, query_id: str, sources: Mapping[str, Source], sink: Pipeline, *, space: ObjectSpace | None = None
) -> Plan:
    """The plan of the engine: a source for each scan, by name, and a sink that takes the output's batches.

    ``space`` is for what operators keep; it is made ready here, and its owner may commit it when a barrier is complete.
    Raises `PlanError` for a scan without a source, or a source without a scan.
    """
    stages = stages_of(stream.step)
    plan = Plan(query_id)
    names = {_scan_name(feed) for stage in stages for feed in stage.feeds if isinstance(feed.source, Step)}
    if names != set(sources):
        raise PlanError(f"expected sources for {', '.join(sorted(names))}, were {', '.join(sorted(sources)) or 'none'}")
    scans = {name: plan.add_source(name, source) for name, source in sources.items()}
    made: dict[int, list[tuple[OperatorPipeline, Node]]] = {}
    for stage in stages:
        bodies = [
            OperatorPipeline(stage.chain(number, space), [feed.schema for feed in stage.feeds], _label(stage))
            for number in range(stage.instances)
        ]
        # Successors are numbered in the order of `Plan.add`: instance by instance, port by port.
        inputs = [
            [edge for port, feed in enumerate(stage.feeds) for edge in _edges(feed, (port, number), stage, scans, made)]
            for number in range(stage.instances)
        ]
        made[stage.number] = [
            (body, plan.add(_node_name(stage, number), body, edges))
            for number, (body, edges) in enumerate(zip(bodies, inputs, strict=True))
        ]
        _connect(stage, made)
    plan.add("sink", sink, [node for _, node in made[stages[-1].number]])
    for body, _ in made[stages[-1].number]:
        body.add_way(1, None)
    return plan


def _edges(
    feed: Feed,
    at: tuple[int, int],
    stage: Stage,
    scans: Mapping[str, Node],
    made: Mapping[int, Sequence[tuple[OperatorPipeline, Node]]],
) -> list[tuple[Node, int]]:
    """What feeds a port of an instance of a stage."""
    port, number = at
    if isinstance(feed.source, Step):
        return [(scans[_scan_name(feed)], port)]
    producers = [node for _, node in made[feed.source.number]]
    if _is_direct(feed, len(producers), stage.instances):
        producers = [producers[number]]
    return [(node, port) for node in producers]


def _connect(stage: Stage, made: Mapping[int, Sequence[tuple[OperatorPipeline, Node]]]) -> None:
    """Tells the producers of a stage which of their successors its instances are."""
    for feed in stage.feeds:
        if isinstance(feed.source, Step):
            continue
        producers = made[feed.source.number]
        direct = _is_direct(feed, len(producers), stage.instances)
        for body, _ in producers:
            body.add_way(1 if direct else stage.instances, Exchange(feed.keys, stage.instances) if feed.keys else None)


def _is_direct(feed: Feed, producers: int, instances: int) -> bool:
    """Whether each instance is fed by the one of the same number."""
    return not feed.keys and producers == instances > 1


def _scan_name(feed: Feed) -> str:
    assert isinstance(feed.source, Step)
    return feed.source.label.removeprefix("scan ")


def _node_name(stage: Stage, number: int) -> str:
    return f"pipeline {stage.number}" + (f".{number}" if stage.instances > 1 else "")


def _label(stage: Stage) -> str:
    return ", ".join(step.label for step in stage.steps) or "pass on"
