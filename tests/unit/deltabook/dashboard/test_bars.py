"""Candles: those of the runtime's streams where there are any, those of the tape for the time behind them."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltabook.dashboard.bars import Bar, Bars, TapeTrade
from deltabook.dashboard.history import History
from deltabook.dashboard.market import DisplayedMarket
from deltabook.wire.results import Frame, FrameHeader
from tests.unit.deltabook.dashboard.test_market import frame

SECOND = 10**9


def candles(history: History, width: str = "bars_1s") -> list[Any]:
    charted = history.of("A")
    assert charted is not None
    changes = charted.sections()[width].changes_after(0)
    return sorted(msgspec.json.decode(changes)["rows"]) if changes else []


def rig() -> tuple[History, Bars, DisplayedMarket]:
    history = History()
    bars = Bars(history, lambda: 1)
    return history, bars, DisplayedMarket(bars)


TRADES = st.lists(st.tuples(st.integers(0, 40 * SECOND), st.integers(90, 110), st.integers(1, 9)), max_size=40)


@given(TRADES, st.integers(0, 40), st.integers(0, 40))
def test_candles_of_the_tape_are_those_of_its_trades(found: list[tuple[int, int, int]], cut: int, back: int) -> None:
    """However the trades are cut into frames, and if a snapshot repeats some of them."""
    trades = [TapeTrade(number, *each) for number, each in enumerate(sorted(found), 1)]
    history, bars, _ = rig()
    bars.enter_trades("A", trades[:cut], is_snapshot=True)
    bars.enter_trades("A", trades[max(0, cut - back) :], is_snapshot=True)
    expected: dict[int, list[int]] = {}
    for trade in trades:
        begin, price, volume = trade.time_ns // SECOND, trade.price_ticks, trade.volume_lots
        bar = expected.setdefault(begin, [begin, price, price, price, price, 0, 0])
        bar[2:] = [max(bar[2], price), min(bar[3], price), price, bar[5] + volume, bar[6] + 1]
    assert candles(history) == list(expected.values())
    assert sum(bar[6] for bar in candles(history, "bars_1m")) == len(trades)


def bars_frame(kind: Any, rows: list[tuple[Any, ...]], weight: int = 1) -> Frame:
    names = ("symbol", "t", "open", "high", "low", "close", "volume", "trades")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    return Frame(FrameHeader(kind, "bars_1s"), pa.table({**columns, "weight": [weight] * len(rows)}))


def test_a_bar_of_the_stream_replaces_the_local_bar() -> None:
    history, bars, market = rig()
    bars.enter_trades("A", [TapeTrade(1, 5 * SECOND, 100, 1), TapeTrade(2, 6 * SECOND, 101, 1)], is_snapshot=True)
    market.apply(bars_frame("snapshot", [("A", 5 * SECOND, 99, 103, 98, 100, 7, 4)]))
    assert candles(history) == [[5, 99, 103, 98, 100, 7, 4], [6, 101, 101, 101, 101, 1, 1]]
    market.apply(bars_frame("changes", [("A", 6 * SECOND, 100, 101, 100, 101, 9, 2)]))
    bars.enter_trades("A", [TapeTrade(3, 6 * SECOND + 1, 500, 1)], is_snapshot=False)
    assert candles(history)[1] == [6, 100, 101, 100, 101, 9, 2], "what the stream has said is complete"
    assert market.symbols == ["A"]


def test_bars_that_leave_their_stream_stay() -> None:
    history, _, market = rig()
    market.apply(bars_frame("snapshot", [("A", at * SECOND, 1, 1, 1, 1, 1, 1) for at in (1, 5_000, 5_001)]))
    assert [bar[0] for bar in candles(history)] == [5_000, 5_001], "a quarter of an hour is kept"
    market.apply(bars_frame("changes", [("A", 5_000 * SECOND, 1, 1, 1, 1, 1, 1)], weight=-1))
    assert [bar[0] for bar in candles(history)] == [5_000, 5_001]


def test_a_snapshot_of_an_earlier_time_begins_anew() -> None:
    """A recorded day that is played again; one that is a little behind is the same market."""
    history, bars, _ = rig()
    bars.enter_trades("A", [TapeTrade(9, 10_000 * SECOND, 100, 1)], is_snapshot=True)
    bars.enter_trades("A", [TapeTrade(8, 9_990 * SECOND, 100, 1)], is_snapshot=True)
    assert [bar[0] for bar in candles(history)] == [10_000]
    bars.enter_trades("A", [TapeTrade(1, 50 * SECOND, 90, 1)], is_snapshot=True)
    assert [bar[0] for bar in candles(history)] == [50]
    assert bars.time_ns == 50 * SECOND
    assert bars.first("A") == Bar(50, 90, 90, 90, 90, 0, 0)


def test_trades_of_the_tape_make_candles_in_order() -> None:
    history, _, market = rig()
    rows = {("A", number, 7 * SECOND + number, 100 + number, 1): 1 for number in (3, 1, 2)}
    market.apply(frame("snapshot", "tape", rows))
    assert candles(history) == [[7, 101, 103, 101, 103, 3, 3]]
