"""Lost connections, failures, barriers and malformed messages: what the epochs then hold."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.ingest import EpochWriter
from runtime.epochs import Footer
from runtime.plan import Column, Relation
from runtime.relations import Prepared, RowAdaptor, row_schema
from tests.generators.ingest_lab import (
    WAIT_SECONDS,
    IngestLab,
    ListSource,
    at_sequence,
    dead_letters,
    feed,
    feed_adaptor,
    footers,
    relations,
    trace,
    trace_adaptor,
)

NUMBERS = Relation("n", (Column("n", "int64"),))


@settings(max_examples=25)
@given(
    size=st.integers(1, 60),
    lost=st.lists(st.integers(0, 60), max_size=4),
    bad=st.sets(st.integers(1, 59), max_size=4),
    per_request=st.integers(1, 4),
    heartbeats=st.booleans(),
)
def test_a_lost_connection_loses_and_doubles_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    lost: list[int],
    bad: set[int],
    per_request: int,
    heartbeats: bool,
) -> None:
    """Also when malformed messages come again with those that were not applied."""
    data = feed(60, per_request, tuple(bad), heartbeats)
    directory = tmp_path_factory.mktemp("lost")
    source = ListSource(0, data, range(size, len(data), size), lost_after=lost, at=at_sequence(data))
    lab = IngestLab(directory, [(source, feed_adaptor)], epoch_messages=5)
    assert lab.run() == "finished"
    assert len(lab.listener.losses) == len(source.positions) - 1
    whole = tmp_path_factory.mktemp("whole")
    assert IngestLab(whole, [(ListSource(0, data), feed_adaptor)], epoch_messages=5).run() == "finished"
    assert relations(directory) == relations(whole)
    assert sum(f.messages for f in footers(directory)) == 60 - len(bad)
    assert [text for _, text in dead_letters(directory)] == [
        f"{n},{(n - 1) // per_request},oops-{n}" for n in sorted(bad)
    ]
    for footer in footers(directory)[:-1]:
        sequence = footer.cuts["origin-0"].sequence
        following = next((n for n in range(sequence + 1, 61) if n not in bad), None)
        assert following is None or (following - 1) // per_request != (sequence - 1) // per_request, (
            "cut inside a request"
        )


def test_a_gap_in_the_feed_is_a_failure(tmp_path: Path) -> None:
    data = b"".join(line for line in feed(10).splitlines(keepends=True) if not line.startswith(b"7,"))
    lab = IngestLab(tmp_path, [(ListSource(0, data), feed_adaptor)], epoch_messages=3)
    assert lab.run() == "failed: FeedGapError: expected feed message 7, was 8"


class Failing(RowAdaptor):
    """An adaptor that breaks at a row."""

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        if 7 in prepared.rows.column("n").to_pylist():
            raise ArithmeticError("seven")
        return super().apply(prepared)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_failing_adaptor_fails_once_and_the_last_epoch_stands(tmp_path: Path, workers: int) -> None:
    data = b"".join(b"%d\n" % n for n in range(40))
    source = ListSource(0, data, range(2, len(data), 2))
    lab = IngestLab(
        tmp_path, [(source, lambda _w, _c: Failing(NUMBERS, row_schema(NUMBERS)))], workers=workers, epoch_messages=3
    )
    assert lab.run() == "failed: ArithmeticError: seven"
    assert source.closed
    assert [f.messages for f in footers(tmp_path)] == [3, 3]
    assert relations(tmp_path)["n"] == {(n,): 1 for n in range(6)}


def test_a_source_that_gives_up_is_one_failure(tmp_path: Path) -> None:
    lab = IngestLab(tmp_path, [(ListSource(0, trace(9), ends=False), trace_adaptor)], epoch_messages=4)
    lab.start()
    lab.settle()
    lab.origins[0].inlet.failed(0, "no disk")
    lab.origins[0].inlet.failed(0, "still no disk")
    lab.origins[0].inlet.end_of_stream(0)
    lab.ingest.request_barrier()
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "failed: origin origin-0: no disk"
    lab.close()
    assert [f.messages for f in footers(tmp_path)] == [4, 4, 1], "what came before is good"


def test_a_barrier_closes_what_is_there_and_nothing_else(tmp_path: Path) -> None:
    """An epoch that is empty is not closed; a request that is not whole stays out."""
    data = feed(7, per_request=2)
    source = ListSource(0, data, ends=False, at=at_sequence(data))
    lab = IngestLab(tmp_path, [(source, feed_adaptor)])
    sealed = threading.Semaphore(0)

    def on_epoch(footer: Footer) -> None:
        del footer
        sealed.release()

    lab.writer._on_epoch = on_epoch
    lab.ingest.request_barrier()
    lab.start()
    lab.settle()
    for _ in range(3):
        lab.ingest.request_barrier()
    assert sealed.acquire(timeout=WAIT_SECONDS)
    lab.close()
    assert [f.messages for f in footers(tmp_path)] == [6]
    assert footers(tmp_path)[0].cuts["origin-0"].sequence == 6


def test_a_control_record_closes_the_epoch_whatever_is_in_it(tmp_path: Path) -> None:
    """At a place where it may be cut: what waits for the rest of its request is in a later one."""
    data = feed(10, per_request=4)
    lab = IngestLab(tmp_path, [(ListSource(0, data, ends=False, at=at_sequence(data)), feed_adaptor)])
    lab.start()
    lab.settle()
    sealed: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    for record in (b"one", b"two"):
        lab.ingest.seal_control(record, sealed.put)
    first, second = (sealed.get(timeout=WAIT_SECONDS) for _ in range(2))
    assert first is not None
    assert second == first + 1
    lab.close()
    found = footers(tmp_path)
    assert [(f.to_epoch, f.control) for f in found if f.control] == [(first, b"one"), (second, b"two")]
    assert sum(f.messages for f in found) == 8
    assert found[-1].messages == 0
    writer = EpochWriter(tmp_path, lambda: 1, lambda _: None)
    assert writer.control == b"two"
    writer.close()


def test_after_the_end_there_are_no_control_records(tmp_path: Path) -> None:
    lab = IngestLab(tmp_path, [(ListSource(0, trace(5)), trace_adaptor)])
    assert lab.run() == "finished"
    answers: list[int | None] = []
    lab.ingest.seal_control(b"late", answers.append)
    assert answers == [None]
    assert not any(footer.control for footer in footers(tmp_path))


@pytest.mark.parametrize("bad", ["4,3,oops\n", "5,4,0,0,H,oops,0,\n"])
def test_a_malformed_line_does_not_hide_a_later_gap(tmp_path: Path, bad: str) -> None:
    """It allows a number to be missing where it stood; it may also have been a heartbeat, which has none of its own."""
    lines = feed(12).decode().splitlines(keepends=True)
    del lines[8]
    if "H" in bad:
        lines.insert(4, bad)
    else:
        lines[3] = bad
        lines.insert(6, "8,7,oops, more\n")
        del lines[7]
    data = "".join(lines).encode()
    source = ListSource(0, data, [data.index(b"6,5,6"), data.index(b"\n8,7") + 1, data.index(b"10,9,10")])
    lab = IngestLab(tmp_path, [(source, feed_adaptor)])
    assert "FeedGapError: expected feed message 9, was 10" in lab.run()


def test_uncounted_malformed_messages_may_all_be_missing(tmp_path: Path) -> None:
    """So many that not each is described, and parts that end between them."""
    data = feed(6_000, bad=tuple(range(2, 5_000, 2)))
    lab = IngestLab(tmp_path, [(ListSource(0, data), feed_adaptor)], epoch_messages=50)
    assert lab.run() == "finished"
    assert lab.origins[0].adaptor.counters()["gaps"] == 2_499


def test_a_malformed_message_repeated_after_a_break_counts_once(tmp_path: Path) -> None:
    """The connection breaks behind it, before a good message has passed it."""
    data = feed(9, bad=(4, 6))
    behind = data.index(b"5,4,5")
    source = ListSource(0, data, [behind, data.index(b"7,6,7")], lost_after=[1, 2], at=at_sequence(data))
    lab = IngestLab(tmp_path, [(source, feed_adaptor)])
    assert lab.run() == "finished"
    assert [p.sequence for p in source.positions] == [1, 3, 4]
    assert [text for _, text in dead_letters(tmp_path)] == ["4,3,oops-4", "6,5,oops-6"]
    assert lab.writer.dead_letters == 2
    assert lab.origins[0].adaptor.counters()["gaps"] == 2


class Passing(ListSource):
    """A stream that cannot be asked for again."""

    @property
    def replays(self) -> bool:
        return False


def test_a_malformed_tuple_before_a_break_counts_unrepeated(tmp_path: Path) -> None:
    """The tuple that is open is missing, nothing else; bytes and tuples go on counting behind what has come."""
    data = b"1\noops\n2" + b"3\nbad\n"
    source = Passing(0, data, [8], lost_after=[1], at=lambda position: 8 if position.offset else 0)
    lab = IngestLab(tmp_path, [(source, lambda _w, _c: RowAdaptor(NUMBERS, row_schema(NUMBERS)))])
    assert lab.run() == "finished"
    assert [(p.offset, p.tuples) for p in source.positions] == [(0, 0), (7, 2)]
    assert [text for _, text in dead_letters(tmp_path)] == ["oops", "bad"]
    assert lab.writer.dead_letters == 2
    assert relations(tmp_path)["n"] == {(1,): 1, (3,): 1}
    assert (footers(tmp_path)[-1].cuts["origin-0"].offset, footers(tmp_path)[-1].cuts["origin-0"].tuples) == (13, 4)
