"""The list of trades holds every fill once."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from algo_engine.desk.journal import JOURNAL, FileJournal
from algo_engine.desk.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.desk.records import Checkpoint
from algo_engine.desk.trade_recovery import open_spool
from algo_engine.desk.trades import TRADE_COLUMNS, FileSpool, read_trades, scan_spool, write_trades
from algo_engine.errors import JournalDamaged, LoginRefused


def fill(sequence: int, time_ns: int) -> OrderEvent:
    order = Order(3, "ACME", Side.BUY, 10, 100, OrderStatus.ACCEPTED, 77)
    return OrderEvent(EventKind.PARTIALLY_FILLED, order, time_ns, 2, 99, "maker", sequence, fee=5)


def test_fills_are_kept_once_across_restarts_and_tears(tmp_path: Path) -> None:
    path = tmp_path / "trades.spool"
    spool = FileSpool(path, "sobi", 9001)
    spool.add(fill(2, 10))
    spool.add(fill(5, 20))
    spool.close()
    with path.open("ab") as file:
        file.write(b"30,9,sobi,90")
    spool = FileSpool(path, "sobi", 9001)
    for sequence in (2, 5, 9):
        spool.add(fill(sequence, 30))
    spool.close()
    assert [line.split(",")[1] for line in path.read_text().splitlines()] == ["2", "5", "9"]


def test_spools_are_merged_by_time_under_a_header(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "none"]
    for path, times in zip(paths[:2], ([10, 30], [9, 200]), strict=True):
        spool = FileSpool(path, path.name, 9001)
        for sequence, time_ns in enumerate(times, 1):
            spool.add(fill(sequence, time_ns))
        spool.close()
    assert write_trades(tmp_path / "trades.csv", read_trades(paths)) == 4
    header, *lines = (tmp_path / "trades.csv").read_text().splitlines()
    assert header == ",".join(TRADE_COLUMNS)
    assert lines[0] == "9,1,b,9001,ACME,B,2,99,77,3,maker,5"
    assert [line.split(",")[2] for line in lines] == ["b", "a", "a", "b"]


def test_trades_are_read_while_the_spool_grows_by_whole_lines(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path / "a", "sobi", 9001)
    spool.add(fill(1, 10))
    with (tmp_path / "a").open("ab") as file:
        file.write(b"30,9,sobi,90")
    assert [trade.sequence for trade in read_trades([tmp_path / "a"])] == [1]
    spool.close()


def test_parquet_has_the_rows_of_the_csv_with_their_types(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path / "a", "sobi", 9001)
    for sequence in range(1, 4):
        spool.add(fill(sequence, 10 * sequence))
    spool.close()
    for name in ("t.csv", "t.parquet"):
        assert write_trades(tmp_path / name, read_trades([tmp_path / "a"])) == 3
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.schema.field("fee").type == "int64"
    header, *lines = (tmp_path / "t.csv").read_text().splitlines()
    assert header == ",".join(table.column_names)
    assert [",".join(map(str, row.values())) for row in table.to_pylist()] == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "t.csv", "t.parquet"]


def test_a_list_of_other_columns_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("10,1,sobi\n")
    with pytest.raises(JournalDamaged, match="was damage at byte 0"):
        FileSpool(tmp_path / "a", "sobi", 9001)
    assert (tmp_path / "a").read_text() == "10,1,sobi\n"


def spooled(path: Path, count: int) -> bytes:
    spool = FileSpool(path, "sobi", 9001)
    for sequence in range(1, count + 1):
        spool.add(fill(sequence, 10 * sequence))
    spool.close()
    return path.read_bytes()


def test_any_changed_byte_is_noticed_and_costs_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    whole = spooled(path, 6)
    for place in range(len(whole) - 1):  # without its end the last line is one that is being written
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(JournalDamaged, match=f"the trades that were written to {path}, was damage at byte"):
            list(read_trades([path]))
        # A checksum also stands for the line behind it; a line without its end is joined with the next one.
        good = [trade.sequence for _, trade in scan_spool(path) if trade is not None]
        assert len(good) >= 4
        assert set(good) < set(range(1, 7))


def test_lines_that_are_missing_or_moved_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    spooled(path, 4)
    one, two, three, four = path.read_bytes().splitlines(keepends=True)
    for lines in ([two, three, four], [one, three, four], [one, three, two, four], [one, two, two, three, four]):
        path.write_bytes(b"".join(lines))
        with pytest.raises(JournalDamaged):
            FileSpool(path, "sobi", 9001)
        assert path.read_bytes() == b"".join(lines)


def test_a_list_of_an_earlier_release_gets_checksums(tmp_path: Path) -> None:
    path, old = tmp_path / "a", tmp_path / "old"
    whole = spooled(path, 3)
    old.write_bytes(b"".join(line[: line.rindex(b",#")] + b"\n" for line in whole.splitlines()))
    assert [trade.sequence for trade in read_trades([old])] == [1, 2, 3]
    spool = FileSpool(old, "sobi", 9001)
    assert old.read_bytes() == whole
    spool.add(fill(4, 40))
    spool.close()
    assert old.read_bytes() == spooled(tmp_path / "b", 4)


def test_another_brokers_journal_is_refused_by_its_name(tmp_path: Path) -> None:
    """Its list of trades stays missing: one that is recreated here would name the wrong strategy."""
    folder = tmp_path / "sobi"
    journal = FileJournal(folder / JOURNAL)
    journal.compact(Checkpoint(9002))
    journal.close()
    words = f"journal of the strategy sobi with broker 9001 in {folder / JOURNAL}, was one of broker 9002"
    with pytest.raises(LoginRefused, match=words):
        open_spool(folder, "sobi", 9001)
    assert not (folder / "trades.spool").exists()
