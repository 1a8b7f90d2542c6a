"""Each strategy makes the trade that it should on crafted views."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from algo_engine.contents import ViewChange
from algo_engine.host import StrategyHost
from algo_engine.loader import load_strategies
from algo_engine.mirror import ViewMirror
from algo_engine.order import Order, OrderEvent, Side
from algo_engine.risk import RiskLimits
from tests.generators.order_lab import OrderLab
from tests.unit.algo_engine.views import snapshot

SECOND = 1_700_000_000


class Rig:
    """A strategy in its host, with a desk on the exchange of the lab."""

    def __init__(self, strategy: str, *parameters: str) -> None:
        self.lab = OrderLab(limits=RiskLimits())
        self.mirror = ViewMirror()
        self.clock: Any = Clock()
        self.host = StrategyHost(
            loaded=load_strategies([strategy], parameters)[0],
            mirror=self.mirror,
            quotes=self.lab.quotes,
            clock=self.clock,
            now_ns=lambda: int(self.clock.seconds() * 1e9),
            make_desk=self._desk,
        )
        self.lab.settle()

    def _desk(self, listener: Any) -> Any:
        def both(event: OrderEvent) -> None:
            self.lab.events.append(event)
            listener(event)

        self.lab.desk._listener = both
        return self.lab.desk

    def view(self, name: str, *rows: dict[str, Any]) -> ViewChange:
        change = self.mirror.apply(snapshot(name, *rows))
        assert change is not None
        if name == "best_quote":
            self.lab.quotes.apply(change)
        self.host.change(change)
        return change

    def quote(self, bid: int = 99, ask: int = 101, lots: int = 100, symbol: str = "ACME") -> None:
        row = {"symbol": symbol, "bid_price": bid, "bid_volume": lots, "ask_price": ask, "ask_volume": lots}
        self.view("best_quote", row)

    def book(self, bids: tuple[int, int], asks: tuple[int, int], symbol: str = "ACME") -> None:
        """Volume-weighted prices and volumes of both sides."""
        self.view(
            "vwap_book",
            *(
                {"symbol": symbol, "side": side, "price_volume": price * lots, "volume": lots}
                for side, (price, lots) in (("B", bids), ("S", asks))
            ),
        )

    def last(self, price: int, second: int = SECOND, symbol: str = "ACME") -> None:
        row = {"symbol": symbol, "second": second, "open": 1, "high": 1, "low": 1, "volume": 1, "trades": 1}
        self.view("trades_1s", {**row, "close": price})

    def orders(self) -> list[tuple[str, int, int]]:
        self.lab.settle()
        return [(str(o.side), o.left, o.price) for o in self.lab.exchange.resting.values()]

    def open(self, side: Side) -> Order:
        return next(order for order in self.host.open_orders() if order.side is side)

    def fill_all(self) -> None:
        for order in list(self.lab.exchange.resting.values()):
            self.lab.exchange.fill(order.order_id, order.left, order.price)
        self.lab.told()
        self.lab.settle()


def sobi(*parameters: str) -> Rig:
    rig = Rig("sobi", *parameters)
    rig.quote()
    rig.book((98, 100), (102, 100))
    rig.last(100)
    rig.host.start()
    return rig


def test_sobi_stays_away_from_a_balanced_book() -> None:
    rig = sobi()
    rig.book((98, 100), (103, 100))
    assert rig.orders() == []


def test_sobi_buys_at_the_ask_when_the_asks_stand_four_times_as_far() -> None:
    rig = sobi()
    rig.book((98, 700), (108, 300))
    assert rig.orders() == [("B", 25, 101)]


def test_sobi_sells_at_the_bid_when_the_bids_stand_four_times_as_far() -> None:
    rig = sobi("sobi.size_lots=ACME:7")
    rig.book((92, 300), (102, 700))
    assert rig.orders() == [("S", 7, 99)]


def test_sobi_compares_exactly() -> None:
    """One lot short of four times as far is not four times as far, at the prices and volumes of a coin."""
    rig = Rig("sobi")
    rig.quote(7_831_900, 7_832_000, 10**8, "BTCUSD")
    last, lots = 7_831_950, 3 * 10**8 + 1
    rig.last(last, symbol="BTCUSD")
    below = lots * 100_000
    row = {"symbol": "BTCUSD", "volume": lots}
    bids = {**row, "side": "B", "price_volume": last * lots - below}
    rig.view("vwap_book", bids, {**row, "side": "S", "price_volume": last * lots + 4 * below - 1})
    rig.host.start()
    rig.last(last, SECOND + 1, "BTCUSD")
    assert rig.orders() == []
    rig.view("vwap_book", bids, {**row, "side": "S", "price_volume": last * lots + 4 * below})
    assert [(side, lots) for side, lots, _ in rig.orders()] == [("B", 25 * 10**6)]


def test_sobi_cools_down_between_orders_and_ends_what_does_not_trade() -> None:
    rig = sobi()
    for _ in range(3):
        rig.book((98, 100), (108, 100))
    assert len(rig.orders()) == 1
    rig.clock.advance(2.1)
    assert rig.orders() == []
    rig.book((98, 100), (108, 100))
    assert len(rig.orders()) == 1


def test_sobi_stops_at_its_position_limit() -> None:
    rig = sobi("sobi.size_lots=10", "sobi.position_orders=3")
    for _ in range(6):
        rig.book((98, 100), (108, 100))
        rig.fill_all()
        rig.clock.advance(1)
    assert rig.host.position_lots("ACME") == 30
    rig.book((92, 100), (102, 100))
    assert rig.orders() == [("S", 10, 99)]


def test_sobi_trades_only_its_symbols() -> None:
    rig = sobi("sobi.symbols=OTHER")
    rig.book((98, 100), (108, 100))
    assert rig.orders() == []


def test_sobi_takes_the_latest_price() -> None:
    rig = sobi()
    rig.last(90, SECOND - 5)
    rig.book((98, 100), (103, 100))
    assert rig.orders() == []


def maker(*parameters: str) -> Rig:
    rig = Rig("market_maker", *parameters)
    rig.quote(98, 102)
    rig.host.start()
    return rig


def test_the_market_maker_quotes_both_sides_of_the_middle() -> None:
    assert maker().orders() == [("B", 50, 98), ("S", 50, 102)]
    assert maker("market_maker.half_spread_percent=50").orders() == [("B", 50, 99), ("S", 50, 101)]


def test_the_market_maker_never_crosses_a_spread_of_one_tick() -> None:
    rig = maker("market_maker.half_spread_percent=0")
    rig.quote(100, 101)
    rig.clock.advance(1)
    rig.lab.settle()
    rig.clock.advance(1)
    assert rig.orders() == [("B", 50, 100), ("S", 50, 101)]


def test_the_market_maker_replaces_its_quotes_when_the_touch_moves() -> None:
    rig = maker()
    rig.lab.settle()
    rig.clock.advance(1)
    rig.quote(103, 107)
    assert rig.orders() == []  # the old ones go first …
    rig.clock.advance(0.2)
    assert rig.orders() == [("B", 50, 103), ("S", 50, 107)]


def test_the_market_maker_leaves_its_quotes_when_the_touch_hardly_moves() -> None:
    rig = maker("market_maker.replace_ticks=3")
    rig.lab.settle()
    rig.clock.advance(1)
    before = list(rig.lab.exchange.resting)
    rig.quote(100, 104)
    assert rig.orders()
    assert list(rig.lab.exchange.resting) == before


def test_the_market_maker_sends_no_faster_than_its_interval() -> None:
    rig = maker()
    rig.lab.settle()
    sent = rig.lab.desk.blotter.last_client_id
    for step in range(20):
        rig.quote(103 + step, 107 + step)
        rig.lab.settle()
    assert rig.lab.desk.blotter.last_client_id == sent


def test_the_market_maker_leans_against_its_inventory() -> None:
    rig = maker("market_maker.position_orders=2", "market_maker.size_lots=10")
    rig.lab.settle()
    bid = rig.open(Side.BUY)
    rig.lab.exchange.fill(bid.order_id, 10, 98)
    rig.lab.told()
    rig.lab.settle()
    for _ in range(4):
        rig.clock.advance(0.2)
        rig.lab.settle()
    # Half the limit: both quotes two ticks lower, the ask no lower than above the bid.
    assert rig.orders() == [("B", 10, 96), ("S", 10, 100)]


def test_the_market_maker_does_not_buy_beyond_its_position_limit() -> None:
    rig = maker("market_maker.position_orders=1", "market_maker.size_lots=10", "market_maker.skew_percent=0")
    rig.lab.settle()
    rig.lab.exchange.fill(rig.open(Side.BUY).order_id, 10, 98)
    rig.lab.told()
    rig.lab.settle()
    rig.clock.advance(1)
    assert rig.orders() == [("S", 10, 102)]


def test_the_market_maker_takes_over_orders_of_an_earlier_run() -> None:
    rig = Rig("market_maker")
    rig.quote(98, 102)
    rig.lab.desk.submit(Side.BUY, "ACME", 50, 98)
    rig.lab.desk.submit(Side.BUY, "ACME", 50, 97)
    rig.lab.settle()
    rig.host.start()
    assert sorted(rig.orders()) == [("B", 50, 98), ("S", 50, 102)]


@pytest.mark.parametrize("name", ["sobi", "market_maker"])
def test_an_empty_side_stops_nothing_and_trades_nothing(name: str) -> None:
    rig = Rig(name)
    rig.view("vwap_book")
    rig.view("trades_1s")
    row = {"symbol": "ACME", "bid_price": 98, "bid_volume": 5, "ask_price": None, "ask_volume": None}
    rig.view("best_quote", row)
    rig.host.start()
    rig.book((98, 1), (99, 0))
    rig.last(98)
    rig.view("best_quote", row)
    assert rig.orders() == []
    assert not rig.host.failure
