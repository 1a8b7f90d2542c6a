"""Whatever moment ends the process or the machine, what was answered is found again, and the feed goes on.

Every run does the same on a disk in memory: batches, syncs, snapshots with retention. It is stopped between any two
steps of the disk, each once.
"""

from __future__ import annotations

import errno
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exchange_server.errors import JournalError
from exchange_server.exchange import Exchange
from exchange_server.journal import FsyncPolicy
from exchange_server.journal.verification import verify
from exchange_server.matching.market import Market
from tests.generators.descriptor_disk import DescriptorDisk, StoppedError, keep_all, keep_none
from tests.generators.journals import make_outputs, open_exchange, random_inputs

RULES, INPUTS = random_inputs(11, 42)
PATH = Path("/exchange")
BATCH = 7
POLICIES: tuple[FsyncPolicy, ...] = ("always", "interval", "never")


class Run:
    """One life of an exchange on a disk, and what came out of it."""

    def __init__(self, disk: DescriptorDisk, policy: FsyncPolicy) -> None:
        self._disk = disk
        self._policy = policy
        self.answered = 0
        """Inputs whose batch was answered."""
        self.synced = 0
        """Inputs that were known to be on the disk."""
        self.told = b""
        """Of the feed, since the start."""
        self.began_bytes = 0
        """Of the feed, before it."""
        self.exchange: Exchange | None = None

    def _hear(self, data: bytes) -> None:
        self.told += data

    def go(self) -> None:
        """Start, and do all that is left; ends early with the error that the disk raises."""
        exchange = self.exchange = open_exchange(PATH, RULES, fsync=self._policy, keep=2, disk=self._disk)
        self.answered = self.synced = exchange.inputs
        feed = exchange.feeds["text"]
        self.began_bytes = feed.records.size_bytes
        feed.on_append.append(self._hear)
        while self.answered < len(INPUTS):
            batch = INPUTS[self.answered : self.answered + BATCH]
            exchange.submit(batch)
            self.answered += len(batch)
            if self._policy == "always":
                self.synced = self.answered
            if self.answered % 3 == 0:
                exchange.journal.sync()
                if self._policy != "never":
                    self.synced = self.answered
            if self.answered % 4 == 0:
                exchange.snapshot()
                self.synced = self.answered
        exchange.close()


def reference() -> tuple[dict[int, str], dict[int, dict[str, bytes]]]:
    """Hash of the state and bytes of the streams after so many inputs, of a run that nothing interrupts."""
    disk = DescriptorDisk()
    exchange = open_exchange(PATH, RULES, disk=disk)
    hashes, streams = {0: exchange.market.state_hash()}, {0: streams_of(disk)}
    for at in range(0, len(INPUTS), BATCH):
        exchange.submit(INPUTS[at : at + BATCH])
        hashes[exchange.inputs] = exchange.market.state_hash()
        streams[exchange.inputs] = streams_of(disk)
    return hashes, streams


def streams_of(disk: DescriptorDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents().items() if "/feed." in name or "/private/" in name}


HASHES, STREAMS = reference()


def check(disk: DescriptorDisk, run: Run, at_least: int, *, feed_stays: bool) -> None:
    """What a new start finds after the end of a run, and that it can go on to the end."""
    again = Run(disk, "interval")
    exchange = open_exchange(PATH, RULES, disk=disk)
    where = f"after {run.answered} answered inputs"
    assert at_least <= exchange.inputs <= run.answered + BATCH, where
    assert exchange.market.state_hash() == HASHES[exchange.inputs], where
    exchange.market._check()
    assert streams_of(disk) == STREAMS[exchange.inputs], where
    if feed_stays:
        feed = STREAMS[exchange.inputs][f"{PATH}/feed.lines"]
        assert feed[run.began_bytes :].startswith(run.told), where
    exchange.snapshot()
    exchange.close()
    again.go()
    assert streams_of(disk) == STREAMS[len(INPUTS)]
    if run.answered % 3 == 0:
        assert verify(PATH, make_outputs, disk).problems == ()


def stopped_runs(policy: FsyncPolicy) -> Iterator[tuple[DescriptorDisk, Run]]:
    """Runs that are stopped before their first step, their second, and so on."""
    for steps in range(10_000):
        disk = DescriptorDisk()
        disk.stop_after = steps
        run = Run(disk, policy)
        try:
            run.go()
        except StoppedError:
            yield disk, run
        else:
            assert steps > 40
            return


@pytest.mark.parametrize("policy", POLICIES)
def test_a_process_kill_before_any_step_is_recovered(policy: FsyncPolicy) -> None:
    for disk, run in stopped_runs(policy):
        disk.restart()
        check(disk, run, run.answered, feed_stays=True)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("choice", [keep_all, keep_none])
def test_a_machine_crash_before_any_step_keeps_synced_bytes(policy: FsyncPolicy, choice: Callable[[], bool]) -> None:
    for disk, run in stopped_runs(policy):
        disk.crash(choice)
        check(disk, run, run.synced, feed_stays=policy == "always")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_a_disk_may_lose_unsynced_bytes_in_any_order(policy: FsyncPolicy, seed: int) -> None:
    chance = random.Random(seed)
    for disk, run in stopped_runs(policy):
        disk.crash(lambda: chance.random() < 0.6)
        check(disk, run, run.synced, feed_stays=policy == "always")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_full_disk_ends_the_exchange_and_loses_no_answer(
    policy: FsyncPolicy,
) -> None:
    whole = DescriptorDisk()
    Run(whole, policy).go()
    for full_after in range(len(whole.steps)):
        disk = DescriptorDisk()
        run = Run(disk, policy)
        disk.failing = lambda operation, path, disk=disk, after=full_after: (  # type: ignore[misc]
            errno.ENOSPC if operation in {"write", "create"} and len(disk.steps) >= after else 0
        )
        try:
            run.go()
        except JournalError as error:
            assert re.fullmatch(r"expected .+, was No space left on device", str(error))  # noqa: PT017 - or none
            if run.exchange is not None:
                with pytest.raises(JournalError, match="No space left on device"):
                    run.exchange.submit(INPUTS[:1])
        disk.restart()
        check(disk, run, run.answered, feed_stays=True)


def test_once_a_batch_was_not_written_nothing_more_is_taken() -> None:
    disk = DescriptorDisk()
    exchange = open_exchange(PATH, RULES, disk=disk)
    exchange.submit(INPUTS[:BATCH])
    disk.failing = lambda operation, path: errno.EIO if operation == "write" else 0
    with pytest.raises(JournalError, match=r"expected to write /exchange/inputs/.*, was Input/output error"):
        exchange.submit(INPUTS[BATCH : 2 * BATCH])
    disk.failing = lambda operation, path: 0
    with pytest.raises(JournalError, match="Input/output error"):
        exchange.submit(INPUTS[BATCH : 2 * BATCH])
    assert exchange.inputs == BATCH
    assert exchange.market.state_hash() == HASHES[BATCH]
    exchange.close()
    assert open_exchange(PATH, RULES, disk=disk).inputs == BATCH


def test_a_sync_that_fails_is_the_end_too() -> None:
    disk = DescriptorDisk()
    exchange = open_exchange(PATH, RULES, disk=disk)
    exchange.submit(INPUTS[:BATCH])
    disk.failing = lambda operation, path: errno.EIO if operation == "sync" else 0
    with pytest.raises(JournalError, match="Input/output error"):
        exchange.journal.sync()
    disk.failing = lambda operation, path: 0
    with pytest.raises(JournalError, match="Input/output error"):
        exchange.submit(INPUTS[BATCH : 2 * BATCH])


@pytest.mark.parametrize("folder", [PATH, PATH / "private"])
def test_a_failed_stream_ends_the_exchange_and_is_repaired(folder: Path) -> None:
    name = next(Path(n).name for n, data in STREAMS[4 * BATCH].items() if Path(n).parent == folder and data)
    disk = DescriptorDisk()
    exchange = open_exchange(PATH, RULES, disk=disk)
    disk.failing = lambda operation, path: errno.ENOSPC if (operation, path.name) == ("write", name) else 0
    with pytest.raises(JournalError, match=rf"expected to write /exchange/.*{name}, was No space left on device"):
        exchange.submit(INPUTS[: 4 * BATCH])
    disk.failing = lambda operation, path: 0
    for attempt in (lambda: exchange.submit(INPUTS[:1]), exchange.snapshot):
        with pytest.raises(JournalError, match="was an exchange that has failed: JournalError: expected to write"):
            attempt()
    exchange.close()
    again = open_exchange(PATH, RULES, disk=disk)
    assert (again.inputs, streams_of(disk)) == (4 * BATCH, STREAMS[4 * BATCH])


def test_after_an_error_in_the_market_nothing_more_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = DescriptorDisk()
    exchange = open_exchange(PATH, RULES, disk=disk)
    exchange.submit(INPUTS[:BATCH])

    def fail(item: object) -> int:
        raise ZeroDivisionError("a market that is wrong")

    monkeypatch.setattr(exchange, "_apply", fail)
    with pytest.raises(ZeroDivisionError):
        exchange.submit(INPUTS[BATCH : 2 * BATCH])
    monkeypatch.undo()
    with pytest.raises(JournalError, match="has failed: ZeroDivisionError: a market that is wrong"):
        exchange.submit(INPUTS[BATCH : 2 * BATCH])
    exchange.close()
    monkeypatch.setattr(Market, "apply", lambda market, item: fail(item))
    with pytest.raises(JournalError, match=r"after 0 of /exchange, was ZeroDivisionError: a market that is wrong"):
        open_exchange(PATH, RULES, disk=disk)
    monkeypatch.undo()
    assert open_exchange(PATH, RULES, disk=disk).inputs == 2 * BATCH
