"""Where an origin's buffers and marks come into the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from runtime.engine.ingest.deltas import Mark, MarkKind
from runtime.engine.ingest.inlet import Inlet
from runtime.engine.ingest.origin import Origin
from runtime.sources import BufferSink


class FakeSource:
    """Counts how often there is room for it."""

    def __init__(self) -> None:
        self.resumes = 0

    def resume(self) -> None:
        self.resumes += 1


class FakeOrigin:
    """All that an inlet asks of one."""

    origin_id = 7
    weight = 1

    def __init__(self) -> None:
        self.source = FakeSource()

    def defer(self, call: Callable[[], None]) -> None:
        """Nobody opens it."""


class FakeEmitter:
    """Takes what it is told to take; another thread may say meanwhile that there is room."""

    def __init__(self, takes: list[bool], meanwhile: Callable[[], None]) -> None:
        self.takes = takes
        self.meanwhile = meanwhile
        self.taken: list[object] = []

    def offer(self, item: object, size: int = 1) -> bool:
        del size
        is_taken = self.takes.pop(0)
        if is_taken:
            self.taken.append(item)
        call, self.meanwhile = self.meanwhile, lambda: None
        call()
        return is_taken

    def put(self, item: object, size: int = 1) -> bool:
        return self.offer(item, size)

    def end_of_stream(self) -> None:
        """Not here."""

    def failed(self, reason: str) -> None:
        """Not here."""


@pytest.mark.parametrize("takes", [[True, True], [False, True], [False, False, True]])
def test_a_mark_is_brought_once_whenever_there_is_room(takes: list[bool]) -> None:
    """Room that comes while the mark is being offered is neither lost nor used twice."""
    origin = FakeOrigin()
    inlet = Inlet(cast("Origin", origin), cast("BufferSink", None), is_held=False)
    emitter = FakeEmitter(takes, meanwhile=inlet.resume)
    inlet.open(emitter)
    inlet.end(MarkKind.LOST, "broken")
    inlet.resume()
    assert emitter.taken == [Mark(7, MarkKind.LOST, "broken")]
    inlet.resume()
    assert len(emitter.taken) == 1
    assert origin.source.resumes


def test_a_mark_that_was_refused_comes_when_there_is_room() -> None:
    origin = FakeOrigin()
    inlet = Inlet(cast("Origin", origin), cast("BufferSink", None), is_held=False)
    emitter = FakeEmitter([False, False, True], meanwhile=lambda: None)
    inlet.open(emitter)
    inlet.end(MarkKind.ENDED)
    inlet.resume()
    assert emitter.taken == []
    inlet.resume()
    assert emitter.taken == [Mark(7, MarkKind.ENDED)]
