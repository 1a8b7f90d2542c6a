"""A snapshot is a short cut to the same market and the same bytes, and one that is no good is passed over."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltabook.wire.directories import NotAFileError
from exchange_server.errors import JournalError
from exchange_server.exchange import Exchange
from exchange_server.journal import JournalSnapshots
from exchange_server.journal.verification import verify
from tests.generators.descriptor_disk import DescriptorDisk
from tests.generators.journals import make_outputs, open_exchange, random_inputs

RULES, INPUTS = random_inputs(5, 600)
STOPS = (150, 300, 450)
"""Inputs after which there is a snapshot."""


def files(path: Path, pattern: str = "feed.*") -> dict[str, bytes]:
    """The streams' files."""
    return {str(file.relative_to(path)): file.read_bytes() for file in [*path.glob(pattern), *path.glob("private/*")]}


def run(path: Path, begin: int = 0, end: int = len(INPUTS), snapshots: tuple[int, ...] = STOPS, **journal: Any) -> str:
    """Submit some of the inputs, in batches of ten; the state hash afterwards."""
    exchange = open_exchange(path, RULES, **journal)
    assert exchange.inputs == begin
    for at in range(begin, end, 10):
        exchange.submit(INPUTS[at : at + 10])
        if at + 10 in snapshots:
            exchange.snapshot()
    exchange.market._check()
    exchange.close()
    return exchange.market.state_hash()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, bytes]]:
    """An uninterrupted run without any snapshot."""
    path = tmp_path_factory.mktemp("whole")
    return run(path, snapshots=()), files(path)


def begun_at(exchange: Exchange) -> int:
    """The input of the snapshot with which an exchange that has just been opened began."""
    return exchange.snapshot_inputs


def names(path: Path, folder: str) -> list[int]:
    return sorted(int(file.stem) for file in (path / folder).iterdir() if file.suffix != ".torn")


@pytest.mark.parametrize("stop", [0, 140, 150, 160, 300, 310, 600])
def test_a_start_from_a_snapshot_changes_nothing(
    tmp_path: Path, whole: tuple[str, dict[str, bytes]], stop: int
) -> None:
    run(tmp_path, 0, stop)
    assert (run(tmp_path, stop), files(tmp_path)) == whole


def test_only_the_inputs_since_the_snapshot_are_applied_again(tmp_path: Path) -> None:
    run(tmp_path)
    exchange = open_exchange(tmp_path, RULES)
    assert (begun_at(exchange), exchange.inputs, exchange.market.inputs) == (450, 600, 600)
    assert names(tmp_path, "snapshots") == [150, 300, 450]
    assert names(tmp_path, "inputs") == [1, 151, 301, 451]
    exchange.close()


@pytest.mark.parametrize(
    "spoil",
    [lambda data: data[:-1], lambda data: b"", lambda data: data[:200] + b"?" + data[201:], lambda data: data + b"?"],
)
def test_a_damaged_snapshot_is_passed_over_for_the_one_before(
    tmp_path: Path, whole: tuple[str, dict[str, bytes]], spoil: Callable[[bytes], bytes]
) -> None:
    run(tmp_path)
    for stop in (450, 300, 150):
        path = tmp_path / "snapshots" / f"{stop:015d}.snapshot"
        path.write_bytes(spoil(path.read_bytes()))
        exchange = open_exchange(tmp_path, RULES)
        assert begun_at(exchange) == stop - 150
        assert any(str(path) in why for why in exchange._starts.passed_over)
        assert (exchange.market.state_hash(), files(tmp_path)) == whole
        exchange.close()


def test_a_pipe_in_the_place_of_a_snapshot_is_refused(tmp_path: Path) -> None:
    """Nobody writes into it, so that opening it must not wait."""
    run(tmp_path)
    path = tmp_path / "snapshots" / f"{450:015d}.snapshot"
    path.unlink()
    os.mkfifo(path)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(20)
    try:
        with pytest.raises(NotAFileError, match=path.name):
            open_exchange(tmp_path, RULES)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.parametrize("kind", ["feed.lines", "feed.itch", "private/"])
def test_a_snapshot_whose_streams_are_not_there_is_passed_over(
    tmp_path: Path, whole: tuple[str, dict[str, bytes]], kind: str
) -> None:
    run(tmp_path)
    name = max((name for name in whole[1] if name.startswith(kind)), key=lambda name: len(whole[1][name]))
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[:5])
    exchange = open_exchange(tmp_path, RULES)
    assert begun_at(exchange) == 0
    exchange.close()
    assert files(tmp_path) == whole[1]


def test_a_new_form_of_the_feed_begins_at_the_first_input(tmp_path: Path, whole: tuple[str, dict[str, bytes]]) -> None:
    exchange = open_exchange(tmp_path, RULES, ("text",))
    exchange.submit(INPUTS[:300])
    exchange.snapshot()
    exchange.close()
    exchange = open_exchange(tmp_path, RULES)
    assert begun_at(exchange) == 0
    exchange.submit(INPUTS[300:])
    exchange.snapshot()
    exchange.close()
    assert files(tmp_path) == whole[1]
    exchange = open_exchange(tmp_path, RULES, ("itch",))
    assert begun_at(exchange) == 600
    exchange.close()
    assert files(tmp_path) == whole[1]


def test_inputs_and_snapshots_that_are_not_kept_are_removed(
    tmp_path: Path, whole: tuple[str, dict[str, bytes]]
) -> None:
    run(tmp_path, keep=2)
    assert names(tmp_path, "snapshots") == [300, 450]
    assert names(tmp_path, "inputs") == [301, 451]
    (tmp_path / "snapshots" / f"{450:015d}.snapshot").unlink()
    exchange = open_exchange(tmp_path, RULES)
    assert begun_at(exchange) == 300
    assert (exchange.market.state_hash(), files(tmp_path)) == whole
    exchange.close()
    (tmp_path / "snapshots" / f"{300:015d}.snapshot").write_bytes(b"?")
    with pytest.raises(
        JournalError, match=r"since inputs before 301 no longer exist: .*300.snapshot: expected a snapshot"
    ):
        open_exchange(tmp_path, RULES)


def test_a_journal_that_ends_before_its_snapshot_is_refused(tmp_path: Path) -> None:
    run(tmp_path, 0, 450)
    (tmp_path / "inputs" / f"{451:015d}.inputs").unlink()
    (tmp_path / "inputs" / f"{301:015d}.inputs").unlink()
    with pytest.raises(JournalError, match=r"expected input 450 in .*, was a journal that ends at 300"):
        open_exchange(tmp_path, RULES)


def test_a_snapshot_with_any_byte_changed_is_no_snapshot(tmp_path: Path) -> None:
    run(tmp_path, 0, 150)
    path = tmp_path / "snapshots" / f"{150:015d}.snapshot"
    data = bytearray(path.read_bytes())
    directory = JournalSnapshots(path.parent)
    for place in [*range(40), *range(40, len(data), 23)]:
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        assert directory.read(150) is None
        data[place] ^= 1 << place % 8
    path.write_bytes(data)
    assert directory.read(150) is not None


def test_without_new_inputs_there_is_no_new_snapshot(tmp_path: Path) -> None:
    run(tmp_path, 0, 300)
    before = sorted(tmp_path.rglob("*"))
    exchange = open_exchange(tmp_path, RULES)
    exchange.snapshot()
    exchange.close()
    assert sorted(tmp_path.rglob("*")) == before


def test_the_segment_of_an_unwritten_snapshot_is_reused(tmp_path: Path, whole: tuple[str, dict[str, bytes]]) -> None:
    exchange = open_exchange(tmp_path, RULES)
    exchange.submit(INPUTS[:300])
    exchange.begin_snapshot()
    exchange.begin_snapshot()
    exchange.close()
    exchange = open_exchange(tmp_path, RULES)
    exchange.snapshot()
    exchange.submit(INPUTS[300:])
    exchange.close()
    assert (exchange.market.state_hash(), files(tmp_path)) == whole
    found = verify(tmp_path, make_outputs)
    assert (found.inputs, found.snapshots, found.problems) == (600, (300,), ())


def test_the_market_goes_on_while_a_snapshot_is_written(tmp_path: Path, whole: tuple[str, dict[str, bytes]]) -> None:
    exchange = open_exchange(tmp_path, RULES)
    exchange.submit(INPUTS[:300])
    write = exchange.begin_snapshot()
    exchange.submit(INPUTS[300:500])
    assert exchange.snapshot_inputs == 0
    write()
    assert exchange.snapshot_inputs == 300
    exchange.submit(INPUTS[500:])
    exchange.close()
    exchange = open_exchange(tmp_path, RULES)
    assert (begun_at(exchange), exchange.market.state_hash(), files(tmp_path)) == (300, *whole)
    exchange.close()


def test_a_full_disk_leaves_no_snapshot_and_the_market_running() -> None:
    disk, path = DescriptorDisk(), Path("/exchange")
    exchange = open_exchange(path, RULES, disk=disk)
    exchange.submit(INPUTS[:300])
    disk.failing = lambda operation, at: errno.ENOSPC if operation == "write" and at.suffix == ".snapshot" else 0
    with pytest.raises(JournalError, match=r"expected to write .*300.snapshot, was No space left on device"):
        exchange.snapshot()
    disk.failing = lambda operation, at: 0
    assert disk.names(path / "snapshots") == []
    exchange.submit(INPUTS[300:])
    exchange.snapshot()
    exchange.close()
    again = open_exchange(path, RULES, disk=disk)
    assert (begun_at(again), again.market.state_hash()) == (600, exchange.market.state_hash())
