"""A call keeps all of its arguments: sqlglot reads it as a function only if it can write each of them."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from runtime.compiler.dialect import QueryDialect


def read(sql: str) -> exp.Expr:
    select = sqlglot.parse_one(f"SELECT {sql}", read=QueryDialect)
    assert isinstance(select, exp.Select)
    value: exp.Expr = select.selects[0]
    return value


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("MOD(a, b)", exp.Mod),
        ("SUM(DISTINCT a ORDER BY b, c, d)", exp.Sum),
        ("STRING_AGG(a, ',' ORDER BY b, c)", exp.GroupConcat),
        ("EXISTS (SELECT a, b FROM t)", exp.Exists),
        ("CAST(a AS DECIMAL(5, 2))", exp.Cast),
        ("COALESCE(a, f(b, c), [d, e])", exp.Coalesce),
        ("DATE_TRUNC('day', a)", exp.TimestampTrunc),
        ("DATE_TRUNC('day', a, 'UTC')", exp.Anonymous),
        ("MOD(a, b, c)", exp.Anonymous),
        ("JARO_WINKLER_SIMILARITY(a, b, 0.5)", exp.Anonymous),
        ("REGEXP_REPLACE(a, b, c, 'l')", exp.Anonymous),
    ],
)
def test_a_call_that_would_lose_an_argument_stays(sql: str, kind: type[exp.Expr]) -> None:
    call = read(sql)
    assert type(call) is kind
    assert kind is not exp.Anonymous or call.sql("duckdb") == sql


def test_nested_calls_are_read_once() -> None:
    """A call whose arguments were read a second time would take 2^30 steps."""
    sql = "a"
    for _ in range(30):
        sql = f"MOD({sql}, 1, 2)"
    assert read(sql).sql("duckdb") == sql
