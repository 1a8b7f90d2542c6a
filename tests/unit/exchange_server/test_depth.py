"""Depth by level becomes orders whose levels are the recorded ones, with the queue that the model says."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from deltabook.wire.symbols import Instrument
from exchange_server.errors import ExchangeConfigurationError, ReplayFileError
from exchange_server.matching import Market, MarketRules, Now, Recorded
from exchange_server.replay import DepthLoader, PriceLoader, Record, _tables, open_recording
from tests.harness.examples import examples

DEPTH = "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount"
TRADES = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
UNIT = 10**8


def written(path: Path, *rows: str, header: str = DEPTH) -> Path:
    path.write_text("\n".join([header, *rows, ""]))
    return path


def level(time_us: int, side: str, price: float, amount: float, snapshot: str = "false") -> str:
    return f"x,BTC,{time_us - 5},{time_us},{snapshot},{side},{price},{amount}"


def trade(time_us: int, side: str, price: float, amount: float) -> str:
    return f"x,BTC,{time_us - 5},{time_us},1,{side},{price},{amount}"


class Played:
    """A market that plays records as orders."""

    def __init__(self) -> None:
        self.market = Market(MarketRules((Instrument("BTC"),), replay_symbols=("BTC",)), (), (), Now())
        self._time_ns = 0

    def play(self, r: Record) -> None:
        self._time_ns = max(self._time_ns + 1, r.time_ns)
        self.market.apply(
            Recorded(self._time_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, r.symbol, 0)
        )

    def levels(self) -> dict[tuple[str, int], int]:
        book = self.market.books["BTC"]
        return {(s, p): v for s in ("B", "S") for p, v, _ in book.levels(s)}


def random_depth(rng: Random, messages: int) -> tuple[list[str], list[str], list[dict[tuple[str, int], int]]]:
    """Depth rows, trade rows, and the levels after each depth message; amounts are whole."""
    true: dict[tuple[str, int], int] = {}
    rows, trades, expected = [], [], []
    mid = 100
    for n in range(messages):
        time_us = 1_000_000 + n * 100
        mid += rng.choice([-1, 0, 1])
        changes: dict[tuple[str, int], int] = {}
        is_snapshot = n == 0 or rng.random() < 0.1
        for _ in range(rng.randint(1, 4)):
            side = rng.choice("BS")
            price = mid - rng.randint(1, 4) if side == "B" else mid + rng.randint(1, 4)
            changes[side, price] = rng.randint(0, 9)
        after = {} if is_snapshot else {key: v for key, v in true.items() if (key[0] == "B") == (key[1] < mid)}
        for key in true.keys() - after.keys():
            if not is_snapshot:
                changes[key] = 0
        after.update(changes)
        true = {key: volume for key, volume in after.items() if volume}
        for (side, price), volume in changes.items():
            name = {"B": "bid", "S": "ask"}[side]
            rows.append(level(time_us, name, price, volume, str(is_snapshot).lower()))
        expected.append(true)
        if true and rng.random() < 0.5:
            (side, price), volume = rng.choice(sorted(true.items()))
            trades.append(trade(time_us + 50, "buy" if side == "S" else "sell", price, rng.randint(1, volume + 1)))
    return rows, trades, expected


@given(st.integers(0, 2**32), st.sampled_from(["back", "front", "prorata"]), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_the_market_has_the_recorded_levels(
    tmp_path_factory: pytest.TempPathFactory, seed: int, queue: Any, with_trades: bool
) -> None:
    """After every message, with trades in between that the next message of a level takes back or confirms."""
    folder = tmp_path_factory.mktemp("depth")
    rows, trades, expected = random_depth(Random(seed), 25)
    path = written(folder / "depth.csv", *rows)
    prints = written(folder / "trades.csv", *trades, header=TRADES) if with_trades else None
    played, loader = Played(), DepthLoader(path, "BTC", trades=prints, queue=queue)
    for record in loader.records():
        played.play(record)
        held = {
            (side, price): sum(level.values())
            for side, levels in loader._levels.items() for price, level in levels.items()
        }  # fmt: skip
    assert played.levels() == held
    if not with_trades:
        assert held == {(side, price * UNIT): volume * UNIT for (side, price), volume in expected[-1].items()}
        assert loader.stale_levels == 0
    bids = [price for side, price in held if side == "B"]
    asks = [price for side, price in held if side == "S"]
    assert not bids or not asks or max(bids) < min(asks)
    assert not set(played.market.replay_counts) - {"ignored_records"}
    assert loader.errors == 0


@pytest.mark.parametrize(
    ("queue", "orders"), [("back", [(1, 5)]), ("front", [(2, 4), (3, 1)]), ("prorata", [(1, 3), (2, 2)])]
)
def test_a_decrease_takes_the_orders_that_the_model_says(tmp_path: Path, queue: Any, orders: list[Any]) -> None:
    """Three increases of 5, 4 and 1 lots, then 5 lots less."""
    amounts = [5, 9, 10, 5]
    rows = [level(n, "bid", 100, amount / UNIT) for n, amount in enumerate(amounts, 10)]
    loader = DepthLoader(written(tmp_path / "d.csv", *rows), "BTC", queue=queue)
    list(loader.records())
    assert list(loader._levels["B"][100 * UNIT].items()) == orders


def test_levels_have_a_bounded_number_of_orders(tmp_path: Path) -> None:
    """Level by level increases beyond the bound join the last order, and no lot is lost."""
    rows = [level(n, "bid", 100, n / UNIT) for n in range(1, 500)]
    loader = DepthLoader(written(tmp_path / "d.csv", *rows), "BTC")
    played = Played()
    for record in loader.records():
        played.play(record)
    assert played.levels() == {("B", 100 * UNIT): 499}
    assert len(loader._levels["B"][100 * UNIT]) == 64


def test_levels_that_are_crossed_are_stale(tmp_path: Path) -> None:
    """A level that was never taken back ends when another side reaches it."""
    rows = [level(1, "ask", 101, 1), level(2, "bid", 102, 2), level(2, "ask", 103, 1)]
    loader = DepthLoader(written(tmp_path / "d.csv", *rows), "BTC")
    assert [(r.action, r.price_ticks // UNIT) for r in loader.records()] == [
        ("S", 101),
        ("D", 0),
        ("B", 102),
        ("S", 103),
    ]
    assert loader.stale_levels == 1


def test_a_trade_executes_at_the_front_before_its_depth(tmp_path: Path) -> None:
    """Of equal times the trade is first; what it leaves over at its price is traded too; then the level is as said."""
    depth = written(tmp_path / "d.csv", level(1, "bid", 100, 3), level(1, "ask", 101, 3), level(9, "bid", 100, 1))
    prints = written(tmp_path / "t.csv", trade(9, "sell", 100, 2), trade(20, "sell", 100, 4), header=TRADES)
    records = list(DepthLoader(depth, "BTC", trades=prints).records())
    assert [(r.action, r.volume // UNIT) for r in records] == [
        ("B", 3),
        ("S", 3),
        ("E", 2),
        ("E", 1),
        ("B", 3),
        ("E", 3),
    ]


def test_binance_and_parquet_are_read_alike(tmp_path: Path) -> None:
    """Milliseconds and microseconds, names of sides, types of Parquet, compression: the same records."""
    tardis = written(tmp_path / "d.csv", level(1_700_000_000_000_000, "bid", 100.5, 3, "true"),
                     level(1_700_000_000_001_000, "ask", 101, 0.1))  # fmt: skip
    header = "symbol,timestamp,first_update_id,last_update_id,side,update_type,price,qty,pu"
    binance = written(tmp_path / "b.csv", "BTC,1700000000000,1,1,b,snap,100.5,3,1",
                      "BTC,1700000000001,1,1,a,set,101,.1,1", header=header)  # fmt: skip
    expected = list(DepthLoader(tardis, "BTC").records())
    assert [(r.time_ns, r.action, r.volume, r.price_ticks) for r in expected] == [
        (1_700_000_000_000_000_000, "B", 3 * UNIT, 10_050_000_000),
        (1_700_000_000_001_000_000, "S", UNIT // 10, 101 * UNIT),
    ]  # fmt: skip
    assert list(DepthLoader(binance, "BTC").records()) == expected
    table = pa.table(
        {
            "local_timestamp": pa.array([1_700_000_000_000_000, 1_700_000_000_001_000], pa.timestamp("us", "UTC")),
            "is_snapshot": [True, False], "side": pa.array(["bid", "ask"]).dictionary_encode(), "price": [100.5, 101.0],
            "amount": [3.0, 0.1], "symbol": ["BTC", "BTC"],
        }
    )  # fmt: skip
    parquet.write_table(table, tmp_path / "d.parquet")
    assert list(DepthLoader(tmp_path / "d.parquet", "BTC").records()) == expected
    short = table.set_column(table.schema.get_field_index("amount"), "amount", pa.array([3.0, 0.1], pa.float32()))
    parquet.write_table(short, tmp_path / "short.parquet")
    assert list(DepthLoader(tmp_path / "short.parquet", "BTC").records()) == expected
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(tardis.read_bytes()))
    assert list(DepthLoader(tmp_path / "d.csv.gz", "BTC").records()) == expected


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    """Of another instrument, side, kind, price or time; the rest is read."""
    rows = [level(5, "bid", 100, 1), level(5, "up", 100, 1), level(5, "bid", 0, 1), level(5, "bid", 100, 1, "maybe"),
            "x,ETH,1,5,false,bid,1,1", "x,BTC,1,,false,bid,1,1", "x,BTC,1,-5,false,bid,1,1", "x,BTC,1,5,false,bid,1,",
            level(6, "ask", 101, 1)]  # fmt: skip
    loader = DepthLoader(written(tmp_path / "d.csv", *rows), "BTC")
    assert [r.action for r in loader.records()] == ["B", "S"]
    assert loader.errors == 7


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    """With the columns that were expected, and those that there are."""
    other = written(tmp_path / "o.csv", "1,2", header="a,b")
    depth = written(tmp_path / "d.csv", level(5, "bid", 100, 1))
    with pytest.raises(
        ReplayFileError, match=r"^expected depth with the columns local_timestamp.*was a,b, at .*o\.csv$"
    ):
        list(DepthLoader(other, "BTC").records())
    with pytest.raises(ReplayFileError, match=r"^expected trades with the columns local_timestamp.*was a,b"):
        list(DepthLoader(depth, "BTC", trades=other).records())
    with pytest.raises(ReplayFileError, match=r"^expected bars with the columns"):
        list(PriceLoader(other, "BTC", is_bars=True).records())
    with pytest.raises(ReplayFileError, match="No such file"):
        list(DepthLoader(tmp_path / "nothing", "BTC").records())
    with pytest.raises(ExchangeConfigurationError, match="expected a queue model back, front or prorata, was 'middle'"):
        open_recording("depth", depth, ["BTC"], queue="middle")  # type: ignore[arg-type]
    with pytest.raises(ExchangeConfigurationError, match="expected trades beside depth only"):
        open_recording("dbtoaster", depth, ["BTC"], trades=depth)
    with pytest.raises(ExchangeConfigurationError, match="expected a tick of whole"):
        open_recording("bars", depth, ["BTC"], tick="0.000000001")


def test_a_bar_is_four_prices_within_it(tmp_path: Path) -> None:
    """Open, the nearer extreme, the other one, close; a bar that cannot be is bad."""
    rows = ["60,10,14,9,11,400", "120,11,10,9,11,4", "120,12,12,8,9,8", "120,1,1,1,1,4"]
    loader = PriceLoader(
        written(tmp_path / "b.csv", *rows, header="open_time,open,high,low,close,volume"),
        "X",
        is_bars=True,
        tick_size="0.5",
    )
    records = list(loader.records())
    prices = [(r.time_ns / 10**9, r.price_ticks / UNIT, r.volume / UNIT) for r in records if r.action == "S"]
    quotes = [each for each in prices if each[1] % 1 == 0.5]
    assert [round(time) for time, _, _ in quotes] == [60, 80, 100, 120, 120, 140, 160, 180]
    assert [price - 0.5 for _, price, _ in quotes] == [10, 9, 14, 11, 12, 12, 8, 9]
    assert {volume for _, _, volume in quotes} == {100, 2}
    assert loader.errors == 2
    assert [r.position for r in records] == list(range(1, len(records) + 1))


@pytest.mark.parametrize("block_bytes", [8, 13, 64, 4096])
def test_rows_and_bad_lines_keep_their_numbers_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(_tables, "_BLOCK_BYTES", block_bytes)
    lines = ["1,2", "3", "4", "5,6,7", "", "8,\xe9", "9,10"]
    path = tmp_path / "rows.csv"
    path.write_bytes("\n".join(["a,b", *lines]).encode("latin-1"))
    bad: list[int] = []
    rows = dict(_tables.table_rows(path, ["a", "b"], lambda number, _: bad.append(number)))
    assert rows == {2: ("1", "2"), 6: (None, None), 7: ("8", "\ufffd"), 8: ("9", "10")}
    assert bad == [3, 4, 5]


def test_a_header_without_a_line_end_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b")
    assert list(_tables.table_rows(path, ["a"], lambda *_: None)) == []


def test_a_line_longer_than_a_block_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tables, "_BLOCK_BYTES", 8)
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "1" * 40 + ",2\n")
    with pytest.raises(ReplayFileError, match="expected lines of at most 8 bytes"):
        list(_tables.table_rows(path, ["a"], lambda *_: None))
