"""Syncs and snapshots, when they are due."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from exchange_server.errors import JournalError
from exchange_server.upkeep import JournalUpkeep
from tests.generators.text_floor import Floor


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(tmp_path)
    yield floor
    floor.close()


class Thread:
    """Stands for a thread: what is given to it runs when the test says so, or at once."""

    def __init__(self, *, is_held: bool = False) -> None:
        self.is_held = is_held
        self._waiting: list[tuple[Callable[[], None], Deferred[None]]] = []

    def __call__(self, function: Callable[[], None]) -> Deferred[None]:
        if not self.is_held:
            return maybeDeferred(function)
        done: Deferred[None] = Deferred()
        self._waiting.append((function, done))
        return done

    def run(self) -> None:
        (function, done), *self._waiting = self._waiting
        function()
        done.callback(None)


def begun(floor: Floor, thread: Thread | None = None, **settings: Any) -> JournalUpkeep:
    found = {"sync_interval_s": None, "snapshot_inputs": 0, "snapshot_interval_s": 0.0, **settings}
    upkeep = JournalUpkeep(floor.exchange, floor.clock, floor.failures.append, thread or Thread(), **found)
    upkeep.start()
    return upkeep


def test_a_journal_with_changes_is_synced_at_its_interval(floor: Floor) -> None:
    begun(floor, sync_interval_s=0.5)
    floor.clock.pump([0.5] * 4)
    before = floor.syncs
    floor.quote()
    floor.clock.pump([0.5])
    assert floor.syncs == before + 1
    floor.clock.pump([0.5] * 4)
    assert floor.syncs == before + 1


def test_a_slow_sync_is_waited_for(floor: Floor) -> None:
    thread = Thread(is_held=True)
    begun(floor, thread, sync_interval_s=0.5)
    floor.quote()
    floor.clock.pump([0.5] * 10)
    thread.run()
    assert not thread._waiting
    floor.clock.pump([0.5])
    assert len(thread._waiting) == 1


def test_a_sync_that_fails_ends_the_exchange(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync() -> None:
        raise JournalError("expected to sync, was a dead disk")

    monkeypatch.setattr(floor.exchange.journal, "sync", sync)
    begun(floor, sync_interval_s=0.5)
    floor.clock.pump([0.5] * 3)
    assert floor.failures == ["expected to sync, was a dead disk"]


def test_a_snapshot_is_taken_after_so_many_requests(floor: Floor) -> None:
    upkeep = begun(floor, snapshot_inputs=10)
    floor.quote(9)
    floor.clock.pump([1] * 3)
    assert (floor.exchange.snapshot_inputs, upkeep.snapshot_age_s) == (0, None)
    floor.quote(3)
    floor.clock.pump([1])
    assert floor.exchange.snapshot_inputs == 12
    floor.quote(9)
    floor.clock.pump([1] * 3)
    assert (floor.exchange.snapshot_inputs, upkeep.snapshots, upkeep.snapshot_age_s) == (12, 1, 3.0)


def test_a_snapshot_is_taken_at_its_interval_after_changes(floor: Floor) -> None:
    upkeep = begun(floor, snapshot_interval_s=5)
    floor.clock.pump([1] * 20)
    assert upkeep.snapshots == 0
    floor.quote(1)
    floor.clock.pump([1] * 2)
    assert floor.exchange.snapshot_inputs == 1


def test_a_market_is_held_up_for_a_small_part_of_the_time(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    upkeep = begun(floor, snapshot_inputs=1)
    begin = floor.exchange.begin_snapshot

    def begin_slowly() -> Callable[[], None]:
        floor.clock.rightNow += 0.2
        return begin()

    monkeypatch.setattr(floor.exchange, "begin_snapshot", begin_slowly)
    for _ in range(101):
        floor.quote(1)
        floor.clock.pump([1])
    assert 9 <= upkeep.snapshots <= 11


def test_the_market_goes_on_while_a_snapshot_is_written(floor: Floor) -> None:
    thread = Thread(is_held=True)
    upkeep = begun(floor, thread, snapshot_inputs=10)
    floor.quote(10)
    floor.clock.pump([1])
    floor.quote(50)
    floor.clock.pump([1] * 5)
    assert (upkeep.snapshots, len(thread._waiting)) == (0, 1)
    thread.run()
    assert (upkeep.snapshots, floor.exchange.snapshot_inputs) == (1, 10)


def test_a_failed_snapshot_ends_nothing_and_is_retried(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin() -> Callable[[], None]:
        def write() -> None:
            raise JournalError("expected to write, was a full disk")

        return write

    upkeep = begun(floor, snapshot_inputs=10)
    with monkeypatch.context() as patched:
        patched.setattr(floor.exchange, "begin_snapshot", begin)
        floor.quote(10)
        floor.clock.pump([1] * 3)
    floor.quote(10)
    floor.clock.pump([1])
    assert (floor.failures, upkeep.snapshots, floor.exchange.snapshot_inputs) == ([], 1, 20)


def test_a_failed_snapshot_does_not_lower_the_age(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin() -> Callable[[], None]:
        def write() -> None:
            raise JournalError("expected to write, was a full disk")

        return write

    upkeep = begun(floor, snapshot_inputs=10)
    floor.quote(10)
    floor.clock.pump([1])
    assert upkeep.snapshots == 1
    monkeypatch.setattr(floor.exchange, "begin_snapshot", begin)
    floor.quote(10)
    floor.clock.pump([1] * 4)
    assert (upkeep.snapshots, upkeep.snapshot_age_s) == (1, 4.0)


def test_the_last_snapshot_is_behind_the_last_request(floor: Floor) -> None:
    upkeep = begun(floor, snapshot_inputs=1000, sync_interval_s=1.0)
    floor.quote(3)
    upkeep.finish()
    assert (floor.exchange.snapshot_inputs, upkeep.snapshots) == (3, 1)
    upkeep.finish()
    floor.clock.pump([1] * 5)
    assert upkeep.snapshots == 1
