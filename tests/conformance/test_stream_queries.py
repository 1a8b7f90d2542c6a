"""Derived streams beside DuckDB: over the whole feed both have the same rows, or the stream is refused."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from runtime.compiler import NamedSelect, SqlError
from runtime.engine.operators import DerivedQuery, StreamInput
from tests.conformance.expressions import Expressions, Field
from tests.conformance.oracle import difference, oracle_sql
from tests.generators.derived_lab import rows_of

NAN, INF = math.nan, math.inf
FLOATS = (NAN, 1.5, None, INF, -0.0, NAN, 2.5, -INF, 0.0, -3.25)
AMOUNTS = (None, *map(Decimal, ("2.50", "-7.25", "0.00", "1.00", "99.99", "-0.01")))
S = StreamInput(
    pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.int64()), ("f", pa.float64()), ("g", pa.float64()),
               ("d", pa.decimal128(18, 2)), ("e", pa.decimal128(38, 18)), ("h", pa.decimal128(38, 20))]), "t",
)  # fmt: skip
Q = StreamInput(pa.schema([("t", pa.int64()), ("k", pa.string()), ("f", pa.float64()), ("bid", pa.int64())]), "t")


def feed() -> dict[str, pa.Table]:
    """Rows of s, each with a time of its own, and of q at some of these times."""
    rng = random.Random(7)
    s = [(3 * n + rng.choice((0, 1)), rng.choice(("A", "B", None)), rng.choice((None, 1, 2, 3, -4)), rng.choice(FLOATS),
          rng.choice(FLOATS), rng.choice(AMOUNTS), Decimal("1.0"), Decimal(rng.randint(-9, 9)))
         for n in range(120)]  # fmt: skip
    q = [(row[0], rng.choice(("A", "B")), rng.choice((row[3], NAN)), n) for n, row in enumerate(s) if n % 3]
    return {
        name: pa.table([list(column) for column in zip(*rows, strict=True)], schema=given.schema)
        for name, rows, given in (("s", s, S), ("q", q, Q))
    }


FEED = feed()


def answer(sql: str) -> Counter[tuple[Any, ...]]:
    """Rows of a stream over the feed, in epochs of some rows each."""
    query = DerivedQuery(NamedSelect("x", sql), {"s": S, "q": Q}, None, "x")
    batches, now = [], 0
    while now < 400:
        for name in query.reads:
            times = FEED[name].column("t").to_numpy()
            for batch in FEED[name].filter(pa.array((times >= now) & (times < now + 37))).to_batches():
                query.add(name, batch)
        now += 37
        batches += query.close({"s": now - 1, "q": now - 1})
    return comparable(rows_of([*batches, *query.close({}, ("s", "q"))]))


def comparable(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Rows in which a NaN is equal to itself."""
    return Counter(tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows)


def duckdb_answer(sql: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET error_on_division_by_zero = false")
        connection.register("s_rows", FEED["s"])
        connection.execute("CREATE TABLE s AS SELECT * REPLACE (x::HUGEINT AS x) FROM s_rows")
        connection.register("q", FEED["q"])
        return comparable(connection.execute(oracle_sql(sql, "sql")).fetchall())


def check(sql: str, expected: str = "") -> None:
    assert not (text := difference(answer(sql), duckdb_answer(expected or sql))), text


BINS = "(SELECT t // 20 * 20 AS b, * FROM s) GROUP BY b"
HOPS = "(SELECT w.b, s.* FROM s, range(-20, 400, 10) AS w(b) WHERE s.t >= w.b AND s.t < w.b + 20) GROUP BY b"

SAME = [
    # NaN: equal to itself, greater than all
    "SELECT t, f = g AS a, f <> g AS b, f < g AS c, f <= g AS d, f > g AS e, f >= g AS h FROM s",
    "SELECT t, f > 2.0 AS a, f = f AS b, f < 2 AS c, 2.0 >= f AS d, f = 1 / 3 AS e FROM s",
    "SELECT t, GREATEST(f, 1.5) AS a, LEAST(f, 1.5) AS b, GREATEST(f, g, 0) AS c, LEAST(g, f) AS d FROM s",
    "SELECT t, f FROM s WHERE f > 2.0",
    "SELECT t, f FROM s WHERE NOT (f > 2.0)",
    "SELECT t, f BETWEEN 1 AND g AS a, f IN (1.5, 2.5, g) AS b, f NOT IN (1.5) AS c FROM s",
    "SELECT t, CASE WHEN f = g THEN 1 WHEN f > g THEN 2 ELSE 3 END AS a, NULLIF(f, g) AS b, COALESCE(f, g) AS c FROM s",
    "SELECT t, f IS DISTINCT FROM g AS a, f IS NOT DISTINCT FROM g AS b, -f AS c, f + g AS d, f * 2 AS e FROM s",
    "SELECT t, (f >= g) = (x * 9223372036854775807 * 4 > x) AS a, f > 2.0 AND x * 9223372036854775807 > 5 AS b FROM s",
    "SELECT DISTINCT t, f FROM s",
    "SELECT s.t, s.f, bid FROM s JOIN q ON s.t = q.t AND s.f = q.f",
    "SELECT s.t, s.f FROM s SEMI JOIN q ON s.t = q.t AND s.f = q.f",
    "SELECT s.t, s.f FROM s ANTI JOIN q ON s.t = q.t AND s.f = q.f",
    "SELECT s.t, s.f, bid FROM s ASOF LEFT JOIN q ON s.f = q.f AND s.t >= q.t",
    "SELECT t, LAG(f) OVER (PARTITION BY g ORDER BY t) AS b FROM s QUALIFY f > LAG(f) OVER (PARTITION BY g ORDER BY t)",
    # decimals
    "SELECT t, d // 2 AS a, d // d AS b, x // 2 AS c, x // 2.0 AS e, 7 // d AS g, d % 2 AS h, d / 3 AS i FROM s",
    "SELECT t, d + x AS a, d * d AS b, d - 0.125 AS c, -d AS e, d > x AS f, d = 2.5 AS g, d <> 1 AS h FROM s",
    "SELECT t, GREATEST(d, x) AS a, LEAST(d, 1.125) AS b, COALESCE(d, x) AS c, d BETWEEN -1 AND 2.5 AS e FROM s",
    "SELECT t, CAST(d AS DECIMAL(18, 4)) AS a, CAST(d AS DOUBLE) AS b, FLOOR(d) AS c, ABS(d) AS e, d * f AS g FROM s",
    "SELECT t, d FROM s WHERE d IN (2.5, 1, -7.25) OR d < -7",
    # windows functions
    "SELECT t, LAG(x) OVER (PARTITION BY k ORDER BY t) AS a, LAG(x, 1) OVER (ORDER BY t) AS b FROM s",
    "SELECT t, x - LAG(x) OVER (PARTITION BY k, x > 1 ORDER BY t) AS a FROM s",
    "SELECT t, LAG(d) OVER w AS b, t - LAG(t) OVER w AS c FROM s WINDOW w AS (PARTITION BY k ORDER BY t)",
    "SELECT t, k, x FROM s QUALIFY LAG(x) OVER (PARTITION BY k ORDER BY t) = x AND x > 1",
    "SELECT t, k FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY t, k ORDER BY t) <= 1 AND k = 'A'",
    "SELECT t, ROW_NUMBER() OVER () AS n, LAG(t) OVER (ORDER BY t) AS b FROM s",
    "SELECT t, n FROM (SELECT t, x, ROW_NUMBER() OVER () AS n FROM s) AS y WHERE x > 1",
    "SELECT t, a FROM (SELECT t, LAG(x) OVER (ORDER BY t) AS a FROM s) AS y QUALIFY LAG(a) OVER (ORDER BY t) > 1",
    # names of columns, clauses
    "SELECT y.t, y.a FROM (SELECT t, x AS b, f AS a FROM s) AS y(t, a, b)",
    "SELECT t, a, f FROM (SELECT t, x, f FROM s) AS y(t, a)",
    "WITH c(t, a, b) AS (SELECT t, x AS b, f AS a FROM s) SELECT t, a FROM c",
    "SELECT y.time AS t, y.z, d FROM s AS y(time, k2, z) WHERE k2 = 'A'",
    "SELECT * FROM s AS y(t, one, two)",
    "SELECT s.t, b.v FROM s JOIN q AS b(t, key, v) ON s.t = b.t AND s.k = b.key",
    "SELECT s.t, bid FROM s JOIN q ON s.t = q.t AND s.k = q.k AND s.k = q.k",
    "SELECT s.t, bid FROM s ASOF JOIN q ON s.k = q.k AND s.k = q.k AND s.t >= q.t",
    "SELECT y.t, bid FROM (SELECT t, k, k AS l FROM s) AS y ASOF JOIN q ON y.k = q.k AND y.l = q.k AND y.t >= q.t",
    "SELECT t, x FROM s LIMIT 5",
    "SELECT t, x FROM s OFFSET 2 LIMIT 5",
    "SELECT t, x FROM s FETCH FIRST 5 ROWS ONLY",
    "SELECT t, (x, d) > (1, 2) AS a FROM s",
]  # fmt: skip

WRITTEN_OTHERWISE = {
    "SELECT window_start AS t, MIN(f) AS a, MAX(f) AS b, SUM(f) AS c, COUNT(DISTINCT f) AS d, COUNT(f) AS e, "
    "MAX(f) FILTER (WHERE f < 9) AS g FROM s GROUP BY TUMBLE(t, 20)":
        f"SELECT b, MIN(f), MAX(f), SUM(f), COUNT(DISTINCT f), COUNT(f), MAX(f) FILTER (WHERE f < 9) FROM {BINS}",
    "SELECT window_start AS t, AVG(d) AS a, SUM(d) AS b, AVG(x) AS c, AVG(e) AS g, AVG(h) AS h, AVG(d * d) AS i, "
    "MIN(d) AS j, MAX(e) AS l, AVG(d) FILTER (WHERE d > 2) AS m, SUM(x) // 2 AS n, SUM(d) // COUNT(*) AS o "
    "FROM s GROUP BY TUMBLE(t, 20)":
        "SELECT b, AVG(d), SUM(d), AVG(x), AVG(e), AVG(h::DOUBLE), AVG(d * d), MIN(d), MAX(e), "
        f"AVG(d) FILTER (WHERE d > 2), SUM(x) // 2, SUM(d) // COUNT(*) FROM {BINS}",
    "SELECT window_start AS t, f, COUNT(*) AS n FROM s GROUP BY f, TUMBLE(t, 20) HAVING MAX(f) > 2.0":
        f"SELECT b, f, COUNT(*) FROM {BINS}, f HAVING MAX(f) > 2.0",
    "SELECT window_end AS t, window_start, COUNT(*) AS n, SUM(x) AS v FROM s GROUP BY HOP(t, 10, 20)":
        f"SELECT b + 20, b, COUNT(*), SUM(x) FROM {HOPS}",
    "SELECT window_start AS t, MAX(t) AS last, FIRST(x ORDER BY t) AS first, COUNT(*) FILTER (WHERE t > 50) AS n, "
    "MAX(t - window_start) AS far, MAX(TUMBLE_START(t, 20)) AS u FROM s GROUP BY TUMBLE(t, 20)":
        f"SELECT b, MAX(t), FIRST(x ORDER BY t), COUNT(*) FILTER (WHERE t > 50), MAX(t - b), b FROM {BINS}",
    "SELECT window_start AS u, window_end AS t, MAX(window_end) AS own FROM (SELECT t, x AS window_end FROM s) AS y "
    "GROUP BY TUMBLE(t, 20)": f"SELECT b, b + 20, MAX(x) FROM {BINS}",
    "SELECT window_start AS w, window_end AS t, COUNT(*) AS n FROM (SELECT t, x AS window_start FROM s) AS y "
    "GROUP BY window_start, TUMBLE(t, 20)": f"SELECT x, b + 20, COUNT(*) FROM {BINS}, x",
    "SELECT t, k, x FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY k, TUMBLE(t, 20) ORDER BY t) = 1":
        "SELECT t, k, x FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY k, t // 20 ORDER BY t) = 1",
    "SELECT window_end AS t, x FROM (SELECT window_end, window_start, x FROM s GROUP BY TUMBLE(t, 20), x) AS y "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY TUMBLE(window_start, 100), x ORDER BY window_end) = 1":
        f"SELECT MIN(b) + 20, x FROM (SELECT b, x FROM {BINS}, x) GROUP BY x, b // 100",
}  # fmt: skip


@pytest.mark.parametrize("sql", SAME)
def test_a_stream_has_the_rows_of_duckdb(sql: str) -> None:
    check(sql)


@pytest.mark.parametrize("sql", WRITTEN_OTHERWISE)
def test_a_stream_with_windows_has_the_rows_of_duckdb(sql: str) -> None:
    check(sql, WRITTEN_OTHERWISE[sql])


FIELDS = [Field("t", "int"), Field("x", "int"), Field("k", "string"), Field("f", "float"), Field("g", "float"),
          Field("d", "decimal")]  # fmt: skip


@pytest.mark.parametrize("part", range(4))
def test_expressions_are_right_or_refused(part: int) -> None:
    """What an operator cannot compute is an error at creation."""
    answered = 0
    for seed in range(part * 40, part * 40 + 40):
        made = Expressions(random.Random(seed))
        outputs = ", ".join(f"{made.scalar(FIELDS, 3).sql} AS c{n}" for n in range(3))
        sql = f"SELECT t, {outputs} FROM s WHERE {made.condition(FIELDS, 2)}"
        try:
            found = answer(sql)
        except SqlError:
            continue
        answered += 1
        assert not (text := difference(found, duckdb_answer(sql))), f"seed {seed}: {sql}\n{text}"
    assert answered >= 20
