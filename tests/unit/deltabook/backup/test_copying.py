"""Copies of an exchange, of a runtime and of those that read each other, made while their files change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltabook.backup import BackupError, back_up, inspect, restore
from deltabook.backup.copying import Stage
from exchange_server.exchange import Exchange
from exchange_server.journal.verification import verify
from runtime.epochs import EpochLogReader, ResultLog
from runtime.upstreams import Consumer, Consumers
from tests.generators.journals import make_outputs, open_exchange, random_inputs
from tests.generators.run_directories import RunDirectory, held_rows
from tests.generators.upstream_lab import MainRuntime, UpstreamRun, bid

INPUTS = 400


class Floor:
    """An exchange that applies the requests of a seed, some at a time."""

    def __init__(self, directory: Path, seed: int, **journal: Any) -> None:
        self.rules, inputs = random_inputs(seed, INPUTS)
        self.left = iter(inputs)
        self.exchange: Exchange = open_exchange(directory, self.rules, **journal)

    def go_on(self, count: int) -> None:
        for _, item in zip(range(count), self.left, strict=False):
            self.exchange.submit([item])


def test_a_journal_that_is_written_is_copied_up_to_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests come and snapshots are taken, with which segments begin, between any two files."""
    floor = Floor(tmp_path / "exchange", 3)
    floor.go_on(200)
    copy = Stage.copy

    def interrupted(stage: Stage, source: Path, name: str, **options: Any) -> None:
        floor.go_on(9)
        copy(stage, source, name, **options)
        floor.go_on(9)
        floor.exchange.snapshot()

    monkeypatch.setattr(Stage, "copy", interrupted)
    made = back_up(tmp_path / "exchange", tmp_path / "copy.tar.zst")
    floor.exchange.close()
    restore(tmp_path / "copy.tar.zst", tmp_path / "back")
    again = open_exchange(tmp_path / "back", floor.rules)
    again.close()  # it has made of the streams what follows from the requests
    found = verify(tmp_path / "back", make_outputs)
    assert found.problems == ()
    assert made.manifest.parts[0].position == {"session": found.session, "requests": found.inputs}
    assert 200 <= found.inputs <= INPUTS


def test_a_copy_of_a_journal_that_is_damaged_is_refused(tmp_path: Path) -> None:
    floor = Floor(tmp_path / "exchange", 4, fsync="always")
    floor.go_on(INPUTS)
    floor.exchange.close()
    (path,) = (tmp_path / "exchange" / "inputs").iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(BackupError, match="expected"):
        back_up(tmp_path / "exchange", tmp_path / "copy")
    (report,) = inspect(tmp_path / "exchange")
    assert "expected" in str(report.facts["damaged"])


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    found = RunDirectory(tmp_path / "run", epochs=7)
    yield found
    found.close()


def check(run: RunDirectory, directory: Path) -> int:
    """What a copy goes on with is what the run was at the copy's epoch, which is given."""
    epoch, rows, count = held_rows(directory)
    assert +rows == +run.at[epoch]
    assert count == epoch
    assert ResultLog(directory / "results").latest() == epoch
    return epoch


@pytest.mark.parametrize("name", ["copy", "copy.tar", "copy.tar.zst"])
def test_a_copy_of_a_run_in_use_resumes_at_the_newest_epoch(run: RunDirectory, tmp_path: Path, name: str) -> None:
    made = back_up(run.directory, tmp_path / name)
    (part,) = made.manifest.parts
    assert (part.kind, part.path) == ("runtime", "")
    assert part.position == {"epoch": 7, "first epoch": 0, "version": 7, "feed": "SESSION 7"}
    restore(tmp_path / name, tmp_path / "back")
    assert check(run, tmp_path / "back") == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["run", "back", name]), "nothing else is left"


def test_locks_claims_spark_and_foreign_files_are_left_out(run: RunDirectory, tmp_path: Path) -> None:
    for name in ("lock", "beat", "token", "users.toml", "consumers/x.json", "claims/S", "checkpoint/offsets/0"):
        (run.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (run.directory / name).write_text("secret")
    made = back_up(run.directory, tmp_path / "copy")
    kept = {entry.path for entry in made.manifest.files}
    assert {path.split("/")[0] for path in kept} == {"state.db", "epochs", "results"}


def go_on(run: RunDirectory, monkeypatch: pytest.MonkeyPatch, every: int, small: int) -> None:
    """Epochs come between any so many files that are copied, and after so many what is behind them goes; 0: never."""
    copy, copied = Stage.copy, 0

    def interrupted(stage: Stage, source: Path, name: str, **options: Any) -> None:
        nonlocal copied
        copy(stage, source, name, **options)
        copied += 1
        if copied % every == 0:
            run.seal()
            if small and copied % small == 0:
                run.keep_small()

    monkeypatch.setattr(Stage, "copy", interrupted)


@pytest.mark.parametrize(("every", "small"), [(1, 0), (2, 0), (5, 10), (7, 14), (11, 22)])
def test_what_goes_on_while_it_is_copied_does_no_harm(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, small: int
) -> None:
    go_on(run, monkeypatch, every, small)
    back_up(run.directory, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "back")
    assert check(run, tmp_path / "back") >= 7


def test_results_that_catch_up_during_the_copy_are_recopied(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else epochs would be left behind a version, at which no view could be filled any more."""
    copy, publish, waiting = Stage.copy, run.results.publish, list[Any]()
    monkeypatch.setattr(run.results, "publish", lambda *result: waiting.append(result))
    for _ in range(4):
        run.seal()

    def interrupted(stage: Stage, source: Path, name: str, **options: Any) -> None:
        copy(stage, source, name, **options)
        if waiting and name == "results/000000000006-000000000007.result":
            for result in waiting:
                publish(*result)
            waiting.clear()
            run.keep_small()

    monkeypatch.setattr(Stage, "copy", interrupted)
    back_up(run.directory, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "back")
    assert check(run, tmp_path / "back") == 11


def test_a_run_that_retains_less_than_a_copy_takes_is_refused(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(run, monkeypatch, 1, 2)
    with pytest.raises(
        BackupError, match=r"not to change, or to keep the files that are being copied, was: .* \(4 attempts\)"
    ):
        back_up(run.directory, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_state_whose_log_began_anew_meanwhile_is_copied_again(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the file would be from before, and the log from behind: a mixture of two states."""
    copy, seen = Stage.copy, []

    def interrupted(stage: Stage, source: Path, name: str, **options: Any) -> None:
        copy(stage, source, name, **options)
        if name == "state.db":
            seen.append(name)
            if len(seen) == 1:
                run.writer._store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
                run.seal()

    monkeypatch.setattr(Stage, "copy", interrupted)
    back_up(run.directory, tmp_path / "copy")
    assert len(seen) == 2
    restore(tmp_path / "copy", tmp_path / "back")
    assert check(run, tmp_path / "back") == 8


def test_an_epoch_committed_under_its_open_name_is_renamed(run: RunDirectory, tmp_path: Path) -> None:
    newest = run.directory / "epochs" / "000000000007.segment"
    newest.rename(newest.with_name(f".{newest.name}"))
    back_up(run.directory, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "back")
    assert check(run, tmp_path / "back") == 7


@pytest.mark.parametrize("name", ["epochs/000000000004.segment", "results/000000000003-000000000004.result"])
def test_damage_is_found_and_leaves_no_backup(run: RunDirectory, tmp_path: Path, name: str) -> None:
    run.tear(name)
    with pytest.raises(BackupError, match=r"expected .*checksum|expected a segment"):
        back_up(run.directory, tmp_path / "copy.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_without_an_epoch_is_told(tmp_path: Path) -> None:
    (tmp_path / "run" / "epochs").mkdir(parents=True)
    with pytest.raises(BackupError, match=r"state\.db no longer exists"):
        back_up(tmp_path / "run", tmp_path / "copy")


@pytest.mark.parametrize(("most", "is_told"), [(1, False), (100, True)])
def test_an_upstream_that_removes_what_its_consumer_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, is_told: bool
) -> None:
    """The consumer is copied again; if that never ends it is told."""
    system = tmp_path / "system"
    up = UpstreamRun(system / "a")
    up.seal(bid(1))
    main = MainRuntime(system / "m", [("a", system / "a")])
    main.cut()
    Consumers(system / "a").put(Consumer(main.log.identity(), str(system / "m"), "here", "a"))
    copy, times = Stage.copy, 0

    def interrupted(stage: Stage, source: Path, name: str, **options: Any) -> None:
        nonlocal times
        if source == system / "a" / "state.db" and times < most:
            times += 1
            for number in range(3):
                up.seal(bid(10 * times + number))
            main.cut()
            up.retire()
        copy(stage, source, name, **options)

    monkeypatch.setattr(Stage, "copy", interrupted)
    if is_told:
        with pytest.raises(BackupError, match=r"m has read up to epoch \d+ of a, whose first one is"):
            back_up(system, tmp_path / "copy")
    else:
        back_up(system, tmp_path / "copy")
        read = EpochLogReader(tmp_path / "copy" / "m" / "epochs")
        cut = read.read(read.latest()).footer.cuts["a"]
        assert EpochLogReader(tmp_path / "copy" / "a" / "epochs").first() <= cut.sequence + 1
    main.stop()
    up.close()
