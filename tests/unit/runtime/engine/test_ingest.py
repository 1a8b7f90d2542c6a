"""Whatever the cutting, the order, the workers and the breaks: the epochs are those of the stream."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.compiler.program import Column, Relation
from runtime.engine import EpochWriter
from runtime.epochs import Cut, Footer
from runtime.formats import RawBuffer
from runtime.relations import Adaptor, Prepared, RowAdaptor
from runtime.sources import Position
from tests.generators.ingest_lab import (
    WAIT_SECONDS,
    IngestLab,
    ListSource,
    dead_letters,
    feed_adaptor,
    footers,
    relations,
    sealed_rows,
    trace_adaptor,
)


def trace(count: int, seed: int = 1, bad: tuple[int, ...] = ()) -> bytes:
    """A trace of adds, executions and deletes; lines at these places are malformed and come on top."""
    chance = random.Random(seed)
    lines = []
    for n in range(count):
        if n in bad:
            lines.append(f"{n},nonsense-{n}\n")
        lines.append(
            f"{n},{chance.randint(1, 20)},{chance.choice('BSBSED')},{chance.randint(1, 9)},{chance.randint(90, 99)}\n"
        )
    return "".join(lines).encode()


def feed(count: int, per_request: int = 1, bad: tuple[int, ...] = (), heartbeats: bool = False) -> bytes:
    """A feed; so many messages share a time; those at these places are malformed."""
    lines = []
    for n in range(1, count + 1):
        t = (n - 1) // per_request
        if n in bad:
            lines.append(f"{n},{t},oops-{n}\n")
            continue
        action = "T" if n % 5 == 0 else "BS"[n % 2]
        lines.append(f"{n},{t},{n},1,{action},{n % 9 + 1},{90 + n % 7},ACME\n")
        if heartbeats and n % (3 * per_request) == 0:
            lines.append(f"{n + 1},{t},0,0,H,0,0,\n")
    return "".join(lines).encode()


def at_sequence(data: bytes) -> Callable[[Position], int]:
    """Where in a feed's bytes the message with a position's number starts."""
    starts = {}
    place = 0
    for line in data.splitlines(keepends=True):
        if b",H," not in line:
            starts[int(line.split(b",")[0])] = place
        place += len(line)
    return lambda position: starts.get(position.sequence, len(data))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same trace in one buffer with one worker."""
    directory = tmp_path_factory.mktemp("expected")
    data = trace(50, bad=(7, 40, 41))
    lab = IngestLab(directory, [(ListSource(0, data), trace_adaptor)], workers=1, epoch_messages=7)
    assert lab.run() == "finished"
    return directory


@settings(max_examples=15)
@given(
    cuts=st.lists(st.integers(0, 700), max_size=9) | st.integers(1, 40).map(lambda size: list(range(size, 700, size))),
    workers=st.integers(1, 4),
    seed=st.none() | st.integers(0, 99),
    capacity=st.sampled_from([1, 3, 64]),
    in_flight=st.sampled_from([1, 5, 64]),
)
def test_any_cutting_order_and_workers_give_the_same_epochs(
    tmp_path_factory: pytest.TempPathFactory,
    expected: Path,
    cuts: list[int],
    workers: int,
    seed: int | None,
    capacity: int,
    in_flight: int,
) -> None:
    directory = tmp_path_factory.mktemp("ingest")
    data = trace(50, bad=(7, 40, 41))
    shuffle = None if seed is None else random.Random(seed).shuffle
    in_flight = in_flight if seed is None else 1000  # out of order, the first one may be offered last
    source = ListSource(0, data, [c for c in cuts if c < len(data)], shuffle=shuffle)
    lab = IngestLab(
        directory,
        [(source, trace_adaptor)],
        workers=workers,
        epoch_messages=7,
        queue_capacity=capacity,
        in_flight=in_flight,
    )
    assert lab.run() == "finished"
    assert [f.messages for f in footers(directory)] == [7] * 7 + [1]
    assert sealed_rows(directory) == sealed_rows(expected)
    assert [f.cuts["origin-0"].offset for f in footers(directory)] == [
        f.cuts["origin-0"].offset for f in footers(expected)
    ]
    assert dead_letters(directory) == dead_letters(expected)


def test_dead_letters_belong_to_the_epoch_whose_cut_has_passed_them(expected: Path) -> None:
    assert dead_letters(expected) == [(2, "7,nonsense-7"), (6, "40,nonsense-40"), (6, "41,nonsense-41")]


def test_the_last_line_may_lack_its_end(tmp_path: Path) -> None:
    data = trace(10)[:-1]
    lab = IngestLab(tmp_path, [(ListSource(0, data, range(5, len(data), 5)), trace_adaptor)])
    assert lab.run() == "finished"
    assert sum(f.messages for f in footers(tmp_path)) == 10
    assert footers(tmp_path)[-1].cuts["origin-0"].offset == len(data)


def test_an_empty_stream_has_one_epoch(tmp_path: Path) -> None:
    assert IngestLab(tmp_path, [(ListSource(0, b""), trace_adaptor)]).run() == "finished"
    assert [f.messages for f in footers(tmp_path)] == [0]


def test_nothing_but_malformed_tuples(tmp_path: Path) -> None:
    lab = IngestLab(tmp_path, [(ListSource(0, b"x\n" * 500, [3, 501]), trace_adaptor)])
    assert lab.run() == "finished"
    assert lab.writer.dead_letters == 500
    assert 0 < len(dead_letters(tmp_path)) <= 500
    assert footers(tmp_path)[-1].cuts["origin-0"].offset == 1000


@pytest.mark.parametrize("workers", [1, 2])
def test_two_origins(tmp_path: Path, workers: int) -> None:
    """Each keeps its own order; epochs are of all messages together."""

    def other(writer: EpochWriter, cut: Cut) -> Adaptor:
        return trace_adaptor(writer, cut, prefix="other_")

    first, second = trace(60, seed=1), trace(45, seed=2)
    sources = [ListSource(0, first, range(40, 900, 40)), ListSource(1, second, range(70, 700, 70))]
    lab = IngestLab(
        tmp_path / "both", [(sources[0], trace_adaptor), (sources[1], other)], workers=workers, epoch_messages=8
    )
    assert lab.run() == "finished"
    assert [f.messages for f in footers(tmp_path / "both")] == [8] * 13 + [1]
    IngestLab(tmp_path / "one", [(ListSource(0, first), trace_adaptor)]).run()
    IngestLab(tmp_path / "two", [(ListSource(0, second), other)]).run()
    assert relations(tmp_path / "both") == relations(tmp_path / "one") | relations(tmp_path / "two")
    assert {name: cut.sequence for name, cut in footers(tmp_path / "both")[-1].cuts.items()} == {
        "origin-0": 60,
        "origin-1": 45,
    }


def test_tables_are_read_before_streams_open(tmp_path: Path) -> None:
    relation = Relation("names", (Column("id", "int64"), Column("name", "string")))

    def table(writer: EpochWriter, cut: Cut) -> Adaptor:
        del writer, cut
        return RowAdaptor(relation, b",", deletions=False)

    names, stream = ListSource(1, b"1,one\n2,two\n", [4], ends=False), ListSource(0, trace(5))
    lab = IngestLab(tmp_path, [(stream, trace_adaptor), (names, table, True)], epoch_messages=1)
    lab.ingest.start()
    lab.settle()
    assert not stream.opened.is_set()
    lab.ingest.end_of_stream(1)
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "finished"
    lab.close()
    assert [sorted(e) for e in sealed_rows(tmp_path)][:2] == [["names"], ["names"]]
    assert sum(f.messages for f in footers(tmp_path)) == 7


class Held(RowAdaptor):
    """An adaptor that waits at its first rows."""

    def __init__(self, entered: threading.Event, go_on: threading.Event) -> None:
        super().__init__(Relation("n", (Column("n", "int64"),)), b",", deletions=False)
        self.entered, self.go_on = entered, go_on

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        self.entered.set()
        assert self.go_on.wait(WAIT_SECONDS)
        return super().apply(prepared)


@pytest.mark.parametrize(("capacity", "in_flight"), [(1, 64), (64, 4), (2, 2)])
def test_a_slow_adaptor_holds_the_source_back(tmp_path: Path, capacity: int, in_flight: int) -> None:
    """With several workers too: what is formatted and not applied is bounded by the buffers in flight."""
    entered, go_on = threading.Event(), threading.Event()
    data = b"".join(b"%d\n" % n for n in range(1000, 1200))
    taken: list[int] = []
    source = ListSource(0, data, range(5, 1000, 5))
    lab = IngestLab(
        tmp_path,
        [(source, lambda _w, _c: Held(entered, go_on))],
        workers=3,
        queue_capacity=capacity,
        in_flight=in_flight,
    )
    offer = lab.ingest.offer

    def counted(raw: RawBuffer) -> bool:
        went = offer(raw)
        if went:
            taken.append(raw.sequence_number)
        return went

    lab.ingest.offer = counted  # type: ignore[method-assign]
    lab.ingest.start()
    assert entered.wait(WAIT_SECONDS)
    assert len(taken) <= 2 * in_flight, "so many wait, and so many are being applied"
    assert source.refusals > 0
    go_on.set()
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "finished"
    lab.close()
    assert taken == list(range(1, 201))
    assert relations(tmp_path)["n"] == {(n,): 1 for n in range(1000, 1200)}


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
    relation = Relation("n", (Column("n", "int64"),))
    data = b"".join(b"%d\n" % n for n in range(40))
    source = ListSource(0, data, range(2, len(data), 2))
    lab = IngestLab(
        tmp_path, [(source, lambda _w, _c: Failing(relation, b",", deletions=False))], workers=workers, epoch_messages=3
    )
    assert lab.run() == "failed: ArithmeticError: seven"
    assert source.closed
    assert [f.messages for f in footers(tmp_path)] == [3, 3]
    assert relations(tmp_path)["n"] == {(n,): 1 for n in range(6)}


def test_a_source_that_gives_up_is_one_failure(tmp_path: Path) -> None:
    lab = IngestLab(tmp_path, [(ListSource(0, trace(9), ends=False), trace_adaptor)], epoch_messages=4)
    lab.ingest.start()
    lab.settle()
    lab.ingest.failed(0, "no disk")
    lab.ingest.failed(0, "still no disk")
    lab.ingest.end_of_stream(0)
    lab.ingest.request_barrier()
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "failed: origin origin-0: no disk"
    lab.close()
    assert [f.messages for f in footers(tmp_path)] == [4, 4]


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
    lab.ingest.start()
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
    lab.ingest.start()
    lab.settle()
    sealed: queue.SimpleQueue[int] = queue.SimpleQueue()
    for record in (b"one", b"two"):
        lab.ingest.seal_control(record, sealed.put)
    first, second = (sealed.get(timeout=WAIT_SECONDS) for _ in range(2))
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
    lab.ingest.seal_control(b"late", lambda _: pytest.fail("sealed"))
    assert not any(footer.control for footer in footers(tmp_path))


def test_the_end_of_a_feed_ends_its_last_request(tmp_path: Path) -> None:
    data = feed(7, per_request=2)
    assert IngestLab(tmp_path, [(ListSource(0, data), feed_adaptor)]).run() == "finished"
    assert [f.messages for f in footers(tmp_path)] == [7]


def test_stopping_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    lab = IngestLab(tmp_path, [(ListSource(0, trace(20), range(10, 200, 10), ends=False), trace_adaptor)], workers=4)
    lab.ingest.start()
    lab.close()
    lab.ingest.stop()
    assert threading.active_count() == before
    assert not lab.ingest.offer(RawBuffer(0, 1, b"", 0))


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


def test_a_malformed_message_that_comes_again_after_a_break_is_told_once(tmp_path: Path) -> None:
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
