"""Flows say what the SQL says: an obvious interpreter of the nodes against DuckDB, over random multisets with NULLs."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from functools import cache
from typing import Any

import duckdb
import pytest

from runtime.compiler import Column, NamedSelect, Relation
from runtime.compiler.describe import Describer
from runtime.compiler.flow import flow_view
from runtime.compiler.maps import MapSet
from runtime.compiler.operands import Candidate, NotIncremental
from runtime.compiler.parse import parse_select
from runtime.compiler.reevaluated import QueryRewriter
from runtime.plan import Flow
from tests.generators.programs import TYPES, fill
from tests.unit.runtime.compiler._flow_interpreter import run_flow

R = Relation("r", (Column("a", "int64"), Column("b", "int64"), Column("s", "string")))
N = Relation(
    "n",
    (
        Column("k", "int64", nullable=True),
        Column("v", "int64", nullable=True),
        Column("name", "string", nullable=True),
        Column("d", "date", nullable=True),
        Column("weight", "int64"),
    ),
)
RELATIONS = {"r": R, "n": N}

QUERIES = """
SELECT r.a, n.v FROM r JOIN n ON r.a = n.k
SELECT r.a, n.v FROM r JOIN n ON r.a = n.k AND r.b < n.v
SELECT x.a, y.b FROM r x, r y WHERE x.a = y.b AND x.s = y.s
SELECT x.a, y.b FROM r x, r y WHERE x.a + 1 = y.b AND x.s <> y.s
SELECT x.a, y.a AS z FROM r x CROSS JOIN r y WHERE x.b > y.b + 1
SELECT a, v FROM r, n x WHERE a = k AND s LIKE 'x%' AND name NOT LIKE '_y'
SELECT x.a, y.v, z.s FROM r x, n y, r z WHERE z.b = y.v AND x.a = y.k
SELECT r.a, n.v FROM r LEFT JOIN n ON r.a = n.k
SELECT r.a, n.v, n.name FROM r LEFT JOIN n ON r.a = n.k AND n.v > 1
SELECT r.a, n.v, n.name FROM r LEFT JOIN n ON r.a = n.k AND n.v > r.b
SELECT n.k, n.v, r.b FROM n LEFT JOIN r ON r.a = n.k AND n.v > r.b
SELECT n.k, n.v, r.b FROM n LEFT JOIN r ON n.v > 0 AND r.a = n.k WHERE r.b IS NULL OR r.b > 0
SELECT r.a, n.v FROM r RIGHT JOIN n ON r.a = n.k WHERE n.v > 0
SELECT r.a, r.s, n.k, n.v FROM r FULL JOIN n ON r.a = n.k
SELECT r.a, n.k, n.v, r.b FROM r FULL JOIN n ON r.a = n.k AND r.b > n.v
SELECT x.a, n.v, y.b FROM r x LEFT JOIN n ON x.a = n.k JOIN r y ON y.b = n.v
SELECT x.a, n.v, y.b FROM r x LEFT JOIN n ON x.a = n.k LEFT JOIN r y ON y.b = n.v AND y.a > x.a
SELECT x.a, n.v, y.b FROM r x LEFT JOIN n ON x.a = n.k RIGHT JOIN r y ON y.b = n.v WHERE x.a > 0
SELECT y.s, z.v FROM r x FULL JOIN r y ON x.a = y.b AND y.a > 2 JOIN n z ON y.s = z.name AND x.a > 0
SELECT a, b, n.v FROM r JOIN (SELECT k AS a, v FROM n WHERE v > 0) n USING (a)
SELECT a FROM r SEMI JOIN n ON r.a = n.k AND n.v > r.b
SELECT a, b FROM r ANTI JOIN n ON r.a = n.k
SELECT a FROM r LEFT JOIN n ON TRUE WHERE n.v = 1
SELECT s, SUM(b) AS x, COUNT(*) AS c, AVG(a) AS m FROM r GROUP BY s HAVING SUM(b) > 1
SELECT name, SUM(v) AS x, COUNT(v) AS c, AVG(v) AS m, MIN(v) AS l, MAX(k) AS h FROM n GROUP BY name
SELECT SUM(v), COUNT(v), COUNT(*), MIN(name), MAX(d), AVG(k) FROM n
SELECT SUM(v), COUNT(v), COUNT(*), MIN(name), MAX(d), AVG(k) FROM n WHERE v > 100
SELECT s, COUNT(DISTINCT a) AS c, SUM(DISTINCT b) AS d, AVG(DISTINCT b) AS e FROM r GROUP BY s
SELECT COUNT(DISTINCT name), SUM(DISTINCT v) FROM n
SELECT name, STDDEV(v) AS a, VARIANCE(v) AS b, VAR_POP(v) AS c, STDDEV_POP(v) AS d FROM n GROUP BY name
SELECT s, COUNT(*) FILTER (WHERE a > 0), SUM(a) FILTER (WHERE b > 0), MAX(a) FILTER (WHERE b < 0) FROM r GROUP BY 1
SELECT s, ARG_MIN(a, b) AS x, ARG_MAX(a, b) AS y, COUNT(*) AS c FROM r GROUP BY s
SELECT name, ARG_MIN(k, v) AS x, ARG_MAX(v, k) AS y FROM n GROUP BY name
SELECT ARG_MAX(v, k) AS y, MAX(v) AS z FROM n
SELECT BOOL_AND(v > 0) AS x, BOOL_OR(v > 3) AS y, COUNT_IF(v > 0) AS z FROM n
SELECT a, b, ROW_NUMBER() OVER (PARTITION BY s ORDER BY b DESC, a) AS x FROM (SELECT DISTINCT a, b, s FROM r) y
SELECT DISTINCT s, a, b FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY a, b) <= 2
SELECT a, b FROM (SELECT a, b, RANK() OVER (PARTITION BY s ORDER BY a) AS x FROM r) y WHERE x < 3 AND b > 0
SELECT a, DENSE_RANK() OVER (ORDER BY a DESC) AS x, RANK() OVER (ORDER BY b) AS y FROM r QUALIFY x = 2 OR y = 1
SELECT k, v, RANK() OVER (PARTITION BY name ORDER BY v DESC NULLS FIRST) AS x FROM n
SELECT a, SUM(b) OVER (PARTITION BY s ORDER BY a) AS x, COUNT(*) OVER (PARTITION BY s ORDER BY a) AS y FROM r
SELECT k, SUM(v) OVER (PARTITION BY name) AS x, COUNT(*) OVER () AS y, AVG(v) OVER (PARTITION BY name, k) AS z FROM n
SELECT k, MIN(v) OVER (PARTITION BY name ORDER BY k) AS x, MAX(d) OVER (ORDER BY k) AS y FROM n
SELECT a, LAG(a) OVER (ORDER BY a, b, s) AS x, LEAD(b, 2) OVER (ORDER BY a, b, s) AS y FROM r
SELECT a, b, s, LAG(b, 2, 7) OVER (PARTITION BY s ORDER BY a, b) AS x FROM r
SELECT a, b, s, FIRST_VALUE(s) OVER (ORDER BY a DESC, b, s) AS x, LAST_VALUE(b) OVER (ORDER BY a DESC, b, s) AS y FROM r
SELECT a, b, LAST_VALUE(b) OVER (ORDER BY a, b ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS x FROM r
SELECT a, b, SUM(a) OVER (ORDER BY b, a ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS x FROM r
SELECT b, MAX(a) OVER (ORDER BY b, a ROWS 2 PRECEDING) AS x, STDDEV(a) OVER (ORDER BY b, a ROWS 3 PRECEDING) FROM r
SELECT a, b, SUM(b) FILTER (WHERE a > 1) OVER (ORDER BY a, b ROWS UNBOUNDED PRECEDING) AS x FROM r
SELECT a, b, COUNT(*) OVER (ORDER BY a, b ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS x FROM r
SELECT a, RANK() OVER w AS x, SUM(b) OVER w AS y FROM r WINDOW w AS (PARTITION BY s ORDER BY a)
SELECT s, a, SUM(b) AS x, GROUPING(a) AS y FROM r GROUP BY ROLLUP (s, a)
SELECT a, a + b AS c, COUNT(*) AS n FROM r GROUP BY CUBE (a, a + b) HAVING SUM(b) > 0
SELECT name, k, MAX(v) AS x FROM n GROUP BY GROUPING SETS ((name), (k), ()) HAVING COUNT(*) > 1
SELECT s, MEDIAN(a) AS x, QUANTILE_DISC(b, 0.3) AS y, QUANTILE_CONT(a, 0.9) AS z, COUNT(*) AS c FROM r GROUP BY s
SELECT MEDIAN(v) AS x, QUANTILE_DISC(name, 0.75) AS y, QUANTILE_DISC(d, 0.5) AS z FROM n
SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY v) AS x, PERCENTILE_DISC(0) WITHIN GROUP (ORDER BY k) AS y FROM n
SELECT a, a - MEDIAN(a) OVER (PARTITION BY s) AS x FROM r
SELECT s, SUM(a) AS x, RANK() OVER (ORDER BY SUM(a) DESC) AS y, SUM(SUM(a)) OVER () AS z FROM r GROUP BY s
SELECT s, COUNT(*) AS c FROM r GROUP BY s HAVING COUNT(*) > 1 QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*), s) = 1
SELECT s, SUM(x) AS y FROM (SELECT s, a - LAG(a) OVER (PARTITION BY s ORDER BY b, a) AS x FROM r) d GROUP BY s
SELECT DISTINCT s, a FROM r
SELECT DISTINCT name FROM n WHERE v IS NOT NULL
SELECT s FROM r UNION SELECT name FROM n
SELECT s, a FROM r UNION ALL SELECT name, v FROM n
SELECT s, SUM(x) AS x FROM (SELECT s, a AS x, b FROM r UNION ALL SELECT name, v, k FROM n) u GROUP BY s
SELECT s FROM r EXCEPT SELECT name FROM n
SELECT s FROM r EXCEPT ALL SELECT name FROM n
SELECT name FROM n INTERSECT SELECT s FROM r
SELECT name, k FROM n INTERSECT ALL SELECT s, a FROM r
SELECT a, b FROM r ORDER BY a DESC, b LIMIT 4
SELECT a FROM r ORDER BY b, s DESC LIMIT 3 OFFSET 2
SELECT k, v FROM n ORDER BY v DESC NULLS FIRST LIMIT 3
SELECT name, SUM(v) AS x FROM n GROUP BY name ORDER BY SUM(v) DESC, 1 LIMIT 2
SELECT DISTINCT s FROM r ORDER BY s LIMIT 2
(SELECT a FROM r) UNION ALL (SELECT v FROM n) ORDER BY a LIMIT 5
SELECT a FROM (SELECT a, b FROM r ORDER BY b LIMIT 3) t WHERE a > 0
SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM n WHERE n.k = r.a AND n.v > 0)
SELECT a, b FROM r WHERE NOT EXISTS (SELECT * FROM n WHERE n.k = r.a)
SELECT k, v FROM n WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = n.k AND r.b > n.v)
SELECT x.k, x.v FROM n x WHERE EXISTS (SELECT 1 FROM n y WHERE y.name = x.name AND y.k IS DISTINCT FROM x.k)
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM n WHERE v = 2)
SELECT a FROM r WHERE a IN (SELECT k FROM n)
SELECT a FROM r WHERE a NOT IN (SELECT b FROM r)
SELECT a FROM r WHERE a NOT IN (SELECT k FROM n WHERE v > 2)
SELECT k FROM n WHERE k NOT IN (SELECT v FROM n WHERE name = 'x')
SELECT k FROM n WHERE k NOT IN (SELECT v FROM n y WHERE y.name = n.name)
SELECT k, k IN (SELECT v FROM n WHERE weight > 1) AS x FROM n
SELECT a, EXISTS (SELECT 1 FROM n WHERE n.k = r.a) AS x FROM r
SELECT a FROM r WHERE a > 1 OR a IN (SELECT v FROM n) OR EXISTS (SELECT 1 FROM n WHERE k = r.b)
SELECT a, (SELECT COUNT(*) FROM n WHERE n.k = r.a) AS c, (SELECT SUM(v) FROM n WHERE n.k = r.a) AS x FROM r
SELECT k, (SELECT COUNT(*) + 1 FROM n y WHERE y.v = x.k) AS c FROM n x
SELECT a, b FROM r WHERE b > (SELECT AVG(v) FROM n)
SELECT a, b FROM r WHERE b >= (SELECT MAX(v) FROM n WHERE n.name = r.s)
SELECT a, b FROM r x WHERE b = (SELECT MIN(y.b) FROM r y WHERE y.s = x.s)
SELECT x.v FROM n x WHERE x.v = (SELECT MAX(y.v) FROM n y WHERE y.name = x.name AND y.k > x.k)
SELECT s, SUM(a) AS x FROM r GROUP BY s HAVING SUM(a) > (SELECT AVG(v) FROM n)
SELECT s, SUM(a) AS x FROM r GROUP BY s HAVING COUNT(*) > (SELECT COUNT(*) FROM n WHERE n.name = r.s)
SELECT s, SUM(a) + (SELECT SUM(v) FROM n) AS x FROM r GROUP BY s
SELECT a, (SELECT v FROM n ORDER BY v DESC NULLS LAST LIMIT 1) AS m FROM r
SELECT a, (SELECT COUNT(*) FROM n WHERE n.k = r.a HAVING COUNT(*) > 1) AS m FROM r
WITH t AS (SELECT s, SUM(a) AS x FROM r GROUP BY s) SELECT t.s, n.v FROM t JOIN n ON t.s = n.name WHERE t.x > 0
WITH t AS (SELECT s, MAX(a) AS x FROM r GROUP BY s) SELECT p.s, q.x FROM t p JOIN t q ON p.x = q.x
WITH t AS (SELECT a, b FROM r), u AS (SELECT a FROM t WHERE b > 0) SELECT t.b FROM t WHERE a IN (SELECT a FROM u)
WITH x AS (SELECT s, 1 FROM r) SELECT * FROM x FULL JOIN (SELECT name, MAX(v) FROM n GROUP BY 1) ON s = name
SELECT CASE WHEN v > 1 THEN 'big' WHEN v IS NULL THEN 'none' ELSE name END AS c, COUNT(DISTINCT k) FROM n GROUP BY 1
SELECT COALESCE(x.v, y.a, -1) AS z FROM n x LEFT JOIN r y ON x.k = y.b
SELECT EXTRACT(year FROM d) AS y, EXTRACT(month FROM d) AS m, COUNT(DISTINCT v) AS c FROM n GROUP BY ALL
SELECT DISTINCT k FROM n WHERE d BETWEEN DATE '2020-01-15' AND DATE '2020-01-01' + INTERVAL 2 MONTH
SELECT DISTINCT k FROM n WHERE d >= '2020-02-01' OR v IN (1, 2)
SELECT s, MAX(a) - MIN(a) AS spread FROM r GROUP BY s
SELECT weight, MAX(v) AS v FROM n GROUP BY weight
SELECT x.weight, y.weight AS w FROM n x JOIN n y ON x.weight = y.v
SELECT COUNT(*) FROM (SELECT DISTINCT a, s FROM r) t
SELECT COUNT(*) FROM r, n
SELECT COUNT(*) AS c FROM r x WHERE x.a > (SELECT MIN(v) FROM n) AND x.b < (SELECT MAX(v) FROM n)
SELECT a // 2 AS h, COUNT(DISTINCT b) AS c FROM r GROUP BY a // 2 HAVING COUNT(DISTINCT b) > 1
SELECT t.h, MAX(t.b) AS m FROM (SELECT a // 2 AS h, b, a * b AS big FROM r WHERE s <> 'z') t GROUP BY t.h
SELECT a FROM r WHERE (SELECT COUNT(*) FROM n WHERE k = r.a AND v IN (SELECT b FROM r y WHERE y.s = n.name)) > 0
SELECT a, NULLIF(b, 0) AS z FROM r x WHERE EXISTS (SELECT s FROM r GROUP BY s HAVING SUM(r.a) > 2)
SELECT a FROM r WHERE s IN (SELECT name FROM n GROUP BY name HAVING COUNT(*) > 1)
SELECT ABS(a) AS x, GREATEST(a, b) AS y, LEAST(a, 0) AS z FROM r UNION SELECT 1, 2, 3 FROM n
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM n WHERE n.k > r.a AND v > 1)
SELECT k, v FROM n WHERE NOT EXISTS (SELECT 1 FROM n y WHERE y.v > n.v AND y.name = n.name)
SELECT k, EXISTS (SELECT 1 FROM n y WHERE n.v >= y.v + 1) AS x FROM n
SELECT CAST(DATE_TRUNC('day', CAST(d AS TIMESTAMP)) AS DATE) AS x, COUNT(DISTINCT k) AS c FROM n GROUP BY 1
SELECT DISTINCT k FROM n WHERE CAST(d AS TIMESTAMP) < TIMESTAMP '2020-02-01 12:00:00'
""".strip().splitlines()

ORACLES = {
    "SELECT a FROM r ORDER BY b, s DESC LIMIT 3 OFFSET 2": "SELECT a FROM r ORDER BY b, s DESC, a LIMIT 3 OFFSET 2",
    "SELECT k, v FROM n ORDER BY v DESC NULLS FIRST LIMIT 3":
        "SELECT k, v FROM n ORDER BY v DESC NULLS FIRST, k LIMIT 3",
    "SELECT a FROM (SELECT a, b FROM r ORDER BY b LIMIT 3) t WHERE a > 0":
        "SELECT a FROM (SELECT a, b FROM r ORDER BY b, a LIMIT 3) t WHERE a > 0",
    "SELECT s, ARG_MIN(a, b) AS x, ARG_MAX(a, b) AS y, COUNT(*) AS c FROM r GROUP BY s":
        "SELECT s, FIRST(a ORDER BY b, a), FIRST(a ORDER BY b DESC, a), COUNT(*) FROM r GROUP BY s",
    "SELECT name, ARG_MIN(k, v) AS x, ARG_MAX(v, k) AS y FROM n GROUP BY name":
        "SELECT name, FIRST(k ORDER BY v, k) FILTER (WHERE k + v IS NOT NULL), "
        "FIRST(v ORDER BY k DESC, v) FILTER (WHERE k + v IS NOT NULL) FROM n GROUP BY name",
    "SELECT ARG_MAX(v, k) AS y, MAX(v) AS z FROM n":
        "SELECT FIRST(v ORDER BY k DESC, v) FILTER (WHERE k + v IS NOT NULL), MAX(v) FROM n",
}  # fmt: skip
"""Where every column breaks ties, as it does for a view."""

REFUSED = {
    "SELECT a, NTILE(4) OVER (ORDER BY a) FROM r": "the window function NTILE",
    "SELECT a, SUM(b) OVER (ORDER BY a RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) FROM r":
        "a frame by RANGE: ROWS BETWEEN … is incremental",
    "SELECT a, LAG(b, 2000) OVER (ORDER BY a) FROM r":
        "a window function that reads rows 2000 away: at most 1000 are incremental",
    "SELECT a, FIRST_VALUE(b) OVER (ORDER BY a ROWS 2 PRECEDING) FROM r":
        "FIRST_VALUE of a frame that begins at a row: LAG is incremental",
    "SELECT a FROM r WHERE b = (SELECT MAX(v) OVER () FROM n WHERE n.k = r.a LIMIT 1)":
        "a subquery in FROM that depends on the query around it",
    "SELECT MODE(a) FROM r": "MODE cannot be maintained by addition and subtraction",
    "SELECT MEDIAN(a * 0.5) FROM r": "MEDIAN of integer with 1 decimals: of whole numbers it is incremental",
    "SELECT QUANTILE_CONT(a, 0.1234567) FROM r":
        "PERCENTILE_CONT of a share that is not a constant from 0 to 1, with 6 decimals at most",
    "SELECT MEDIAN(d) FROM n": "MEDIAN of date: QUANTILE_DISC is incremental",
    "SELECT UPPER(s) FROM r": "the function UPPER",
    "SELECT SUM(a * 1e0), MAX(a) FROM r": "float SUM: floats cannot be subtracted exactly",
    "SELECT (SELECT v FROM n WHERE n.k = r.a) FROM r": "a subquery that may give more than one row",
    "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM n WHERE n.k <> r.a)":
        "a subquery that is tied to the query around it by something other than an equality",
    "SELECT a FROM r WHERE (SELECT MAX(v) FROM n WHERE n.k < r.a) > 1":
        "a subquery that is tied to the query around it by something other than an equality",
    "SELECT COUNT(DISTINCT (a, b)) FROM r": "TUPLE",
}  # fmt: skip


@cache
def compiled(sql: str, zero: bool = False) -> tuple[Candidate, MapSet]:
    """The query as a flow, with its maps."""
    maps = MapSet()
    tree = parse_select(NamedSelect("v", sql), RELATIONS.values()).tree
    return flow_view(tree, RELATIONS, maps, zero=zero), maps


def rows_of(relation: Relation, seed: random.Random) -> list[tuple[Any, ...]]:
    values: dict[str, Any] = {
        "int64": lambda: seed.randint(-1, 4),
        "string": lambda: seed.choice(["x", "xy", "y", "z", "ay"]),
        "date": lambda: date(2020, seed.randint(1, 3), seed.randint(1, 28)),
    }
    return [tuple(None if column.nullable and seed.random() < 0.25 else values[column.type]() for column in
                  relation.columns) for _ in range(seed.choice([0, 1, 4, 9, 14]))]  # fmt: skip


def plain(row: Any) -> tuple[Any, ...]:
    return tuple(float(f"{value:.9g}") + 0.0 if isinstance(value, float) else value for value in row)


@pytest.mark.parametrize("numbers", [range(4), pytest.param(range(4, 12), marks=pytest.mark.slow)], ids=["few", "more"])
@pytest.mark.parametrize("sql", QUERIES)
def test_a_flow_gives_what_the_sql_says(sql: str, numbers: range) -> None:
    candidate, maps = compiled(sql)
    assert isinstance(candidate.body, Flow)
    with duckdb.connect() as connection:
        for number in numbers:
            seed = random.Random(f"{sql}{number}")
            data = {name: rows_of(relation, seed) for name, relation in RELATIONS.items()}
            for name, relation in RELATIONS.items():
                fill(connection, name, [(column.name, TYPES[column.type]) for column in relation.columns], data[name])
            found = run_flow(candidate.body, maps.maps, RELATIONS, data)
            expected = connection.execute(ORACLES.get(sql, sql)).fetchall()
            assert Counter(plain(row) for row in found.elements()) == Counter(plain(row) for row in expected), data


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_have_the_types_of_the_rewritten_query(sql: str) -> None:
    query = parse_select(NamedSelect("v", sql), RELATIONS.values())
    describer = Describer(RELATIONS.values())
    expected = QueryRewriter(query, RELATIONS, describer, zero=False).rewrite(query.tree).types
    describer.close()
    found = compiled(sql)[0].types
    assert [(kind.kind, kind.scale, kind.wide) for kind in found] == [
        (kind.kind, kind.scale, kind.wide) for kind in expected
    ]


def test_nothing_summed_is_0_in_the_other_dialect() -> None:
    sql = "SELECT r.s, (SELECT SUM(v) FROM n WHERE n.k = r.a) AS x, (SELECT MAX(v) FROM n WHERE n.k = r.a) AS m FROM r"
    total = "SELECT SUM(v) AS x, SUM(DISTINCT v) AS y, MIN(v) AS m, AVG(v) AS a FROM n"
    data: dict[str, list[tuple[Any, ...]]] = {"r": [(1, 2, "x")], "n": []}
    for query, expected in ((sql, ("x", 0, None)), (total, (0, 0, None, None))):
        candidate, maps = compiled(query, zero=True)
        assert isinstance(candidate.body, Flow)
        assert run_flow(candidate.body, maps.maps, RELATIONS, data) == Counter([expected])


def test_a_partition_of_nulls_sums_to_0_in_the_other_dialect() -> None:
    sql = "SELECT name, SUM(v) OVER (PARTITION BY name) AS x, SUM(DISTINCT v) OVER (PARTITION BY name) AS y FROM n"
    candidate, maps = compiled(sql, zero=True)
    assert isinstance(candidate.body, Flow)
    data: dict[str, list[tuple[Any, ...]]] = {"r": [], "n": [(1, None, "a", None, 1)]}
    assert run_flow(candidate.body, maps.maps, RELATIONS, data) == Counter([("a", 0, 0)])


@pytest.mark.parametrize("sql", REFUSED)
def test_what_has_no_place_says_why(sql: str) -> None:
    with pytest.raises(NotIncremental) as finding:
        compiled(sql)
    assert str(finding.value) == REFUSED[sql]
