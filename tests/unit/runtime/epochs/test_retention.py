"""What is retired: never what somebody needs, or what the settings keep; and what is left says what it has to."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.epochs import EpochLog, EpochLogError, EpochLogReader, Footer, RetentionConfig, SnapshotDirectory, retire
from runtime.epochs.retention import retire_epochs

NOTHING = RetentionConfig(0, 0)


class Log:
    """A log with control records at some epochs, and snapshots."""

    def __init__(self, directory: Path, epochs: int, controls: Collection[int] = (0,), rows: int = 1) -> None:
        self.log = EpochLog(directory / "epochs")
        self.snapshots = SnapshotDirectory(directory / "snapshots")
        for epoch in range(epochs + 1):
            batch = pa.record_batch({"n": pa.array(range(rows)), "weight": pa.array([1] * rows)})
            footer = Footer(max(0, epoch - 1), epoch, control=b"%d" % epoch if epoch in controls else b"")
            self.log.publish(self.log.prepare(footer, {"r": [batch]} if epoch else {}))

    def take(self, *epochs: int) -> None:
        for epoch in epochs:
            self.snapshots.take(self.log, epoch)

    def retire(self, passed: int, config: RetentionConfig = NOTHING, bases: int = 2) -> tuple[int, list[int]]:
        """The first epoch that is left, and the snapshots."""
        retire(self.log, self.snapshots, passed, config, bases)
        return self.log.first(), self.snapshots.epochs()


@pytest.mark.parametrize(
    ("passed", "left"),
    [
        (20, (11, [15, 10])),
        (15, (11, [15, 10])),
        (14, (6, [15, 10, 5])),
        (10, (6, [15, 10, 5])),
        (9, (0, [15, 10, 5])),
        (4, (0, [15, 10, 5])),
    ],
)
def test_two_snapshots_that_everybody_has_passed_are_needed(
    tmp_path: Path, passed: int, left: tuple[int, list[int]]
) -> None:
    log = Log(tmp_path, 20)
    log.take(5, 10, 15)
    assert log.retire(passed) == left
    assert log.log.latest() == 20


def test_one_is_enough_when_room_is_wanted(tmp_path: Path) -> None:
    log = Log(tmp_path, 20)
    log.take(5, 10, 15)
    assert log.retire(16, bases=1) == (16, [15])


def test_a_replay_may_begin_where_the_settings_say(tmp_path: Path) -> None:
    log = Log(tmp_path, 30)
    log.take(5, 10, 15, 20, 25)
    assert log.retire(30, RetentionConfig(18, 1)) == (11, [25, 20, 10])
    assert log.retire(30, RetentionConfig(3, 1)) == (21, [25, 20])


def test_a_replay_takes_no_more_room_than_the_settings_say(tmp_path: Path) -> None:
    log = Log(tmp_path, 30, rows=10_000)  # 160 kB each: the newest six are less than a megabyte
    log.take(5, 10, 15, 20, 22, 28, 29)
    assert log.retire(30, RetentionConfig(30, 1)) == (23, [29, 28, 22])


def test_what_is_pinned_is_needed(tmp_path: Path) -> None:
    log = Log(tmp_path, 20)
    log.take(5)
    pinned = log.snapshots.pin(18, 9)
    log.take(10, 15)
    assert log.retire(20) == (6, [15, 10, 5])
    assert pinned is not None
    assert pinned.exists()
    log.snapshots.unpin(18)
    assert log.retire(20) == (11, [15, 10])


def test_a_snapshot_that_lacks_a_relation_stands_for_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path, 20)
    log.take(5)
    for epoch in (10, 15):
        log.snapshots.take(log.log, epoch, without=["r"])
    assert log.retire(20)[0] == 0


def test_control_records_that_matter_stay(tmp_path: Path) -> None:
    log = Log(tmp_path, 30, controls=(0, 4, 7, 12, 19, 28))
    reader = EpochLogReader(tmp_path / "epochs")
    for first, kept in ((6, [0, 4]), (13, [0, 12]), (20, [0, 19]), (20, [0, 19]), (28, [0, 19])):
        retire_epochs(log.log, first)
        assert reader.programs() == kept
        assert reader.controls(0, 30) == sorted({*kept, *(e for e in (4, 7, 12, 19, 28) if e >= first)})
        assert [reader.control(epoch) for epoch in kept] == [b"%d" % epoch for epoch in kept]
    assert reader.control(12) == b"", "nobody needs it"
    assert reader.controls(20, 27) == []
    assert [reader.control_before(epoch) for epoch in (0, 19, 27, 28, 29)] == [b"0", b"19", b"19", b"28", b"28"]


def test_a_log_keeps_the_time_of_its_beginning(tmp_path: Path) -> None:
    log = EpochLog(tmp_path / "epochs")
    assert log.begun_ns() == 0
    for epoch in range(8):
        log.publish(log.prepare(Footer(max(0, epoch - 1), epoch, time_ns=70 + epoch, control=b"0"), {}))
    assert log.begun_ns() == 70
    retire_epochs(log, 5)
    assert EpochLogReader(tmp_path / "epochs").begun_ns() == 70


def test_an_interrupted_control_record_displaces_no_other(tmp_path: Path) -> None:
    """It was kept for a mark that was never set; the one before it still holds for the first epochs that are left."""
    controls = (0, 4, 12)
    later, log = Log(tmp_path / "later", 20, controls), Log(tmp_path / "log", 20, controls)
    retire_epochs(later.log, 13)
    programs = tmp_path / "log" / "epochs" / "programs"
    programs.mkdir()
    name = f"{12:012d}.program"
    (programs / name).write_bytes((later.log.directory / "programs" / name).read_bytes())
    retire_epochs(log.log, 6)
    assert log.log.programs() == [0, 4, 12]
    assert (log.log.control(4), log.log.controls(0, 20)) == (b"4", [0, 4, 12])
    retire_epochs(log.log, 13)
    assert log.log.programs() == [0, 12]


def test_what_is_retired_is_told_from_what_never_was(tmp_path: Path) -> None:
    log = Log(tmp_path, 9)
    retire_epochs(log.log, 6)
    with pytest.raises(EpochLogError, match=r"expected epoch 5 in .*, first is 6 \(earlier ones are retired\)"):
        log.log.read(5)
    with pytest.raises(EpochLogError, match=r"expected epoch 10 in .*, newest is 9"):
        log.log.read(10)
    with pytest.raises(EpochLogError, match=r"expected epoch 10 in .*, newest is 9"):
        log.log.control(10)


def test_the_newest_epoch_stays(tmp_path: Path) -> None:
    log = Log(tmp_path, 9)
    with pytest.raises(EpochLogError, match=r"expected to keep epoch 9, the newest in .*, was to begin at 10"):
        retire_epochs(log.log, 10)
    log.take(8, 9)
    assert log.retire(9, bases=1) == (9, [9])


def test_what_an_interrupted_call_has_left_goes_with_the_next(tmp_path: Path) -> None:
    log = Log(tmp_path, 9)
    kept = log.log.path(2).read_bytes()
    assert retire_epochs(log.log, 6) > 0
    log.log.path(2).write_bytes(kept)
    assert log.log.leftovers() == [2]
    again = EpochLog(tmp_path / "epochs")
    assert (again.first(), again.latest()) == (6, 9)
    assert retire_epochs(again, 6) == len(kept)
    assert log.log.leftovers() == []


def test_controls_are_listed_while_their_epochs_are_retired(tmp_path: Path) -> None:
    """The kept records are listed after the first epoch was read, so that no record is missed in between."""
    log = Log(tmp_path, 30, controls=(0, 4))

    class Overtaken(EpochLogReader):
        def first(self) -> int:
            if not self.programs():
                retire_epochs(log.log, 6)
            return super().first()

    assert Overtaken(tmp_path / "epochs").controls(0, 30) == [0, 4]
