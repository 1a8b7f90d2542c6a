"""The market that changes of views add up to is the one that its rows say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from deltabook.dashboard.bars import BAR_VIEWS, TapeTrade
from deltabook.dashboard.market import MOST_SYMBOLS, VIEWS, DisplayedLevel, DisplayedMarket
from deltabook.wire.results import Frame, FrameHeader
from queries import query_path
from runtime.compiler import MARKET_RELATIONS, compile_program, read_script
from tests.browser.peers import COLUMNS

Row = tuple[Any, ...]


def frame(kind: Any, view: str, rows: dict[Row, int]) -> Frame:
    schema = COLUMNS[view]
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return Frame(
        FrameHeader(kind, view),
        pa.table([*columns, pa.array(list(rows.values()), pa.int64())], [*schema.names, "weight"]),
    )


BOOKS = st.dictionaries(
    st.tuples(st.sampled_from(["A", "B"]), st.sampled_from("BS"), st.integers(1, 6)),
    st.tuples(st.integers(1, 9), st.integers(1, 3)),
)


@given(st.lists(st.tuples(st.booleans(), BOOKS), min_size=1, max_size=12), st.integers(1, 8))
def test_ladders_are_the_best_levels_of_the_newest_version(
    versions: list[tuple[bool, dict[Row, tuple[int, int]]]], depth: int
) -> None:
    """Each version is told as a snapshot, or as the difference to the last one, in any order of its rows."""
    market = DisplayedMarket()
    before: dict[Row, int] = {}
    market.apply(frame("snapshot", "book_depth", {}))
    for is_snapshot, levels in versions:
        rows = {(*key, *value): 1 for key, value in levels.items()}
        change = Counter(rows)
        change.subtract(before)
        told = rows if is_snapshot else {row: weight for row, weight in change.items() if weight}
        market.changed.clear()
        market.apply(frame("snapshot" if is_snapshot else "changes", "book_depth", told))
        assert market.changed >= {row[0] for row, weight in change.items() if weight}, "whoever shows it draws it anew"
        for symbol in "AB":
            for side in "BS":
                own = [DisplayedLevel(r[2], r[3], r[4]) for r in rows if (r[0], r[1]) == (symbol, side)]
                own.sort(key=lambda level: level.price_ticks, reverse=side == "B")
                assert list(market.levels(symbol, side, depth)) == own[:depth]
        before = rows


def test_a_tape_is_newest_first_and_loses_what_the_view_loses() -> None:
    market = DisplayedMarket()
    rows: dict[Row, int] = {("A", n, 100 * n, 10 + n, n): 1 for n in (3, 1, 2)}
    market.apply(frame("snapshot", "tape", rows))
    assert [trade.number for trade in market.trades("A", 2)] == [3, 2]
    market.apply(frame("changes", "tape", {("A", 3, 300, 13, 3): -1, ("A", 4, 400, 9, 1): 1}))
    assert list(market.trades("A", 9)) == [TapeTrade(4, 400, 9, 1), TapeTrade(2, 200, 12, 2), TapeTrade(1, 100, 11, 1)]
    assert market.last("A") == TapeTrade(4, 400, 9, 1)
    assert market.last("B") is None


def test_changes_before_a_snapshot_are_of_nothing_that_is_known() -> None:
    market = DisplayedMarket()
    market.apply(frame("changes", "tape", {("A", 1, 1, 1, 1): 1}))
    assert (market.symbols, market.known) == ([], set())


def test_a_view_that_the_runtime_drops_is_unknown_and_not_empty() -> None:
    market = DisplayedMarket()
    market.apply(frame("snapshot", "best_quote", {("A", 1, 2, None, None): 1}))
    assert market.known == {"best_quote"}
    market.changed.clear()
    market.forget("best_quote")
    assert (market.known, market.quotes, market.changed) == (set(), {}, {"A"})
    assert market.symbols == ["A"], "what was seen stays in the list"


def test_wide_sums_come_as_decimals_and_are_whole_numbers() -> None:
    market = DisplayedMarket()
    table = pa.table(
        {
            "symbol": ["A"],
            "price_volume": pa.array([10**25], pa.decimal128(38, 0)),
            "volume": pa.array([3], pa.decimal128(38, 0)),
            "trades": [1],
            "weight": [1],
        }
    )
    market.apply(Frame(FrameHeader("snapshot", "vwap_trades"), table))
    average = market.trade_averages["A"]
    assert (average.price_volume, type(average.volume)) == (10**25, int)


def test_symbols_are_bounded() -> None:
    market = DisplayedMarket()
    market.apply(frame("snapshot", "best_quote", {(f"S{n}", 1, 1, 2, 1): 1 for n in range(MOST_SYMBOLS + 3)}))
    assert len(market.symbols) == len(market.quotes) == MOST_SYMBOLS


@pytest.mark.parametrize("view", sorted(set(VIEWS) - set(BAR_VIEWS)))
def test_the_shipped_queries_have_the_columns_that_are_read(view: str) -> None:
    program = compile_program([read_script(query_path(view)).selects[0]], MARKET_RELATIONS)
    assert set(VIEWS[view]) <= {column.name for column in program.views[0].columns}


@pytest.mark.parametrize("stream", sorted(BAR_VIEWS))
def test_the_shipped_bars_have_the_columns_that_are_read(stream: str) -> None:
    """Candles of the chart are rows of these streams."""
    derived = read_script(query_path(stream)).derived[0]
    select = sqlglot.parse_one(derived.select.sql, dialect="duckdb", into=sqlglot.exp.Select)
    assert set(VIEWS[stream]) <= set(select.named_selects)
