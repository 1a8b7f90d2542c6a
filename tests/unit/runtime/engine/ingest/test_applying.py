"""The step that applies: small batches of one call reach the adaptor as one, and epochs end where they did before."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa
import pytest

from runtime.engine.barriers import Barrier
from runtime.engine.ingest.applying import Applying, ApplyingConfig
from runtime.engine.ingest.deltas import Completed, Deltas
from runtime.engine.ingest.eventtimes import EpochTime
from runtime.engine.ingest.formatting import Formatting
from runtime.engine.ingest.origin import Origin
from runtime.engine.ingest.turnover import OriginTable
from runtime.formats import InputFormatter, RawBuffer
from runtime.relations import FeedAdaptor, Retention
from runtime.relations.adaptor import Prepared
from runtime.sources import Position
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.ingest_lab import ListSource, feed

MESSAGES = 40
DATA = feed(MESSAGES, per_request=2)


class Counted(FeedAdaptor):
    """Knows how often it was called."""

    calls = 0

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        self.calls += 1
        return super().apply(prepared)


class Calls:
    """What a call of the step did."""

    def __init__(self) -> None:
        self.emitted: list[Deltas] = []
        self.barriers = 0
        self.left: list[object] = []

    def emit(self, item: object, successor: int | None = None, size: int = 1) -> None:
        self.emitted.append(cast(Deltas, item))

    def begin_barrier(self, barrier: Barrier | None = None, payload: object = None) -> Barrier:
        self.barriers += 1
        return barrier or Barrier(self.barriers, payload)

    def repeat(self, inputs: list[object], after_s: float = 0.0) -> None:
        self.left = inputs


def completed(origin: Origin, formatter: InputFormatter, pieces: int) -> list[Completed]:
    """What the formatter makes of the stream, a piece at a time."""
    formatter.open(origin.origin_id, offset=0)
    ends = [len(DATA) * place // pieces for place in range(pieces + 1)]
    found = []
    for number, (begin, end) in enumerate(itertools.pairwise(ends), 1):
        raw = RawBuffer(origin_id=0, sequence_number=number, data=DATA[begin:end], offset=begin)
        batches = formatter.format([raw]).batches
        found.append(Completed(batches, sum(batch.tuples for batch in batches)))
    return found


def step_of(epoch_messages: int, pieces: int) -> tuple[Counted, Applying, list[Completed]]:
    space = ObjectSpace(MemoryStore())
    adaptor = Counted(space, "feed", Retention())
    source = ListSource(0, DATA)
    origin = Origin(0, "feed", source, adaptor, Position("S1", 1, 0))
    formatter = InputFormatter(adaptor.schema)
    origin.attach(Formatting(formatter, 1))
    config = ApplyingConfig(epoch_messages, lambda: 0, lambda number, reason: None)
    applying = Applying(config, OriginTable({0: origin}), EpochTime(space, {}))
    return adaptor, applying, completed(origin, formatter, pieces)


@pytest.mark.parametrize("pieces", [2, 7, 23])
def test_a_call_costs_one_pass_of_the_adaptor(pieces: int) -> None:
    adaptor, step, inputs = step_of(1000, pieces)
    calls = Calls()
    step.execute(inputs, cast(Any, calls))
    (deltas,) = calls.emitted
    assert adaptor.calls == 1
    assert deltas.cuts["feed"].sequence == deltas.messages
    assert deltas.messages in (MESSAGES, MESSAGES - 2)  # the last request may not be whole yet


@pytest.mark.parametrize("pieces", [1, 2, 7, 23])
def test_epochs_end_at_the_same_messages_in_any_arrival(pieces: int) -> None:
    _, step, inputs = step_of(5, pieces)
    calls = Calls()
    given: list[Any] = list(inputs)
    while given:
        calls.left = []
        step.execute(given, cast(Any, calls))
        given = calls.left
    closed, messages = [], 0
    for deltas in calls.emitted:
        messages += deltas.messages
        if deltas.closes >= 0:
            closed.append(messages)
    assert closed == list(range(6, messages + 1, 6))  # of five messages, at the end of a request of two
    assert calls.barriers == len(closed) >= MESSAGES // 6
