"""Derived streams in an ingest: the same rows whatever the cuts, over restarts, growth, failures and late rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.ingest import EpochWriter
from runtime.engine.operators.plans.derived import DerivedQuery
from runtime.epochs import Cut, EpochLogReader
from runtime.plan import Column, DerivedInput, Program, Relation, without_stream
from runtime.relations import Adaptor, FeedAdaptor, Retention, RowAdaptor, row_schema
from tests.generators.ingest_lab import ListSource, at_sequence, dead_letters, feed
from tests.generators.streams_lab import StreamsLab, program_of, stream_rows

TICKS = Relation("ticks", (Column("t", "int64"), Column("n", "int64")))
TICK_INPUT = DerivedInput(TICKS, "t")
LARGE = "CREATE STREAM large AS SELECT t, match_id, price * volume AS value FROM trades WHERE volume >= 5;"
AGAIN = "CREATE STREAM again AS SELECT t, value FROM large;"
BOTH = program_of(LARGE + AGAIN)


def feed_adaptor(writer: EpochWriter, cut: Cut) -> Adaptor:
    return FeedAdaptor(writer.space, "feed", Retention(rows=5), cut.sequence + 1)


def tick_adaptor(writer: EpochWriter, cut: Cut) -> Adaptor:
    del writer, cut
    return RowAdaptor(TICKS, row_schema(TICKS))


def feed_source(count: int = 200, cuts: tuple[int, ...] = (), *, ends: bool = True) -> ListSource:
    data = feed(count, per_request=3)
    return ListSource(0, data, [c for c in cuts if c < len(data)], ends=ends, at=at_sequence(data))


def ticks(*rows: tuple[int, int]) -> bytes:
    return b"".join(b"%d,%d\n" % row for row in rows)


def expected_large(count: int = 200) -> list[tuple[int, int, int]]:
    """What the SELECT says of every trade of the feed, message by message."""
    found = []
    for line in feed(count, per_request=3).decode().splitlines():
        number, t, _, _, action, volume, price, _ = line.split(",")
        if action == "T" and int(volume) >= 5:
            found.append((int(t), int(number), int(price) * int(volume)))
    return found


def run(directory: Path, program: Program, **config: Any) -> StreamsLab:
    lab = StreamsLab(directory, {"feed": (feed_source(), feed_adaptor)}, program, **config)
    assert lab.run() == "finished"
    return lab


@settings(max_examples=12)
@given(
    cuts=st.lists(st.integers(1, 4000), max_size=6),
    epoch_messages=st.integers(1, 250),
    workers=st.integers(1, 3),
)
def test_streams_are_the_same_whatever_the_cuts(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], epoch_messages: int, workers: int
) -> None:
    """Rows of a stream depend on the feed alone, and a stream of a stream has them all."""
    directory = tmp_path_factory.mktemp("streams")
    source = feed_source(cuts=tuple(cuts))
    lab = StreamsLab(directory, {"feed": (source, feed_adaptor)}, BOTH, epoch_messages=epoch_messages, workers=workers)
    assert lab.run() == "finished"
    assert stream_rows(directory, "large") == expected_large()
    assert stream_rows(directory, "again") == [(t, value) for t, _, value in expected_large()]


def test_rows_of_a_stream_come_with_the_watermark(tmp_path: Path) -> None:
    """A row is sealed in the epoch in which the feed's time has passed it, and the last ones when the feed ends."""
    run(tmp_path, program_of(LARGE), epoch_messages=10)
    reader = EpochLogReader(tmp_path / "epochs")
    last = 0
    for epoch in range(1, reader.latest()):
        last = max(last, (reader.read(epoch).footer.cuts["feed"].sequence - 1) // 3)
        rows = reader.read(epoch).rows("large")
        for row in rows.to_pylist() if rows is not None else []:
            assert row["t"] <= last


def test_retention_takes_rows_away_at_the_barrier(tmp_path: Path) -> None:
    program = program_of("CREATE STREAM large RETAIN 3 ROWS AS SELECT t, match_id FROM trades WHERE volume >= 5")
    lab = run(tmp_path, program, epoch_messages=20)
    everything = [row[:2] for row in expected_large()]
    assert stream_rows(tmp_path, "large", weight=-1) == everything[:-3]
    assert lab.streams.rows()["large"].num_rows == 3


def test_a_restart_continues_exactly(tmp_path: Path) -> None:
    """What is not sealed comes again with the feed; nothing is lost and nothing doubled, at whatever epoch it stops."""
    for number in range(1, 12):
        source = feed_source(cuts=tuple(range(100, 4000, 100)), ends=False)
        lab = StreamsLab(tmp_path, {"feed": (source, feed_adaptor)}, BOTH, epoch_messages=15 + number)
        lab.ingest.start()
        source.delivered.wait(30)
        lab.close()
    run(tmp_path, BOTH, epoch_messages=30)
    assert stream_rows(tmp_path, "large") == expected_large()
    assert stream_rows(tmp_path, "again") == [(t, value) for t, _, value in expected_large()]


def test_late_rows_are_dead_letters(tmp_path: Path) -> None:
    """A row behind the watermark of the last barrier is counted and set aside."""
    program = program_of("CREATE STREAM s AS SELECT t, n FROM ticks", [TICK_INPUT])
    data = ticks((10, 1), (20, 2), (5, 3), (30, 4))
    lab = StreamsLab(tmp_path, {"ticks": (ListSource(0, data), tick_adaptor)}, program, epoch_messages=1)
    assert lab.run() == "finished"
    assert stream_rows(tmp_path, "s") == [(10, 1), (20, 2), (30, 4)]
    assert [msgspec.json.decode(text) for _, text in dead_letters(tmp_path)] == [{"t": 5, "n": 3}]
    assert lab.streams.figures["s"].late == lab.writer.dead_letters == 1


def test_rows_appended_to_a_source_are_read_by_the_next_start(tmp_path: Path) -> None:
    """The end of a source completes what waits; it is no watermark behind which all later rows are late."""
    text = (
        "CREATE STREAM s AS SELECT window_end AS t, SUM(n) AS n FROM ticks GROUP BY TUMBLE(t, INTERVAL 10 NANOSECONDS)"
    )
    program = program_of(text, [TICK_INPUT])
    first, rest = ticks((3, 1), (12, 2)), ticks((14, 4), (25, 8))
    for data, expected in ((first, [(10, 1), (20, 2)]), (first + rest, [(10, 1), (20, 2), (20, 4), (30, 8)])):
        lab = StreamsLab(tmp_path, {"ticks": (ListSource(0, data), tick_adaptor)}, program)
        assert lab.run() == "finished"
        assert [(t, int(n)) for t, n in stream_rows(tmp_path, "s")] == expected
    assert lab.writer.dead_letters == 0


def test_lateness_lets_rows_come_later(tmp_path: Path) -> None:
    program = program_of("CREATE STREAM s LATENESS INTERVAL 20 NANOSECONDS AS SELECT t, n FROM ticks", [TICK_INPUT])
    data = ticks((10, 1), (20, 2), (5, 3), (30, 4))
    lab = StreamsLab(tmp_path, {"ticks": (ListSource(0, data), tick_adaptor)}, program, epoch_messages=1)
    assert lab.run() == "finished"
    assert stream_rows(tmp_path, "s") == [(5, 3), (10, 1), (20, 2), (30, 4)]
    assert lab.writer.dead_letters == 0


def test_a_stream_that_fails_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed and the other streams go on, who reads it ends with it, and a restart remembers why."""
    take = DerivedQuery.add

    def fail_bad(query: DerivedQuery, relation: str, rows: pa.RecordBatch) -> None:
        if query.schema.names == ["t", "n"] and relation == "trades":
            raise ValueError("no room")
        take(query, relation, rows)

    monkeypatch.setattr(DerivedQuery, "add", fail_bad)
    bad = "CREATE STREAM bad AS SELECT t, price AS n FROM trades;"
    program = program_of(LARGE + bad + "CREATE STREAM behind AS SELECT t, n FROM bad;")
    lab = run(tmp_path, program, epoch_messages=40)
    assert stream_rows(tmp_path, "large") == expected_large()
    assert stream_rows(tmp_path, "bad") == stream_rows(tmp_path, "behind") == []
    assert set(lab.streams.failed()) == {"bad", "behind"}
    assert "stream bad, which it reads, has failed" in lab.streams.failed()["behind"]
    attributes = {k: v for e in range(1, 8) for k, v in _attributes(tmp_path, e).items() if k.startswith("failed/")}
    assert set(attributes) == {"failed/bad", "failed/behind"}
    again = StreamsLab(tmp_path, {"feed": (feed_source(), feed_adaptor)})
    assert again.streams.failed() == lab.streams.failed()
    assert not any(name.startswith("stream/bad/query") for name in again.writer.space)
    again.close()


def _attributes(directory: Path, epoch: int) -> dict[str, str]:
    reader = EpochLogReader(directory / "epochs")
    return dict(reader.read(epoch).footer.attributes) if epoch <= reader.latest() else {}


def test_streams_come_and_go_at_control_records(tmp_path: Path) -> None:
    """A new stream sees what comes behind its epoch, and one that is dropped takes its rows with it."""
    data = feed(200, per_request=3)
    half = data.index(b"\n100,") + 1
    source = ListSource(0, data[:half], ends=False, at=at_sequence(data))
    first = program_of(LARGE)
    lab = StreamsLab(tmp_path, {"feed": (source, feed_adaptor)}, first)
    both = program_of("CREATE STREAM more AS SELECT t, match_id FROM trades;", before=first)
    sealed_at = _sealed(lab, both)
    assert lab.streams.reads == {"trades"}
    lab.close()
    lab = run(tmp_path, first)
    boundary = EpochLogReader(tmp_path / "epochs").read(sealed_at).footer.cuts["feed"].sequence
    matches = [row[1] for row in stream_rows(tmp_path, "more")]
    assert matches == [n for n in range(boundary + 1, 201) if n % 5 == 0]
    assert stream_rows(tmp_path, "large") == expected_large()
    source = feed_source(ends=False)
    lab = StreamsLab(tmp_path, {"feed": (source, feed_adaptor)})
    _sealed(lab, without_stream(both, "large"))
    assert set(lab.streams.figures) == {"more"}
    assert not any(name.startswith("stream/large/") for name in lab.writer.space)
    lab.close()
    assert stream_rows(tmp_path, "large", weight=-1) == expected_large()


def _sealed(lab: StreamsLab, program: Program) -> int:
    """Start, have everything applied, and seal a control record; its epoch."""
    lab.settle()
    return lab.seal(program)
