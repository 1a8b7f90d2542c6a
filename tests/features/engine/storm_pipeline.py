"""Pipelines of a storm: each checks every item that it gets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

import msgspec

from runtime.engine.barriers import Barrier
from runtime.engine.plan import Context
from tests.harness import Broken, ControlledPipeline

__all__ = ["BEFORE_CUT", "Checked", "Item"]

BEFORE_CUT = -1


class Item(msgspec.Struct, frozen=True):
    """An input of a source, by its number."""

    source: str
    number: int
    epoch: int
    """How many barriers are before it; of an item that has yet to come to its cut point: BEFORE_CUT."""


class Surroundings(Protocol):
    """What a pipeline wants to know of its query."""

    is_stopped: bool
    is_timed: bool
    cut_points: int


class Checked(ControlledPipeline):
    """Gives items on, at once or at the next barrier, or has them come again first; asserts what holds for each."""

    def configure(self, chance: random.Random, query: Surroundings) -> Checked:
        """What it does is drawn from here."""
        self._chance = chance
        self._query = query
        self._is_stateful = chance.random() < 0.3
        self._repeats = 0.3 if chance.random() < 0.3 else 0.0
        self._delays = self.concurrency > 1 and chance.random() < 0.2
        self._cuts_unasked = 0.1 if chance.random() < 0.4 else 0.0
        self.exchanges = chance.random() < 0.3
        self.takes_turns = chance.random() < 0.3
        self._wanted: Barrier | None = None
        self._has_repeated = False
        return self

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        assert self.is_running, f"{self.name}: called before its start or after its end"
        assert context.port not in self.ended_ports or self._has_repeated, f"{self.name}: input behind the end"
        assert 1 <= len(inputs) <= self.most_inputs
        self.calls += 1
        if self.takes_turns and self._chance.random() < 0.5:
            context.give_turn()
        for place, each in enumerate(inputs):
            if self._chance.random() < self._repeats:
                self._has_repeated = True
                rest = inputs[place:] if self.concurrency == 1 else [each]
                context.repeat(rest, 1.0 if self._delays and self._chance.random() < 0.5 else 0.0)
                if self.concurrency == 1:
                    break
            else:
                self._take(each, context)
        if self.calls == self.fails_on_call:
            raise Broken(f"call {self.calls}")
        if self.is_cut_point and (self._wanted or self._chance.random() < self._cuts_unasked):
            self._cut(context)

    def end_of_input(self, port: int, context: Context) -> None:
        """See `Pipeline`."""
        assert self.is_running
        assert port not in self.ended_ports
        super().end_of_input(port, context)
        if self.is_cut_point and self._chance.random() < self._cuts_unasked:
            self._cut(context)

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """See `Pipeline`."""
        assert self.is_running
        assert not self.drained or self.drained[-1][0].number < barrier.number
        if not self.is_cut_point:
            super().start_drain(barrier, context)
            return
        self._wanted = barrier
        if self._chance.random() < 0.7 or self._query.cut_points > 1:
            self._cut(context)

    def _cut(self, context: Context) -> None:
        self._emit_held(context)
        barrier = context.begin_barrier(self._wanted)
        self._wanted = None
        self.drained.append((barrier, len(self.received)))

    def _take(self, item: object, context: Context) -> None:
        assert isinstance(item, Item)
        if item.epoch != BEFORE_CUT and not self._query.is_stopped:
            assert self._query.is_timed or item.epoch == len(self.drained), (
                f"{self.name}: {item} behind {len(self.drained)} drains"
            )
        self.received.append(item)
        if self.is_cut_point:
            item = msgspec.structs.replace(item, epoch=len(self.drained))
        if self._is_stateful:
            self._held.append(item)
        else:
            self._give(item, context)

    def _emit_held(self, context: Context) -> None:
        held, self._held = self._held, []
        for each in held:
            self._give(each, context)

    def _give(self, item: object, context: Context) -> None:
        assert isinstance(item, Item)
        successor = item.number % context.successors if self.exchanges and context.successors else None
        context.emit(item, successor)
