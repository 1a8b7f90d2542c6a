"""Which run directories are found, in which order; what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from algo_engine.desk.journal import FileJournal
from algo_engine.desk.records import Checkpoint, Opened
from algo_engine.desk.trades import SPOOL
from deltabook.backup import BackupError, back_up, inspect
from deltabook.backup.manifest import FileEntry, Manifest, PartEntry, decode_manifest, encode_manifest, find_parts
from deltabook.cli import main
from tests.generators.journals import open_exchange, random_inputs
from tests.generators.run_directories import RunDirectory


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A directory with an exchange, two runtimes, of which one reads the other, and a strategy."""
    directory = tmp_path / "system"
    for name in ("main", "feeder"):
        RunDirectory(directory / name, epochs=2).close()
    consumers = directory / "feeder" / "consumers"
    consumers.mkdir()
    (consumers / "1.json").write_text(json.dumps({"directory": str(directory / "main"), "epoch": 1}))
    rules, _ = random_inputs(1, 20)
    open_exchange(directory / "an_exchange", rules).close()
    journal = FileJournal(directory / "strategies" / "sobi" / "orders.log")
    journal.compact(Checkpoint(broker_id=7))
    journal.append(Opened("S1"))
    journal.close()
    (directory / "strategies" / "sobi" / SPOOL).write_bytes(b"")
    (directory / "strategies" / "ports.json").write_text("{}")
    (directory / "peers.json").write_text("{}")
    (directory / "runtime.log").write_text("")
    return directory


def test_a_part_is_copied_before_those_it_depends_on(system: Path, tmp_path: Path) -> None:
    assert [part.path for part in find_parts(system)] == ["strategies", "main", "feeder", "an_exchange"]
    made = back_up(system, tmp_path / "copy.tar")
    assert [(part.kind, part.path) for part in made.manifest.parts] == [
        ("algo", "strategies"),
        ("runtime", "main"),
        ("runtime", "feeder"),
        ("exchange", "an_exchange"),
    ]
    names = [entry.path for entry in made.manifest.files]
    assert [name for name in names if name.startswith("strategies")] == [
        "strategies/sobi/orders.log",
        f"strategies/sobi/{SPOOL}",
    ]
    assert not any(name.endswith((".log", ".json")) and "orders" not in name for name in names)
    assert made.manifest.parts[0].position == {"strategies": "sobi", "records": 2}


def test_runtimes_that_read_each_other_are_copied(system: Path) -> None:
    consumers = system / "main" / "consumers"
    consumers.mkdir()
    (consumers / "1.json").write_text(json.dumps({"directory": str(system / "feeder")}))
    (consumers / "2.json").write_text("torn")
    assert [part.path for part in find_parts(system)] == ["strategies", "feeder", "main", "an_exchange"]


def test_a_directory_without_any_is_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(BackupError, match="expected a run directory"):
            find_parts(path)


def test_run_directories_and_backups_say_what_they_hold(system: Path, tmp_path: Path) -> None:
    running = RunDirectory(system / "second", epochs=4)
    facts = {Path(report.path).name: report.facts for report in inspect(system)}
    assert facts["second"]["epochs"] == "0 to 4"
    assert facts["second"]["origin feed"] == "SESSION 4"
    assert facts["second"]["views"] == "v (spark)"
    assert facts["second"]["spark checkpoint"] == "none"
    assert facts["an_exchange"]["session"] == "SESSION1"
    assert facts["an_exchange"]["in use by"] == "nobody"
    assert facts["strategies"]["sobi"] == "2 records"
    running.close()
    back_up(system, tmp_path / "copy.tar.zst")
    found = CliRunner().invoke(main, ["inspect", str(tmp_path / "copy.tar.zst"), "--json"])
    assert {part["path"] for part in json.loads(found.stdout)} == {*facts, "strategies"}


def test_a_runtime_without_an_epoch_hides_no_other_part(system: Path) -> None:
    (system / "new" / "epochs").mkdir(parents=True)
    facts = {Path(report.path).name: report.facts for report in inspect(system)}
    assert facts["new"] == {"in use by": "nobody", "epochs": "none", "bytes": facts["new"]["bytes"]}
    assert facts["main"]["epochs"] == "0 to 2"


def test_damage_is_reported_and_the_rest_is_still_checked(system: Path) -> None:
    (system / "an_exchange" / "inputs" / "000000000000001.inputs").write_bytes(b"x" * 100)
    facts = {Path(report.path).name: report.facts for report in inspect(system)}
    assert "expected a journal's head" in str(facts["an_exchange"]["damaged"])
    assert facts["main"]["epochs"] == "0 to 2"


def test_commands_copy_put_back_and_say_so(system: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    made = run(main, ["backup", str(system), str(tmp_path / "b.tar"), "--json"])
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert told["stored_bytes"] == (tmp_path / "b.tar").stat().st_size
    back = run(main, ["restore", str(tmp_path / "b.tar"), str(tmp_path / "back")])
    assert back.exit_code == 0, back.output
    assert f"{len(told['manifest']['files'])} files" in back.output
    assert "epoch 2" in back.output
    refused = run(main, ["restore", str(tmp_path / "b.tar"), str(tmp_path / "back")])
    assert refused.exit_code == 1
    assert "expected an empty directory or none" in refused.output
    assert "epoch 2" in run(main, ["backup", str(tmp_path / "back"), str(tmp_path / "again")]).output
    assert "epochs" in run(main, ["inspect", str(tmp_path / "back")]).output


def test_a_byte_of_a_manifest_that_has_changed_is_noticed() -> None:
    manifest = Manifest("0.1", 7, [PartEntry("runtime", "", {"epoch": 12})], [FileEntry("state.db", 8, "ab")])
    written = encode_manifest(manifest)
    taken = decode_manifest(written, "here")
    assert msgspec.structs.replace(taken, sha256="") == manifest
    for place in range(len(written)):
        changed = bytearray(written)
        changed[place] ^= 1
        try:
            again = decode_manifest(bytes(changed), "here")
        except BackupError:
            continue
        assert again == taken  # a byte between two fields


def test_a_manifest_without_a_checksum_is_read() -> None:
    """Older backups have none."""
    manifest = Manifest("0.1", 7, [], [])
    assert decode_manifest(msgspec.json.encode(manifest), "here") == manifest
