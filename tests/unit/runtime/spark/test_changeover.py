"""Views come and go while the log runs: exact at every version, whatever is torn, lost or begun again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from runtime.compiler import MARKET_RELATIONS, Column, NamedSelect, Relation, compile_program
from runtime.epochs import SnapshotDirectory
from runtime.plan import new_views
from runtime.spark import processor, reading
from runtime.spark.planning import BackfillPartition, plan_backfill
from runtime.spark.reading import BROKEN, TICK, Place
from runtime.views import Part
from tests.generators.changeover_lab import ChangeoverLab, changes

VIEWS = {
    "sums": "SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol",
    "same_sums": "SELECT symbol, SUM(volume) * 2 AS w FROM bids GROUP BY symbol",
    "total": "SELECT SUM(price) AS p, COUNT(*) AS n FROM asks",
    "rows": "SELECT symbol, price FROM asks WHERE volume > 30",
    "both": "SELECT symbol, price FROM bids UNION ALL SELECT symbol, price FROM asks",
    "largest": "SELECT symbol, MAX(price) AS p FROM bids GROUP BY symbol",
    "distinct_prices": "SELECT COUNT(DISTINCT price) AS n FROM asks",
    "axf": "SELECT b.broker_id, SUM(a.volume - b.volume) AS x FROM bids b, asks a "
    "WHERE b.broker_id = a.broker_id AND (a.price - b.price > 3 OR b.price - a.price > 3) GROUP BY b.broker_id",
    "bsv": "SELECT x.broker_id, SUM(x.volume * y.volume) AS s FROM bids x, bids y "
    "WHERE x.broker_id = y.broker_id GROUP BY x.broker_id",
    "pairs": "SELECT COUNT(*) AS n FROM bids b, asks a WHERE b.price > a.price",
    "vwap": "SELECT SUM(b1.price * b1.volume) AS x FROM bids b1 WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > "
    "(SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)",
    "psp": "SELECT SUM(a.price - b.price) AS x FROM bids b, asks a WHERE b.volume > 0.05 * (SELECT SUM(b1.volume) "
    "FROM bids b1) AND a.volume > 0.05 * (SELECT SUM(a1.volume) FROM asks a1)",
    "outer_join": "SELECT b.symbol, b.price AS bid, a.price AS ask FROM (SELECT symbol, MAX(price) AS price FROM bids "
    "GROUP BY symbol) b FULL JOIN (SELECT symbol, MIN(price) AS price FROM asks GROUP BY symbol) a "
    "ON b.symbol = a.symbol",
    "without_asks": "SELECT DISTINCT symbol FROM bids WHERE price NOT IN (SELECT price FROM asks)",
    "top": "SELECT id, price FROM bids ORDER BY price DESC, id LIMIT 3",
    "spread": "SELECT STDDEV(price) > 2 AS is_wide FROM asks",
}
"""In every class and of every kind of body; equal maps among them."""
BOOKS = tuple(relation for relation in MARKET_RELATIONS if relation.name != "trades")


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    processor._residents.clear()
    yield
    processor._residents.clear()


def select(name: str) -> NamedSelect:
    return NamedSelect(name, VIEWS[name])


def disturb(lab: ChangeoverLab, chance: random.Random) -> None:
    """What may happen between any two batches."""
    what = chance.random()
    newest = lab.log.latest()
    if what < 0.2 and newest > 1:
        lab.snapshots.take(lab.log, newest)
    elif what < 0.3:
        lab.restart()
    elif what < 0.35 and lab.snapshots.epochs():
        path = lab.directory / "snapshots" / f"{lab.snapshots.epochs()[0]:012d}.snapshot"
        torn = path.with_suffix(".torn")  # a new file: the old one may be mapped
        torn.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
        torn.rename(path)
    elif what < 0.5:
        lab.batch(chance.randint(1, 8), lose=True)
        if chance.random() < 0.5:
            lab.restart()
    elif what < 0.57:
        lab.begin_anew(chance.randint(1, 4))


def change(lab: ChangeoverLab, chance: random.Random) -> None:
    """Some views more or less."""
    there = [view.name for view in lab.program.views]
    absent = [name for name in VIEWS if name not in there]
    if there and (not absent or chance.random() < 0.4):
        lab.drop(chance.choice(there))
    else:
        lab.add(*map(select, chance.sample(absent, chance.randint(1, min(2, len(absent))))))
    lab.seal(changes(chance, lab.at[-1]) if chance.random() < 0.7 else {}, control=True)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 8))])
def test_added_and_dropped_views_are_exact_from_the_start(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lab = ChangeoverLab(tmp_path, BOOKS, [select("sums")], shards=chance.randint(1, 3))
    for _ in range(40):
        if chance.random() < 0.35:
            change(lab, chance)
        else:
            lab.seal(changes(chance, lab.at[-1]))
        disturb(lab, chance)
        if chance.random() < 0.7:
            lab.batch(chance.randint(1, 8))
    while lab.batch():
        pass
    assert not lab.failed
    assert lab.version == lab.log.latest()
    assert lab.versions_checked > 10


def test_a_row_that_is_gone_cannot_fail_a_view_that_comes_later(tmp_path: Path) -> None:
    """Nor is a map that went stale with a failed view taken over by a new one."""
    relation = Relation("r", (Column("a", "int64"), Column("b", "int64")))
    cubes = NamedSelect("cubes", "SELECT a, SUM(b * b * b) AS x FROM r GROUP BY a")
    lab = ChangeoverLab(tmp_path, [relation], [cubes], shards=2)
    lab.seal({"r": [((1, 5), 1)]})
    lab.seal({"r": [((0, 2**43), 1)]})
    lab.snapshots.take(lab.log, 2)
    lab.seal({"r": [((0, 2**43), -1), ((2, 7), 1)]})
    lab.batch()
    assert list(lab.failed) == ["cubes"]
    lab.add(NamedSelect("again", "SELECT a, SUM(b * b * b) AS y FROM r GROUP BY a"))
    lab.seal({"r": [((1, 2), 1)]}, control=True)
    lab.batch()
    assert list(lab.failed) == ["cubes"]
    lab.drop("cubes")
    lab.add(NamedSelect("other", "SELECT SUM(b * b * b) AS y FROM r"))
    lab.seal({"r": [((1, 3), 1)]}, control=True)
    lab.batch()
    assert not lab.failed
    assert +lab.results["again"] == {(1, 160): 1, (2, 343): 1}


def test_a_failed_view_stays_failed_in_a_new_checkpoint(tmp_path: Path) -> None:
    """Although the row that has failed it is gone, and whether its maps are read by others or not."""
    relation = Relation("r", (Column("a", "int64"), Column("b", "int64")))
    cubes = NamedSelect("cubes", "SELECT a, SUM(b * b * b) AS x FROM r GROUP BY a")
    lab = ChangeoverLab(tmp_path, [relation], [cubes, NamedSelect("n", "SELECT COUNT(*) AS n FROM r")], shards=2)
    lab.seal({"r": [((0, 2**43), 1)]})
    lab.batch()
    reason = lab.failed["cubes"]
    lab.seal({"r": [((0, 2**43), -1), ((2, 7), 1)]})
    lab.batch()
    lab.begin_anew(3)
    lab.failed = {}
    lab.seal({"r": [((1, 2), 1)]})
    lab.add(NamedSelect("again", "SELECT a, SUM(b * b * b) AS y FROM r GROUP BY a"))
    lab.seal({"r": [((1, 3), 1)]}, control=True)
    lab.batch()
    assert lab.failed == {"cubes": reason}, "every shard says so again"
    lab.batch()
    assert +lab.results["again"] == {(1, 35): 1, (2, 343): 1}
    assert +lab.results["n"] == {(3,): 1}


def test_a_live_row_that_cannot_be_added_fails_the_new_view(tmp_path: Path) -> None:
    relation = Relation("r", (Column("a", "int64"), Column("b", "int64")))
    lab = ChangeoverLab(tmp_path, [relation], [NamedSelect("n", "SELECT COUNT(*) AS n FROM r")], shards=2)
    lab.seal({"r": [((0, 2**43), 1)]})
    lab.batch()
    lab.add(NamedSelect("cubes", "SELECT a, SUM(b * b * b) AS x FROM r GROUP BY a"))
    lab.seal({"r": [((1, 1), 1)]}, control=True)
    lab.batch()
    assert list(lab.failed) == ["cubes"]
    lab.seal({"r": [((1, 1), 1)]})
    lab.batch()
    assert lab.results["n"][3,] == 1


def test_a_backfill_pins_the_newest_snapshot_until_its_commit(tmp_path: Path) -> None:
    lab = ChangeoverLab(tmp_path, BOOKS, [select("sums")], shards=2)
    chance = random.Random(1)
    for epoch in range(1, 9):
        lab.seal(changes(chance, lab.at[-1]))
        if epoch in (3, 6):
            lab.snapshots.take(lab.log, epoch)
    lab.batch()
    lab.add(select("both"), select("total"))
    lab.seal({}, control=True)  # epoch 9
    lab.seal(changes(chance, lab.at[-1]))

    def backfill(begin: int, end: int) -> list[BackfillPartition]:
        parts = lab.reader.partitions({"epoch": begin}, {"epoch": end})
        return [part for part in parts if isinstance(part, BackfillPartition)]

    first = backfill(8, 10)
    assert [(p.relation, p.views, p.span) for p in first] == [
        ("bids", ("both", "total"), (6, 8)),
        ("asks", ("both", "total"), (6, 8)),
    ]
    for epoch in (8, 9, 10):
        lab.snapshots.take(lab.log, epoch)
    lab.restart()
    assert [vars(p) for p in backfill(8, 10)] == [vars(p) for p in first], "planned again as it was"
    assert backfill(9, 10) == [], "only in the first batch of the program"
    lab.batch()
    assert list((tmp_path / "snapshots" / "pins").iterdir()) == []


def test_a_program_without_new_views_has_no_backfill(tmp_path: Path) -> None:
    old = compile_program([select("sums"), select("total")], MARKET_RELATIONS)
    new = compile_program([select("total")], MARKET_RELATIONS)
    assert new_views(old, new) == ()
    assert plan_backfill(5, 5, new, (), SnapshotDirectory(tmp_path)) == []
    assert new_views(new, old) == ("sums",)
    assert plan_backfill(1, 1, old, ("sums",), None) == [], "nothing was before the first epoch"


@pytest.mark.parametrize("view", [None, 0, 999])
@pytest.mark.parametrize("broken", [False, True])
def test_a_place_comes_back_from_its_code(view: int | None, broken: bool) -> None:
    for part in (Part(0, False), Part(0, True), Part(9000, True)):
        place = Place(part, view, broken)
        assert Place.of_code(place.code) == place
        assert place.code != TICK
        assert (place.code <= BROKEN) == broken
        assert -(2**31) <= place.code < 2**31
    assert reading._VIEW_BITS == 21
