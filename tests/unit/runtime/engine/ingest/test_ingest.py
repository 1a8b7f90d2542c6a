"""Whatever the cutting, the order, the workers and the breaks: the epochs are those of the stream."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.ingest import EpochWriter, IngestConfig
from runtime.epochs import Cut
from runtime.formats import RawBuffer
from runtime.plan import Column, Relation
from runtime.relations import Adaptor, Prepared, RowAdaptor, row_schema
from tests.generators.ingest_lab import (
    WAIT_SECONDS,
    IngestLab,
    ListSource,
    dead_letters,
    feed,
    feed_adaptor,
    footers,
    relations,
    sealed_rows,
    trace,
    trace_adaptor,
)

NUMBERS = Relation("n", (Column("n", "int64"),))


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
    admitted=st.sampled_from([1, 300, 1 << 26]),
    in_flight=st.sampled_from([1, 5, 64]),
)
def test_any_cutting_order_and_workers_give_the_same_epochs(
    tmp_path_factory: pytest.TempPathFactory,
    expected: Path,
    cuts: list[int],
    workers: int,
    seed: int | None,
    admitted: int,
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
        admitted_bytes=1 << 26 if seed is not None else admitted,
        in_flight=in_flight,
    )
    assert lab.run() == "finished"
    assert [f.messages for f in footers(directory)] == [7] * 7 + [1]
    assert sealed_rows(directory) == sealed_rows(expected)
    assert [f.cuts["origin-0"].offset for f in footers(directory)] == [
        f.cuts["origin-0"].offset for f in footers(expected)
    ]
    assert dead_letters(directory) == dead_letters(expected)


def test_dead_letters_belong_to_the_epoch_of_their_cut(expected: Path) -> None:
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
        return RowAdaptor(relation, row_schema(relation))

    names, stream = ListSource(1, b"1,one\n2,two\n", [4], ends=False), ListSource(0, trace(5))
    lab = IngestLab(tmp_path, [(stream, trace_adaptor), (names, table, True)], epoch_messages=1)
    lab.start()
    lab.settle()
    assert not stream.opened.is_set()
    lab.origins[1].inlet.end_of_stream(1)
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "finished"
    lab.close()
    assert [sorted(e) for e in sealed_rows(tmp_path)][:2] == [["names"], ["names"]]
    assert sum(f.messages for f in footers(tmp_path)) == 7


class Held(RowAdaptor):
    """An adaptor that waits at its first rows."""

    def __init__(self, entered: threading.Event, go_on: threading.Event) -> None:
        super().__init__(NUMBERS, row_schema(NUMBERS))
        self.entered, self.go_on = entered, go_on

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        self.entered.set()
        assert self.go_on.wait(WAIT_SECONDS)
        return super().apply(prepared)


@pytest.mark.parametrize(
    ("most", "config"),
    [(4, {"in_flight": 4}), (2, {"in_flight": 2}), (3, {"in_flight_bytes": 19}), (3, {"admitted_bytes": 19})],
)
def test_a_slow_adaptor_holds_the_source_back(tmp_path: Path, most: int, config: dict[str, Any]) -> None:
    """With several workers too: what is formatted and not applied is bounded, in buffers and in bytes."""
    entered, go_on = threading.Event(), threading.Event()
    data = b"".join(b"%d\n" % n for n in range(1000, 1200))
    taken: list[int] = []
    source = ListSource(0, data, range(5, 1000, 5))
    lab = IngestLab(
        tmp_path,
        [(source, lambda _w, _c: Held(entered, go_on))],
        workers=3,
        **config,
    )
    inlet = lab.origins[0].inlet
    offer = inlet.offer

    def counted(raw: RawBuffer) -> bool:
        went = offer(raw)
        if went:
            taken.append(raw.sequence_number)
        return went

    inlet.offer = counted  # type: ignore[method-assign]
    lab.start()
    assert entered.wait(WAIT_SECONDS)
    assert len(taken) <= most, "what is being applied counts"
    assert source.refusals > 0
    go_on.set()
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "finished"
    lab.close()
    assert taken == list(range(1, 201))
    assert relations(tmp_path)["n"] == {(n,): 1 for n in range(1000, 1200)}


def test_the_end_of_a_feed_ends_its_last_request(tmp_path: Path) -> None:
    data = feed(7, per_request=2)
    assert IngestLab(tmp_path, [(ListSource(0, data), feed_adaptor)]).run() == "finished"
    assert [f.messages for f in footers(tmp_path)] == [7]


def test_epochs_seal_how_far_the_feed_is(tmp_path: Path) -> None:
    """By its last message of any kind; its end is not sealed."""
    lab = IngestLab(tmp_path, [(ListSource(0, feed(6, per_request=2)), feed_adaptor)], epoch_messages=2)
    assert lab.run() == "finished"
    assert [f.watermarks for f in footers(tmp_path)] == [{"trades": 0}, {"trades": 1}, {"trades": 2}]


def test_stopping_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    lab = IngestLab(tmp_path, [(ListSource(0, trace(20), range(10, 200, 10), ends=False), trace_adaptor)], workers=4)
    lab.start()
    lab.close()
    lab.ingest.stop()
    assert threading.active_count() == before
    assert not lab.origins[0].inlet.offer(RawBuffer(0, 1, b"", 0))


@pytest.mark.parametrize("config", [{"workers": 0}, {"in_flight": 0}, {"in_flight": 32769}])
def test_sizes_with_which_it_could_not_go_on(config: dict[str, int]) -> None:
    """Nobody would format, or more batches could wait for a stuck worker than are held."""
    with pytest.raises(ValueError, match="expected workers of at least 1 and in_flight from 1 to 32768, was"):
        IngestConfig(**config)
