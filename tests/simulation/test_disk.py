"""The simulated disk loses what a real one may lose, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.disk import Platter, SimulatedDisk
from tests.simulation.faults import CrashError, Faults
from tests.simulation.trace import Trace

HOME = Path("/home")


def disks(seed: int) -> tuple[Platter, Faults, SimulatedDisk]:
    chance = random.Random(seed)
    platter, faults = Platter(chance), Faults(chance, Trace())
    disk = SimulatedDisk(platter, faults)
    disk.make_directory(HOME)
    return platter, faults, disk


def test_what_was_synced_survives() -> None:
    for seed in range(50):
        platter, _, disk = disks(seed)
        disk.write(HOME / "a", [b"one"])
        disk.sync_directory(HOME)
        disk.append(HOME / "a", b"two")
        platter.crash()
        assert bytes(disk.read(HOME / "a")) == b"onetwo"


def test_a_name_that_was_not_synced_may_be_gone_or_the_old_one() -> None:
    seen: Counter[tuple[str, ...]] = Counter()
    for seed in range(200):
        platter, _, disk = disks(seed)
        disk.write(HOME / "a", [b"one"])
        disk.sync_directory(HOME)
        disk.rename(HOME / "a", HOME / "b")
        disk.write(HOME / "c", [b"two"])
        platter.crash()
        seen[tuple(disk.names(HOME))] += 1
    assert set(seen) == {("a",), ("b",), ("a", "c"), ("b", "c")}


def test_unsynced_bytes_are_whole_torn_rotten_or_gone() -> None:
    seen: set[str] = set()
    for seed in range(300):
        platter, faults, disk = disks(seed)
        disk.append(HOME / "a", b"old")
        disk.sync_directory(HOME)
        faults.crash_in = 1  # between the write of the bytes and their sync
        with pytest.raises(CrashError):
            disk.append(HOME / "a", b"+new")
        platter.crash()
        data = bytes(disk.read(HOME / "a"))
        assert data.startswith(b"old")
        seen.add("gone" if data == b"old" else "whole" if data == b"old+new" else
                 "torn" if b"old+new".startswith(data) else "rotten")  # fmt: skip
    assert seen == {"gone", "whole", "torn", "rotten"}


def test_a_killed_process_reaches_the_disk_no_more() -> None:
    _, faults, disk = disks(1)
    faults.crash_in = 0
    for _ in range(2):
        with pytest.raises(CrashError):
            disk.write(HOME / "a", [b"one"])
    assert disk.names(HOME) == []


def test_a_full_disk_takes_a_part_at_most() -> None:
    for seed in range(20):
        _, faults, disk = disks(seed)
        disk.write(HOME / "a", [b"old"])
        faults.is_full = True
        with pytest.raises(OSError, match="No space"):
            disk.append(HOME / "a", b"+new")
        assert b"old+new".startswith(bytes(disk.read(HOME / "a")))
        assert disk.size(HOME / "a") >= 3


def test_two_names_are_one_file() -> None:
    platter, _, disk = disks(1)
    disk.write(HOME / "a", [b"one"])
    disk.link(HOME / "a", HOME / "b")
    with pytest.raises(FileExistsError):
        disk.link(HOME / "a", HOME / "b")
    disk.unlink(HOME / "a")
    disk.unlink(HOME / "a")
    assert bytes(disk.read(HOME / "b")) == b"one"
    assert platter.bytes_under(HOME) == 3
