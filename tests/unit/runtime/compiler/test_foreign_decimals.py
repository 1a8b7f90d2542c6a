"""Functions that only DuckDB has take the decimals of a query as DECIMAL, and give them back as exact integers."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import duckdb
import pytest

from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.plan import Reevaluated

R: Final = Relation("r", (Column("id", "int64"), Column("x", "int64", nullable=True, scale=2)))
ROWS: Final = (150, -250, 250, -1, None, 10**15 + 5, 1075)
CALLS: Final = (
    "CAST(x AS VARCHAR)",
    "x || ''",
    "FORMAT('{}', x)",
    "CAST(x AS BIGINT)",
    "CAST(x + 0.001 AS VARCHAR)",
    "ROUND(x, 1)",
    "CEIL(x)",
    "TRUNC(x * 10)",
    "TRY_CAST(x AS DECIMAL(3, 2))",
    "CAST(x AS DECIMAL(17, 1))",
    "MEDIAN(x) OVER ()",
    "QUANTILE_CONT(x, 0.3) OVER (PARTITION BY id % 2)",
    "NTH_VALUE(x, 2) OVER (ORDER BY id)",
    "SQRT(ABS(x))",
    "LIST_MAX([x, 1.5])",
    "CAST(x AS FLOAT)",
)


@pytest.mark.parametrize("call", CALLS)
def test_a_foreign_function_takes_decimals(call: str) -> None:
    """The view's query over scaled integers equals the query as it was written over DECIMAL(18,2)."""
    (view,) = compile_program([NamedSelect("v", f"SELECT id, {call} AS y FROM r")], [R]).views
    assert isinstance(view.body, Reevaluated)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE written (id BIGINT, x DECIMAL(18, 2))")
    for number, value in enumerate(ROWS):
        exact = None if value is None else Decimal(value).scaleb(-2)
        connection.execute("INSERT INTO written VALUES (?, ?)", [number, exact])
    expected = connection.execute(f"SELECT id, {call} AS y FROM written ORDER BY id").fetchall()
    table = view.body.inputs[0].table
    connection.execute(f'CREATE TABLE "{table}" AS SELECT id, CAST(x * 100 AS BIGINT) AS x FROM written')
    scale = view.columns[1].scale
    found = connection.execute(f"SELECT * FROM ({view.body.query}) ORDER BY id").fetchall()
    assert [(number, Decimal(y).scaleb(-scale) if scale and y is not None else y) for number, y in found] == expected
