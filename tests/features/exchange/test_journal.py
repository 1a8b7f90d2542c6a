"""Rows 32 to 34 of docs/features/exchange.md: recovery, the hash of the state, the same bytes from the same inputs.

Each with requests of every kind: auctions, stops, icebergs, halts, self-trade prevention, recordings.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from exchange_server.errors import JournalError
from exchange_server.exchange import Exchange
from exchange_server.journal.history import History
from exchange_server.journal.verification import verify
from exchange_server.matching.inputs import AnyInput
from tests.generators.descriptor_disk import DescriptorDisk, StoppedError, keep_none
from tests.generators.journals import forget_boot, make_outputs, open_exchange, random_inputs

COUNT = 500
SEEDS = range(4)
PATH = Path("/exchange")


def streams(path: Path) -> dict[str, bytes]:
    """Every stream's file."""
    files = [*path.glob("feed.*"), *path.glob("private/*")]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def batches(chance: random.Random, inputs: Sequence[AnyInput]) -> Iterator[Sequence[AnyInput]]:
    """The inputs in batches of random sizes."""
    at = 0
    while at < len(inputs):
        size = chance.choice((1, 1, 2, 5, 40))
        yield inputs[at : at + size]
        at += size


def lived(path: Path, seed: int) -> tuple[str, dict[str, bytes]]:
    """Hash and streams of an exchange that nothing interrupts."""
    rules, inputs = random_inputs(seed, COUNT)
    exchange = open_exchange(path, rules)
    for item in inputs:
        exchange.submit([item])
    exchange.close()
    return exchange.market.state_hash(), streams(path)


# -- journal, snapshot, recovery to identical bytes -------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_row_32_restarts_and_snapshots_leave_the_same_bytes(tmp_path: Path, seed: int) -> None:
    rules, inputs = random_inputs(seed, COUNT)
    chance = random.Random(seed)
    path = tmp_path / "interrupted"
    exchange = open_exchange(path, rules, keep=chance.choice((None, 2, 3)))
    begun = set()
    for batch in batches(chance, inputs):
        exchange.submit(batch)
        if chance.random() < 0.25:
            exchange.snapshot()
        if chance.random() < 0.25:
            exchange.close()
            exchange = open_exchange(path, rules, keep=2)
            begun.add(exchange.snapshot_inputs)
            exchange.market._check()
    exchange.close()
    assert (exchange.market.state_hash(), streams(path)) == lived(tmp_path / "whole", seed)
    assert len(begun) > 1
    assert verify(path, make_outputs).problems == ()


def test_row_32_a_snapshot_saves_applying_what_came_before_it(tmp_path: Path) -> None:
    rules, inputs = random_inputs(1, COUNT)
    exchange = open_exchange(tmp_path, rules, keep=2)
    for at in range(0, COUNT, 100):
        exchange.submit(inputs[at : at + 100])
        exchange.snapshot()
    exchange.close()
    assert sorted(int(file.stem) for file in (tmp_path / "inputs").iterdir()) == [401, 501]
    again = open_exchange(tmp_path, rules)
    assert (again.snapshot_inputs, again.inputs) == (500, 500)
    assert again.market.state_hash() == exchange.market.state_hash()
    again.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_row_32_always_loses_nothing_that_was_answered(seed: int) -> None:
    rules, inputs = random_inputs(seed, 100)
    chance = random.Random(seed)
    for _ in range(25):
        disk = DescriptorDisk()
        disk.stop_after = chance.randrange(20, 140)
        exchange: Exchange | None = None
        answered, told = 0, bytearray()
        try:
            exchange = open_exchange(PATH, rules, disk=disk, fsync="always", keep=2)
            exchange.feeds["text"].on_append.append(told.extend)
            for at in range(0, 100, 5):
                exchange.submit(inputs[at : at + 5])
                answered = at + 5
                if chance.random() < 0.2:
                    exchange.snapshot()
        except StoppedError:
            pass
        disk.crash(lambda: chance.random() < 0.5)
        again = open_exchange(PATH, rules, disk=disk)
        assert answered <= again.inputs <= answered + 5
        assert disk.contents().get(f"{PATH}/feed.lines", b"").startswith(bytes(told))
        again.market._check()


@pytest.mark.parametrize(("policy", "survive"), [("always", 100), ("interval", 60), ("never", 0)])
def test_row_32_the_policy_bounds_what_a_crash_loses(policy: str, survive: int) -> None:
    rules, inputs = random_inputs(3, 100)

    def run(disk: DescriptorDisk) -> DescriptorDisk:
        exchange = open_exchange(PATH, rules, disk=disk, fsync=policy)
        for at in range(0, 100, 10):
            exchange.submit(inputs[at : at + 10])
            if at == 30:
                # The next segment begins, and nobody comes to write the snapshot.
                exchange.begin_snapshot()
            if at == 50:
                exchange.journal.sync()
        return disk

    killed, crashed = run(DescriptorDisk()), run(DescriptorDisk())
    killed.restart()
    assert open_exchange(PATH, rules, disk=killed).inputs == 100, "the death of the process takes nothing"
    crashed.crash(keep_none)
    assert open_exchange(PATH, rules, disk=crashed).inputs == survive


def test_row_32_a_torn_tail_is_cut_and_damage_is_refused(tmp_path: Path) -> None:
    rules, inputs = random_inputs(2, COUNT)
    exchange = open_exchange(tmp_path, rules)
    exchange.submit(inputs[:100])
    exchange.close()
    segment = tmp_path / "inputs" / f"{1:015d}.inputs"
    end = segment.stat().st_size
    exchange = open_exchange(tmp_path, rules)
    exchange.submit(inputs[100:200])
    exchange.submit(inputs[200:300])
    exchange.close()
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1])
    forget_boot(tmp_path)
    exchange = open_exchange(tmp_path, rules)
    torn = exchange.journal.reader.end
    assert torn is not None
    assert (exchange.inputs, torn.torn_bytes) == (200, len(whole) - 1 - segment.stat().st_size)
    exchange.submit(inputs[200:300])
    exchange.close()
    assert segment.read_bytes()[: end + 20] == whole[: end + 20]
    damaged = bytearray(segment.read_bytes())
    damaged[end - 5] ^= 1
    segment.write_bytes(damaged)
    with pytest.raises(JournalError, match=rf"damaged record with whole records after it, at byte \d+ of {segment}"):
        open_exchange(tmp_path, rules)


# -- state hash at any sequence number --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_row_33_the_hash_is_the_markets_at_any_message(tmp_path: Path, seed: int) -> None:
    rules, inputs = random_inputs(seed, COUNT)
    chance = random.Random(seed)
    exchange = open_exchange(tmp_path, rules)
    hashes, messages = {}, {"text": 0, "itch": 0}
    said: list[tuple[str, int, int]] = []
    for number, item in enumerate(inputs, 1):
        exchange.submit([item])
        hashes[number] = exchange.market.state_hash()
        for form, before in messages.items():
            messages[form] = exchange.feeds[form].records.next_number - 1
            said += [(form, message, number) for message in range(before + 1, messages[form] + 1)]
        if number in {150, 300}:
            exchange.snapshot()
    exchange.close()
    history = History(tmp_path, make_outputs)
    for number in (1, 149, 150, 151, COUNT, *chance.sample(range(1, COUNT), 10)):
        moment = history.at_input(number)
        assert moment.state_hash == hashes[number], f"at input {number}"
        moment.market._check()
    for form, message, number in chance.sample(said, 20):
        assert history.at_message(message, form).state_hash == hashes[number], f"at message {message} of {form}"


def test_row_33_the_hash_depends_on_the_books_alone(tmp_path: Path) -> None:
    rules, inputs = random_inputs(0, COUNT)
    whole = open_exchange(tmp_path / "a", rules, ("text",))
    whole.submit(inputs)
    other = open_exchange(tmp_path / "b", rules, ("itch",))
    hashes = set()
    for item in inputs:
        other.submit([item])
        hashes.add(other.market.state_hash())
    assert whole.market.state_hash() == other.market.state_hash()
    assert len(hashes) == COUNT, "every input changes the state, its time at least"
    whole.close()
    other.close()


# -- determinism ------------------------------------------------------------------------------------------------------

_PROGRAM = """
import json, sys
from hashlib import blake2b
from pathlib import Path
from tests.features.exchange.test_journal import lived
state_hash, files = lived(Path(sys.argv[1]), int(sys.argv[2]))
print(json.dumps([state_hash, {name: blake2b(data).hexdigest() for name, data in sorted(files.items())}]))
"""


def test_row_34_hash_seeds_of_strings_change_no_byte(tmp_path: Path) -> None:
    processes = []
    for hash_seed in ("1", "3"):
        command = [sys.executable, "-c", _PROGRAM, str(tmp_path / hash_seed), "0"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
    said = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert said[0] == said[1]
    assert len(said[0][1]) > 3


@pytest.mark.parametrize("seed", SEEDS)
def test_row_34_batching_changes_the_journal_alone(tmp_path: Path, seed: int) -> None:
    rules, inputs = random_inputs(seed, COUNT)
    exchange = open_exchange(tmp_path / "batched", rules)
    for batch in batches(random.Random(seed + 1), inputs):
        exchange.submit(batch)
    exchange.close()
    assert (exchange.market.state_hash(), streams(tmp_path / "batched")) == lived(tmp_path / "single", seed)


def test_row_34_the_same_journal_is_the_same_bytes(tmp_path: Path) -> None:
    rules, inputs = random_inputs(1, COUNT)
    found = []
    for name in "ab":
        exchange = open_exchange(tmp_path / name, rules)
        for at in range(0, COUNT, 50):
            exchange.submit(inputs[at : at + 50])
            if at in {100, 300}:
                exchange.snapshot()
        exchange.close()
        files = [file for file in (tmp_path / name).rglob("*") if file.is_file() and file.name != "lock"]
        found.append({str(file.relative_to(tmp_path / name)): file.read_bytes() for file in files})
    assert found[0] == found[1]
    assert any(name.startswith("snapshots/") for name in found[0])
