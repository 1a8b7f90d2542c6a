"""A disk that has no room: what is missing in the journal can be asked for again, and nothing stands behind a gap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from algo_engine.desk.journal import MemoryJournal
from algo_engine.desk.order import OrderEvent, Side
from algo_engine.desk.records import Checkpoint, Received, Record
from algo_engine.desk.trades import FileSpool, MemorySpool
from tests.generators.order_lab import OrderLab
from tests.unit.algo_engine.desk.test_trades import fill


class Room:
    """Whether there is any."""

    left = True


class SmallJournal(MemoryJournal):
    """Takes no message of the exchange while there is no room."""

    def append(self, record: Record) -> None:
        if isinstance(record, Received) and not Room.left:
            raise OSError("no space left")
        super().append(record)


class SmallFolder(MemoryJournal):
    """Cannot be compacted while there is no room."""

    def begin_compaction(self, state: Checkpoint) -> Callable[[], None]:
        replace = super().begin_compaction(state)

        def replace_if_room() -> None:
            if not Room.left:
                raise OSError("no space left")
            replace()

        return replace_if_room


class SmallSpool(MemorySpool):
    """Takes no fill while there is no room."""

    def add(self, event: OrderEvent) -> None:
        if not Room.left:
            raise OSError("no space left")
        super().add(event)


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Room, "left", True)


def traded_without_room(lab: OrderLab) -> None:
    """One order is filled in two parts; the first is heard while there is no room."""
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.exchange.fill(1, 4, 100)
    lab.told()
    Room.left = False
    lab.settle()
    Room.left = True
    lab.exchange.fill(1, 6, 100)
    lab.told()
    lab.settle()
    assert [str(failure) for failure in lab.failures] == ["no space left"]


def test_a_message_missing_in_the_journal_is_requested_again() -> None:
    lab = OrderLab(make_journal=SmallJournal)
    traded_without_room(lab)
    lab.journal.sync()
    lab.crash()
    lab.settle()
    lab.check_settled()


def test_a_fill_missing_in_the_trades_list_is_requested_again() -> None:
    lab = OrderLab()
    lab.desk._state._spool = lab.spool = SmallSpool()
    traded_without_room(lab)
    lab.journal.sync()
    lab.crash()
    lab.settle()
    lab.check_settled()


def test_without_room_orders_are_not_sent_and_cancellations_are() -> None:
    lab = OrderLab(make_journal=SmallJournal)
    lab.settle()
    for _ in range(2):
        lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.exchange.fill(1, 4, 100)
    lab.told()
    Room.left = False
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.desk.kill("the engine stops")
    lab.settle()
    assert not lab.exchange.resting
    assert len(lab.exchange.accepted) == 2


@pytest.mark.parametrize("is_behind", [False, True])
def test_after_a_failed_compaction_nothing_is_written(*, is_behind: bool) -> None:
    """Nobody knows which of the two journals the disk has."""
    lab = OrderLab(make_journal=SmallFolder, compact_bytes=64 * 3, is_behind=is_behind)
    lab.settle()
    Room.left = False
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    assert [str(failure) for failure in lab.failures] == ["no space left"]
    size_bytes = lab.journal.size_bytes
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    assert (lab.journal.size_bytes, len(lab.exchange.accepted)) == (size_bytes, 1)
    lab.crash()
    Room.left = True
    lab.settle()
    lab.check_settled()


def test_a_partial_line_is_an_error_and_gone_after_a_restart(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path / "s", "mine", 9001)
    spool.add(fill(1, 10))
    whole = spool._file

    class Full:
        def write(self, data: bytes) -> int:
            return whole.write(data[:5])

    spool._file = Full()  # type: ignore[assignment]
    with pytest.raises(OSError, match=r"expected \d+ bytes of a trade to be written, was 5"):
        spool.add(fill(2, 20))
    spool._file = whole
    spool.close()
    again = FileSpool(tmp_path / "s", "mine", 9001)
    again.add(fill(2, 20))
    again.close()
    assert (tmp_path / "s").read_bytes().count(b"\n") == 2
