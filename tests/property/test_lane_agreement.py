"""Two lanes that keep the same views have the same checksums at every version; a broken kernel of one is found."""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from runtime.compiler import NamedSelect, Relation
from runtime.epochs import EpochLogReader, Footer, ResultLog
from runtime.native.tiers import plain_kernel
from runtime.plan import lane_program, with_record
from runtime.service.lanes.agreement import LaneAgreement
from runtime.spark.lane import Published
from runtime.views import deliveries
from tests.generators.deltas import Shards
from tests.generators.express_lab import ExpressLab, random_changes
from tests.harness.examples import examples
from tests.property.test_compiler import RELATIONS
from tests.property.test_express import BOOK, corpus_selects, market_selects


class SparkShards:
    """Spark's side without Spark: the same program on several shards, versions of any length, results in a log."""

    def __init__(self, lab: ExpressLab, shards: int) -> None:
        self._lab = lab
        program = lane_program(lab.program, "spark")
        self._shards = Shards(program, shards)
        self.version = self.comparisons = 0
        self.results = ResultLog(lab.directory / "results")
        self.agreement = LaneAgreement(self.results, EpochLogReader(lab.directory / "epochs"))
        self.agreement.begin()

    def restart(self) -> None:
        """The process is new: what was summed up is gone."""
        self.agreement = LaneAgreement(self.results, EpochLogReader(self._lab.directory / "epochs"))
        self.agreement.begin()

    def publish(self, epoch: int) -> None:
        """A version up to an epoch."""
        shards, log = self._shards, self._lab.log
        segments = [log.read(each) for each in range(self.version + 1, epoch + 1)]
        changes: dict[str, list[pa.Table]] = {}
        failed: dict[str, str] = {}
        given = list(deliveries(shards.program, segments, shards.shards))
        for number, state in enumerate(shards.states):
            step = state.step((d.part, d.deltas) for d in given if d.shard == number)
            failed |= step.failed
            for name, rows in step.changes.items():
                changes.setdefault(name, []).append(rows)
        tables = {name: pa.concat_tables(rows) for name, rows in changes.items()}
        footer = segments[-1].footer
        attributes = {f"failed/{name}": why for name, why in failed.items()}
        batches = {name: rows.to_batches() for name, rows in tables.items()}
        self.results.publish(self.version, epoch, batches, Footer(self.version, epoch, attributes=attributes))
        before = self.agreement.comparisons
        self.agreement.published(Published(self.version, epoch, tables, failed, footer))
        compared = self.agreement.comparisons - before
        self.version, self.comparisons = epoch, self.comparisons + compared


def run(
    seed: int,
    relations: tuple[Relation, ...],
    selects: list[NamedSelect],
    oracles: dict[str, str],
) -> SparkShards:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        lab = ExpressLab(Path(place), relations, chance.sample(selects, 4), oracles)
        spark = SparkShards(lab, chance.randint(1, 3))
        for _ in range(chance.randint(2, 6)):
            lab.change(random_changes(chance, lab, 20), [chance.randint(1, 20) for _ in range(3)], [1, 2])
            if chance.random() < 0.25:
                lab.change(lab.crash(), [chance.randint(1, 20)], [1, 2])
            lab.barrier()
            if chance.random() < 0.6:
                spark.publish(lab.epoch)
            if chance.random() < 0.3:
                spark.restart()
        if spark.version < lab.epoch:
            spark.publish(lab.epoch)
        return spark


@given(st.integers(0, 2**32))
@settings(max_examples=examples(8), deadline=None)
def test_the_lanes_agree_on_queries_over_the_book(seed: int) -> None:
    spark = run(seed, BOOK, *market_selects())
    assert spark.agreement.differing() == {}
    assert spark.comparisons > 0


@given(st.integers(0, 2**32))
@settings(max_examples=examples(12), deadline=None)
def test_the_lanes_agree_on_the_compilers_corpus(seed: int) -> None:
    assert run(seed, RELATIONS, *corpus_selects()).agreement.differing() == {}


SUMS = NamedSelect("sums", "SELECT broker_id, SUM(volume) AS lots FROM bids GROUP BY broker_id", lane="express")


def test_a_broken_express_kernel_raises_the_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sums of removed rows are wrong: the kernel adds what it should take away."""
    broken: list[int] = []

    def break_kernel(source: str) -> Any:
        changed, count = re.subn(r"(= load_wide\(\w+, \w+ \+ 1\)) \+ (\w+)", r"\1 + abs(\2)", source)
        broken.append(count)
        return plain_kernel(changed)

    with monkeypatch.context() as patched:
        patched.setattr("runtime.views.nodes.node.plain_kernel", break_kernel)
        lab = ExpressLab(tmp_path, BOOK, [SUMS])
    assert sum(broken) > 0
    monkeypatch.setattr(lab, "check", lambda: None)  # which would find it first
    monkeypatch.setattr(lab, "result", lambda name: lab._sealed.get(name, {}))
    spark = SparkShards(lab, 2)
    row = (1, 1, 7, 10, 100, "X")
    lab.change([("bids", row, 1), ("bids", (1, 2, 7, 30, 100, "X"), 1)], [], [])
    lab.barrier()
    spark.publish(lab.epoch)
    assert (spark.agreement.of("sums").comparison, spark.agreement.differences) == ("equal", 0)
    lab.change([("bids", row, -1)], [], [])
    lab.barrier()
    spark.publish(lab.epoch)
    first = lab.epoch
    assert spark.agreement.of("sums").comparison == "differs"
    lab.barrier()
    spark.publish(lab.epoch)
    found = spark.agreement.of("sums")
    assert (found.comparison, found.since, found.epoch) == ("differs", first, lab.epoch)
    spark.restart()
    lab.change([("bids", (2, 3, 8, 5, 100, "X"), 1)], [], [])
    lab.barrier()
    spark.publish(lab.epoch)
    assert list(spark.agreement.differing()) == ["sums"], "found again, with what stands published"


def test_a_later_view_is_compared_from_its_first_rows(tmp_path: Path) -> None:
    """Its checksum begins at nothing in both lanes, whatever the relations held before."""
    lab = ExpressLab(tmp_path, BOOK, [SUMS])
    spark = SparkShards(lab, 2)
    lab.change([("bids", (1, 1, 7, 10, 100, "X"), 1)], [], [])
    lab.barrier()
    spark.publish(lab.epoch)
    wider = lab.add(NamedSelect("prices", "SELECT price, COUNT(*) AS n FROM bids GROUP BY price", lane="express"))
    program = with_record(wider, on_spark=True)
    lab.barrier(program)
    rows = pa.table({"price": [100], "n": [1], "weight": [1]})
    footer = lab.log.read(lab.epoch).footer
    spark.agreement.published(Published(1, lab.epoch, {"prices": rows}, {}, footer, program))
    assert spark.agreement.of("prices").comparison == "equal"
    assert spark.agreement.of("sums").comparison == "equal"
