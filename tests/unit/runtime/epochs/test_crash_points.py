"""A crash between any two writes of the disk, whatever of what was not synced it forgets, loses and changes nothing.

One scenario goes through everything that is written: commits with dead letters and control records, results, full
results, relation snapshots, retiring. It is stopped before each of its steps, started again on what the disk has kept,
and brought to its end, where everything must be as if nothing had happened.
"""

from __future__ import annotations

import errno
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.engine.ingest import EpochWriter
from runtime.epochs import (
    Cut,
    EpochLogError,
    EpochLogReader,
    Footer,
    ResultLog,
    RetentionConfig,
    SnapshotDirectory,
    TornSegmentError,
    add_up,
    read_segment,
    retire,
)
from runtime.formats import DeadLetter
from tests.generators.faulty_disk import Change, Choice, FaultyDisk, FaultyStore, StoppedError, keep_all, keep_none

PLACE = Path("/run")
EPOCHS = 12
CONTROLS = {0: b"first", 2: b"second", 5: b"third", 7: b"fourth"}
SPAN = 2
"""Epochs in a result."""


def batch(rows: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    numbers, weights = zip(*rows, strict=True)
    return pa.record_batch({"n": pa.array(numbers, pa.int64()), "weight": pa.array(weights, pa.int64())})


def deltas(epoch: int) -> list[tuple[int, int]]:
    """A row comes with each epoch and goes three epochs later."""
    return [(epoch, 1), *([(epoch - 3, -1)] if epoch > 3 else [])]


def live(epoch: int) -> Counter[int]:
    """What the deltas until then add up to."""
    held: Counter[int] = Counter()
    for one in range(1, epoch + 1):
        for number, weight in deltas(one):
            held[number] += weight
    return +held


def counted(table: pa.Table | None) -> Counter[int]:
    held: Counter[int] = Counter()
    if table is not None:
        for number, weight in zip(table["n"].to_pylist(), table["weight"].to_pylist(), strict=True):
            held[number] += weight
    return held


def added_up(results: ResultLog) -> Counter[int]:
    """The rows of the view at the newest version."""
    held: Counter[int] = Counter()
    for segment in results.read_all():
        held.update(counted(segment.rows("v")))
    return +held


def letter(epoch: int) -> DeadLetter:
    return DeadLetter(0, epoch, 0, epoch, "price", "a number", "no number", b"x")


class World:
    """A disk and a store that outlive the process, and what readers have seen on them."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.store = FaultyStore(self.disk)
        self.seen: dict[int, int] = {}
        """Epoch → checksum of its footer, of every epoch that was shown to a reader."""
        self.shown = 0
        """The newest version that was shown to anybody."""
        self.is_full = False
        """The upkeep keeps no more than it must, and goes on with the next part when one fails."""

    def run(self) -> None:
        """From wherever it was to the end."""
        writer = EpochWriter(PLACE, lambda: 0, lambda _: None, store=self.store, disk=self.disk)
        results = ResultLog(PLACE / "results", self.disk)
        snapshots = SnapshotDirectory(PLACE / "snapshots", self.disk)
        self.check(writer, results)
        while True:
            self.publish(writer, results)
            if writer.epoch > 0 and writer.epoch % 3 == 0:
                for _ in range(2 if self.is_full else 1):
                    self.keep_small(writer.log, results, snapshots)
            if writer.epoch == EPOCHS:
                break
            epoch = writer.epoch + 1
            if epoch:
                writer.add({"r": batch(deltas(epoch))}, 1)
            if epoch % 3 == 1:
                writer.set_aside((letter(epoch),), 1)
            writer.seal({"feed": Cut("S", epoch, 0)}, CONTROLS.get(epoch, b""))
            self.seen[epoch] = writer.log.read(epoch).checksum
        if not self.is_full:
            self.check_end(writer, results, snapshots)

    def publish(self, writer: EpochWriter, results: ResultLog) -> None:
        """What the Spark lane does: again and again the next span."""
        while results.latest() + SPAN <= writer.epoch:
            begin = results.latest()
            changes = batch([row for epoch in range(begin + 1, begin + SPAN + 1) for row in deltas(epoch)])
            results.publish(begin, begin + SPAN, {"v": [changes]}, Footer(begin, begin + SPAN))
            self.shown = begin + SPAN

    def keep_small(self, log: EpochLogReader, results: ResultLog, snapshots: SnapshotDirectory) -> None:
        """What the upkeep does."""
        bases = 1 if self.is_full else 2
        passed = results.latest()  # all that is published is committed as well
        parts: list[Callable[[], object]] = [
            lambda: log.latest() in snapshots.epochs() or snapshots.take(log, log.latest()),
            lambda: self.put_full(results),
            lambda: retire(log, snapshots, passed, RetentionConfig(0, 0), bases),
            lambda: results.retire(passed, bases),
        ]
        for part in parts:
            with suppress(OSError) if self.is_full else nullcontext():
                part()

    def put_full(self, results: ResultLog) -> None:
        """All rows of the newest version, if there are results behind the last time."""
        if results.since_full():
            results.put_full({"v": [batch(list(added_up(results).items()))]}, Footer(0, results.latest()))

    def check_held(self) -> None:
        """After a start: what is held adds up to what was shown."""
        writer = EpochWriter(PLACE, lambda: 0, lambda _: None, store=self.store, disk=self.disk)
        results = ResultLog(PLACE / "results", self.disk)
        self.check(writer, results)
        assert added_up(results) == live(results.latest())
        base = SnapshotDirectory(PLACE / "snapshots", self.disk).newest(max(0, writer.epoch))
        begin = base.footer.to_epoch if base else 0
        assert counted(add_up(writer.log, "r", begin, writer.epoch, base=base)) == live(writer.epoch)

    def check(self, writer: EpochWriter, results: ResultLog) -> None:
        """After a start: nothing that was shown is gone or another."""
        log = writer.log
        assert max(self.seen, default=-1) <= writer.epoch, "an epoch is lost"
        for epoch in range(log.first(), writer.epoch + 1):
            segment = log.read(epoch)
            segment.verify()
            assert self.seen.setdefault(epoch, segment.checksum) == segment.checksum, f"epoch {epoch} is another"
        assert results.latest() >= self.shown, "a version is lost"
        assert sum((counted(s.rows("v")) for s in results.read_all()), Counter()) >= Counter()
        control = max((epoch for epoch in CONTROLS if epoch <= writer.epoch), default=None)
        if control is not None:
            assert writer.control == CONTROLS[control]
            assert log.control(0) == CONTROLS[0]
        for name in ("epochs", "results"):
            assert not [n for n in self.disk.names(PLACE / name) if n.startswith(".") and n != ".first"]

    def check_end(self, writer: EpochWriter, results: ResultLog, snapshots: SnapshotDirectory) -> None:
        """Everything is as if nothing had happened."""
        self.check(writer, results)
        log = writer.log
        assert [log.read(e).footer.cuts["feed"].sequence for e in range(log.first(), EPOCHS + 1)] == list(
            range(log.first(), EPOCHS + 1)
        )
        assert (log.first(), log.leftovers(), log.programs()) == (10, [], [0, 7])
        base = snapshots.newest(EPOCHS)
        assert base is not None
        begin = base.footer.to_epoch
        assert counted(add_up(log, "r", begin, EPOCHS, base=base)) == live(EPOCHS)
        assert counted(add_up(log, "r", 9, EPOCHS, base=snapshots.newest(9))) == live(EPOCHS), "the older one as well"
        assert (added_up(results), results.latest()) == (live(EPOCHS), EPOCHS)
        lines = self.disk.read(PLACE / "dead-letters.jsonl").to_pybytes().splitlines()
        assert [json.loads(line)["epoch"] for line in lines] == [e for e in range(EPOCHS + 1) if e % 3 == 1]
        assert writer.dead_letters == len(lines)
        assert writer.recovered is not None
        assert writer.recovered.messages == EPOCHS


def some(seed: int) -> Choice:
    """A disk that has written some of it."""
    chance = random.Random(seed)

    def choice(changes: Sequence[Change]) -> list[bool]:
        return [chance.random() < 0.5 for _ in changes]

    return choice


def keep_removals(changes: Sequence[Change]) -> list[bool]:
    """A disk that has written the names that are gone, and none that is new."""
    return [all(file is None for _, file in change) for change in changes]


def stopped(world: World, after: int) -> str:
    """Run until it stops; what it was about to do."""
    world.disk.stop_after = after
    with pytest.raises(StoppedError) as error:
        world.run()
    return str(error.value)


def steps(*, is_full: bool = False) -> int:
    """How many there are."""
    world = World()
    world.is_full = is_full
    world.run()
    return len(world.disk.steps)


STEPS = steps()


def test_the_scenario_goes_through_everything() -> None:
    world = World()
    world.run()
    done = {(step.split()[0], step.split(".")[-1].split()[-1]) for step in world.disk.steps}
    for suffix in ("segment", "result", "full", "snapshot", "program"):
        assert {("create", suffix), ("write", suffix), ("rename", suffix)} <= done
    assert {("rename", "first"), ("unlink", "segment"), ("unlink", "result"), ("unlink", "snapshot")} <= done
    assert {("unlink", "program"), ("unlink", "full"), ("append", "jsonl"), ("commit", "state")} <= done


@pytest.mark.parametrize("quick", [True, False], ids=["all kept", "nothing kept"])
def test_a_crash_before_any_step(quick: bool) -> None:
    for step in range(STEPS):
        world = World()
        where = stopped(world, step)
        world.disk.crash(keep_all if quick else keep_none)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"stopped {where}") from error


def test_a_partial_crash_and_another_in_recovery() -> None:
    chance = random.Random(5)
    for step in range(STEPS):
        world = World()
        where = [stopped(world, step)]
        for _ in range(2):
            world.disk.crash(some(chance.randrange(10**9)))
            world.disk.stop_after = chance.randrange(40)
            try:
                world.run()
                break
            except StoppedError as again:
                where.append(str(again))
        world.disk.crash(some(chance.randrange(10**9)))
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"stopped {where}") from error


def test_a_disk_that_fails_once() -> None:
    """Whatever raises ends the process; the next start finds all that was shown, and goes on."""
    for step in range(STEPS):
        world = World()
        fails_at(world.disk, step, errno.ENOSPC if step % 2 else errno.EIO)
        with suppress(OSError):
            world.run()
        world.disk.crash()
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"failed at step {step}") from error


@pytest.mark.parametrize("stride", [21, pytest.param(3, marks=pytest.mark.slow)])
def test_what_the_upkeep_fails_at_is_not_taken_for_durable(stride: int) -> None:
    """It goes on with its next part, and at its next call; then the machine stops, at any of the next steps."""
    for step in range(steps(is_full=True)):
        for behind in range(step % stride, 42, stride):
            world = World()
            world.is_full = True
            fails_at(world.disk, step, errno.EIO)
            world.disk.stop_after = step + behind
            with suppress(OSError, StoppedError):
                world.run()
            world.disk.crash(keep_removals if behind % 2 else some(24 * step + behind))
            try:
                world.check_held()
            except Exception as error:
                raise AssertionError(f"failed at step {step}, stopped {behind} steps later") from error


def fails_at(disk: FaultyDisk, step: int, number: int) -> None:
    """The operation that would be this step fails; reading always works."""
    count = itertools.count()
    disk.failing = lambda operation, path: number if operation != "read" and next(count) == step else 0


@pytest.fixture(scope="module")
def ended() -> World:
    """A world at its end; tests must leave its files as they were."""
    world = World()
    world.run()
    return world


@pytest.mark.parametrize("suffixes", [(".segment",), (".full", ".result"), ("",), (".jsonl",)])
def test_an_unreadable_disk_is_an_error(suffixes: tuple[str, ...], ended: World) -> None:
    """A start that cannot read what was committed does not begin anew; the mark has no suffix."""
    ended.disk.restart()
    ended.disk.failing = lambda operation, path: (operation == "read" and path.suffix in suffixes) * errno.EIO
    with pytest.raises((OSError, EpochLogError), match="Input/output"):
        ended.run()
    ended.disk.restart()


def files(world: World) -> list[Path]:
    """One of each kind, the newest."""
    kinds = {".segment": "epochs", ".result": "results", ".full": "results", ".snapshot": "snapshots"}
    found = [
        max(PLACE / directory / name for name in world.disk.names(PLACE / directory) if name.endswith(suffix))
        for suffix, directory in kinds.items()
    ]
    return [*found, PLACE / "epochs" / "first", PLACE / "epochs" / "programs" / f"{0:012d}.program"]


def test_every_byte_of_every_kind_of_file_is_checked(ended: World) -> None:
    for path in files(ended):
        data = ended.disk.read(path).to_pybytes()
        read_segment(path, ended.disk).verify()
        for place in range(len(data)):
            wrong = bytearray(data)
            wrong[place] ^= 1 << place % 8
            ended.disk.damage(path, lambda _, wrong=wrong: bytes(wrong))  # type: ignore[misc]
            with pytest.raises(TornSegmentError, match=rf"expected .*{path}.*was"):
                read_segment(path, ended.disk).verify()
        for length in range(len(data)):
            ended.disk.damage(path, lambda _, length=length, data=data: data[:length])  # type: ignore[misc]
            with pytest.raises(TornSegmentError, match=rf"expected .*{path}.*was"):
                read_segment(path, ended.disk).verify()
        ended.disk.damage(path, lambda _, data=data: data)  # type: ignore[misc]


def torn(world: World, path: Path) -> None:
    world.disk.damage(path, lambda data: data[:-1])


def test_the_newest_full_result_and_snapshot_may_be_torn() -> None:
    world = World()
    world.run()
    _, _, full, snapshot, *_ = files(world)
    torn(world, full)
    torn(world, snapshot)
    results = ResultLog(PLACE / "results", world.disk)
    snapshots = SnapshotDirectory(PLACE / "snapshots", world.disk)
    base = snapshots.newest(EPOCHS)
    assert base is not None
    assert base.footer.to_epoch == EPOCHS - 3
    assert list(snapshots.torn) == [snapshot]
    log = EpochLogReader(PLACE / "epochs", world.disk)
    assert counted(add_up(log, "r", base.footer.to_epoch, EPOCHS, base=base)) == live(EPOCHS)
    assert added_up(results) == live(EPOCHS)
    assert str(full) in results.torn[0]


def test_when_nothing_whole_is_left_it_is_named() -> None:
    world = World()
    world.run()
    for name in world.disk.names(PLACE / "results"):
        if name.endswith(".full"):
            torn(world, PLACE / "results" / name)
    with pytest.raises(EpochLogError, match=r"expected a result from epoch 0 .*\.full"):
        ResultLog(PLACE / "results", world.disk)
    snapshots = SnapshotDirectory(PLACE / "snapshots", world.disk)
    for epoch in snapshots.epochs():
        torn(world, PLACE / "snapshots" / f"{epoch:012d}.snapshot")
    with pytest.raises(EpochLogError, match=r"expected a whole snapshot .*\.snapshot"):
        snapshots.take(EpochLogReader(PLACE / "epochs", world.disk), EPOCHS)


def test_a_segment_or_a_result_that_is_gone_is_missed() -> None:
    world = World()
    world.run()
    world.disk.unlink(PLACE / "epochs" / f"{11:012d}.segment")
    with pytest.raises(EpochLogError, match="expected epoch 11 in /run/epochs, the next one there is 12"):
        world.run()
    results = sorted(name for name in world.disk.names(PLACE / "results") if name.endswith(".result"))
    for name in world.disk.names(PLACE / "results"):
        if name in results[-2:-1] or name.endswith(".full"):
            world.disk.unlink(PLACE / "results" / name)
    with pytest.raises(EpochLogError, match="expected a result from epoch"):
        ResultLog(PLACE / "results", world.disk)


def test_a_file_under_the_name_of_another_is_found(ended: World) -> None:
    log = EpochLogReader(PLACE / "epochs", ended.disk)
    data = ended.disk.read(log.path(11)).to_pybytes()
    ended.disk.damage(log.path(11), lambda _: ended.disk.read(log.path(12)).to_pybytes())
    with pytest.raises(TornSegmentError, match=r"expected epoch 11 at .*, was 12"):
        log.read(11)
    ended.disk.damage(log.path(11), lambda _: data)
