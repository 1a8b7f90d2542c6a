"""Run folders: fresh, few, and never anything else removed."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deltabook.demo import DemoError, make_run_folder
from deltabook.demo.runs import KEPT_RUNS

NOW = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
DEAD_PID = 2**22 + 1
"""Above the largest process id that Linux and macOS give."""


def test_a_fresh_folder_is_named_by_time_and_process(tmp_path: Path) -> None:
    folder = make_run_folder(None, now=NOW, base=tmp_path / "runs", pid=77)
    assert folder == tmp_path / "runs" / "20260301T123005Z-77"
    assert folder.is_dir()


def test_old_runs_are_removed_and_nothing_else(tmp_path: Path) -> None:
    others = [tmp_path / "notes", tmp_path / "20260101T000000Z-x", tmp_path / f"20260101T000000Z-{os.getpid()}"]
    for other in others:
        other.mkdir()
    old = [tmp_path / f"2026020{day}T000000Z-{DEAD_PID}" for day in range(1, 9)]
    for folder in old:
        (folder / "exchange").mkdir(parents=True)
    fresh = make_run_folder(None, now=NOW, base=tmp_path)
    assert all(other.is_dir() for other in others)  # the last of them is of a process that lives
    assert [folder.name for folder in old if folder.exists()] == [folder.name for folder in old[-KEPT_RUNS + 1 :]]
    assert fresh.is_dir()


def test_a_given_folder_is_made_and_must_be_empty(tmp_path: Path) -> None:
    assert make_run_folder(tmp_path / "a" / "b", now=NOW).is_dir()
    with pytest.raises(DemoError, match="expected an empty folder for the run, was"):
        make_run_folder(tmp_path / "a", now=NOW)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DemoError, match=r"expected a folder for the run, was .*file"):
        make_run_folder(tmp_path / "file", now=NOW)


def test_the_temporary_folder_replaces_an_unwritable_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    folder = make_run_folder(None, now=NOW, base=tmp_path / "file" / "runs")
    assert folder.parent == tmp_path / "temporary" / "deltabook-runs"
