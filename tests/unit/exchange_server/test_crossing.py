"""Crossed rows of a recording are those after which a market that follows it is crossed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire.symbols import Instrument
from exchange_server.matching import Market, MarketRules, Now, Recorded
from exchange_server.matching.inputs import REMAIN
from exchange_server.replay import CrossedRows, Record

ACTIONS = st.tuples(
    st.sampled_from(["B", "S", "B", "S", "E", "F", "D", "X", "T", "C", "U", REMAIN]),
    st.integers(1, 8), st.integers(0, 6), st.integers(0, 6), st.sampled_from("AB"), st.integers(9, 12),
)  # fmt: skip


def records_of(rows: list[tuple[str, int, int, int, str, int]]) -> list[Record]:
    return [
        Record(n, n, order_id + (100 if symbol == "A" else 0), 1, action, volume, price, symbol,
               new_id + (100 if symbol == "A" else 0) if action == "U" else 0)
        for n, (action, order_id, volume, price, symbol, new_id) in enumerate(rows, 1)
    ]  # fmt: skip


@given(st.lists(ACTIONS, max_size=60), st.sampled_from([0, 2]))
def test_rows_are_crossed_when_the_market_is(rows: list[tuple[str, int, int, int, str, int]], factor: int) -> None:
    """Row by row, for every action, with ids that are used again and prices that are outliers."""
    symbols = ("A", "B")
    rules = MarketRules(
        tuple(Instrument(symbol) for symbol in symbols), replay_symbols=symbols, replay_mode="as-recorded",
        first_order_id=10**17, outlier_factor=factor,
    )  # fmt: skip
    market, crossed = Market(rules, (), (), Now()), CrossedRows(outlier_factor=factor)
    expected = 0
    for r in records_of(rows):
        market.apply(
            Recorded(
                r.time_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, r.symbol, r.new_id
            )
        )
        crossed.observe(r)
        bid, ask = market.books[r.symbol].best("B"), market.books[r.symbol].best("S")
        expected += bid is not None and ask is not None and bid >= ask
        assert crossed.crossed == expected
    assert crossed.rows == len(rows)
    assert crossed.share == (expected / len(rows) if rows else 0.0)


def test_a_lost_order_is_left_out_after_a_second_of_crossing() -> None:
    """Orders that are shown before they trade cross for a moment, which is no fault."""
    second = 10**9
    crossed = CrossedRows(is_shown_first=True)
    for r in (
        Record(1, 0, 1, 1, "S", 5, 100, "A"),
        Record(2, 1, 2, 1, "B", 5, 101, "A"),
        Record(3, 2, 2, 1, REMAIN, 0, 0, "A"),
        Record(4, 3, 3, 1, "B", 5, 101, "A"),
        Record(5, second + 3, 9, 1, "T", 5, 100, "A"),
    ):
        crossed.observe(r)
        assert (crossed.crossed, crossed.stale_orders) == (0, 0)
    crossed.observe(Record(6, second + 4, 4, 1, "B", 1, 90, "A"))
    assert (crossed.crossed, crossed.stale_orders) == (1, 1)
    crossed.observe(Record(7, 2 * second + 9, 5, 1, "B", 1, 90, "A"))
    assert (crossed.crossed, crossed.stale_orders) == (1, 1)


def test_prices_that_come_and_go_below_the_best_take_no_memory() -> None:
    """A recording of a day opens and closes the same prices millions of times."""
    crossed = CrossedRows()
    crossed.observe(Record(1, 1, 1, 1, "B", 5, 100, "A"))
    crossed.observe(Record(2, 2, 2, 1, "S", 5, 110, "A"))
    for order_id in range(3, 5_003):
        crossed.observe(Record(order_id, order_id, order_id, 1, "B", 5, 90, "A"))
        crossed.observe(Record(order_id, order_id, order_id, 1, "D", 0, 0, "A"))
        crossed.observe(Record(order_id, order_id, order_id, 1, "S", 5, 120, "A"))
        crossed.observe(Record(order_id, order_id, order_id, 1, "D", 0, 0, "A"))
    book = crossed._books["A"]
    assert len(book._bid_heap) < 200
    assert len(book._ask_heap) < 200
