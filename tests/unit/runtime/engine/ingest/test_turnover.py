"""Origins come and go while others are read: every epoch is a cut of all that there are, whatever order workers run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.engine.ingest import Ingest, IngestConfig, InlineCommitter, OnSealed, Origin
from runtime.engine.ingest.formatting import Formatting
from runtime.formats import InputFormatter, RawBuffer
from runtime.plan import Column, Relation
from runtime.relations import RowAdaptor, row_schema
from runtime.sources import Position
from runtime.state import PersistedDictionary, Schema
from tests.generators.ingest_lab import (
    IngestLab,
    ListSource,
    at_sequence,
    feed,
    feed_adaptor,
    footers,
    relations,
    sealed_rows,
)
from tests.harness.stepper import Stepper

FEED = feed(80, per_request=3) + b"81,99,0,0,H,0,0,\n"  # all requests before it are complete
ROWS = 40
KEPT = Schema(int)
Whole = dict[str, Counter[tuple[Any, ...]]]


def relation_of(number: int) -> Relation:
    return Relation(f"extra_{number}", (Column("n", "int64"),))


def lines_of(number: int) -> bytes:
    return b"".join(b"%d\n" % (number * 1000 + n) for n in range(ROWS))


def extra(number: int, chance: random.Random, start: Position | None = None) -> tuple[ListSource, Origin]:
    relation, data = relation_of(number), lines_of(number)
    source = ListSource(number, data, sorted(chance.sample(range(1, len(data)), chance.randint(0, 6))))
    adaptor = RowAdaptor(relation, row_schema(relation))
    return source, Origin(number, f"extra-{number}", source, adaptor, start or Position("x", 1), is_own=True)


class Turning:
    """A feed that does not end, and extras that come and go at any step; what there is is kept with each cut."""

    def __init__(self, directory: Path, seed: int, *, ends: bool, epoch_messages: int | None = None) -> None:
        self.chance = random.Random(seed)
        self.source = ListSource(0, FEED, sorted(self.chance.sample(range(1, 900), 8)), at=at_sequence(FEED), ends=ends)
        self.stepper = Stepper(seed)
        self.lab = IngestLab(
            directory,
            [(self.source, feed_adaptor)],
            crew=self.stepper,
            workers=self.chance.randint(1, 3),
            epoch_messages=self.chance.choice([0, 5, 30]) if epoch_messages is None else epoch_messages,
            in_flight=self.chance.choice([2, 64]),
        )
        self.kept = self.lab.writer.space.get_or_create(PersistedDictionary, "extras", KEPT)
        self.sealed: list[tuple[str, int]] = []
        self.refused: list[str] = []

    def begin(self, number: int) -> None:
        self.lab.ingest.begin_origin(
            lambda: extra(number, self.chance)[1],
            self.at_cut(lambda: self.kept.__setitem__(str(number), number)),
            self.told(f"begin {number}"),
        )

    def end(self, number: int, told: str = "end") -> None:
        self.lab.ingest.end_origin(
            f"extra-{number}", self.at_cut(lambda: self.kept.pop(str(number), None)), self.told(f"{told} {number}")
        )

    def told(self, what: str) -> OnSealed:
        return lambda epoch: self.refused.append(what) if epoch is None else self.sealed.append((what, epoch))

    @staticmethod
    def at_cut(change: Callable[[], object]) -> Callable[[], Mapping[str, pa.RecordBatch]]:
        def call() -> Mapping[str, pa.RecordBatch]:
            change()
            return {}

        return call

    def steps(self, most: int) -> None:
        for _ in range(most):
            if self.chance.random() < 0.1:
                self.lab.ingest.request_barrier()
            if not self.stepper.step():
                return

    def finish(self) -> None:
        self.stepper.run()
        self.lab.ingest.request_barrier()
        self.stepper.run()
        self.lab.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """What the feed alone adds up to."""
    directory = tmp_path_factory.mktemp("whole")
    assert IngestLab(directory, [(ListSource(0, FEED), feed_adaptor)]).run() == "finished"
    return relations(directory)


@pytest.mark.parametrize("seed", range(12))
def test_extras_come_at_any_step_and_everything_comes_once(tmp_path: Path, whole: Whole, seed: int) -> None:
    turning = Turning(tmp_path / "run", seed, ends=False)
    turning.lab.ingest.start()
    for number in (1, 2, 3):
        turning.steps(turning.chance.randint(0, 60))
        turning.begin(number)
    turning.finish()
    found = relations(tmp_path / "run")
    for number in (1, 2, 3):
        assert found.pop(f"extra_{number}") == Counter({(number * 1000 + n,): 1 for n in range(ROWS)})
    assert {name: found[name] for name in ("bids", "asks")} == {name: whole[name] for name in ("bids", "asks")}
    assert [what for what, _ in turning.sealed] == ["begin 1", "begin 2", "begin 3"]
    for what, epoch in turning.sealed:
        name = f"extra-{what[-1]}"
        cut = {f.to_epoch: f.cuts.get(name) for f in footers(tmp_path / "run")}
        first = cut[epoch]
        assert first is not None
        assert first.sequence == 0, "its first cut is in front of all that it brings"
        assert all(cut[before] is None for before in cut if before < epoch)


@pytest.mark.parametrize("seed", range(12))
def test_a_removed_extra_is_in_no_cut_and_has_no_rows(tmp_path: Path, seed: int) -> None:
    turning = Turning(tmp_path / "run", seed, ends=False)
    turning.lab.ingest.start()
    turning.steps(turning.chance.randint(0, 40))
    turning.begin(1)
    turning.begin(2)
    turning.steps(turning.chance.randint(0, 120))
    turning.end(1)
    turning.finish()
    (gone,) = [epoch for what, epoch in turning.sealed if what == "end 1"]
    by_epoch = {footer.to_epoch: footer.cuts for footer in footers(tmp_path / "run")}
    rows = dict(enumerate(sealed_rows(tmp_path / "run"), 1))
    assert all("extra-1" not in cuts for epoch, cuts in by_epoch.items() if epoch >= gone)
    assert all("extra_1" not in found for epoch, found in rows.items() if epoch > gone)
    last = by_epoch[gone - 1]["extra-1"].sequence if gone - 1 in by_epoch and "extra-1" in by_epoch[gone - 1] else 0
    count = sum(relations(tmp_path / "run").get("extra_1", Counter()).values())
    assert last <= count <= ROWS
    assert relations(tmp_path / "run")["extra_2"] == Counter({(2000 + n,): 1 for n in range(ROWS)})


@pytest.mark.parametrize("seed", range(12))
def test_each_change_is_made_once_at_an_epoch_of_its_own(tmp_path: Path, seed: int) -> None:
    """Also one that is asked for while a count of messages is about to end the epoch."""
    turning = Turning(tmp_path, seed, ends=False, epoch_messages=3)
    made: list[int] = []
    turning.lab.ingest.start()
    wanted = 0
    while turning.stepper.step():
        if turning.source.opened.is_set() and wanted < 12 and turning.chance.random() < 0.3:
            turning.lab.ingest.at_cut(turning.at_cut(partial(made.append, wanted)), turning.told(str(wanted)))
            wanted += 1
    turning.finish()
    assert made == list(range(wanted))
    assert [int(what) for what, _ in turning.sealed] == made
    epochs = [epoch for _, epoch in turning.sealed]
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize("seed", range(20))
def test_a_change_is_answered_once_whenever_the_input_ends(tmp_path: Path, seed: int) -> None:
    """With its epoch if it was made, otherwise with none: its caller waits for either."""
    turning = Turning(tmp_path, seed, ends=True)
    made: list[int] = []
    wanted = 0

    def ask() -> None:
        nonlocal wanted
        turning.lab.ingest.at_cut(turning.at_cut(partial(made.append, wanted)), turning.told(str(wanted)))
        wanted += 1

    turning.lab.ingest.start()
    while turning.stepper.step():
        if wanted < 30 and turning.chance.random() < (0.2 if turning.source.delivered.is_set() else 0.02):
            ask()
    assert turning.lab.listener.outcomes.get_nowait() == "finished"
    ask()
    turning.lab.close()
    ask()
    assert [int(what) for what, _ in turning.sealed] == made
    assert sorted([*made, *map(int, turning.refused)]) == list(range(wanted))
    assert turning.refused[-2:] == [str(wanted - 2), str(wanted - 1)]


class LateCommitter(InlineCommitter):
    """Makes a commit only when it is waited for."""

    def __init__(self) -> None:
        self._commits: list[Callable[[], None]] = []

    def begin(self, commit: Callable[[], None]) -> None:
        self._commits.append(commit)

    def settle(self) -> None:
        while self._commits:
            self._commits.pop()()


@pytest.mark.parametrize("seed", range(5))
def test_a_change_belongs_to_the_epoch_after_the_newest(tmp_path: Path, seed: int) -> None:
    """A reader keeps this number as its first epoch."""
    turning = Turning(tmp_path, seed, ends=False, epoch_messages=3)
    turning.lab.writer._committer = LateCommitter()
    expected: list[int] = []
    turning.lab.ingest.start()
    wanted = 0
    while turning.stepper.step():
        if turning.source.opened.is_set() and wanted < 8 and turning.chance.random() < 0.1:
            change = turning.at_cut(lambda: expected.append(turning.lab.writer.epoch + 1))
            turning.lab.ingest.at_cut(change, turning.told(""))
            wanted += 1
    turning.finish()
    assert [epoch for _, epoch in turning.sealed] == expected
    assert len(expected) == wanted == 8


@pytest.mark.parametrize("seed", range(25))
def test_a_process_killed_at_any_step_resumes_from_its_last_cut(tmp_path: Path, whole: Whole, seed: int) -> None:
    turning = Turning(tmp_path / "run", seed, ends=False)
    turning.lab.ingest.start()
    for number in (1, 2):
        turning.steps(turning.chance.randint(0, 50))
        turning.begin(number)
    turning.steps(turning.chance.randint(0, 150))
    turning.lab.close()  # what it knows beside the directory is forgotten

    again = Turning(tmp_path / "run", seed + 1000, ends=False)
    cuts = again.lab.writer.recovered.cuts if again.lab.writer.recovered else {}
    kept = sorted(again.kept.values())
    assert {f"extra-{number}" for number in kept} == {name for name in cuts if name.startswith("extra")}
    told = {int(what[-1]) for what, _ in turning.sealed}
    assert told <= set(kept), "what was said to be there is there"
    origins = dict(again.lab.origins)
    for number in kept:
        cut = cuts[f"extra-{number}"]
        _, origin = extra(number, again.chance, Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples))
        origins[number] = origin
    ingest = again.lab.ingest = remade(again, origins)
    ingest.start()
    for number in {1, 2} - set(kept):
        again.begin(number)
    again.finish()
    found = relations(tmp_path / "run")
    for number in (1, 2):
        assert found.pop(f"extra_{number}") == Counter({(number * 1000 + n,): 1 for n in range(ROWS)})
    assert {name: found[name] for name in ("bids", "asks")} == {name: whole[name] for name in ("bids", "asks")}


def remade(turning: Turning, origins: Mapping[int, Origin]) -> Ingest:
    """With the origins that the last cut has."""
    return Ingest(IngestConfig(), turning.lab.writer, origins, turning.lab.listener, workers=turning.stepper)


def test_one_that_goes_before_it_is_opened_is_never_opened(tmp_path: Path) -> None:
    for seed in range(30):
        turning = Turning(tmp_path / str(seed), seed, ends=True)
        turning.lab.ingest.start()
        turning.steps(5)
        turning.begin(1)
        turning.end(1)
        turning.stepper.run()
        assert turning.lab.listener.outcomes.get_nowait() == "finished", "nothing of it is left to be waited for"
        turning.lab.close()
        assert dict(turning.kept) == {}


def test_a_failure_is_its_own(tmp_path: Path, whole: Whole) -> None:
    """Neither the feed nor another extra hears of it, and it is told once."""
    turning = Turning(tmp_path, 7, ends=False)
    turning.lab.ingest.start()
    turning.begin(1)
    relation = relation_of(2)
    flagged = RowAdaptor(relation, row_schema(relation, deletions=True), deletions=True)
    source = ListSource(2, b"1,5\n7,6\n1,8\n")
    turning.lab.ingest.begin_origin(
        lambda: Origin(2, "extra-2", source, flagged, Position("x", 1), is_own=True), dict, turning.told("begin 2")
    )
    turning.finish()
    assert [(number, "1 or 0" in reason) for number, reason in turning.lab.listener.failed_origins] == [(2, True)]
    assert turning.lab.ingest.counters()["extra-2"].failure.startswith("AdaptorError: expected 1 or 0")
    found = relations(tmp_path)
    assert sum(found["extra_1"].values()) == ROWS
    assert found["bids"] == whole["bids"]


def test_extras_go_with_the_last_of_the_others(tmp_path: Path) -> None:
    """They keep no ingest that has read everything, and their rows up to there are sealed."""
    turning = Turning(tmp_path, 3, ends=True)
    turning.lab.ingest.start()
    source = ListSource(1, lines_of(1), [10, 20], ends=False)
    adaptor = RowAdaptor(relation_of(1), row_schema(relation_of(1)))
    turning.lab.ingest.begin_origin(
        lambda: Origin(1, "extra-1", source, adaptor, Position("x", 1), is_own=True), dict, turning.told("begin 1")
    )
    turning.stepper.run()
    assert turning.lab.listener.outcomes.get_nowait() == "finished"
    turning.lab.close()
    assert source.closed or not source.opened.is_set()


def test_what_comes_of_one_that_has_gone_is_not_taken(tmp_path: Path) -> None:
    turning = Turning(tmp_path, 5, ends=False)
    turning.lab.ingest.start()
    turning.begin(1)
    turning.stepper.run()
    inlet = turning.lab.ingest._table.origins[1].inlet
    turning.end(1)
    turning.stepper.run()
    assert not inlet.offer(RawBuffer(1, 1, b"1\n", 0))
    inlet.lost(1, "gone")
    inlet.failed(1, "gone")
    inlet.end_of_stream(1)
    turning.finish()
    assert [reason for _, reason in turning.lab.listener.failed_origins] == []
    assert turning.lab.listener.losses == []


def test_rows_waiting_for_an_epoch_end_with_their_origin() -> None:
    _, origin = extra(1, random.Random(1))
    formatter = InputFormatter(origin.adaptor.schema)
    origin.attach(Formatting(formatter, 1))
    formatter.open(1, offset=0)
    origin.take(origin.in_order(formatter.format([RawBuffer(1, 1, lines_of(1), 0)]).batches))
    part = origin.next_part(5)
    assert part is not None
    assert part.rows.num_rows == 5
    origin.forget()
    assert origin.next_part(5) is None
    assert origin.ended
