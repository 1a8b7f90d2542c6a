"""A snapshot and the segments since are what the whole log adds up to, whatever is torn, missing or in use."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.epochs import (
    EpochLog,
    Footer,
    SnapshotDirectory,
    add_up,
    has_snapshot_of,
    read_segment,
    rows_at,
    snapshots,
)

SCHEMA = pa.schema([("a", pa.int64()), ("weight_", pa.string()), ("weight", pa.int64())])


class Log:
    """A log of one relation that shrinks and one that grows, and what they are at every epoch."""

    def __init__(self, directory: Path, epochs: int = 30, seed: int = 1) -> None:
        self.log = EpochLog(directory / "epochs")
        self.snapshots = SnapshotDirectory(directory / "snapshots")
        self.at: list[Counter[Any]] = []
        self._chance = random.Random(seed)
        self.publish([], [])
        for epoch in range(1, epochs):
            self.change(epoch)

    def change(self, epoch: int) -> None:
        held = list(self.at[-1].elements())
        gone = [(row, -1) for row in self._chance.sample(held, min(len(held), self._chance.randint(0, 3)))]
        new = [
            ((self._chance.randint(1, 4), self._chance.choice(["x", None])), 1)
            for _ in range(self._chance.randint(0, 4))
        ]
        self.publish([*new, *gone], [((epoch, "g"), 1)])

    def publish(self, shrinking: list[Any], growing: list[Any]) -> None:
        epoch = len(self.at)
        sections = {name: [batch(rows)] for name, rows in (("r", shrinking), ("g", growing)) if rows}
        self.log.publish(self.log.prepare(Footer(max(0, epoch - 1), epoch), sections))
        rows = Counter(self.at[-1]) if self.at else Counter()
        for row, weight in shrinking:
            rows[row] += weight
        self.at.append(+rows)

    def take(self, epoch: int) -> None:
        assert self.snapshots.take(self.log, epoch, without=["g"])


def batch(rows: list[Any]) -> pa.RecordBatch:
    columns = [[row[0] for row, _ in rows], [row[1] for row, _ in rows], [weight for _, weight in rows]]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def counted(table: pa.Table | None) -> Counter[Any]:
    if table is None:
        return Counter()
    lists = [column.to_pylist() for column in table.columns]
    found = [(tuple(row), weight) for *row, weight in zip(*lists, strict=True)]
    assert len(dict(found)) == len(found), "one row of a kind"
    assert all(weight for _, weight in found), "a counter equals one that has the same row no times"
    return Counter(dict(found))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr(snapshots, "_GROUP_SEGMENTS", 4)
    return Log(tmp_path)


@pytest.mark.parametrize("every", [1, 3, 7, 29])
def test_a_snapshot_plus_later_segments_is_the_log(log: Log, every: int) -> None:
    for epoch in range(every, 30, every):
        log.take(epoch)
    for end in range(30):
        assert counted(rows_at(log.log, log.snapshots.newest(end), "r", end)) == log.at[end], end


def test_columns_that_nobody_wants_are_left_out(log: Log) -> None:
    log.take(20)
    base = log.snapshots.newest(29)
    found = add_up(log.log, "r", 20, 29, base=base, columns={"a"})
    expected: Counter[Any] = Counter()
    for (a, _), times in log.at[29].items():
        expected[a,] += times
    assert counted(found) == expected
    assert counted(add_up(log.log, "r", 20, 29, base=base, columns=())).total() == expected.total(), "rows count"


def test_an_append_only_relation_is_left_out_and_named(log: Log) -> None:
    log.take(20)
    base = log.snapshots.newest(20)
    assert base is not None
    assert [section.name for section in base.footer.sections] == ["r"]
    assert [has_snapshot_of(base, name) for name in ("r", "g", "other")] == [True, False, True]
    whole = rows_at(log.log, None, "g", 25)
    assert whole is not None
    assert counted(rows_at(log.log, base, "g", 25)) == counted(whole), "the log is read from its beginning"


def test_what_is_not_kept_is_removed_up_to_an_epoch(log: Log) -> None:
    for epoch in (5, 9, 14, 20):
        log.take(epoch)
    assert log.snapshots.retire({9}, 14) > 0
    assert log.snapshots.epochs() == [20, 9]
    assert log.snapshots.retire({9}, 14) == 0


def test_complete_are_whole_ones_of_all_relations(log: Log, tmp_path: Path) -> None:
    log.take(4)
    for epoch in (6, 8, 11):
        log.snapshots.take(log.log, epoch)
    path = tmp_path / "snapshots" / f"{8:012d}.snapshot"
    path.write_bytes(path.read_bytes()[:-1])
    assert log.snapshots.complete(11) == [11, 6]
    assert log.snapshots.complete(10) == [6]
    assert list(log.snapshots.torn) == [path]


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_torn_snapshot_is_passed_over(log: Log, tmp_path: Path, length: int) -> None:
    for epoch in (5, 9):
        log.take(epoch)
    newest = tmp_path / "snapshots" / f"{9:012d}.snapshot"
    newest.write_bytes(newest.read_bytes()[:length])
    older = log.snapshots.newest(29)
    assert older is not None
    assert older.footer.to_epoch == 5
    log.take(12)  # which is made of the older one
    base = log.snapshots.newest(12)
    assert base is not None
    assert counted(base.rows("r")) == log.at[12]
    for path in (tmp_path / "snapshots").glob("*.snapshot"):
        path.write_bytes(b"")
    assert log.snapshots.newest(29) is None


def test_a_wrong_byte_is_found(log: Log, tmp_path: Path) -> None:
    log.take(9)
    path = tmp_path / "snapshots" / f"{9:012d}.snapshot"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    assert log.snapshots.newest(29) is None


def test_what_is_pinned_stays_until_it_is_needed_no_more(log: Log) -> None:
    assert log.snapshots.pin(8, 7) is None
    log.take(5)
    pinned = log.snapshots.pin(12, 11)
    assert pinned is not None
    for epoch in (10, 15, 20):
        log.take(epoch)
    assert log.snapshots.pinned() == [5]
    log.snapshots.retire({20}, 20)
    assert log.snapshots.epochs() == [20]
    assert log.snapshots.pin(12, 11) == pinned
    assert counted(read_segment(pinned).rows("r")) == log.at[5]
    log.snapshots.unpin(11)
    assert pinned.exists()
    log.snapshots.unpin(12)
    assert not pinned.exists()
    assert log.snapshots.pin(12, 11) is None


def test_a_torn_pin_is_made_again(log: Log) -> None:
    log.take(5)
    pinned = log.snapshots.pin(12, 11)
    assert pinned is not None
    pinned.unlink()
    pinned.write_bytes(b"torn")
    again = log.snapshots.pin(12, 11)
    assert again is not None
    assert counted(read_segment(again).rows("r")) == log.at[5]


def test_one_that_is_stopped_leaves_nothing(log: Log) -> None:
    assert not log.snapshots.take(log.log, 20, stopped=lambda: True)
    assert log.snapshots.epochs() == []
