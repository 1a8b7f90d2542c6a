"""Aggregations, unnest, filters and SQL give what DuckDB does of each epoch by itself."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.operators import Task, plan_sql, scan
from runtime.engine.operators.columns import as_schema, canonical
from tests.generators.operator_lab import SCHEMA, by_epoch, from_scratch, random_rows, rows_of, slices, sorted_rows

RANDOMS = st.randoms(use_true_random=False)
KEYS = st.sampled_from([[], ["k"], ["s"], ["f"], ["k", "s"], ["f", "s", "k"]])
AGGREGATES = [
    "COUNT(*) AS n", "COUNT(s) AS c", "SUM(v) AS total", "MIN(s) AS least", "MAX(v) AS most", "MIN(f) AS low",
    "SUM(v) FILTER (k > 2) AS some", "SUM(k * 2 + 1) AS odd", "MAX(v) - MIN(v) AS span",
]  # fmt: skip
ORACLE = [text.replace("SUM(v)", "SUM(v::HUGEINT)").replace("MAX(v) -", "MAX(v)::HUGEINT -") for text in AGGREGATES]


@settings(max_examples=50)
@given(RANDOMS, KEYS, st.booleans(), st.booleans(), st.integers(1, 3))
def test_aggregation(random: Random, keys: list[str], is_sorted: bool, is_huge: bool, instances: int) -> None:
    rows = scan("rows", SCHEMA, order=keys if is_sorted else []).bounded(most_rows=random.randint(1, 5))
    if keys and instances > 1:
        rows = rows.exchange(random.choice(keys), instances=instances)
    plan = rows.aggregate(keys, AGGREGATES)
    assert ("streaming aggregation" in str(plan)) == bool(is_sorted and keys)
    epochs = [{"rows": random_rows(random, 25, huge=is_huge)} for _ in range(3)]
    if is_sorted and keys:
        epochs = [{"rows": sorted_rows(epoch["rows"], *keys)} for epoch in epochs]
    group = f"GROUP BY {', '.join(keys)}" if keys else ""
    sql = f"SELECT {', '.join([*keys, *ORACLE])} FROM rows {group}"
    assert by_epoch(random, plan, epochs) == [from_scratch(sql, epoch) for epoch in epochs]


@settings(max_examples=25)
@given(RANDOMS, KEYS)
def test_aggregation_that_keeps_its_groups_gives_those_that_changed_as_of_all_epochs(
    random: Random, keys: list[str]
) -> None:
    task = Task(scan("rows", SCHEMA).aggregate(keys, AGGREGATES, keep=True))
    seen = random_rows(random, 0)
    for _ in range(3):
        fresh = random_rows(random, 15, huge=random.random() < 0.5)
        seen = pa.Table.from_batches([seen, fresh]).combine_chunks()
        seen = pa.RecordBatch.from_arrays([column.combine_chunks() for column in seen.columns], names=SCHEMA.names)
        for batch in slices(random, fresh):
            task.add_input("rows", batch)
        same = " AND ".join(f"fresh.{key} IS NOT DISTINCT FROM rows.{key}" for key in keys) or "TRUE"
        where = f"WHERE EXISTS (SELECT 1 FROM fresh WHERE {same})" if keys else ""
        group = f"GROUP BY {', '.join(keys)}" if keys else ""
        sql = f"SELECT {', '.join([*keys, *ORACLE])} FROM rows {where} {group}"
        assert rows_of(task.drain()) == from_scratch(sql, {"rows": seen, "fresh": fresh})


@settings(max_examples=50)
@given(RANDOMS, st.booleans(), st.integers(1, 6))
def test_unnest(random: Random, is_outer: bool, most_rows: int) -> None:
    plan = scan("rows", SCHEMA).bounded(most_rows=most_rows).unnest("l", outer=is_outer, ordinality="n")
    epochs = [{"rows": random_rows(random, 15)} for _ in range(2)]
    join = "LEFT JOIN LATERAL" if is_outer else "CROSS JOIN LATERAL"
    on = "ON TRUE" if is_outer else ""
    pairs = "SELECT UNNEST(l) AS x, UNNEST(RANGE(1, LEN(l) + 1)) AS n"
    sql = f"SELECT k, s, f, v, x, n FROM rows {join} ({pairs}) {on}"
    assert by_epoch(random, plan, epochs) == [from_scratch(sql, epoch) for epoch in epochs]


QUERIES = [
    "SELECT k, v * 2 + k AS w, CASE WHEN s = 'a' THEN 1 ELSE 0 END AS a FROM a WHERE k > 1 AND s IS NOT NULL OR v < 3",
    "SELECT k, COUNT(*) AS n, SUM(v) AS total, AVG(v) AS mean FROM a WHERE v <> 5 GROUP BY k HAVING COUNT(*) > 1",
    "SELECT DISTINCT k, s FROM a",
    "SELECT a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND a.v < b.v",
    "SELECT a.k, a.v, b.v AS w FROM a, b WHERE a.k = b.k + 1 AND b.s = 'a'",
    "SELECT a.v, b.v AS w FROM a LEFT JOIN b ON a.k = b.k AND a.s = b.s AND b.v > 4",
    "SELECT a.v, b.v AS w FROM a RIGHT JOIN b ON a.k = b.k",
    "SELECT a.v, b.v AS w FROM a FULL JOIN b ON a.k = b.k",
    "SELECT a.v FROM a SEMI JOIN b ON a.s = b.s",
    "SELECT a.v FROM a ANTI JOIN b ON a.s = b.s AND b.k > 2",
    "SELECT v, s FROM a UNION ALL SELECT k * 2, s FROM b WHERE s > 'a'",
    "WITH t AS (SELECT k, MAX(v) AS top FROM a GROUP BY k) SELECT t.k, top, b.s FROM t JOIN b USING (k)",
    "SELECT x.k, COUNT(*) AS n FROM (SELECT k FROM a WHERE v > 2) AS x JOIN b ON x.k = b.k GROUP BY x.k",
    "SELECT v, u.e FROM a CROSS JOIN UNNEST(a.l) AS u(e) WHERE u.e > 2",
    "SELECT k + 1 AS j, SUM(f) FILTER (WHERE f < 5) AS low FROM a GROUP BY 1",
]


@settings(max_examples=50)
@given(RANDOMS, st.sampled_from(QUERIES))
def test_sql(random: Random, sql: str) -> None:
    plan = plan_sql(sql, {"a": scan("a", SCHEMA), "b": scan("b", SCHEMA)})
    names = [name for name in "ab" if f"scan {name} " in str(plan)]
    epochs = [{name: random_rows(random, 15) for name in names} for _ in range(2)]
    expected = [from_scratch(sql, epoch) for epoch in epochs]
    assert by_epoch(random, plan, epochs) == expected


@settings(max_examples=25)
@given(RANDOMS, st.integers(0, 30), st.integers(0, 10))
def test_limit_and_row_number_count_over_epochs(random: Random, count: int, offset: int) -> None:
    plan = scan("rows", SCHEMA).project("v").row_number("n").limit(count, offset)
    epochs = [{"rows": random_rows(random, 15)} for _ in range(3)]
    values = [value for epoch in epochs for value in epoch["rows"].column("v").to_pylist()]
    numbered = [(value, place + 1) for place, value in enumerate(values)]
    found = [row for rows in by_epoch(random, plan, epochs) for row in rows]
    assert sorted(found) == sorted(numbered[offset : offset + count])


def test_types_from_outside_are_brought_to_those_of_operators() -> None:
    odd = pa.record_batch({
        "i": pa.array([1], pa.int16()),
        "u": pa.array([2**64 - 1], pa.uint64()), "s": pa.array(["x"], pa.large_string()),
        "d": pa.array(["x"]).dictionary_encode(), "f": pa.array([0.5], pa.float32()),
    })  # fmt: skip
    made = as_schema(odd, canonical(odd.schema))
    assert rows_of([made]) == [(1, 2**64 - 1, "x", "x", 0.5)]
