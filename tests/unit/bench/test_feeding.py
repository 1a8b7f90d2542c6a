"""Shuffled buffers come out as the rows that went in, and the benchmark ends if they do not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bench.flow import feed_table
from bench.ingest import references
from bench.ingest.feeding import WrongCountError, cut, feed
from bench.ingest.plan import WINDOW
from bench.ingest.texts import csv_lines
from runtime.formats import Pushdown, SequenceGapError
from runtime.relations import FEED_SCHEMA

ROWS = 20_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return feed_table(ROWS, 100, 1)


def test_buffers_are_shuffled_only_within_windows(table: pa.Table) -> None:
    data = csv_lines(table)
    raws = cut(data, 1000, seed=1)
    numbers = [raw.sequence_number for raw in raws]
    assert numbers != sorted(numbers)
    for start in range(0, len(raws), WINDOW):
        window = numbers[start : start + WINDOW]
        assert sorted(window) == list(range(start + 1, start + 1 + len(window)))
    assert b"".join(raw.data for raw in sorted(raws, key=lambda raw: raw.sequence_number)) == data
    assert all(data[raw.offset :].startswith(raw.data) for raw in raws)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("size", [100, 5000, 1 << 20])
def test_every_row_comes_out(table: pa.Table, workers: int, size: int) -> None:
    raws = cut(csv_lines(table), size, seed=2)
    assert feed(FEED_SCHEMA, raws, workers).rows == ROWS
    assert feed(FEED_SCHEMA, raws, workers, Pushdown(columns=("price",))).rows == ROWS


def test_a_bad_tuple_and_a_lost_buffer_are_noticed(table: pa.Table) -> None:
    data = csv_lines(table)
    with pytest.raises(WrongCountError, match="1 bad tuples"):
        feed(FEED_SCHEMA, cut(b"x" + data, 5000, seed=3), 1)
    with pytest.raises(SequenceGapError):
        feed(FEED_SCHEMA, cut(data, 5000, seed=3)[1:], 1)


def test_the_readers_to_compare_with_read_the_same_rows(table: pa.Table) -> None:
    for threads in (1, 2):
        rows, seconds = references.pyarrow_csv(csv_lines(table), table.schema, threads)
        assert rows == ROWS
        assert seconds > 0
