"""A shard's state in the store is enough: what a worker keeps in memory is never needed and never wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from runtime.epochs import Segment
from runtime.spark import processor
from runtime.spark.config import SparkLaneError
from runtime.spark.planning import Span, shard_ids
from runtime.spark.processor import ShardProcessor
from runtime.spark.reading import BROKEN, TICK
from runtime.views import deliveries
from tests.generators.changeover_lab import Pages, Value
from tests.generators.deltas import FakeSegment
from tests.generators.programs import normal
from tests.unit.runtime.spark.test_source import PROGRAM, Log

SHARDS = 1


class Store:
    """One shard's states, which can be put back to what they were: a batch whose commit was lost."""

    def __init__(self, directory: Path) -> None:
        self.head = Value()
        self.pages = Pages()
        self.processor = ShardProcessor(str(directory), SHARDS)
        self.processor.init(cast(Any, self))
        self.version = 0

    def getValueState(self, name: str, schema: str) -> Value:
        return self.head

    def getMapState(self, name: str, key_schema: str, value_schema: str) -> Pages:
        return self.pages

    def snapshot(self) -> tuple[Any, ...]:
        return self.head.row, dict(self.pages.rows), self.version

    def restore(self, held: tuple[Any, ...]) -> None:
        self.head.row, self.pages.rows, self.version = held[0], dict(held[1]), held[2]

    def loaded(self, held: tuple[Any, ...]) -> dict[Any, Any]:
        """What a worker has in memory that has read the state of a snapshot."""
        now = self.snapshot()
        self.restore(held)
        (shard,) = shard_ids(SHARDS)
        head = self.processor._read_head(0)
        resident = self.processor._resident(shard, head)
        resident.nonce = head.links[-1].nonce
        self.restore(now)
        return {(self.processor._directory, shard): resident}

    def batch(self, *deltas: tuple[tuple[int, int], int], rows: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """One version; gives what the shard said, by view."""
        (shard,) = shard_ids(SHARDS)
        span = Span(self.version, self.version + 1)
        given = [{"program": 0, "map": TICK, "payload": msgspec.msgpack.encode(span)}] if rows is None else []
        segment = cast(Segment, FakeSegment(PROGRAM.relations, {"r": list(deltas)}))
        for one in deliveries(PROGRAM, [segment], SHARDS):
            if isinstance(one.deltas, str):
                given.append({"program": 0, "map": BROKEN - one.part.code, "payload": one.deltas.encode()})
            else:
                given.append({"program": 0, "map": one.part.code, "payload": encoded(one.deltas)})
        found: dict[str, Any] = {}
        for row in self.processor.handleInputRows((shard,), cast(Any, iter(rows or given)), None):
            found[row["view"]] = (row["kind"], row["payload"])
            assert (row["from_epoch"], row["to_epoch"]) == (span.from_epoch, span.to_epoch)
        self.version += 1
        return found


def encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def add(result: Counter[Any], found: dict[str, Any], view: str = "v") -> None:
    if view in found:
        table = pa.ipc.open_stream(found[view][1]).read_all()
        for *values, weight in zip(*(c.to_pylist() for c in table.columns), strict=True):
            result[normal(values)] += weight
            assert result[normal(values)] >= 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    Log(tmp_path)  # its epoch 0 holds the program
    processor._residents.clear()
    yield Store(tmp_path)
    processor._residents.clear()


@pytest.mark.parametrize("memory", ["kept", "lost", "of another attempt", "some batches behind"])
@pytest.mark.parametrize("smallest_base", [1, 1 << 20])
@pytest.mark.parametrize("page_bytes", [64, 1 << 20])
def test_whatever_a_worker_remembers_the_changes_are_exact(
    store: Store, memory: str, smallest_base: int, page_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_SMALLEST_BASE_BYTES", smallest_base)
    monkeypatch.setattr(processor, "_PAGE_BYTES", page_bytes)
    result: Counter[Any] = Counter()
    sums: Counter[int] = Counter()
    old: Any = None
    for number in range(1, 13):
        if memory == "lost":
            processor._residents.clear()
        elif memory == "of another attempt" and number % 2:
            held = store.snapshot()
            store.batch(((99, 99), 1))  # leaves its edits in memory, and its commit is lost
            store.restore(held)
        elif memory == "some batches behind" and number % 4 == 0:
            processor._residents.clear()
            processor._residents.update(store.loaded(old))
        add(result, store.batch(((number % 3, number), 1)))
        sums[number % 3] += number**3
        assert +result == Counter((key, total) for key, total in sums.items() if total)
        if number % 4 == 1:
            old = store.snapshot()


def test_a_version_is_answered_even_when_nothing_came(store: Store) -> None:
    found = store.batch()
    assert found[""][0] == "complete"
    assert "v" not in found
    assert store.batch() == {"": ("complete", b"")}


def test_a_view_that_fails_says_why(store: Store) -> None:
    found = store.batch(((1, 2**43), 1))
    assert found["v"][0] == "failed"
    assert b"126 bits" in found["v"][1]
    assert found["m"][0] == "changes"


def test_the_chain_of_runs_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_MOST_LINKS", 5)
    for number in range(23):
        store.batch(((1, number), 1))
        assert len(store.pages.rows) <= 6


def test_rows_without_a_tick_are_refused(store: Store) -> None:
    with pytest.raises(SparkLaneError, match="expected a tick among the rows of a shard"):
        store.batch(rows=[{"program": 0, "map": BROKEN, "payload": b"why"}])


def test_a_state_of_another_version_is_refused(store: Store) -> None:
    store.batch()
    store.version = 5
    with pytest.raises(SparkLaneError, match="expected version 5 in shard"):
        store.batch()


def test_a_missing_page_is_refused(store: Store) -> None:
    store.batch(((1, 1), 1))
    store.pages.rows.clear()
    processor._residents.clear()
    with pytest.raises(SparkLaneError, match=r"expected \d+ bytes .* was \d+ with"):
        store.batch()


def test_a_wrong_byte_in_a_shards_state_is_found(tmp_path: Path) -> None:
    """Whatever byte it is, of the run or of the head: the batch fails, and says which."""
    Log(tmp_path)
    store = Store(tmp_path)
    store.batch(((1, 2), 1), ((2, 3), 1))
    held = store.snapshot()
    ((key, (page,)),) = store.pages.rows.items()
    for place in range(0, len(page), 7):
        store.restore(held)
        store.pages.rows[key] = (page[:place] + bytes([page[place] ^ 16]) + page[place + 1 :],)
        processor._residents.clear()
        with pytest.raises(
            SparkLaneError, match=r"expected \d+ bytes with checksum \d+ as run 0 of a shard's state, was"
        ):
            store.batch(((3, 4), 1))
    store.restore(held)
    store.pages.rows.clear()
    with pytest.raises(SparkLaneError, match=r"as run 0 of a shard's state, was 0"):
        store.batch(((3, 4), 1))
    store.restore(held)
    store.head.row = (b"\xc1",)
    with pytest.raises(SparkLaneError, match="expected the head of a shard's state"):
        store.batch(((3, 4), 1))
    store.restore(held)
    store.batch(((3, 4), 1))


def test_two_attempts_of_a_batch_write_the_same_state(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt that was taken for lost may write after the one that counts, over its files: it must not matter."""
    monkeypatch.setattr(processor, "_SMALLEST_BASE_BYTES", 1)
    for number in range(1, 13):
        before, remembered = store.snapshot(), dict(processor._residents)
        processor._residents.clear()
        store.batch(((number % 3, number), 1), ((number % 5, -number), 1))
        late = dict(store.pages.rows)
        store.restore(before)
        processor._residents.clear()
        processor._residents.update(remembered)
        store.batch(((number % 3, number), 1), ((number % 5, -number), 1))
        assert store.pages.rows == late
        store.pages.rows = late


def test_a_worker_lets_go_of_shards_that_have_moved_elsewhere(tmp_path: Path) -> None:
    Log(tmp_path)
    store = Store(tmp_path)
    processor._residents.clear()
    store.batch()
    ((place, gone),) = processor._residents.items()
    processor._residents[("elsewhere", 1)] = processor._Resident(gone.state, "nonce", gone.used)
    for _ in range(processor._UNUSED_TURNS):
        store.batch()
    assert ("elsewhere", 1) in processor._residents
    for _ in range(processor._UNUSED_TURNS):
        store.batch()
    assert list(processor._residents) == [place]
