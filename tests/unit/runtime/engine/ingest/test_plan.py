"""The plan of an ingest: what it looks like, views between applied messages and epochs, and who fails with whom."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.engine.barriers import Barrier
from runtime.engine.ingest import Deltas, EpochWriter, Sections
from runtime.engine.plan import Context, Pipeline
from runtime.epochs import Cut, EpochLogReader
from runtime.formats.codecs import Codec
from runtime.plan import Column, Relation
from runtime.relations import Adaptor, RowAdaptor, row_schema
from runtime.sources import BufferSink, Position
from tests.generators.ingest_lab import (
    WAIT_SECONDS,
    IngestLab,
    ListSource,
    footers,
    relations,
    sealed_rows,
    trace,
    trace_adaptor,
)

NUMBERS = Relation("n", (Column("n", "int64"),))


def numbers(writer: EpochWriter, cut: Cut) -> Adaptor:
    del writer, cut
    return RowAdaptor(NUMBERS, row_schema(NUMBERS))


def lines(*of: int) -> bytes:
    return b"".join([b"%d\n" % n for n in of])


class Counting(Pipeline):
    """A view that counts rows; it raises in the epoch that it is told."""

    most_inputs = 16

    def __init__(self, fails_in: int = 0) -> None:
        self.seen: list[Deltas] = []
        self.payloads: list[object] = []
        self.fails_in = fails_in
        self.rows = 0
        self.closes = -1
        self.stopped = False

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        for deltas in inputs:
            assert isinstance(deltas, Deltas)
            self.seen.append(deltas)
            self.closes = deltas.closes
            if deltas.closes == self.fails_in:
                raise ZeroDivisionError("a view of nothing")
            self.rows += sum(batch.num_rows for batch in deltas.relations.values())

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        if self.closes >= 0:
            self.payloads.append(barrier.payload)
            batch = pa.record_batch({"rows": pa.array([self.rows]), "weight": pa.array([1])})
            context.emit(Sections(self.closes, lambda: {"view/rows": (batch,)}))
            self.closes = -1

    def stop(self, context: Context) -> None:
        self.stopped = True


def attributes(directory: Path) -> list[dict[str, str]]:
    return [footer.attributes for footer in footers(directory)]


def view_rows(directory: Path) -> list[int | None]:
    """What the view gave, epoch by epoch."""
    reader = EpochLogReader(directory / "epochs")
    tables = [reader.read(epoch).rows("view/rows") for epoch in range(1, reader.latest() + 1)]
    return [None if table is None else table.column("rows").to_pylist()[0] for table in tables]


def test_the_plan_can_be_printed(tmp_path: Path) -> None:
    """Origins of one schema share a formatter; views stand between what is applied and the epochs."""
    sources = [(ListSource(n, b""), numbers) for n in range(2)]
    lab = IngestLab(tmp_path, [*sources, (ListSource(2, b""), trace_adaptor)], views={"depth": Counting()}, workers=3)
    assert str(lab.ingest.plan).splitlines() == [
        "plan ingest",
        "  origin origin-0 (ListSource)",
        "  origin origin-1 (ListSource)",
        "    format 0 (CsvFormat, ×3) ◀── origin origin-0, origin origin-1",
        "  origin origin-2 (ListSource)",
        "    format 1 (CsvFormat, ×3) ◀── origin origin-2",
        "      apply (Applying, cut point) ◀── format 0, format 1",
        "        view depth (Counting) ◀── apply",
        "          epochs (EpochSink) ◀── apply, view depth",
    ]
    lab.close()


def test_deltas_carry_their_position_and_the_last_closes(tmp_path: Path) -> None:
    view = Counting()
    data = lines(*range(10))
    source = ListSource(0, data, range(2, len(data), 2))
    lab = IngestLab(tmp_path, [(source, numbers)], views={"rows": view}, epoch_messages=4)
    assert lab.run() == "finished"
    assert [deltas.closes for deltas in view.seen if deltas.closes >= 0] == [1, 2, 3]
    assert sum(deltas.messages for deltas in view.seen) == 10
    upto = 0
    for deltas in view.seen:
        upto += deltas.messages
        assert deltas.cuts["origin-0"].sequence == upto
        assert all(batch.num_rows for batch in deltas.relations.values())
    assert view.stopped


def test_sections_of_a_view_are_committed_with_their_epoch(tmp_path: Path) -> None:
    view = Counting()
    lab = IngestLab(tmp_path, [(ListSource(0, lines(*range(10))), numbers)], views={"rows": view}, epoch_messages=4)
    assert lab.run() == "finished"
    assert view_rows(tmp_path) == [4, 8, 10]
    assert relations(tmp_path)["n"] == {(n,): 1 for n in range(10)}


def test_an_empty_epoch_has_sections_for_a_control_record_alone(tmp_path: Path) -> None:
    view = Counting()
    lab = IngestLab(tmp_path, [(ListSource(0, lines(1), ends=False), numbers)], views={"rows": view})
    lab.start()
    lab.settle()
    sealed = threading.Semaphore(0)
    for record in (b"one", b"two"):
        lab.ingest.request_barrier()
        lab.ingest.request_barrier()
        lab.ingest.seal_control(record, lambda _: sealed.release())
        assert sealed.acquire(timeout=WAIT_SECONDS)
    lab.close()
    assert [footer.control for footer in footers(tmp_path) if footer.control] == [b"one", b"two"]
    assert [payload for payload in view.payloads if payload is not None] == [b"one", b"two"]
    assert view_rows(tmp_path) == [1] * len(footers(tmp_path))


@pytest.mark.parametrize("fails_in", [1, 2])
def test_a_failing_view_ends_nothing_but_itself(tmp_path: Path, fails_in: int) -> None:
    """The epoch in which it failed says why; those behind it do without it."""
    views = {"broken": Counting(fails_in), "sound": Counting()}
    lab = IngestLab(tmp_path, [(ListSource(0, lines(*range(12))), numbers)], views=views, epoch_messages=4)
    assert lab.run() == "finished"
    assert lab.listener.failed_views == [("broken", "ZeroDivisionError: a view of nothing")]
    said = {"express/failed/broken": "ZeroDivisionError: a view of nothing"}
    assert attributes(tmp_path) == [said if epoch == fails_in else {} for epoch in (1, 2, 3)]
    assert relations(tmp_path)["n"] == {(n,): 1 for n in range(12)}
    assert views["sound"].rows == 12


class Stuck(Counting):
    """A view that keeps the barrier waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go_on = threading.Event(), threading.Event()

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        self.entered.set()
        assert self.go_on.wait(WAIT_SECONDS)
        super().start_drain(barrier, context)


class Pausing(ListSource):
    """A source that brings its last buffers when it is told."""

    def __init__(self, data: bytes, more: bytes) -> None:
        super().__init__(0, data + more, [len(data), len(data) + len(more) // 2])
        self.is_paused = True

    def _deliver(self) -> Any:
        return None if self.is_paused else super()._deliver()

    def open(self, sink: BufferSink, position: Position) -> None:
        super().open(sink, position)
        self.go_on(1)

    def go_on(self, buffers: int = 0) -> None:
        """Bring so many buffers, or all that are left and the end."""
        if buffers:
            assert self._sink.offer(self._todo.pop(0))
            return
        self.is_paused = False
        self.resume()


def test_what_comes_during_a_barrier_waits_and_is_not_lost(tmp_path: Path) -> None:
    """It is formatted meanwhile and waits where it is applied; the epoch holds none of it, the next one all of it."""
    view, source = Stuck(), Pausing(lines(*range(5)), lines(*range(5, 25)))
    lab = IngestLab(tmp_path, [(source, numbers)], views={"rows": view})
    lab.start()
    lab.settle()
    lab.ingest.request_barrier()
    assert view.entered.wait(WAIT_SECONDS)
    source.go_on(1)
    assert lab.ingest.backlog == 1, "taken, and not executed"
    view.go_on.set()
    lab.settle()
    source.go_on()
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "finished"
    lab.close()
    assert [sorted(rows["n"]) for rows in sealed_rows(tmp_path)] == [
        [(n,) for n in range(5)],
        [(n,) for n in range(5, 25)],
    ]


class Packed(ListSource):
    """A stream whose buffers are compressed each on its own."""

    def codec_at(self, position: Position) -> Codec:
        del position
        return Codec("gzip", "per_buffer")


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("how", ["source", "codec", "open", "table"])
def test_a_failing_origin_takes_no_other_down_and_is_told(tmp_path: Path, how: str, workers: int) -> None:
    """What stands before its failure counts, the others are read to their ends, and then the ingest has failed."""

    class Unopened(ListSource):
        def open(self, sink: BufferSink, position: Position) -> None:
            raise PermissionError("not yours")

    class GivesUp(ListSource):
        def open(self, sink: BufferSink, position: Position) -> None:
            super().open(sink, position)
            sink.failed(self.origin_id, "no disk")

    codec = Codec("gzip", "per_buffer")
    good, first = codec.encode_buffer(lines(*range(20))), codec.encode_buffer(lines(100, 101))
    broken: ListSource = {
        "codec": Packed(0, first + b"none of gzip", [len(first)]),
        "open": Unopened(0, lines(100)),
    }.get(how, GivesUp(0, lines(100, 101), ends=False))
    origins: list[Any] = [
        (broken, numbers, how == "table"),
        (Packed(1, good), numbers),
        (ListSource(2, trace(30), range(50, 400, 50)), trace_adaptor),
    ]
    lab = IngestLab(tmp_path, origins, workers=workers, epoch_messages=16)
    outcome = lab.run()
    reason = {
        "codec": "expected a gzip stream, was not one",
        "open": "PermissionError: not yours",
    }.get(how, "no disk")
    assert outcome.startswith(f"failed: origin origin-0: {reason}")
    assert [origin_id for origin_id, _ in lab.listener.failed_origins] in ([0], [])
    before = set() if how == "open" else {(100,), (101,)}
    assert set(relations(tmp_path)["n"]) == {(n,) for n in range(20)} | before
    assert sum(footer.messages for footer in footers(tmp_path)) == 50 + len(before)
    assert lab.ingest.counters()["origin-0"].failure.startswith(reason)
    assert lab.ingest.counters()["origin-1"].failure == ""


def test_all_origins_failing_is_told_of_each(tmp_path: Path) -> None:
    sources = [ListSource(n, lines(n), ends=False) for n in range(2)]
    lab = IngestLab(tmp_path, [(source, numbers) for source in sources])
    lab.start()
    lab.settle()
    lab.origins[0].inlet.failed(0, "no disk")
    lab.origins[1].inlet.failed(1, "no net")
    outcome = lab.listener.outcomes.get(timeout=WAIT_SECONDS)
    lab.close()
    assert outcome in (
        "failed: origin origin-0: no disk; origin origin-1: no net",
        "failed: origin origin-1: no net; origin origin-0: no disk",
    )
    assert [footer.messages for footer in footers(tmp_path)] == [2]
