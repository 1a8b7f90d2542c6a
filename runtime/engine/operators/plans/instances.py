"""Instances of pipelines that are connected for one thread: what a task runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from runtime.engine.operators.chain import Chain
from runtime.engine.operators.exchange import Exchange
from runtime.engine.operators.operator import Batches
from runtime.engine.operators.plans.stages import Stage
from runtime.engine.operators.plans.steps import Step
from runtime.state import ObjectSpace

__all__ = ["Instance", "Scan", "Sink", "connected"]


class Target(Protocol):
    """What takes batches, barriers and the end of a producer."""

    def batch(self, batch: pa.RecordBatch, port: int) -> Batches:
        """Rows."""

    def barrier(self, port: int) -> Batches:
        """A producer of this port has passed the barrier on."""

    def end(self, port: int) -> Batches:
        """A producer of this port has ended."""

    def is_unwanted(self, port: int) -> bool:
        """Whether rows of this port cannot change any output before the next barrier."""

    def add_producer(self, port: int) -> None:
        """One more."""


@dataclass(slots=True)
class Route:
    """Where batches go: to each target, or to the one whose turn it is by hash."""

    targets: Sequence[Target]
    port: int
    exchange: Exchange | None = None

    def batch(self, batch: pa.RecordBatch) -> Batches:
        if self.exchange is None:
            for target in self.targets:
                yield from target.batch(batch, self.port)
            return
        for instance, part in self.exchange.split(batch):
            yield from self.targets[instance].batch(part, self.port)


@dataclass(slots=True)
class Output:
    """All ways out of a producer."""

    routes: list[Route] = field(default_factory=list)

    def add(self, route: Route) -> None:
        self.routes.append(route)
        for target in route.targets:
            target.add_producer(route.port)

    def batch(self, batch: pa.RecordBatch) -> Batches:
        for route in self.routes:
            yield from route.batch(batch)

    def barrier(self) -> Batches:
        for route in self.routes:
            for target in route.targets:
                yield from target.barrier(route.port)

    def end(self) -> Batches:
        for route in self.routes:
            for target in route.targets:
                yield from target.end(route.port)

    def is_unwanted(self) -> bool:
        return all(target.is_unwanted(route.port) for route in self.routes for target in route.targets)


class Instance:
    """One instance of a pipeline; passes a barrier on when all producers of all its ports have."""

    def __init__(self, name: str, chain: Chain) -> None:
        self.name = name
        self.chain = chain
        self.out = Output()
        self._live = [0] * chain.ports
        self._passed = [0] * chain.ports

    def add_producer(self, port: int) -> None:
        self._live[port] += 1

    def batch(self, batch: pa.RecordBatch, port: int) -> Batches:
        return self._emitted(self.chain.add_input(batch, port))

    def barrier(self, port: int) -> Batches:
        self._passed[port] += 1
        if self._passed[port] == self._live[port]:
            yield from self._emitted(self.chain.drain_input(port))
        yield from self._pass_on()

    def end(self, port: int) -> Batches:
        self._live[port] -= 1
        if not self._live[port]:
            yield from self._emitted(self.chain.end_of_input(port))
        elif self._passed[port] == self._live[port]:
            yield from self._emitted(self.chain.drain_input(port))
        if not any(self._live):
            yield from self.out.end()
        else:
            yield from self._pass_on()

    def is_unwanted(self, port: int) -> bool:
        return self.chain.drops_input(port) or (not self.chain.keeps and self.out.is_unwanted())

    def _pass_on(self) -> Batches:
        if any(self._passed) and self._passed == self._live:
            self._passed = [0] * len(self._passed)
            yield from self._emitted(self.chain.start_drain())
            yield from self.out.barrier()

    def _emitted(self, batches: Batches) -> Batches:
        for batch in batches:
            yield from self.out.batch(batch)


class Sink:
    """Where the output leaves the task."""

    def __init__(self) -> None:
        self.reached = 0
        """Barriers that all producers have passed, and that were not counted yet."""
        self._live = 0
        self._passed = 0

    def add_producer(self, port: int) -> None:
        self._live += 1

    def batch(self, batch: pa.RecordBatch, port: int) -> Batches:
        yield batch

    def barrier(self, port: int) -> Batches:
        self._passed += 1
        return self._counted()

    def end(self, port: int) -> Batches:
        self._live -= 1
        return self._counted()

    def is_unwanted(self, port: int) -> bool:
        return False

    def _counted(self) -> Batches:
        if self._passed and self._passed == self._live:
            self._passed = 0
            self.reached += 1
        return iter(())


@dataclass(slots=True)
class Scan:
    """A scan of a task."""

    schema: pa.Schema
    out: Output = field(default_factory=Output)


def connected(stages: Sequence[Stage], sink: Sink, space: ObjectSpace | None) -> tuple[dict[str, Scan], list[Instance]]:
    """The scans by name, and all instances."""
    scans: dict[str, Scan] = {}
    made: dict[int, list[Instance]] = {}
    for stage in stages:
        made[stage.number] = targets = [
            Instance(f"pipeline {stage.number}", stage.chain(number, space)) for number in range(stage.instances)
        ]
        for port, feed in enumerate(stage.feeds):
            if isinstance(feed.source, Step):
                name = feed.source.label.removeprefix("scan ")
                outs = [scans.setdefault(name, Scan(feed.schema)).out]
            else:
                outs = [instance.out for instance in made[feed.source.number]]
            exchange = Exchange(feed.keys, len(targets)) if feed.keys else None
            for number, out in enumerate(outs):
                direct = not exchange and len(outs) == len(targets) > 1
                out.add(Route([targets[number]] if direct else targets, port, exchange))
    for instance in made[stages[-1].number]:
        instance.out.add(Route([sink], 0))
    return scans, [instance for stage in stages for instance in made[stage.number]]
