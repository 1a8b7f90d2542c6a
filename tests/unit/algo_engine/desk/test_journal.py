"""The journal in a file survives tears, kills and compaction."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from algo_engine.desk.journal import FileJournal, read_journal
from algo_engine.desk.order import Order, OrderStatus, Side
from algo_engine.desk.portfolio import Holding
from algo_engine.desk.records import (
    Checkpoint,
    Intent,
    Noted,
    Opened,
    Received,
    Record,
    Reserved,
    VoidTrade,
    decode_record,
    encode_record,
)
from algo_engine.errors import JournalDamaged, JournalInUse

RECORDS: list[Record] = [
    Opened("S1"),
    Noted(7),
    Reserved(1032, 20_782),
    Intent(8, "B", 10, 100, "ACME"),
    Received(1, 5, 77, "A", 10, 100, "ACME", 8, "B"),
]
STATE = Checkpoint(
    9001,
    "S1",
    3,
    8,
    orders=[Order(8, "ACME", Side.BUY, 10, 100, OrderStatus.ACCEPTED, 77)],
    pending=[Intent(9, "D", 0, 0, "ACME", 77, 8)],
    holdings={"ACME": Holding(1, 100, -5)},
    reserved_client_id=1032,
    reserved_day=20_782,
    lost_from=9,
    lost_to=1032,
)


def written(path: Path) -> bytes:
    journal = FileJournal(path)
    assert journal.read() == []
    journal.compact(Checkpoint(9001))
    for record in RECORDS:
        journal.append(record)
    journal.close()
    return path.read_bytes()


def test_every_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert [decode_record(encode_record(record)) for record in [STATE, *RECORDS]] == [STATE, *RECORDS]
    written(tmp_path / "orders.log")
    journal = FileJournal(tmp_path / "orders.log")
    assert journal.read() == [Checkpoint(9001), *RECORDS]
    journal.close()


def test_money_beyond_64_bits_is_read_as_it_was_written(tmp_path: Path) -> None:
    """One coin at 10^13 ticks with 10^8 lots costs more; a failed write would end the connection for ever."""
    holding = Holding(-(10**8), -(10**21), -(10**30), 2**64)
    state = msgspec.structs.replace(STATE, holdings={"ACME": holding}, memories={"m": b"\xff\0"})
    fill = Received(4, 5, 77, "F", 10**8, 10**13, "ACME", 8, "taker", fee=2**64)
    void = msgspec.structs.replace(fill, sequence=5, action="B", void=VoidTrade(8, Side.BUY, -(2**70), holding))
    path = tmp_path / "orders.log"
    written(path)
    journal = FileJournal(path)
    journal.read()
    journal.compact(state)
    for record in (fill, void):
        journal.append(record)
    journal.close()
    assert read_journal(path)[0] == [state, fill, void]


def test_a_tail_torn_at_any_byte_is_cut_and_can_be_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    data = written(path)
    first = len(encode_record(Checkpoint(9001))) + 8
    for size in range(first, len(data)):
        path.write_bytes(data[:size] + b"\xff" * (size % 7))
        journal = FileJournal(path)
        kept = journal.read()
        assert kept == [Checkpoint(9001), *RECORDS][: len(kept)]
        journal.append(Noted(99))
        journal.close()
        again = FileJournal(path)
        assert again.read() == [*kept, Noted(99)]
        again.close()


def test_a_flipped_bit_ends_the_journal_before_it(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    data = bytearray(written(path))
    data[-3] ^= 1
    path.write_bytes(data)
    journal = FileJournal(path)
    assert journal.read() == [Checkpoint(9001), *RECORDS[:-1]]
    journal.close()


def test_a_file_without_a_first_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    path.write_bytes(b"something else entirely")
    with pytest.raises(JournalDamaged, match="expected a checkpoint"):
        FileJournal(path).read()


def test_compaction_leaves_one_record_that_is_the_state(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    written(path)
    journal = FileJournal(path)
    journal.read()
    journal.compact(STATE)
    journal.append(Noted(10))
    journal.close()
    again = FileJournal(path)
    assert again.read() == [STATE, Noted(10)]
    again.close()


def test_an_unfinished_compaction_leaves_the_old_journal(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    written(path)
    path.with_suffix(".new").write_bytes(b"half a check")
    journal = FileJournal(path)
    assert journal.read() == [Checkpoint(9001), *RECORDS]
    assert not path.with_suffix(".new").exists()
    journal.close()


def test_two_processes_cannot_hold_one_journal(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "orders.log")
    with pytest.raises(JournalInUse, match=r"in use by another algorithm engine \(process \d+ on "):
        FileJournal(tmp_path / "orders.log")
    journal.close()


def test_a_journal_that_fails_to_sync_is_still_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError("no space left")

    path = tmp_path / "orders.log"
    journal = FileJournal(path)
    journal.compact(STATE)
    journal.append(RECORDS[0])
    with monkeypatch.context() as full:
        full.setattr("algo_engine.desk.journal.os.fsync", refuse)
        with pytest.raises(OSError, match="no space left"):
            journal.close()
    FileJournal(path).close()


def started(path: Path) -> FileJournal:
    journal = FileJournal(path)
    journal.compact(Checkpoint(9001))
    return journal


def test_a_written_record_is_there_although_nothing_was_synced(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    journal = started(path)
    journal.append(RECORDS[0])
    assert read_journal(path)[0] == [Checkpoint(9001)]
    journal.write()
    assert read_journal(path)[0] == [Checkpoint(9001), RECORDS[0]]
    journal.append(RECORDS[1])
    journal.begin_sync()()
    assert read_journal(path)[0] == [Checkpoint(9001), *RECORDS[:2]]
    journal.close()


def test_a_background_sync_ends_after_compaction_and_close(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    journal = started(path)
    journal.append(RECORDS[0])
    first = journal.begin_sync()
    journal.compact(STATE)
    second = journal.begin_sync()
    journal.append(Noted(10))
    journal.close()
    first()
    second()
    assert read_journal(path)[0] == [STATE, Noted(10)]


def test_records_during_a_compaction_are_in_both_journals(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    journal = started(path)
    replace = journal.begin_compaction(STATE)
    journal.append(Noted(10))
    journal.write()
    assert read_journal(path)[0] == [Checkpoint(9001), Noted(10)]
    replace()
    assert read_journal(path)[0] == [STATE, Noted(10)]
    journal.append(Noted(11))
    journal.begin_sync()()
    assert read_journal(path)[0] == [STATE, Noted(10), Noted(11)]
    journal.end_compaction()
    journal.append(Noted(12))
    assert journal.size_bytes == len(path.read_bytes()) + len(encode_record(Noted(12))) + 8
    journal.close()
    assert read_journal(path)[0] == [STATE, Noted(10), Noted(11), Noted(12)]


def test_a_compaction_that_fails_late_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else records went to a file that has no name any more."""
    path = tmp_path / "orders.log"
    journal = started(path)
    replace = journal.begin_compaction(STATE)
    real = os.fsync

    def refuse_directories(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError("input/output error")
        real(descriptor)

    with monkeypatch.context() as failing:
        failing.setattr("algo_engine.desk.journal.os.fsync", refuse_directories)
        with pytest.raises(OSError, match="input/output error"):
            replace()
    journal.append(Noted(10))
    journal.write()
    assert read_journal(path)[0] == [STATE, Noted(10)]
    with pytest.raises(OSError, match="input/output error"):
        journal.sync()
    with pytest.raises(OSError, match="input/output error"):
        journal.close()


def test_a_closed_journal_is_not_replaced(tmp_path: Path) -> None:
    """Another process may hold the file by then."""
    path = tmp_path / "orders.log"
    journal = started(path)
    replace = journal.begin_compaction(STATE)
    journal.append(Noted(10))
    journal.close()
    again = FileJournal(path)
    assert again.read() == [Checkpoint(9001), Noted(10)]
    replace()
    journal.end_compaction()
    again.append(Noted(11))
    again.close()
    assert read_journal(path)[0] == [Checkpoint(9001), Noted(10), Noted(11)]


def test_after_a_sync_behind_that_failed_no_other_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says once that a write has failed: the next fsync would return as if all were well."""

    def refuse(_: int) -> None:
        raise OSError("input/output error")

    journal = started(tmp_path / "orders.log")
    journal.append(RECORDS[0])
    sync = journal.begin_sync()
    with monkeypatch.context() as failing:
        failing.setattr("algo_engine.desk.journal.os.fsync", refuse)
        with pytest.raises(OSError, match="input/output error"):
            sync()
    with pytest.raises(OSError, match="input/output error"):
        journal.sync()
    with pytest.raises(OSError, match="input/output error"):
        journal.close()
    FileJournal(tmp_path / "orders.log").close()
