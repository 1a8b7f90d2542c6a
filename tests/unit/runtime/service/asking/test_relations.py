"""A relation at an epoch is what the log adds up to, whatever was asked before, snapshots and retiring in between."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.compiler import Column, Relation
from runtime.epochs.retention import retire_epochs
from runtime.service.at_epochs import EpochGoneError, RelationsAtEpochs
from runtime.service.sandbox import Cancellation, CostlyError
from tests.unit.runtime.epochs.test_snapshots import Log

R = Relation("r", (Column("a", "int64"), Column("weight_", "string", nullable=True)))


def rows(table: pa.Table) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for *values, weight in zip(*[column.to_pylist() for column in table.columns], strict=True):
        found[tuple(values)] += weight
    return found


@pytest.mark.parametrize("seed", range(6))
def test_any_epoch_in_any_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lab = Log(tmp_path, 30, seed)
    found = RelationsAtEpochs(tmp_path / "epochs", tmp_path / "snapshots", chance.choice([0, 10_000_000]))
    for _ in range(40):
        if chance.random() < 0.1:
            lab.take(chance.randrange(1, len(lab.at)))
        if chance.random() < 0.3:
            lab.change(len(lab.at))
        epoch = chance.randrange(len(lab.at))
        assert rows(found.at(R, epoch, Cancellation())) == lab.at[epoch]


def test_the_newest_that_was_asked_for_is_kept_within_a_bound(tmp_path: Path) -> None:
    Log(tmp_path)
    other = Relation("never", (Column("x", "int64"),))
    found = RelationsAtEpochs(tmp_path / "epochs", tmp_path / "snapshots", 10_000_000)
    for epoch in (4, 20, 9):
        found.at(R, epoch, Cancellation())
    assert found.at(other, 3, Cancellation()).num_rows == 0
    assert found.kept() == {"r": 20, "never": 3}
    small = RelationsAtEpochs(tmp_path / "epochs", tmp_path / "snapshots", 1)
    small.at(R, 20, Cancellation())
    assert small.kept() == {}


def test_a_retired_epoch_is_gone_unless_it_has_a_snapshot(tmp_path: Path) -> None:
    lab = Log(tmp_path)
    lab.take(12)
    retire_epochs(lab.log, 13)
    found = RelationsAtEpochs(tmp_path / "epochs", tmp_path / "snapshots", 10_000_000)
    assert rows(found.at(R, 12, Cancellation())) == lab.at[12]
    assert rows(found.at(R, 25, Cancellation())) == lab.at[25]
    with pytest.raises(EpochGoneError, match="expected an epoch from 13 on, as earlier ones are retired, was 5"):
        found.at(R, 5, Cancellation())


def test_what_is_cancelled_is_not_kept(tmp_path: Path) -> None:
    Log(tmp_path)
    cancel = Cancellation()
    cancel.stop("enough")
    found = RelationsAtEpochs(tmp_path / "epochs", tmp_path / "snapshots", 10_000_000)
    with pytest.raises(CostlyError, match="enough"):
        found.at(R, 20, cancel)
    assert found.kept() == {}
