"""A gate that is shut lets nothing in, and loses nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.formats import RawBuffer
from runtime.sources import FeedSource, Gate, Position, SourceStateError
from tests.generators.ingest_lab import IngestLab, ListSource, at_sequence, feed, feed_adaptor, footers


class Feed:
    """A source that offers numbered buffers until it is refused, and the refused one again."""

    session = "S"

    def __init__(self, sink_calls: list[str]) -> None:
        self.calls = sink_calls
        self.number = 1
        self.sink: Any = None

    def open(self, sink: Any, position: Position) -> None:
        self.sink = sink
        self.calls.append(f"open {position.sequence}")

    def resume(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")

    def reconnect(self, position: Position) -> None:
        self.calls.append(f"reconnect {position.sequence}")

    def codec_at(self, position: Position) -> None:
        return None

    def offer(self) -> bool:
        taken = self.sink.offer(RawBuffer(0, self.number, b"x", 0))
        self.number += taken
        return bool(taken)


class Sink:
    """Takes everything as long as it has room."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.has_room = True
        self.numbers: list[int] = []

    def offer(self, raw: RawBuffer) -> bool:
        if self.has_room:
            self.numbers.append(raw.sequence_number)
        return self.has_room

    def end_of_stream(self, origin_id: int) -> None:
        self.calls.append("end")

    def failed(self, origin_id: int, reason: str) -> None:
        self.calls.append(f"failed {reason}")

    def lost(self, origin_id: int, reason: str) -> None:
        self.calls.append(f"lost {reason}")


def opened() -> tuple[Gate, Feed, Sink]:
    calls: list[str] = []
    feed, sink = Feed(calls), Sink(calls)
    gate = Gate(cast(FeedSource, feed))
    gate.open(sink, Position(sequence=7))
    return gate, feed, sink


def test_what_is_refused_comes_again_when_the_gate_opens() -> None:
    gate, feed, sink = opened()
    assert feed.offer()
    gate.shut()
    assert not feed.offer()
    gate.let_in()
    assert feed.offer()
    assert (feed.calls, sink.numbers) == (["open 7", "resume"], [1, 2])


def test_a_source_that_offered_nothing_meanwhile_hears_nothing() -> None:
    gate, feed, _ = opened()
    gate.shut()
    gate.let_in()
    assert feed.calls == ["open 7"]


def test_room_in_the_sink_does_not_open_the_gate() -> None:
    gate, feed, sink = opened()
    gate.shut()
    sink.has_room = False
    assert not feed.offer()
    sink.has_room = True
    gate.resume()
    assert not feed.offer()
    gate.let_in()
    assert feed.offer()


def test_everything_else_goes_through() -> None:
    gate, feed, sink = opened()
    gate.shut()
    gate.lost(0, "cut")
    gate.reconnect(Position(sequence=9))
    gate.failed(0, "why")
    gate.end_of_stream(0)
    gate.close()
    assert feed.calls == ["open 7", "lost cut", "reconnect 9", "failed why", "end", "close"]
    assert (gate.session, gate.codec_at(Position())) == ("S", None)
    assert sink.numbers == []


def test_a_gate_whose_source_is_not_open_has_no_sink() -> None:
    with pytest.raises(SourceStateError, match="opened"):
        Gate(cast(FeedSource, Feed([]))).lost(0, "cut")


def test_an_ingest_after_a_shutting_gate_misses_nothing(tmp_path: Path) -> None:
    """Shut by whom it may be, at any buffer: every message is in exactly one epoch, in order."""
    data = feed(300)

    class Shutting(Gate):
        """Shut in front of every seventh buffer, and opened by another thread."""

        offered = 0

        def offer(self, raw: RawBuffer) -> bool:
            self.offered += 1
            if self.offered % 7 == 0:
                self.shut()
                opener.submit(self.let_in)
            return super().offer(raw)

    with ThreadPoolExecutor(1) as opener:
        source = ListSource(0, data, range(40, len(data), 40), lost_after=[20, 9], at=at_sequence(data))
        gate = Shutting(cast(FeedSource, source))
        lab = IngestLab(tmp_path, [(gate, feed_adaptor)], epoch_messages=11)
        assert lab.run() == "finished"
    assert source.refusals > 0
    assert sum(footer.messages for footer in footers(tmp_path)) == 300
    cuts = [footer.cuts["origin-0"].sequence for footer in footers(tmp_path)]
    assert cuts == sorted(set(cuts))
    assert cuts[-1] == 300
