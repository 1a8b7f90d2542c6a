"""Every fault of every kind of file of a run: the answers are right, or the start is refused with the file's name and
what repairs it; never wrong. The table in docs/faults.md is what is tested.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from click.testing import CliRunner
from twisted.internet.task import Clock

from algo_engine.app import AlgoProcess
from algo_engine.config import AlgoConfig
from deltabook.audit import audit
from deltabook.backup import BackupError, back_up, restore
from deltabook.cli._root import REMEDY, main, one_line
from deltabook.repair import PartFindings, repair
from deltabook.wire.directories import NotAFileError, this_process
from deltabook.wire.errors import DamageError
from exchange_server.errors import DirectoryInUseError
from exchange_server.journal.inputs_log import InputsLog, JournalReader
from runtime.service.rundir.directory import DirectoryLock
from tests.generators.damage_lab import ANSWERS, FAULTS, RULES, make_runs
from tests.generators.journals import account, open_exchange

DOCS: Final = Path(__file__).parents[3] / "docs" / "faults.md"
NEWEST, OLDEST, SECOND = -1, 0, 1
FILES: Final[dict[str, tuple[str, str, int]]] = {
    "`inputs/*.inputs`, newest": ("exchange", "inputs/*.inputs", NEWEST),
    "`inputs/*.inputs`, older than a snapshot": ("exchange", "inputs/*.inputs", OLDEST),
    "`snapshots/*.snapshot`": ("exchange", "snapshots/*.snapshot", NEWEST),
    "`feed.lines`": ("exchange", "feed.lines", OLDEST),
    "`feed.itch`": ("exchange", "feed.itch", OLDEST),
    "`private/*`": ("exchange", "private/*", OLDEST),
    "`feed.lines`, after the oldest requests were removed": ("short", "feed.lines", OLDEST),
    "`snapshots/*.snapshot`, the oldest": ("short", "snapshots/*.snapshot", OLDEST),
    "`lock`": ("exchange", "lock", OLDEST),
    "`*/orders.log`": ("algo", "*/orders.log", OLDEST),
    "`*/trades.spool`, older than the journal": ("algo", "first/trades.spool", OLDEST),
    "`*/trades.spool`": ("algo", "second/trades.spool", OLDEST),
    "`*/orders.lock`": ("algo", "*/orders.lock", OLDEST),
    "`state.db`": ("runtime", "state.db", OLDEST),
    "`state.db-wal`, after a kill": ("killed", "state.db-wal", OLDEST),
    "`epochs/*.segment`": ("runtime", "epochs/*.segment", SECOND),
    "`epochs/*.segment`, newest": ("runtime", "epochs/*.segment", NEWEST),
    "`epochs/first`": ("runtime", "epochs/first", OLDEST),
    "`epochs/programs/*`": ("runtime", "epochs/programs/*", OLDEST),
    "relation `snapshots/*`": ("runtime", "snapshots/*.snapshot", NEWEST),
    "`results/*.result`": ("runtime", "results/*.result", NEWEST),
    "`results/*.full`": ("runtime", "results/*.full", NEWEST),
    "`dead-letters.jsonl`": ("runtime", "dead-letters.jsonl", OLDEST),
    "`claim`": ("runtime", "claim", OLDEST),
    "`beat`": ("runtime", "beat", OLDEST),
    "`consumers/*.json`": ("runtime", "consumers/*.json", OLDEST),
}
"""Row of the table → part, files, and which of them gets the fault."""


def documented() -> dict[tuple[str, str], str]:
    """Outcome by file and fault, as the documentation says."""
    text = DOCS.read_text("utf-8")
    table = text[text.index("| file | flip |") :].split("\n\n", 1)[0].splitlines()
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in table]
    return {(row[0], fault): cell for row in rows[2:] for fault, cell in zip(rows[0][1:], row[1:], strict=True)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The runs without a fault, and what they answer."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    make_runs(path)
    shutil.copytree(path, path.with_name("asked"))
    return path, {part: answer(path.with_name("asked") / part) for part, answer in ANSWERS.items()}


def outcome(path: Path, part: str, file: Path, answers: dict[str, Any]) -> str:
    """What becomes of the fault."""
    before = file.read_bytes() if file.exists() else None
    try:
        found = ANSWERS[part](path / part)
    except DamageError as error:
        line = one_line(error)
        assert "\n" not in line
        assert line.endswith(f"({REMEDY})")
        assert file.name in line or str(file.parent) in line, line
        return repaired(path, part, answers)
    assert found == answers[part], "an answer is wrong"
    return "right" if before == (file.read_bytes() if file.exists() else None) else "replaced"


def repaired(path: Path, part: str, answers: dict[str, Any]) -> str:
    """What becomes of a directory whose start is refused."""
    listed = contents(path / part)
    (dry,) = repair(path / part, is_dry=True)
    assert contents(path / part) == listed, "a dry run changes nothing"
    assert not any(each.kept for each in dry.findings)
    (found,) = repair(path / part)
    assert [each.problem for each in found.findings] == [each.problem for each in dry.findings]
    assert found.findings
    kept = {Path(name) for each in found.findings for name in each.kept}
    now = contents(path / part)
    assert all(data in now.values() for data in listed.values()), "every byte that was there still is"
    assert all(name.exists() for name in kept)
    if all(each.is_repairable for each in found.findings):
        assert ANSWERS[part](path / part) == answers[part], "an answer is wrong after a repair"
        return "repair"
    lost = [each.remedy for each in found.findings if not each.is_repairable]
    assert all("backup" in remedy or "start the consumer" in remedy for remedy in lost)
    return "restore"


def contents(path: Path) -> dict[Path, bytes]:
    return {
        file: file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.suffix not in {".lock", ".db", ".db-wal", ".db-shm"} and file.name != "lock"
    }


def cases() -> Iterator[Any]:
    """Every row of the table with every fault; one fault of each row, and two rows, are quick to run every time."""
    for row in FILES:
        for fault in FAULTS:
            is_quick = fault == "flip" or row in {"`feed.lines`", "`*/trades.spool`"}
            yield pytest.param(row, fault, marks=() if is_quick else pytest.mark.slow, id=f"{row}-{fault}")


def damaged(source: Path, tmp_path: Path, row: str, fault: str) -> tuple[Path, str, Path]:
    """Copy the runs and damage one file; return the directory of the copy, the part's name, and the file."""
    part, pattern, place = FILES[row]
    path = tmp_path / "runs"
    shutil.copytree(source, path)
    file = sorted((path / part).glob(pattern))[place]
    change = FAULTS[fault]
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    return path, part, file


@pytest.mark.parametrize(("row", "fault"), list(cases()))
def test_damage_gives_right_answers_or_a_refusal(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, row: str, fault: str
) -> None:
    path, part, file = damaged(whole[0], tmp_path, row, fault)
    assert outcome(path, part, file, whole[1]) == documented()[row, fault]


@pytest.mark.parametrize(("row", "fault"), list(cases()))
def test_a_backup_hides_no_damage(whole: tuple[Path, dict[str, Any]], tmp_path: Path, row: str, fault: str) -> None:
    """A start on a copy must not accept what a start on the original refuses: a copy has no lock with a boot."""
    path, part, _ = damaged(whole[0], tmp_path, row, fault)
    refusal = ""
    try:
        back_up(path / part, tmp_path / "backup")
    except BackupError as error:
        refusal = str(error)
    if refusal:
        assert str(path / part) in refusal
        assert ".stage" not in refusal
        return
    shutil.rmtree(path / part)
    restore(tmp_path / "backup", path / part)
    assert ANSWERS[part](path / part) == whole[1][part], "an answer is wrong"


@pytest.mark.parametrize(
    ("part", "faults", "expected"),
    [
        ("runtime", {"epochs/first": "flip", "epochs/*.segment": "flip"}, "repair"),
        ("runtime", {"epochs/first": "zero block", "results/*.result": "cut"}, "repair"),
        ("runtime", {"epochs/first": "empty", "epochs/programs/*": "flip", "results/*.result": "cut"}, "restore"),
        ("runtime", {"state.db": "cut", "epochs/*.segment": "flip"}, "restore"),
        ("algo", {"second/trades.spool": "double", "second/orders.log": "double"}, "replaced"),
        ("algo", {"second/trades.spool": "flip", "second/orders.log": "double"}, "replaced"),
        ("exchange", {"feed.lines": "flip", "private/*": "cut", "snapshots/*.snapshot": "flip"}, "replaced"),
    ],
)
def test_damage_of_several_files_is_found_at_once(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, part: str, faults: dict[str, str], expected: str
) -> None:
    """One damaged file does not hide another from `repair`, and two copies of a journal are not two days."""
    path = tmp_path / "runs"
    shutil.copytree(whole[0], path)
    for pattern, fault in faults.items():
        file = sorted((path / part).glob(pattern))[SECOND if pattern == "epochs/*.segment" else OLDEST]
        change = FAULTS[fault] if fault != "double" else lambda data: data * 2
        assert change is not None
        file.write_bytes(change(file.read_bytes()))
    first = sorted((path / part).glob(next(iter(faults))))[OLDEST]
    try:
        found = ANSWERS[part](path / part)
    except DamageError:
        assert repaired(path, part, whole[1]) == expected
    else:
        assert found == whole[1][part]
        assert expected == "replaced"
    assert first.exists()


def test_requests_that_a_start_misses_are_not_repaired(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """After another boot too: the messages that followed from them would be cut, as if nobody had received them."""
    path = tmp_path / "exchange"
    shutil.copytree(whole[0] / "exchange", path)
    newest = sorted(path.glob("inputs/*.inputs"))[NEWEST]
    newest.write_bytes(bytes(newest.stat().st_size))
    (path / "lock").write_bytes(msgspec.json.encode({"host": "other", "process": 1, "boot": "another"}))
    listed = contents(path)
    with pytest.raises(DamageError, match="was a broken head"):
        ANSWERS["exchange"](path)
    (found,) = repair(path)
    assert not any(each.is_repairable for each in found.findings)
    assert newest.name in found.findings[0].problem
    assert contents(path) == listed


@pytest.mark.parametrize("pattern", ["feed.lines", "private/*"])
def test_a_directory_in_place_of_a_stream_is_replaced(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, pattern: str
) -> None:
    """No reader of a directory names it in its error."""
    path = tmp_path / "exchange"
    shutil.copytree(whole[0] / "exchange", path)
    file = min(path.glob(pattern))
    file.unlink()
    file.mkdir()
    (found,) = repair(path)
    assert [each.problem for each in found.findings] == [f"expected to read {file}, was Is a directory"]
    assert all(each.is_repairable for each in found.findings)
    assert ANSWERS["exchange"](path) == whole[1]["exchange"]


def test_a_program_whose_link_leads_nowhere_is_missing(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "runtime"
    shutil.copytree(whole[0] / "runtime", path)
    file = min(path.glob("epochs/programs/*"))
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamageError, match=r"expected the catalogue of epoch 0 in .*programs, was none"):
        ANSWERS["runtime"](path)


def test_a_segment_of_another_exchange_is_refused(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """A start from a snapshot reads it first, so that no segment before it shows where it should begin."""
    path = tmp_path / "exchange"
    shutil.copytree(whole[0] / "exchange", path)
    newest = sorted(path.glob("inputs/*.inputs"))[NEWEST]
    other = sorted((whole[0] / "short").glob("inputs/*.inputs"))[OLDEST]
    shutil.copy(other, newest)
    with pytest.raises(DamageError, match=f"was a broken head at .*{newest.name}"):
        ANSWERS["exchange"](path)
    head = JournalReader(newest.parent).head
    InputsLog.create(tmp_path / "another", "SESSION2", head.rules)
    (start,) = (tmp_path / "another").iterdir()
    shutil.copy(start, newest.parent / "000000000000001.inputs")
    with pytest.raises(DamageError, match=r"was a broken head at .*000000000000048.inputs"):
        list(JournalReader(newest.parent).batches(47))


def test_trades_of_another_strategy_are_no_trades_of_it(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    shutil.copytree(whole[0], tmp_path / "runs")
    algo = tmp_path / "runs" / "algo"
    shutil.copy(algo / "first" / "trades.spool", algo / "second")
    (dry,) = repair(algo, is_dry=True)
    assert ["expected trades of broker 9002 in" in each.problem for each in dry.findings] == [True]
    assert ANSWERS["algo"](algo) == whole[1]["algo"]


@pytest.mark.parametrize("row", FILES)
def test_a_pipe_in_place_of_a_file_ends_the_wait_for_it(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, row: str
) -> None:
    """Opening a pipe waits for its other end: a start would hold the lock of the directory for ever."""
    path, part, file = damaged(whole[0], tmp_path, row, "delete")
    os.mkfifo(file)
    asks: list[Callable[[], object]] = [
        lambda: repair(path / part),
        lambda: back_up(path / part, tmp_path / "backup"),
        lambda: DirectoryLock(path / part, this_process()),
    ]
    if part in {"exchange", "short"}:
        asks.append(lambda: ANSWERS[part](path / part))
    if part == "algo":
        config = AlgoConfig(("first",), "127.0.0.1:1", "127.0.0.1:1", path / part)
        asks += [
            lambda: AlgoProcess(config, Clock(), BytesIO(), shut_down=lambda: None),
            lambda: audit(path / part, path / "exchange"),
        ]
    for ask in asks:
        with pytest.raises(NotAFileError, match=f"expected a file or a directory at {file}, was a pipe"):
            ask()


@pytest.mark.parametrize("part", ["", "exchange"])
def test_a_backup_is_not_repaired(whole: tuple[Path, dict[str, Any]], tmp_path: Path, part: str) -> None:
    """The locks of a check, even of a dry one, would be files that `restore` does not expect."""
    backup = tmp_path / "backup"
    back_up(whole[0], backup)
    with pytest.raises(BackupError, match=r"expected a run directory, was one of the backup .*backup: `deltabook re"):
        repair(backup / part, is_dry=True)
    restore(backup, tmp_path / "restored")
    assert [each.findings for each in repair(tmp_path / "restored")] == [()] * len(ANSWERS)


def test_the_documented_table_is_the_tested_one() -> None:
    assert set(documented()) == {(row, fault) for row in FILES for fault in FAULTS}


def test_whole_directories_need_no_repair(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    shutil.copytree(whole[0], tmp_path / "runs")
    before = contents(tmp_path / "runs")
    assert [part.findings for part in repair(tmp_path / "runs")] == [()] * len(ANSWERS)
    assert contents(tmp_path / "runs") == before


def test_a_directory_in_use_is_not_repaired(tmp_path: Path) -> None:
    exchange = open_exchange(tmp_path / "exchange", RULES)
    exchange.submit([account()])
    (tmp_path / "exchange" / "feed.lines").write_bytes(b"1,damaged\n")
    with pytest.raises(DirectoryInUseError, match="in use by another exchange"):
        repair(tmp_path)
    exchange.close()


@pytest.mark.parametrize(
    ("victim", "mode", "is_dry", "is_refused"),
    [
        ("exchange/snapshots", os.R_OK | os.X_OK, True, True),
        ("exchange/private/text:7", os.R_OK, True, True),
        ("exchange/lock", os.W_OK, True, True),
        ("exchange/feed.lines", os.W_OK, True, False),
        ("exchange/feed.lines", os.W_OK, False, True),
        ("exchange", os.W_OK, False, True),
        ("runtime", os.W_OK, True, True),
        ("runtime/state.db", os.W_OK, True, True),
        ("runtime/epochs", os.W_OK, True, False),
        ("runtime/epochs", os.W_OK, False, True),
        ("runtime/epochs/000000000001.segment", os.R_OK, True, True),
    ],
)
def test_files_of_another_user_are_not_taken_for_damaged(
    whole: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    victim: str, mode: int, is_dry: bool, is_refused: bool,
) -> None:  # fmt: skip
    """The check asks the operating system: the user of a test may be root, who may read everything."""
    runs = tmp_path / "runs"
    shutil.copytree(whole[0], runs)
    path = runs / victim
    if not path.exists():
        path = min(path.parent.iterdir())
    before = contents(runs)
    access = os.access
    monkeypatch.setattr(os, "access", lambda file, asked: access(file, asked) and not (file == path and asked & mode))
    if is_refused:
        with pytest.raises(BackupError) as caught:
            repair(runs, is_dry=is_dry)
        assert f", was {path}: repair as the user to whom the files belong" in str(caught.value)
    else:
        assert [part.findings for part in repair(runs, is_dry=is_dry)] == [()] * len(ANSWERS)
    assert contents(runs) == before


def test_the_command_prints_what_it_does(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    shutil.copytree(whole[0], tmp_path / "runs")
    feed, state = tmp_path / "runs/exchange/feed.lines", tmp_path / "runs/runtime/state.db"
    good = feed.read_bytes()
    feed.write_bytes(good[:-9] + b"x" + good[-8:])
    dry = CliRunner().invoke(main, ["repair", str(tmp_path / "runs/exchange"), "--dry-run"])
    assert (dry.exit_code, feed.read_bytes() == good) == (0, False)
    assert f"in {feed}, was other at byte" in dry.output
    assert "would be: recreated from the requests" in dry.output
    done = CliRunner().invoke(main, ["repair", str(tmp_path / "runs/exchange")])
    assert (done.exit_code, feed.read_bytes()) == (0, good)
    assert f"kept as {feed}.damaged-1" in done.output
    state.write_bytes(b"")
    refused = CliRunner().invoke(main, ["repair", str(tmp_path / "runs/runtime"), "--json"])
    assert refused.exit_code == 1
    (part,) = msgspec.json.decode(refused.output, type=list[PartFindings])
    assert [finding.is_repairable for finding in part.findings] == [False]
    assert "or start the runtime on a new directory" in part.findings[0].remedy
