"""The list of trades holds every fill once."""

from __future__ import annotations

from pathlib import Path

from algo_engine.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.trades import TRADE_COLUMNS, FileSpool, write_trades


def fill(sequence: int, time_ns: int) -> OrderEvent:
    order = Order(3, "ACME", Side.BUY, 10, 100, OrderStatus.ACCEPTED, 77)
    return OrderEvent(EventKind.PARTIALLY_FILLED, order, time_ns, 2, 99, "maker", sequence)


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
    assert write_trades(tmp_path / "trades.csv", paths) == 4
    header, *lines = (tmp_path / "trades.csv").read_text().splitlines()
    assert header == TRADE_COLUMNS
    assert lines[0] == "9,1,b,9001,ACME,B,2,99,77,3,maker"
    assert [line.split(",")[2] for line in lines] == ["b", "a", "a", "b"]
