"""Every epoch is sealed with the event time that was reached at its cut, also after a restart."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.engine.ingest.eventtimes import EpochTime
from runtime.plan import EPOCH_TIME
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.ingest_lab import IngestLab, ListSource, at_sequence, feed, feed_adaptor, sealed_rows

MESSAGES = 60


def messages(*times: int | None) -> pa.RecordBatch:
    return pa.record_batch(
        {"sequence": pa.array(range(len(times)), pa.int64()), "time_ns": pa.array(times, pa.int64())}
    )


def rows_of(change: Any) -> list[tuple[int, int]]:
    batch = change[EPOCH_TIME.name]
    return list(zip(batch.column("t").to_pylist(), batch.column("weight").to_pylist(), strict=True))


def test_the_time_is_that_of_the_latest_message() -> None:
    time = EpochTime(ObjectSpace(MemoryStore()), {})
    assert time.at_cut() == {}
    assert time.applied(messages(3, 9, 5), {}) == 9
    assert rows_of(time.at_cut()) == [(9, 1)]
    assert time.applied(messages(4, None), {}) == 4  # it never goes back
    assert time.at_cut() == {}
    time.applied(messages(12), {})
    assert rows_of(time.at_cut()) == [(9, -1), (12, 1)]


def test_the_row_also_says_the_time_as_a_timestamp() -> None:
    time = EpochTime(ObjectSpace(MemoryStore()), {})
    time.reach(1_700_000_000_123_456_789)
    moment = time.at_cut()[EPOCH_TIME.name].column("at").to_pylist()[0]
    assert moment == datetime.fromtimestamp(1_700_000_000, UTC).replace(tzinfo=None, microsecond=123_456)


@pytest.mark.parametrize(
    ("column", "expected"), [(pa.array([7, None], pa.int64()), 7), (pa.array([7], pa.timestamp("us")), 7_000)]
)
def test_rows_count_where_their_time_column_is_given(column: pa.Array, expected: int) -> None:
    time = EpochTime(ObjectSpace(MemoryStore()), {"log": "at"})
    batch = pa.record_batch({"at": column, "n": pa.array([1] * len(column))})
    assert time.applied(pa.record_batch({"n": [1]}), {"log": batch, "other": batch}) is None
    assert rows_of(time.at_cut()) == [(expected, 1)]


def times_by_epoch(directory: Path) -> list[int]:
    """The epoch's time at each epoch, from what is sealed."""
    held: Counter[Any] = Counter()
    found = []
    for epoch in sealed_rows(directory):
        held.update(epoch.get(EPOCH_TIME.name, {}))
        ((row, weight),) = [(row, weight) for row, weight in held.items() if weight]
        assert weight == 1
        found.append(row[0])
    return found


def test_every_epoch_seals_its_time_over_a_restart(tmp_path: Path) -> None:
    data = feed(MESSAGES)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    source = ListSource(0, data, [], at=at_sequence(data))
    assert IngestLab(whole, [(source, feed_adaptor)], epoch_messages=10).run() == "finished"
    expected = times_by_epoch(whole)
    assert expected == sorted(expected)
    lab = IngestLab(
        parts, [(ListSource(0, data, [], at=at_sequence(data), ends=False), feed_adaptor)], epoch_messages=10
    )
    lab.start()
    lab.settle()
    lab.close()  # what no epoch holds is lost, and comes again
    before = times_by_epoch(parts)
    assert before == expected[: len(before)]
    assert IngestLab(parts, [(ListSource(0, data, [], at=at_sequence(data)), feed_adaptor)], epoch_messages=10).run()
    assert times_by_epoch(parts) == expected
