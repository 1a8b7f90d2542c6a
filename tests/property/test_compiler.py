"""Compiled views give what the SQL says, on random relations: linear ones by an obvious interpreter of the program,
re-evaluated ones by DuckDB over expanded maps; the oracle is other SQL, or Python loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, Literal

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queries import query_path
from runtime.compiler import (
    Column,
    NamedSelect,
    Program,
    Reevaluated,
    Relation,
    compile_program,
    decode_program,
    encode_program,
    read_script,
)
from tests.generators.database import kept
from tests.generators.programs import fill, normal, run_view
from tests.harness.examples import examples

R = Relation("r", (Column("a", "int64"), Column("b", "int64"), Column("s", "string")))
Q = Relation("q", (Column("a", "int64"), Column("d", "int64"), Column("s", "string")))
N = Relation(
    "n",
    (
        Column("k", "int64", nullable=True),
        Column("v", "int64", nullable=True),
        Column("f", "float64", nullable=True),
        Column("name", "string", nullable=True),
        Column("weight", "int64", nullable=True),
    ),
)
RELATIONS = (R, Q, N)
_INT128_LIMIT = 10**38


@dataclass(frozen=True)
class Case:
    """A query, its class, and what it must equal."""

    sql: str
    view_class: Literal["linear", "reevaluated"]
    """The first, or any other."""
    oracle: str = ""
    """SQL over HUGEINT columns that gives the scaled integers; empty: the query itself."""
    scales: tuple[int, ...] = ()
    """Scale of each column where one is not 0."""
    mode: Literal["sql", "dbtoaster"] = "sql"


def _linear(sql: str, oracle: str = "", scales: tuple[int, ...] = (), mode: Any = "sql") -> Case:
    return Case(sql, "linear", oracle, scales, mode)


def _again(sql: str, oracle: str = "", scales: tuple[int, ...] = (), mode: Any = "sql") -> Case:
    return Case(sql, "reevaluated", oracle, scales, mode)


CASES = [
    # sums over one relation
    _linear("SELECT SUM(a) AS x FROM r"),
    _linear("SELECT SUM(a) AS x FROM r", "SELECT COALESCE(SUM(a), 0) FROM r", mode="dbtoaster"),
    _linear("SELECT COUNT(*) AS c, SUM(a * b) AS x FROM r"),
    _linear("SELECT s, COUNT(*), SUM(a + b * 2 - 1) FROM r GROUP BY s"),
    _linear("SELECT s, SUM(-a) AS x FROM r WHERE a > 0 AND NOT (b = 1 OR s = 'x') GROUP BY s"),
    _linear("SELECT a // 2 AS k, COUNT(*) AS c FROM r GROUP BY a // 2"),
    _linear("SELECT a % 3 AS k, SUM(b) AS c FROM r GROUP BY 1"),
    _linear("SELECT FLOOR(a / 2) AS k, COUNT(*) AS c FROM r GROUP BY FLOOR(a / 2)",
            "SELECT CASE WHEN a % 2 < 0 THEN a // 2 - 1 ELSE a // 2 END AS k, COUNT(*) FROM r GROUP BY k"),
    _linear("SELECT SUM(a * 0.25) AS x FROM r", "SELECT SUM(a * 25) FROM r", (2,)),
    _linear("SELECT s, SUM(a * 0.5 - b * 0.25) AS x FROM r GROUP BY s",
            "SELECT s, SUM(a * 50 - b * 25) FROM r GROUP BY s", (0, 2)),
    _linear("SELECT SUM(a) * 0.5 + COUNT(*) AS x FROM r", "SELECT SUM(a) * 5 + COUNT(*) * 10 FROM r", (1,)),
    _linear("SELECT s, SUM(a) - SUM(b) AS x, SUM(a) > 3 AS y FROM r GROUP BY s"),
    _linear("SELECT AVG(a) AS x FROM r WHERE a BETWEEN -4 AND 4"),
    _linear("SELECT s, SUM(a) / SUM(b) AS x FROM r WHERE a < 9 AND b < 9 AND a > -9 AND b > -9 GROUP BY s",
            "SELECT s, SUM(a)::DOUBLE / NULLIF(SUM(b), 0)::DOUBLE FROM r "
            "WHERE a < 9 AND b < 9 AND a > -9 AND b > -9 GROUP BY s"),
    _linear("SELECT s, SUM(a) FROM r WHERE a * 0.5 > b GROUP BY s",
            "SELECT s, SUM(a) FROM r WHERE a > b * 2 GROUP BY s"),
    _linear("SELECT s, a, SUM(b) FROM r WHERE s IN ('x', 'y') GROUP BY ALL"),
    _linear("SELECT k, COUNT(*) FROM n WHERE v > 0 GROUP BY k"),
    _linear("SELECT name, COUNT(*) FROM n WHERE f > 1.5 OR weight < 2 GROUP BY name"),
    _linear("SELECT weight, COUNT(*) AS c FROM n GROUP BY weight"),
    _linear("SELECT COUNT(*) AS c FROM n WHERE k = v"),
    _linear("SELECT COUNT(*) FROM n WHERE NOT (k = v)"),
    # rows as they are
    _linear("SELECT a, s FROM r"),
    _linear("SELECT * FROM n"),
    _linear("SELECT a + b AS x, a * 0.5 AS y FROM r WHERE a <> b", "SELECT a + b, a * 5 FROM r WHERE a <> b", (0, 1)),
    _linear("SELECT 1 AS one FROM r WHERE b >= 0"),
    _linear("SELECT a FROM r ORDER BY a"),
    _linear("SELECT a FROM r UNION ALL SELECT d FROM q"),
    _linear("SELECT s, SUM(a) AS x FROM r GROUP BY s UNION ALL SELECT s, d * 0.5 FROM q",
            "SELECT s, SUM(a) * 10 FROM r GROUP BY s UNION ALL SELECT s, d * 5 FROM q", (0, 1)),
    _linear("SELECT 'r' AS w, COUNT(*) AS c FROM r UNION ALL SELECT 'q', COUNT(*) FROM q"),
    # joins
    _again("SELECT r.a, q.d FROM r, q WHERE r.a = q.a"),
    _again("SELECT r.s, SUM(r.b * q.d) AS x FROM r JOIN q ON r.a = q.a AND r.b <= q.d GROUP BY r.s"),
    _again("SELECT SUM(x.a - y.a) AS d FROM r x, r y WHERE x.b > y.b"),
    _again("SELECT x.s, SUM(x.a * y.b * 0.5) AS d FROM r x, r y WHERE x.s = y.s GROUP BY x.s",
           "SELECT x.s, SUM(x.a * y.b * 5) FROM r x, r y WHERE x.s = y.s GROUP BY x.s", (0, 1)),
    _again("SELECT r.a, q.d FROM r LEFT JOIN q ON r.a = q.a AND q.d > 0 WHERE r.b > 0"),
    _again("SELECT r.a, q.d FROM r LEFT JOIN q ON r.a = q.a WHERE q.d > 0 OR q.d IS NULL"),
    _again("SELECT r.a, q.d FROM r LEFT JOIN q ON r.a = q.a WHERE q.d > 0"),
    _again("SELECT x.a FROM r x, r y WHERE x.a = y.a AND y.s = 'x'"),
    _again("SELECT r.a, q.d FROM r RIGHT JOIN q ON r.a = q.a WHERE q.s = 'x'"),
    _again("SELECT COALESCE(r.a, q.a) AS k, r.b, q.d FROM r FULL OUTER JOIN q ON r.a = q.a"),
    _again("SELECT a, r.b, q.d FROM r JOIN q USING (a)"),
    _again("SELECT r.a FROM r, q, r z WHERE r.a = q.a AND z.b = q.d AND z.s = 'x'"),
    _again("SELECT COUNT(*) AS c FROM r CROSS JOIN q"),
    _again("SELECT r.a FROM r SEMI JOIN q ON r.a = q.a"),
    _again("SELECT r.a FROM r ANTI JOIN q ON r.a = q.a"),
    # subqueries
    _again("SELECT a FROM r WHERE a > (SELECT SUM(d) FROM q)"),
    _again("SELECT a FROM r WHERE a >= (SELECT SUM(d) FROM q)",
           "SELECT a FROM r WHERE a >= (SELECT COALESCE(SUM(d), 0) FROM q)", mode="dbtoaster"),
    _again("SELECT SUM(a) AS x FROM r WHERE 0.25 * (SELECT SUM(b) FROM r) > (SELECT SUM(z.b) FROM r z WHERE z.a > r.a)",
           "SELECT SUM(a) FROM r WHERE (SELECT SUM(b) FROM r) > 4 * (SELECT SUM(z.b) FROM r z WHERE z.a > r.a)"),
    _again("SELECT SUM(a) AS x FROM r WHERE 0.25 * (SELECT SUM(b) FROM r) > (SELECT SUM(z.b) FROM r z WHERE z.a > r.a)",
           "SELECT COALESCE(SUM(a), 0) FROM r WHERE (SELECT COALESCE(SUM(b), 0) FROM r) > "
           "4 * (SELECT COALESCE(SUM(z.b), 0) FROM r z WHERE z.a > r.a)", mode="dbtoaster"),
    _again("SELECT a FROM r WHERE EXISTS (SELECT 1 FROM q WHERE q.a = r.a AND q.d > r.b)"),
    _again("SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.a = r.a)"),
    _again("SELECT a FROM r WHERE a IN (SELECT d FROM q WHERE s = 'x')"),
    _again("SELECT a FROM r WHERE a * 0.5 IN (SELECT d FROM q)", "SELECT a FROM r WHERE a IN (SELECT d * 2 FROM q)"),
    _again("SELECT a, (SELECT COUNT(*) FROM q WHERE q.a = r.a) AS c FROM r"),
    _again("SELECT s, SUM(x) AS t FROM (SELECT s, a * 0.5 AS x FROM r) AS z GROUP BY s",
           "SELECT s, SUM(a * 5) FROM r GROUP BY s", (0, 1)),
    _again("WITH t AS (SELECT s, SUM(a) AS x FROM r GROUP BY s) SELECT s FROM t WHERE x > 0"),
    _again("WITH t(k, x) AS (SELECT a, SUM(b) FROM r GROUP BY a) SELECT u.k, v.x FROM t u JOIN t v ON u.k = v.x"),
    # extremes, distinct, having, order
    _again("SELECT s, MIN(a) AS lo, MAX(a * b) AS hi FROM r GROUP BY s"),
    _again("SELECT MAX(a) AS hi FROM r"),
    _again("SELECT DISTINCT a FROM r"),
    _again("SELECT COUNT(DISTINCT a) AS c, SUM(DISTINCT a) AS x FROM r"),
    _linear("SELECT s FROM r GROUP BY s HAVING SUM(a) > 0.5 AND COUNT(*) > 1",
           "SELECT s FROM r GROUP BY s HAVING SUM(a) * 2 > 1 AND COUNT(*) > 1"),
    _again("SELECT a, b FROM r ORDER BY a DESC LIMIT 2", "SELECT a, b FROM r ORDER BY a DESC, a, b LIMIT 2"),
    _again("SELECT s, SUM(a) AS x FROM r GROUP BY s ORDER BY x LIMIT 1 OFFSET 1",
           "SELECT s, SUM(a) AS x FROM r GROUP BY s ORDER BY x, s LIMIT 1 OFFSET 1"),
    _again("SELECT a FROM r LIMIT 3", "SELECT a FROM r ORDER BY a LIMIT 3"),
    _again("SELECT ARG_MIN(a, b) AS x, ARG_MAX(a, b) AS y FROM r",
           "SELECT (SELECT a FROM r ORDER BY b, a LIMIT 1), (SELECT a FROM r ORDER BY b DESC, a LIMIT 1)"),
    # set operations
    _again("SELECT a FROM r UNION SELECT d FROM q"),
    _again("SELECT a FROM r EXCEPT SELECT d FROM q"),
    _again("SELECT a FROM r EXCEPT ALL SELECT d FROM q"),
    _again("SELECT a FROM r INTERSECT SELECT d FROM q"),
    _again("SELECT a FROM r UNION SELECT d * 0.5 FROM q", "SELECT a * 10 FROM r UNION SELECT d * 5 FROM q", (1,)),
    # choices and NULL
    _linear("SELECT a, CASE WHEN b > 0 THEN a WHEN b = 0 THEN 0.5 END AS x FROM r",
           "SELECT a, CASE WHEN b > 0 THEN a * 10 WHEN b = 0 THEN 5 END FROM r", (0, 1)),
    _linear("SELECT SUM(CASE WHEN s = 'x' THEN a ELSE 0 END) AS x FROM r"),
    _linear("SELECT SUM(a) FILTER (WHERE b > 0) AS x FROM r"),
    _linear("SELECT SUM(a) FILTER (WHERE b > 0) AS x FROM r", "SELECT COALESCE(SUM(a) FILTER (WHERE b > 0), 0) FROM r",
           mode="dbtoaster"),
    _linear("SELECT COALESCE(k, v, 0) AS x, k IS NULL AS y FROM n"),
    _linear("SELECT GREATEST(k, v) AS g, LEAST(k, 0.5) AS l, NULLIF(k, v) AS z, ABS(k) AS u FROM n",
           "SELECT GREATEST(k, v), CASE WHEN k IS NULL THEN 5 ELSE LEAST(k * 10, 5) END, NULLIF(k, v), ABS(k) FROM n",
           (0, 1, 0, 0)),
    _again("SELECT name, SUM(v) AS x, COUNT(v) AS c, AVG(f) AS m FROM n GROUP BY name",
           "SELECT name, SUM(v), COUNT(v), AVG(f) FROM n GROUP BY name"),
    _linear("SELECT name, SUM(weight) AS x FROM n GROUP BY name HAVING COUNT(*) > 0"),
    _again("SELECT SUM(f) AS x FROM n"),
    _again("SELECT SUM(f * 2) + 1 AS x FROM n WHERE f < 100"),
    _linear("SELECT k FROM n WHERE v IS NOT DISTINCT FROM weight"),
    _linear("SELECT k // v AS x, k % v AS y FROM n", "SELECT k // NULLIF(v, 0), k % NULLIF(v, 0) FROM n"),
    _linear("SELECT AVG(v * 0.5) AS x FROM n", "SELECT SUM(v)::DOUBLE / NULLIF(COUNT(v), 0) / 2 FROM n"),
    _again("SELECT UPPER(name) AS u, LENGTH(name) AS l FROM n WHERE name LIKE 'x%'"),
    # windows
    _again("SELECT a, SUM(b) OVER (PARTITION BY s ORDER BY a) AS x FROM r"),
    _again("SELECT s, a FROM (SELECT s, a, ROW_NUMBER() OVER (PARTITION BY s ORDER BY a DESC) AS i FROM r) z "
           "WHERE i = 1"),
    _again("SELECT a, RANK() OVER (ORDER BY b) AS x, AVG(b) OVER (PARTITION BY s) AS m FROM r",
           "SELECT a, RANK() OVER (ORDER BY b), SUM(b) OVER (PARTITION BY s)::DOUBLE "
           "/ COUNT(*) OVER (PARTITION BY s) FROM r"),
]  # fmt: skip


def test_the_corpus_is_a_corpus() -> None:
    assert len({(case.sql, case.mode) for case in CASES}) == len(CASES) >= 60


@cache
def compiled(case: Case) -> Program:
    """The program of one case; it survives storage."""
    program = compile_program([NamedSelect("view", case.sql)], RELATIONS, mode=case.mode)
    assert decode_program(encode_program(program)) == program
    return program


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.sql[:60]} {case.mode}")
def test_class_and_scales(case: Case) -> None:
    view = compiled(case).views[0]
    if case.view_class == "linear" or isinstance(view.body, Reevaluated):
        assert view.view_class == case.view_class, view.reason
    assert view.reason
    scales = tuple(column.scale for column in view.columns)
    assert scales == (case.scales or (0,) * len(scales))


def _rows(*columns: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(*columns), max_size=7)


def _data(integers: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, list[tuple[Any, ...]]]]:
    strings = st.sampled_from(["x", "y", "xyz"])
    perhaps = st.none() | integers
    floats = st.none() | st.sampled_from([-1.5, 0.0, 0.25, 1.5, 2.0, 1e6])
    return st.fixed_dictionaries({
        "r": _rows(integers, integers, strings),
        "q": _rows(integers, integers, strings),
        "n": _rows(perhaps, perhaps, floats, st.none() | strings, perhaps),
    })  # fmt: skip


SMALL = st.integers(-4, 5)
HUGE = st.one_of(SMALL, st.integers(2**62 - 3, 2**62 + 3), st.integers(-(2**62) - 3, -(2**62) + 3))


@kept
def _oracle_connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _oracle(case: Case) -> Counter[tuple[Any, ...]]:
    return Counter(normal(row) for row in _oracle_connection().execute(case.oracle or case.sql).fetchall())


def _check(cases: Iterable[Case], data: dict[str, list[tuple[Any, ...]]]) -> None:
    kinds = {"int64": "HUGEINT", "float64": "DOUBLE", "string": "VARCHAR"}
    for relation in RELATIONS:
        columns = [(column.name, kinds[column.type]) for column in relation.columns]
        fill(_oracle_connection(), relation.name, columns, data[relation.name])
    for case in cases:
        program = compiled(case)
        try:
            expected = _oracle(case)
        except duckdb.OutOfRangeException:
            continue  # past 128 bits even the oracle cannot say
        try:
            found = run_view(program, program.views[0], data)
        except (duckdb.OutOfRangeException, duckdb.ConversionException):
            widest = max((abs(value) for row in expected for value in row if isinstance(value, int)), default=0)
            assert widest * 100 >= _INT128_LIMIT, f"{case.sql}: refused without need"
            continue
        assert found == expected, f"{case.sql} on {data}"


@pytest.mark.parametrize("part", range(4))
@settings(max_examples=examples(12), deadline=None)
@given(data=_data(SMALL))
def test_views_equal_the_oracle(part: int, data: dict[str, list[tuple[Any, ...]]]) -> None:
    _check(CASES[part::4], data)


@pytest.mark.parametrize("part", range(4))
@settings(max_examples=examples(8), deadline=None)
@given(data=_data(HUGE))
def test_views_equal_the_oracle_near_the_edge_of_int64(part: int, data: dict[str, list[tuple[Any, ...]]]) -> None:
    _check(CASES[part::4], data)


# --- the finance queries against nested loops

Order = tuple[int, int, int, int, int]  # t, id, broker_id, volume, price


def _total(numbers: list[Any], zero: bool) -> Any:
    return sum(numbers) if numbers or zero else None


def _more(left: Any, right: Any) -> bool:
    return left is not None and right is not None and left > right


def _per_broker(pairs: Iterable[tuple[int, Any]]) -> Counter[tuple[Any, ...]]:
    sums: dict[int, Any] = {}
    for broker, value in pairs:
        sums[broker] = sums.get(broker, 0) + value
    return Counter(sums.items())


def finance(name: str, bids: list[Order], asks: list[Order], zero: bool) -> Counter[tuple[Any, ...]]:
    """DBToaster's finance queries as loops over the orders."""

    def above(book: list[Order], price: int) -> Any:
        return _total([volume for *_, volume, other in book if other > price], zero)

    def volume_of(book: list[Order], share: Fraction) -> Any:
        total = _total([volume for *_, volume, _ in book], zero)
        return None if total is None else share * total

    def best(book: list[Order]) -> list[Order]:
        quarter = volume_of(book, Fraction(1, 4))
        return [order for order in book if _more(quarter, above(book, order[4]))]

    def large(book: list[Order]) -> list[Order]:
        least = volume_of(book, Fraction(1, 10000))
        return [order for order in book if _more(order[3], least)]

    if name == "axf":
        return _per_broker((b[2], a[3] - b[3]) for b in bids for a in asks if b[2] == a[2] and abs(a[4] - b[4]) > 1000)
    if name == "bsp":
        return _per_broker(
            (x[2], x[3] * x[4] - y[3] * y[4]) for x in bids for y in bids if x[2] == y[2] and x[0] > y[0]
        )
    if name == "bsv":
        return _per_broker((x[2], 5 * x[3] * x[4] * y[3] * y[4]) for x in bids for y in bids if x[2] == y[2])
    if name == "mst":
        return _per_broker((b[2], a[4] * a[3] - b[4] * b[3]) for b, a in product(best(bids), best(asks)))
    if name == "psp":
        return Counter([(_total([a[4] - b[4] for b, a in product(large(bids), large(asks))], zero),)])
    return Counter([(_total([b[3] * b[4] for b in best(bids)], zero),)])


_ORDERS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(0, 2),
              st.sampled_from([1, 2, 100, 30000]), st.sampled_from([1, 2, 5, 1500, 3000])), max_size=9)  # fmt: skip


@pytest.mark.parametrize("name", ["axf", "bsp", "bsv", "mst", "psp", "vwap"])
@pytest.mark.parametrize("mode", ["sql", "dbtoaster"])
@settings(max_examples=examples(20), deadline=None)
@given(bids=_ORDERS, asks=_ORDERS)
def test_finance_queries_equal_nested_loops(
    name: str, mode: Literal["sql", "dbtoaster"], bids: list[Order], asks: list[Order]
) -> None:
    program = _finance_program(name, mode)
    found = run_view(program, program.views[0], {"bids": bids, "asks": asks})
    assert found == finance(name, bids, asks, mode == "dbtoaster")


@cache
def _finance_program(name: str, mode: Literal["sql", "dbtoaster"]) -> Program:
    script = read_script(query_path(name))
    return compile_program(script.selects, script.relations, mode=mode)
