"""Views come and go over a log whose beginning is retired all the time: exact at every version, trades as well."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from runtime.compiler import MARKET_RELATIONS, NamedSelect
from runtime.epochs import EpochLogError, RetentionConfig, retire
from runtime.epochs.retention import retire_epochs
from runtime.spark import processor
from tests.generators.changeover_lab import ChangeoverLab, Row, changes

VIEWS = {
    "sums": "SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol",
    "total": "SELECT SUM(price) AS p, COUNT(*) AS n FROM asks",
    "pairs": "SELECT COUNT(*) AS n FROM bids b, asks a WHERE b.price > a.price",
    "largest": "SELECT symbol, MAX(price) AS p FROM bids GROUP BY symbol",
    "traded": "SELECT symbol, SUM(volume) AS v, COUNT(*) AS n FROM trades GROUP BY symbol",
    "sides": "SELECT side, SUM(price * volume) AS turnover FROM trades WHERE broker_id > 1 GROUP BY side",
}
KEPT_TRADES = 7


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    processor._residents.clear()
    yield
    processor._residents.clear()


def select(name: str) -> NamedSelect:
    return NamedSelect(name, VIEWS[name])


class Lab:
    """A changeover lab with trades that expire, and upkeep."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.chance = chance
        self.lab = ChangeoverLab(directory, MARKET_RELATIONS, [select("sums"), select("traded")], chance.randint(1, 3))
        self.trades: list[Row] = []
        self.number = 0

    def seal(self, *, control: bool = False) -> None:
        deltas = changes(self.chance, self.lab.at[-1])
        found = deltas.setdefault("trades", [])
        for _ in range(self.chance.randint(0, 3)):
            self.number += 1
            side = self.chance.choice(["B", "S", None])
            row: Row = (self.number, self.number, self.chance.choice("XYZ"), self.chance.randint(95, 105),
                        10 * self.chance.randint(1, 9), side, self.number, None, self.chance.randint(1, 3))  # fmt: skip
            self.trades.append(row)
            found.append((row, 1))
        gone = max(0, len(self.trades) - KEPT_TRADES)
        found += [(row, -1) for row in self.trades[:gone]]
        del self.trades[:gone]
        self.lab.seal(deltas, control=control)

    def change(self) -> None:
        lab = self.lab
        there = [view.name for view in lab.program.views]
        absent = [name for name in VIEWS if name not in there]
        if there and (not absent or self.chance.random() < 0.5):
            lab.drop(self.chance.choice(there))
        else:
            lab.add(select(self.chance.choice(absent)))
        self.seal(control=True)

    def keep_small(self) -> None:
        lab = self.lab
        if lab.log.latest() > 1 and lab.log.latest() not in lab.snapshots.epochs():
            lab.snapshots.take(lab.log, lab.log.latest())
        retire(lab.log, lab.snapshots, lab.version, RetentionConfig(0, 0), self.chance.choice([1, 2]))


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 6))])
def test_views_over_what_is_retired_are_exact(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    world = Lab(tmp_path, chance)
    lab = world.lab
    for _ in range(60):
        if chance.random() < 0.2:
            world.change()
        else:
            world.seal()
        what = chance.random()
        if what < 0.35:
            world.keep_small()
        elif what < 0.45:
            lab.restart()
        elif what < 0.6:
            lab.batch(chance.randint(1, 8), lose=True)
            if chance.random() < 0.5:
                lab.restart()
        elif what < 0.65:
            lab.begin_anew(chance.randint(1, 4))
        if chance.random() < 0.6:
            lab.batch(chance.randint(1, 8))
    while lab.batch():
        pass
    assert not lab.failed
    assert lab.version == lab.log.latest()
    assert lab.versions_checked > 30
    assert lab.log.first() > 20


def test_a_log_without_what_a_new_view_needs_is_told(tmp_path: Path) -> None:
    """No snapshot stands for what is gone: an error that says what, and never a view that lacks rows."""
    world = Lab(tmp_path, random.Random(1))
    for _ in range(5):
        world.seal()
    while world.lab.batch():
        pass
    retire_epochs(world.lab.log, 4)
    world.lab.add(select("total"))
    world.seal(control=True)
    with pytest.raises(EpochLogError, match=r"expected epoch 1 in .*, first is 4 \(earlier ones are retired\)"):
        world.lab.batch()
