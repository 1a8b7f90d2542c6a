"""An exchange's journal is copied so that it goes on where a crash would have left it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltabook.backup import BackupError, back_up, inspect, restore
from deltabook.backup.copying import Stage
from exchange_server.exchange import Exchange
from exchange_server.journal.verification import verify
from tests.generators.journals import make_outputs, open_exchange, random_inputs

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
