"""What derived queries accept, say of themselves and refuse, with the place and what to write instead."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from runtime.compiler.errors import SqlError
from runtime.compiler.limits import MOST_NESTED
from runtime.compiler.script import NamedSelect
from runtime.engine.operators import DerivedQuery, OperatorError, StreamInput

TRADES = StreamInput(
    pa.schema([("t", pa.int64()), ("symbol", pa.string()), ("price", pa.int64()), ("volume", pa.int32()),
               ("legs", pa.list_(pa.struct([("price", pa.int64()), ("venue", pa.string())]))),
               ("party", pa.struct([("name", pa.string()), ("id", pa.struct([("n", pa.int64())]))]))]), "t",
)  # fmt: skip
QUOTES = StreamInput(pa.schema([("t", pa.int64()), ("symbol", pa.string()), ("bid", pa.int64())]), "t")
BARS = StreamInput(pa.schema([("at", pa.timestamp("us")), ("day", pa.date32()), ("v", pa.int64())]), "at")
NAMES = StreamInput(pa.schema([("symbol", pa.string()), ("name", pa.string())]), is_table=True)
INPUTS = {"trades": TRADES, "quotes": QUOTES, "bars": BARS, "names": NAMES}


def query(sql: str) -> DerivedQuery:
    return DerivedQuery(NamedSelect("q", sql), INPUTS, None, "q")


REFUSED = {
    "SELECT symbol FROM trades": (1, 1, "expected the time of the rows in SELECT"),
    "SELECT t, symbol FROM trades ORDER BY t": (1, 39, "ORDER BY is not supported"),
    "SELECT symbol, COUNT(*) AS n FROM trades\nGROUP BY symbol": (2, 10, "expected one window in GROUP BY"),
    "SELECT COUNT(*) AS n FROM trades": (1, 8, "without one a group of a stream never ends"),
    "SELECT window_start AS t FROM trades GROUP BY TUMBLE(t, 1), TUMBLE(t, 2)": (1, 47, "expected one window"),
    "SELECT window_start AS t FROM trades GROUP BY TUMBLE(price, 1)": (1, 47, "expected an event time in a window"),
    "SELECT window_start AS t FROM trades GROUP BY TUMBLE(t, INTERVAL '1' MONTH)": (1, 47, "expected an interval such"),
    "SELECT window_start AS t FROM trades GROUP BY TUMBLE(t, 0)": (1, 47, "more than 0"),
    "SELECT window_start AS t FROM trades GROUP BY HOP(t, 2)": (1, 47, "expected HOP(time, slide, size)"),
    "SELECT window_start AS t FROM trades GROUP BY HOP(t, 3, 2)": (1, 47, "expected a slide of at most the size"),
    "SELECT window_start AS t, MEDIAN(price) AS m FROM trades GROUP BY TUMBLE(t, 9)": (1, 8, "expected SUM, COUNT"),
    "SELECT window_start AS t, price FROM trades GROUP BY TUMBLE(t, 9)": (1, 8, "expected a column that is grouped"),
    "SELECT t, (SELECT MAX(bid) FROM quotes WHERE quotes.symbol = trades.symbol) AS b FROM trades": (
        1, 23, "write JOIN, ASOF JOIN or SEMI JOIN"),
    "SELECT t FROM trades WHERE symbol IN (SELECT symbol FROM names)": (1, 46, "write JOIN, ASOF JOIN or SEMI JOIN"),
    "SELECT trades.t FROM trades JOIN quotes ON trades.symbol = quotes.symbol": (1, 34, "expected the times of both"),
    "SELECT trades.t FROM trades ASOF JOIN quotes ON trades.symbol = quotes.symbol": (1, 39, "left.time >= right.time"),
    "SELECT trades.t FROM trades FULL JOIN names USING (symbol)": (1, 39, "with the table names"),
    "SELECT symbol FROM names": (1, 20, "expected a stream in FROM, was the table names"),
    "SELECT t FROM nowhere": (1, 15, "unknown relation 'nowhere'; the relations are: bars, names, quotes, trades"),
    "SELECT t, nothing FROM trades": (1, 11, "unknown column 'nothing'"),
    "SELECT t FROM trades UNION SELECT t FROM quotes": (1, 8, "write UNION ALL"),
    "SELECT t FROM trades EXCEPT SELECT t FROM quotes": (1, 8, "EXCEPT is not supported"),
    "SELECT t, legs FROM trades": (1, 1, "UNNEST it first"),
    "SELECT t FROM trades QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY t) = 1": (
        1, 30, "expected a bound by time"),
    "SELECT t FROM trades QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY price) = 1": (
        1, 78, "expected ORDER BY an event time"),
    "SELECT t FROM trades QUALIFY ROW_NUMBER() OVER (PARTITION BY TUMBLE(price, 9) ORDER BY t) = 1": (
        1, 62, "expected an event time in a window, was price"),
    "SELECT t FROM trades QUALIFY ROW_NUMBER() OVER (PARTITION BY t ORDER BY t) = -1": (1, 30, "OVER (PARTITION BY"),
    "SELECT t FROM trades QUALIFY ROW_NUMBER() OVER (PARTITION BY t ORDER BY t) = '1'": (1, 30, "OVER (PARTITION BY"),
    "SELECT t FROM trades QUALIFY ROW_NUMBER() OVER (PARTITION BY t, price ORDER BY t) = 1\n"
    "AND ROW_NUMBER() OVER (PARTITION BY t, symbol ORDER BY t) = 1": (2, 5, "expected one ROW_NUMBER() = 1"),
    "SELECT t, ROW_NUMBER() OVER () AS n FROM trades QUALIFY LAG(price) OVER (ORDER BY t) > 1": (
        1, 11, "as SQL numbers all rows before it"),
    "SELECT window_start AS t FROM trades GROUP BY TUMBLE(t, 9) QUALIFY LAG(price) OVER (ORDER BY t) > 1": (
        1, 68, "no QUALIFY beside GROUP BY"),
    "SELECT window_start AS t, MAX(LAG(price) OVER (ORDER BY t)) AS m FROM trades GROUP BY TUMBLE(t, 9)": (
        1, 31, "no window function"),
    "SELECT t, LAG(price, -1) OVER (ORDER BY t) AS p FROM trades": (1, 11, "without offset and default"),
    "SELECT t, LAG(price, '1') OVER (ORDER BY t) AS p FROM trades": (1, 11, "without offset and default"),
    "SELECT t, LAG(price IGNORE NULLS) OVER (ORDER BY t) AS p FROM trades": (1, 11, "expected LAG(x) OVER"),
    "SELECT window_start AS t FROM trades GROUP BY HOP(t, 1, 10001)": (1, 47, "at most 10000 windows over a row"),
    "SELECT t FROM trades TABLESAMPLE 10%": (1, 15, "SAMPLE in TABLE"),
    "SELECT t FROM trades LIMIT 50%": (1, 28, "PERCENT or WITH TIES"),
    "SELECT window_start AS t, MIN(price, 2) AS m FROM trades GROUP BY TUMBLE(t, 9)": (1, 31, "rows in MIN"),
    "SELECT window_start AS t, LAST(price, 2) AS m FROM trades GROUP BY TUMBLE(t, 9)": (1, 27, "in LAST"),
    "SELECT window_start AS t, COUNT(price, 2) AS m FROM trades GROUP BY TUMBLE(t, 9)": (1, 8, "expected one argument"),
    "SELECT y.t FROM (SELECT t, price FROM trades) AS y(t, a, b)": (1, 25, "expected 2 names at most"),
    "SELECT y.b FROM quotes AS y(a, b, b)": (1, 17, "all of them different"),
    "SELECT a FROM trades AS y(a)": (1, 15, "a relation with structs"),
    "SELECT t, CURRENT_DATE AS d FROM trades": (1, 1, "was current_date()"),
    "SELECT t, now() AS d FROM trades": (1, 11, "was now()"),
    "SELECT t, random() AS d FROM trades": (1, 11, "was rand()"),
    "SELECT t, uuid() AS d FROM trades": (1, 11, "was uuid()"),
    "SELECT t, current_setting('memory_limit') AS d FROM trades": (1, 11, "was current_setting()"),
    "SELECT t, printf('%100001d', 1) AS d FROM trades": (1, 11, "at most 100000 characters"),
    "SELECT t, array_to_string(range(100000), ',') AS d FROM trades": (1, 27, "at most 100000 characters"),
    "SELECT t, RANK() OVER (PARTITION BY symbol ORDER BY t) AS r FROM trades": (1, 11, "expected LAG(x) OVER"),
    "SELECT t, LAG(price, 2) OVER (ORDER BY t) AS p FROM trades": (1, 11, "without offset and default"),
    "SELECT DISTINCT ON (symbol) t FROM trades": (1, 21, "DISTINCT ON is not supported"),
    "SELECT t FROM trades LIMIT 4611686018427387905": (1, 28, "expected at most 4611686018427387904 rows in LIMIT"),
    "SELECT t FROM trades OFFSET 99999999999999999999": (1, 29, "expected at most 4611686018427387904 rows in LIMIT"),
    "SELECT window_end AS t FROM trades GROUP BY TUMBLE(t, 4611686018427387904)": (
        1, 45, "expected a length of time of less than 4611686018427387904 units"),
    "SELECT window_end AS t FROM trades GROUP BY SESSION(t, INTERVAL '99999999999' WEEK)": (
        1, 45, "expected a length of time of less than 4611686018427387904 units"),
    "SELECT t FROM trades LIMIT price": (1, 28, "expected a whole number in LIMIT"),
    "SELECT t, price FROM trades UNION ALL SELECT t, symbol FROM quotes": (1, 8, "expected one type"),
    "SELECT trades.t FROM trades ASOF JOIN bars ON trades.t >= bars.at": (1, 39, "expected values that can be"),
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_with_its_place_and_what_to_write(sql: str) -> None:
    line, column, reason = REFUSED[sql]
    with pytest.raises(SqlError, match=re.escape(reason)) as caught:
        query(sql)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_structs_are_read_field_by_field() -> None:
    """Fields of a struct, and of the elements of a list, by point, by bracket and by function."""
    made = query("SELECT t, party.name, party['id'].n AS n, struct_extract(leg, 'venue') AS venue, leg.price AS p "
                 "FROM trades CROSS JOIN UNNEST(legs) AS u(leg)")  # fmt: skip
    made.add("trades", pa.RecordBatch.from_pylist([
        {"t": 1, "symbol": "A", "price": 1, "volume": 1, "legs": [{"price": 5, "venue": "X"}, None],
         "party": {"name": "p", "id": {"n": 3}}},
        {"t": 2, "symbol": "A", "price": 1, "volume": 1, "legs": [{"price": 6, "venue": None}], "party": None},
    ], schema=TRADES.schema))  # fmt: skip
    assert [row for batch in made.close({"trades": 2}) for row in batch.to_pylist()] == [
        {"t": 1, "name": "p", "n": 3, "venue": "X", "p": 5},
        {"t": 1, "name": "p", "n": 3, "venue": None, "p": None},
        {"t": 2, "name": None, "n": None, "venue": None, "p": 6},
    ]


def test_types_of_the_output_are_exact() -> None:
    """An int64 column stays one; sums and products are decimals of 38 digits, averages floats."""
    made = query("SELECT window_end AS t, symbol, MAX(price) AS h, SUM(price) AS s, AVG(price) AS a, COUNT(*) AS n "
                 "FROM trades GROUP BY symbol, TUMBLE(t, 10)")  # fmt: skip
    assert [str(field.type) for field in made.schema] == [
        "int64", "string", "int64", "decimal128(38, 0)", "double", "int64"
    ]  # fmt: skip
    assert (made.time, made.reads) == ("t", ("trades",))
    huge = 2**63 - 1
    made.add("trades", pa.RecordBatch.from_pylist([
        {"t": 1, "symbol": "A", "price": huge, "volume": 1}, {"t": 2, "symbol": "A", "price": huge, "volume": 1},
    ], schema=TRADES.schema))  # fmt: skip
    (batch,) = made.close({"trades": 10})
    assert batch.to_pylist()[0]["s"] == Decimal(2 * huge)


def test_times_may_be_timestamps() -> None:
    """Intervals are in the unit of the column, and watermarks too."""
    made = query("SELECT window_start AS at, SUM(v) AS v FROM bars GROUP BY TUMBLE(at, INTERVAL '1 minute')")
    at = datetime(2026, 1, 1, 9, 30, 12)  # noqa: DTZ001 (a timestamp without a zone)
    made.add("bars", pa.RecordBatch.from_pylist([{"at": at, "day": date(2026, 1, 1), "v": 4}], schema=BARS.schema))
    mark = int(datetime(2026, 1, 1, 9, 31, tzinfo=UTC).timestamp()) * 1_000_000
    (batch,) = made.close({"bars": mark})
    assert batch.to_pylist() == [{"at": at.replace(second=0), "v": Decimal(4)}]
    assert made.watermark() == mark


def test_idle_input_holds_back_until_it_ends() -> None:
    """An input that has no watermark yet may bring any row; one that has ended holds nothing back."""
    made = query("SELECT t, symbol FROM trades UNION ALL SELECT t, symbol FROM quotes")
    made.add("quotes", pa.RecordBatch.from_pylist([{"t": 1, "symbol": "A", "bid": 1}], schema=QUOTES.schema))
    assert made.close({"quotes": 5}) == []
    assert made.watermark() == -(2**63)
    assert [batch.num_rows for batch in made.close({}, ["trades"])] == [1]
    assert made.watermark() == 5


def test_rows_of_other_relations_are_refused() -> None:
    with pytest.raises(OperatorError, match="expected rows of trades, was quotes"):
        query("SELECT t FROM trades").add("quotes", pa.RecordBatch.from_pylist([], schema=QUOTES.schema))


def test_deleting_an_absent_row_of_a_table_is_an_error() -> None:
    made = query("SELECT t, name FROM trades JOIN names USING (symbol)")
    gone = pa.RecordBatch.from_pylist([{"symbol": "A", "name": "x", "weight": -1}],
                                      schema=NAMES.schema.append(pa.field("weight", pa.int64())))  # fmt: skip
    with pytest.raises(OperatorError, match="expected to delete a row that the table has, was"):
        made.add("names", gone)


def test_explain_names_operators_keys_and_state() -> None:
    text = query("SELECT trades.t, price, bid FROM trades ASOF LEFT JOIN quotes ON trades.symbol = quotes.symbol "
                 "AND trades.t >= quotes.t AND trades.t - quotes.t <= INTERVAL '5' SECOND").explain()  # fmt: skip
    assert "as-of join left on t ≥ t_1 by symbol = symbol_1 within 5000000000" in text
    assert "│ keeps rows until both inputs have passed them, the last right row of each key" in text
    assert "stream quotes → t int64, symbol string, bid int64" in text


def test_the_deepest_brackets_are_accepted() -> None:
    """The parser needs more nested calls for them than Python allows by default."""
    made = query(f"SELECT t, {'(' * MOST_NESTED}price + 1{')' * MOST_NESTED} AS p FROM trades")
    assert made.schema.names == ["t", "p"]


def test_the_same_row_before_is_kept_once() -> None:
    """Equal LAGs share their state."""
    text = query("SELECT t, price - LAG(price) OVER (PARTITION BY symbol ORDER BY t) AS d FROM trades "
                 "QUALIFY price <> LAG(price) OVER (PARTITION BY symbol ORDER BY t)").explain()  # fmt: skip
    assert text.count("row before of symbol: price") == 1


def test_sums_of_floats_do_not_depend_on_barriers() -> None:
    """Values are added in the order of the rows: 1e16 + 1 is 1e16, though 1e16 + (1 + 1) is more."""
    floats = StreamInput(pa.schema([("t", pa.int64()), ("f", pa.float64())]), "t")
    sql = "SELECT window_end AS t, SUM(f) AS s FROM rows GROUP BY TUMBLE(t, 10)"
    made = DerivedQuery(NamedSelect("q", sql), {"rows": floats}, None, "q")
    for rows in ([(1, 1e16)], [(2, 1.0), (3, 1.0)]):
        made.add("rows", pa.RecordBatch.from_pylist([{"t": t, "f": f} for t, f in rows], schema=floats.schema))
        made.close({"rows": rows[-1][0]})
    assert made.close({"rows": 10})[0].to_pylist() == [{"t": 10, "s": 1e16}]


def test_times_are_moved_by_intervals() -> None:
    """Outputs, comparisons and lists have timestamps plus and minus constant intervals."""
    made = query(
        "SELECT at, at + INTERVAL '1' SECOND AS later, day - INTERVAL '1' DAY AS before FROM bars "
        "WHERE at < day + INTERVAL '10' HOUR "
        "AND at IN (TIMESTAMP '2026-01-01' + INTERVAL '9' HOUR, at - INTERVAL '1' DAY)"
    )
    at, day = datetime(2026, 1, 1, 9), date(2026, 1, 1)  # noqa: DTZ001 (a timestamp without a zone)
    rows = [{"at": at, "day": day, "v": 1}, {"at": at.replace(minute=1), "day": day, "v": 2}]
    made.add("bars", pa.RecordBatch.from_pylist(rows, schema=BARS.schema))
    (batch,) = made.close({}, ["bars"])
    before = datetime(2025, 12, 31)  # noqa: DTZ001 (as above)
    assert batch.to_pylist() == [{"at": at, "later": at.replace(second=1), "before": before}]


def test_a_time_that_is_moved_out_of_range_is_an_error() -> None:
    made = query("SELECT at, at + INTERVAL '1' DAY AS later FROM bars")
    with pytest.raises(OperatorError, match=r"expected a timestamp of 64 bits plus an interval, was .*overflow"):
        made.add("bars", pa.record_batch([pa.array([2**63 - 1], pa.timestamp("us")), pa.array([1], pa.date32()), [1]],
                                         schema=BARS.schema))  # fmt: skip


@pytest.mark.parametrize("condition", ["price = INTERVAL '1' SECOND", "price IN (1, INTERVAL '1' SECOND)"])
def test_an_interval_is_no_value_of_a_column(condition: str) -> None:
    """In a list, too."""
    with pytest.raises(
        SqlError, match=r"expected an expression that operators can compute, was .*: an interval of time"
    ):
        query(f"SELECT t FROM trades WHERE {condition}")
