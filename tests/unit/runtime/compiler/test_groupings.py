"""GROUPING SETS, ROLLUP and CUBE: what their union must keep of the SELECT, and what is refused."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from runtime.compiler import Column, NamedSelect, Relation, SqlError, compile_program
from runtime.views import ShardState

R = Relation("r", (Column("a", "int64"), Column("b", "int64"), Column("x", "int64")))
ROWS = pa.table({"a": [1, 1, 2, 2, 3], "b": [1, 2, 2, 2, 1], "x": [5, 7, 7, 9, 1]})


def _shown(sql: str) -> list[tuple[Any, ...]]:
    """The rows of the view after one step."""
    shard = ShardState(compile_program([NamedSelect("v", sql)], [R]), inputs="relations")
    changes = shard.step_tables({"r": ROWS.append_column("weight", pa.array([1] * len(ROWS)))}).changes["v"]
    rows = [list(row.values()) for row in changes.to_pylist()]
    return sorted((tuple(row[:-1]) for row in rows for _ in range(row[-1])), key=repr)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, COUNT(*) FILTER (WHERE a = 2) AS n FROM r GROUP BY CUBE (a)",
        "SELECT a, SUM(x) FILTER (WHERE a + b > 3) AS n FROM r GROUP BY ROLLUP (a, b)",
        "SELECT a, QUANTILE_DISC(x, 0.5) FILTER (WHERE a > 1) AS q FROM r GROUP BY CUBE (a)",
        "SELECT a, PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY a) AS q FROM r GROUP BY CUBE (a)",
        "SELECT DISTINCT COUNT(*) AS n FROM r GROUP BY GROUPING SETS ((a), (b))",
        "SELECT a, MAX(a) AS m, COUNT(*) AS n FROM r GROUP BY ROLLUP (a) HAVING SUM(x) FILTER (WHERE a = 1) > 2",
    ],
)
def test_a_set_of_keys_hides_keys_outside_aggregates_alone(sql: str) -> None:
    with duckdb.connect() as database:
        database.register("r", ROWS)
        assert _shown(sql) == sorted(database.execute(sql).fetchall(), key=repr)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, MAX(a) OVER () AS m FROM r GROUP BY ROLLUP (a)",
        "SELECT a, SUM(COUNT(*)) OVER (PARTITION BY b) AS m FROM r GROUP BY CUBE (a, b)",
        "SELECT a FROM r GROUP BY CUBE (a) QUALIFY ROW_NUMBER() OVER (ORDER BY a) = 1",
        "SELECT DISTINCT ON (a) a, b FROM r GROUP BY CUBE (a, b)",
    ],
)
def test_what_sees_all_sets_together_is_refused(sql: str) -> None:
    with pytest.raises(SqlError, match="beside several sets of keys; put the grouping into a subquery"):
        compile_program([NamedSelect("v", sql)], [R])
