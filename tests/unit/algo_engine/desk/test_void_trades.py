"""A trade that the exchange declares void is taken out of position, money and the list of trades, once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from algo_engine.desk.fees import parse_fees
from algo_engine.desk.order import EventKind, OrderStatus, Side
from algo_engine.desk.portfolio import Holding
from algo_engine.desk.records import Received, VoidTrade, decode_record, encode_record
from algo_engine.desk.trades import FileSpool, Trade, read_trades
from algo_engine.desk.void_trades import TradeHistory
from tests.generators.order_lab import BROKER, OrderLab
from tests.unit.algo_engine.desk.test_desk_crashes import check_money
from tests.unit.algo_engine.status.test_http import Port

FEES = parse_fees("maker=10000")


def traded(lab: OrderLab, side: Side, volume: int, price: int) -> None:
    """One order that is executed at once, in one trade."""
    lab.desk.submit(side, "ACME", volume, price)
    lab.settle()
    lab.exchange.fill(max(lab.exchange.resting), volume, price)
    lab.told()
    lab.settle()


def declare_void(lab: OrderLab, match: int) -> None:
    lab.exchange.declare_void(match)
    lab.told()
    lab.settle()


@pytest.fixture
def lab() -> OrderLab:
    """10 lots bought at 100 and sold at 110, with a fee of 1 %."""
    lab = OrderLab(fees=FEES)
    lab.settle()
    traded(lab, Side.BUY, 10, 100)
    traded(lab, Side.SELL, 10, 110)
    assert lab.desk.portfolio.holding("ACME") == Holding(0, 0, 100, 21)
    return lab


def test_a_void_trade_is_as_if_it_had_never_been(lab: OrderLab) -> None:
    """Also of the profit of closed parts nothing stays, which a trade the other way would leave there."""
    declare_void(lab, 1)
    assert lab.desk.portfolio.holding("ACME") == Holding(10, 1000, 0, 10)
    declare_void(lab, 0)
    assert lab.desk.portfolio.holding("ACME") == Holding()
    lab.check_settled()


def test_the_strategy_gets_an_event_and_the_order_stays(lab: OrderLab) -> None:
    declare_void(lab, 1)
    event = lab.events[-1]
    assert (event.kind, event.volume_lots, event.price_ticks, event.reason, event.fee) == (
        EventKind.TRADE_VOID, 10, 110, "1", 11,
    )  # fmt: skip
    assert (event.order.client_id, event.order.side, event.order.status) == (2, Side.SELL, OrderStatus.FILLED)
    assert (event.is_fill, event.changes_position) == (False, True)


def test_a_trade_of_an_open_order_leaves_the_order_as_it_is(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 99)
    lab.settle()
    lab.exchange.fill(max(lab.exchange.resting), 4, 99)
    lab.desk.replace(client_id, 3, 98)
    lab.settle()
    declare_void(lab, 2)
    order = lab.desk.blotter.order(client_id)
    assert order is not None
    assert (order.filled_lots, order.remaining_lots, lab.events[-1].order) == (4, 3, order)
    assert lab.desk.portfolio.holding("ACME") == Holding(0, 0, 100, 21)
    assert [row.order_id for row in lab.spool.rows()][-2:] == [3, 3], "of the list: the number before the replacement"
    lab.check_settled()


def test_a_trade_that_is_declared_void_again_is_taken_out_once(lab: OrderLab) -> None:
    """Another trade of the same order with the same lots and price stays."""
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    for _ in range(2):
        lab.exchange.fill(max(lab.exchange.resting), 5, 100)
    lab.told()
    lab.settle()
    for match in (2, 2, 2):
        declare_void(lab, match)
    lab.journal.write()
    lab.kill()
    lab.settle()
    declare_void(lab, 2)
    assert (lab.desk.portfolio.holding("ACME").position_lots, lab.events) == (5, [])
    lab.check_settled()


@pytest.mark.parametrize("compact_bytes", [64, 1 << 30])
def test_a_restart_gives_the_same(compact_bytes: int) -> None:
    lab = OrderLab(fees=FEES, compact_bytes=compact_bytes)
    lab.settle()
    for side, volume, price in ((Side.BUY, 3, 100), (Side.BUY, 4, 95), (Side.SELL, 5, 103), (Side.SELL, 6, 99)):
        traded(lab, side, volume, price)
    declare_void(lab, 1)
    before = lab.desk.portfolio.holdings
    lab.journal.write()
    lab.kill()
    assert lab.desk.portfolio.holdings == before
    lab.settle()
    declare_void(lab, 0)
    assert lab.desk.portfolio.holding("ACME") == (Holding().after(Side.SELL, 5, 103, 6).after(Side.SELL, 6, 99, 6))
    lab.check_settled()


def test_a_message_that_was_not_recorded_comes_again(lab: OrderLab) -> None:
    lab.journal.write()
    lab.exchange.declare_void(1)
    lab.told()
    lab.kill()
    assert lab.desk.portfolio.holding("ACME").position_lots == 0
    lab.settle()
    assert lab.desk.portfolio.holding("ACME") == Holding(10, 1000, 0, 10)
    assert lab.events[-1].kind is EventKind.TRADE_VOID
    lab.check_settled()


def test_a_message_that_only_the_list_of_trades_has_comes_again(lab: OrderLab) -> None:
    """The row is written before the record: a crash in between leaves the row alone."""
    declare_void(lab, 1)
    lab.journal.write()
    assert isinstance(lab.survivors[-1], Received)
    lab._restart(lab.survivors[:-1], 0)
    assert lab.desk.portfolio.holding("ACME").position_lots == 0
    lab.settle()
    assert lab.desk.portfolio.holding("ACME") == Holding(10, 1000, 0, 10)
    lab.check_settled()


def test_a_trade_that_is_not_in_the_list_stays_in_the_position(lab: OrderLab) -> None:
    lab.exchange._tell(BROKER, 77, "B", 10, 100, "ACME", 1, "9")
    lab.told()
    count = len(lab.events)
    lab.settle()
    assert (lab.desk.blotter.unmatched, lab.desk.blotter.void_trades, len(lab.events)) == (1, 0, count)
    assert lab.desk.portfolio.holding("ACME") == Holding(0, 0, 100, 21)


def test_an_order_that_ended_long_ago_is_known_by_its_trade(lab: OrderLab) -> None:
    lab.desk.blotter._ended.clear()
    declare_void(lab, 1)
    order = lab.events[-1].order
    assert (order.client_id, order.order_id, order.side, order.filled_lots) == (2, 2, Side.SELL, 10)


@pytest.mark.parametrize("seed", range(20))
def test_any_trades_can_be_void_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    lab = OrderLab(compact_bytes=chance.choice([64 * 5, 1 << 30]), is_behind=chance.random() < 0.5)
    lab.settle()
    for _ in range(40):
        what = chance.random()
        if what < 0.6 or not lab.exchange.executed:
            traded(lab, chance.choice(list(Side)), chance.randint(1, 9), chance.randint(90, 110))
        elif what < 0.9:
            declare_void(lab, chance.randrange(len(lab.exchange.executed)))
        else:
            (lab.kill if what < 0.95 else lab.crash)()
            lab.settle()
        lab.check_settled()
        check_money(lab)


def test_the_list_of_trades_takes_the_trade_back(tmp_path: Path) -> None:
    """Sums over the rows are right without a look at what they are."""
    lab = OrderLab(fees=FEES)
    lab.desk._state._spool = FileSpool(tmp_path / "spool", "mine", BROKER)
    lab.settle()
    traded(lab, Side.BUY, 10, 100)
    traded(lab, Side.SELL, 4, 110)
    declare_void(lab, 1)
    lab.desk.close()
    rows = list(read_trades([tmp_path / "spool"]))
    assert [(row.side, row.volume_lots, row.price_ticks, row.liquidity, row.fee) for row in rows] == [
        ("B", 10, 100, "maker", 10), ("S", 4, 110, "maker", 5), ("S", -4, 110, "void", -5),
    ]  # fmt: skip
    assert rows[2].client_id == rows[1].client_id
    FileSpool(tmp_path / "spool", "mine", BROKER).close()


def test_a_history_of_few_trades_adds_the_older_ones_up() -> None:
    rows = [Trade(0, n, "s", 1, "ACME", "B", n, 100, n, n, "maker", 1) for n in range(1, 6)]
    history = TradeHistory(rows, most=2)
    assert history.holding("ACME") == Holding(15, 1500, 0, 5)
    assert history.find(3, 3, 100) is None
    assert history.find(4, 4, 100) is rows[3]
    assert history.holding("ACME", without=rows[3]) == Holding(11, 1100, 0, 4)
    history.add(Trade(0, 6, "s", 1, "ACME", "B", -4, 100, 4, 4, "void", -1))
    assert history.holding("ACME") == Holding(11, 1100, 0, 4)


def test_a_record_of_an_earlier_release_is_read() -> None:
    record = Received(1, 5, 77, "B", 10, 100, "ACME", 8, "3", 0, VoidTrade(8, Side.BUY, 2, Holding(1, 2, 3, 4)))
    assert decode_record(encode_record(record)) == record
    assert decode_record(b"\x9a\xa1t\x01\x05\x4d\xa1B\x0a\x64\xa4ACME\x08\xa13") == Received(
        1, 5, 77, "B", 10, 100, "ACME", 8, "3"
    )


def test_status_and_limits_know_of_it() -> None:
    port = Port()
    port.traded()
    port.rig.lab.exchange.declare_void(0)
    port.rig.lab.told()
    port.rig.lab.settle()
    line = port.status().strategies[0]
    assert (line.fills, line.void_trades, line.profit, line.positions[0].position_lots) == (1, 1, 0, 0)
    assert [(fill.volume_lots, fill.liquidity) for fill in port.reports.fills(0).fills] == [
        (10, "maker"),
        (-10, "void"),
    ]
    assert b'deltabook_algo_void_trades_total{strategy="diary"} 1.0' in port.ask("/metrics")[1]
    assert port.rig.strategy.heard[-1] == "trade_void"
