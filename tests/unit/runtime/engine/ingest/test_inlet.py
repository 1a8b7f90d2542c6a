"""Where an origin's buffers and marks come into the plan, and what holds them back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.engine.ingest.deltas import Mark, MarkKind
from runtime.engine.ingest.inlet import Inlet
from runtime.formats import RawBuffer
from runtime.sources import BufferSink, Position, Source, SourceStateError
from tests.generators.ingest_lab import IngestLab, ListSource, at_sequence, feed, feed_adaptor, footers


class Numbered(Source):
    """A source that offers numbered buffers until it is refused, and the refused one again."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.number = 1
        self.sink: Any = None

    def open(self, sink: BufferSink, position: Position) -> None:
        self.sink = sink
        self.calls.append("open")

    def resume(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")

    def offer(self) -> bool:
        taken = self.sink.offer(RawBuffer(0, self.number, b"xyz", 0))
        self.number += taken
        return bool(taken)


class FakeEmitter:
    """Takes what it is told to take; another thread may say meanwhile that there is room."""

    def __init__(self, takes: list[bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        self.takes = takes
        self.meanwhile = meanwhile
        self.taken: list[object] = []
        self.sizes: list[int] = []
        self.in_flight = 0
        self.drained: list[Callable[[], None]] = []

    def offer(self, item: object, size: int = 1) -> bool:
        is_taken = self.takes.pop(0) if self.takes else True
        if is_taken:
            self.taken.append(item)
            self.sizes.append(size)
        call, self.meanwhile = self.meanwhile, lambda: None
        call()
        return is_taken

    def put(self, item: object, size: int = 1) -> bool:
        return self.offer(item, size)

    def when_drained(self, call: Callable[[], None]) -> None:
        if self.in_flight:
            self.drained.append(call)
        else:
            call()

    def end_of_stream(self) -> None:
        """Not here."""

    def failed(self, reason: str) -> None:
        """Not here."""


def opened(*takes: bool) -> tuple[Inlet, Numbered, FakeEmitter]:
    source = Numbered()
    inlet, emitter = Inlet(7, source, lambda call: call()), FakeEmitter(list(takes))
    inlet.attach(lambda sink: source.open(sink, Position()), weight=8)
    inlet.open(emitter)
    return inlet, source, emitter


@pytest.mark.parametrize("takes", [[True, True], [False, True], [False, False, True]])
def test_a_mark_is_brought_once_whenever_there_is_room(takes: list[bool]) -> None:
    """Room that comes while the mark is being offered is neither lost nor used twice."""
    inlet, source, emitter = opened(*takes)
    emitter.meanwhile = inlet.resume
    inlet.lost(7, "broken")
    inlet.resume()
    assert emitter.taken == [Mark(7, MarkKind.LOST, "broken")]
    inlet.resume()
    assert len(emitter.taken) == 1
    assert "resume" in source.calls


def test_a_mark_that_was_refused_comes_when_there_is_room() -> None:
    inlet, _, emitter = opened(False, False, True)
    inlet.end_of_stream(7)
    inlet.resume()
    assert emitter.taken == []
    inlet.resume()
    assert emitter.taken == [Mark(7, MarkKind.ENDED)]


def test_a_mark_comes_after_all_that_was_brought() -> None:
    inlet, source, emitter = opened()
    source.offer()
    emitter.in_flight = 1
    inlet.failed(7, "why")
    inlet.end_of_stream(7)  # the first end counts
    assert [type(item) for item in emitter.taken] == [RawBuffer]
    (call,) = emitter.drained
    call()
    assert emitter.taken[1:] == [Mark(7, MarkKind.FAILED, "why")]


def test_what_is_refused_comes_again_when_it_lets_in() -> None:
    inlet, source, emitter = opened()
    assert source.offer()
    inlet.shut()
    assert not source.offer()
    assert inlet.is_waiting
    inlet.let_in()
    assert source.offer()
    assert source.calls == ["open", "resume"]
    assert [cast(RawBuffer, raw).sequence_number for raw in emitter.taken] == [1, 2]
    assert (inlet.taken_bytes, inlet.is_waiting, emitter.sizes) == (6, False, [24, 24])


def test_a_source_that_offered_nothing_meanwhile_is_not_resumed() -> None:
    inlet, source, _ = opened()
    inlet.shut()
    inlet.let_in()
    assert source.calls == ["open"]


def test_room_in_the_engine_does_not_let_in() -> None:
    inlet, source, _ = opened(False)
    assert not source.offer()
    inlet.shut()
    inlet.resume()
    assert not source.offer()
    inlet.let_in()
    assert source.offer()


def test_only_buffers_that_are_taken_are_let_in() -> None:
    inlet, source, _ = opened(True, False)
    seen: list[int] = []
    inlet.on_let_in = lambda raw: seen.append(raw.sequence_number)
    assert [source.offer(), source.offer(), source.offer()] == [True, False, True]
    assert seen == [1, 2]


def test_nothing_is_taken_or_reported_after_its_end() -> None:
    inlet, source, emitter = opened()
    losses: list[str] = []
    inlet.attach(lambda sink: None, lambda origin_id, reason: losses.append(reason))
    inlet.retire()
    inlet.lost(7, "cut")
    assert not source.offer()
    assert (emitter.taken, losses, source.calls) == ([], [], ["open", "close"])


def test_a_source_that_does_not_connect_names_itself() -> None:
    with pytest.raises(SourceStateError, match="expected a source that connects, was Numbered"):
        Numbered().reconnect(Position())


def test_a_source_that_cannot_connect_again_fails_its_origin(tmp_path: Path) -> None:
    class Once(ListSource):
        def reconnect(self, position: Position) -> None:
            if self.positions:
                raise SourceStateError("no second time")
            super().reconnect(position)

    data = feed(9)
    source = Once(0, data, range(40, len(data), 40), lost_after=[2], at=at_sequence(data))
    lab = IngestLab(tmp_path, [(source, feed_adaptor)])
    assert lab.run() == "failed: origin origin-0: SourceStateError: no second time"


def test_an_inlet_that_shuts_now_and_then_loses_nothing(tmp_path: Path) -> None:
    """Shut by whom it may be, at any buffer: every message is in exactly one epoch, in order."""
    data = feed(300)
    source = ListSource(0, data, range(40, len(data), 40), lost_after=[20, 9], at=at_sequence(data))
    with ThreadPoolExecutor(1) as opener:
        lab = IngestLab(tmp_path, [(source, feed_adaptor)], epoch_messages=11)
        inlet = lab.origins[0].inlet
        offer, offered = inlet.offer, [0]

        def shutting(raw: RawBuffer) -> bool:
            """Shut in front of every seventh buffer, and opened by another thread."""
            offered[0] += 1
            if offered[0] % 7 == 0:
                inlet.shut()
                opener.submit(inlet.let_in)
            return offer(raw)

        inlet.offer = shutting  # type: ignore[method-assign]
        assert lab.run() == "finished"
    assert source.refusals > 0
    assert sum(footer.messages for footer in footers(tmp_path)) == 300
    cuts = [footer.cuts["origin-0"].sequence for footer in footers(tmp_path)]
    assert cuts == sorted(set(cuts))
    assert cuts[-1] == 300
