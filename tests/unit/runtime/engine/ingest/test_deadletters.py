"""The file of dead letters outlives crashes with the epochs that its lines belong to."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from runtime.engine.ingest.deadletters import EpochDeadLetters, first_letter
from runtime.formats import DeadLetter
from tests.simulation.disk import Platter, SimulatedDisk
from tests.simulation.faults import CrashError, Faults
from tests.simulation.trace import Trace

PATH: Final = Path("/run/dead_letters.jsonl")
LETTER: Final = DeadLetter(1, 2, 3, 4, "price", "a number", "a word", b"x")


class EndingDisk(SimulatedDisk):
    """Disk of a process that ends before it makes a name durable."""

    def sync_directory(self, path: Path) -> None:
        raise CrashError


@pytest.mark.parametrize("seed", range(20))
def test_the_name_of_a_file_found_at_the_start_is_durable(seed: int) -> None:
    """A process that ends after it created the file may not have synced its name; the next one does."""
    chance = random.Random(seed)
    platter, faults = Platter(chance), Faults(chance, Trace(None))
    disk = SimulatedDisk(platter, faults)
    disk.make_directory(PATH.parent)
    with pytest.raises(CrashError):
        EpochDeadLetters(PATH, disk=EndingDisk(platter, faults)).write(1, [LETTER], 1)
    assert disk.exists(PATH)
    letters = EpochDeadLetters(PATH, disk=disk)
    letters.write(1, [LETTER], 1)
    platter.crash()
    assert disk.exists(PATH)
    assert EpochDeadLetters(PATH, letters.mark, 1, disk=disk).mark == letters.mark


def test_the_first_letter_of_an_origin_is_described(tmp_path: Path) -> None:
    path = tmp_path / "letters.jsonl"
    assert first_letter(path, 1) is None
    EpochDeadLetters(path).write(1, [LETTER], 1)
    assert first_letter(path, 1) == "expected a number for field price, was a word in 'x'"
    assert first_letter(path, 2) is None
