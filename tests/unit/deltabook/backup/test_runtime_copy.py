"""A runtime's directory is copied as of one epoch, whatever it does meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltabook.backup import BackupError, back_up, restore
from deltabook.backup.copying import Stage
from runtime.epochs import ResultLog
from tests.generators.run_directories import RunDirectory, held_rows


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
    with pytest.raises(BackupError, match=r"to hold still or to keep what is being copied, was: .* \(4 attempts\)"):
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
    with pytest.raises(BackupError, match=r"state\.db is gone"):
        back_up(tmp_path / "run", tmp_path / "copy")
