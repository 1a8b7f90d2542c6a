"""Depth, trades and bars in a backtest: where own orders stand, and at which price they trade."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algo_engine import Context, OrderEvent, Strategy, ViewChange
from algo_engine.loader import LoadedStrategy
from deltabook.backtest import Backtest, BacktestConfig, DataFile, Result
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.flow import detect_format
from exchange_server.replay import PriceLoader
from tests.generators.backtests import LIMITS

DEPTH = "symbol,local_timestamp,is_snapshot,side,price,amount\n"
TRADES = "symbol,local_timestamp,side,price,amount\n"
BARS = "open_time,open,high,low,close,volume\n"
LOT = 10**8


class Once(Strategy[Any]):
    """Buys once: a limit at the best bid, or at the market."""

    price_ticks: int | None = None
    lots = 2 * LOT

    def on_start(self, context: Context) -> None:
        self.sent_ns = 0

    def on_view_change(self, change: ViewChange) -> None:
        quote = self.context.quote("BTC")
        if not self.sent_ns and quote is not None and quote.is_two_sided:
            self.sent_ns = self.context.now_ns
            assert quote.bid_price_ticks is not None
            price = quote.bid_price_ticks if self.price_ticks is None else self.price_ticks
            self.context.buy("BTC", self.lots, price)

    def on_order_event(self, event: OrderEvent) -> None:
        del event


class AtMarket(Once):
    """Buys at the market."""

    price_ticks = 0


def run(strategy: type[Once], *files: DataFile, **settings: Any) -> Result:
    loaded = LoadedStrategy(strategy.__name__, strategy(None), LIMITS)
    return Backtest(BacktestConfig((strategy.__name__,), files, **settings), strategies=[loaded]).run()


@pytest.mark.parametrize(("queue", "filled"), [("back", 0), ("front", 2), ("prorata", 1)])
def test_a_queue_position_is_what_the_model_says(tmp_path: Path, queue: Any, filled: int) -> None:
    """5 lots wait ahead of ours and 5 come behind; 5 are cancelled, and 2 trades of 2 and 1 lots follow."""
    depth, trades = tmp_path / "d.csv", tmp_path / "t.csv"
    rows = ["1,true,bid,100,5", "1,true,ask,101,9", "2,false,bid,100,10", "3,false,bid,100,5", "6,false,bid,100,5"]
    depth.write_text(DEPTH + "".join(f"BTC,{row}\n" for row in rows))
    trades.write_text(TRADES + "BTC,4,sell,100,2\nBTC,5,sell,100,1.5\n")
    file = DataFile(depth, "depth", "BTC", tick="1", trades=trades, queue=queue)
    result = run(Once, file)
    assert sum(fill.volume_lots for fill in result.fills) // LOT == filled
    assert {fill.liquidity for fill in result.fills} <= {"maker"}


def test_trades_alone_fill_at_the_next_price(tmp_path: Path) -> None:
    """An order that reacts to a price trades at the one after it, a tick above; not at that which it saw."""
    path = tmp_path / "t.csv"
    path.write_text(TRADES + "".join(f"BTC,{n},buy,{100 + n},3\n" for n in range(1, 6)))
    assert detect_format(DataFile(path)) == "trades"
    result = run(AtMarket, DataFile(path, symbol="BTC", tick="1"))
    assert [(fill.price_ticks, fill.volume_lots // LOT) for fill in result.fills] == [(103, 2)]
    assert result.fills[0].time_ns // 1000 == 2 + 1, "a microsecond behind the second price"
    assert result.figures.market_trades == 6


def test_bars_alone_fill_at_the_next_of_four_prices(tmp_path: Path) -> None:
    """The order that reacts to an open trades at the extreme that comes next; only a quarter of the volume is there."""
    path = tmp_path / "b.csv"
    path.write_text(BARS + "60,100,110,95,105,4\n120,106,120,104,118,400\n")
    assert detect_format(DataFile(path)) == "bars"
    result = run(AtMarket, DataFile(path, symbol="BTC", tick="1"))
    assert [(fill.price_ticks, fill.volume_lots // LOT) for fill in result.fills] == [(96, 1)]
    assert result.order_lives[0].status == "cancelled"


def test_an_order_behind_the_last_price_never_trades(tmp_path: Path) -> None:
    """There is no next price: the order stays open, and the run ends."""
    path = tmp_path / "t.csv"
    path.write_text(TRADES + "BTC,1,buy,100,3\n")
    result = run(AtMarket, DataFile(path, symbol="BTC", tick="1"))
    assert (result.fills, result.failure) == ([], "")


def test_two_instruments_wait_for_both(tmp_path: Path) -> None:
    """Prices of several files: an order waits until each has had another one."""
    for name, first in (("BTC", 1), ("ETH", 2)):
        lines = "".join(f"{name},{first + 10 * n},buy,{100 + n},3\n" for n in range(4))
        (tmp_path / f"{name}.csv").write_text(TRADES + lines)
    files = [DataFile(tmp_path / f"{name}.csv", symbol=name, tick="1") for name in ("BTC", "ETH")]
    result = run(AtMarket, *files)
    assert [(fill.price_ticks, fill.time_ns) for fill in result.fills] == [(102, 12_000)]


def test_an_order_may_be_slower_than_prices(tmp_path: Path) -> None:
    """A latency over many prices: the order trades at the first price that follows its arrival, 5 ms later."""
    path = tmp_path / "t.csv"
    path.write_text(TRADES + "".join(f"BTC,{1000 * n},buy,{100 + n},3\n" for n in range(1, 30)))
    result = run(AtMarket, DataFile(path, symbol="BTC", tick="1"), latency="fixed:order=5ms")
    assert [(fill.price_ticks, fill.time_ns) for fill in result.fills] == [(108, 7_001_000)]


def test_an_order_waits_for_the_first_price_of_the_next_day(tmp_path: Path) -> None:
    """Two files of one symbol: an order trades within the first day, and the last order of a day on the next one."""
    for day in (1, 2):
        lines = "".join(f"BTC,{day * 1000 + n},buy,{100 * day + n},3\n" for n in range(3))
        (tmp_path / f"{day}.csv").write_text(TRADES + lines)
    files = [DataFile(tmp_path / f"{day}.csv", symbol="BTC", tick="1") for day in (1, 2)]
    assert [(fill.price_ticks, fill.time_ns) for fill in run(AtMarket, *files).fills] == [(102, 1_002_000)]
    late = run(AtMarket, *files, latency="fixed:order=100us").fills
    assert [(fill.price_ticks, fill.time_ns) for fill in late] == [(201, 2_001_000)]


def test_an_ended_file_does_not_hold_up_the_others(tmp_path: Path) -> None:
    (tmp_path / "btc.csv").write_text(TRADES + "".join(f"BTC,{10 * n},buy,{100 + n},3\n" for n in range(1, 9)))
    (tmp_path / "eth.csv").write_text(TRADES + "ETH,5,buy,7,3\n")
    files = [DataFile(tmp_path / f"{name.lower()}.csv", symbol=name, tick="1") for name in ("BTC", "ETH")]
    assert [(fill.price_ticks, fill.time_ns) for fill in run(AtMarket, *files).fills] == [(103, 21_000)]


def test_a_bar_does_not_last_over_a_night(tmp_path: Path) -> None:
    """Bars of a minute and a gap of an hour: the close of the bar before the gap is at its own minute's end."""
    path = tmp_path / "b.csv"
    rows = [f"{time},100,110,95,105,4\n" for time in (60, 120, 3_720, 3_780)]
    path.write_text(BARS + "".join(rows))
    loader = PriceLoader(path, "BTC", is_bars=True, tick_size="1")
    times = sorted({record.time_ns for record in loader.records()})
    assert [round(time / 10**9) for time in times] == [
        60, 80, 100, 120, 120, 140, 160, 180, 3_720, 3_740, 3_760, 3_780, 3_780, 3_800, 3_820, 3_840,
    ]  # fmt: skip


def test_a_file_of_none_of_them_is_not_found_out(tmp_path: Path) -> None:
    """The message shows the first line."""
    path = tmp_path / "x.csv"
    path.write_text("symbol,price\n")
    with pytest.raises(ConfigurationError, match="expected a format to be named"):
        detect_format(DataFile(path))
