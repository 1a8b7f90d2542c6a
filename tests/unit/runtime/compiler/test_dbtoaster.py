"""Words of DBToaster's dialect: IN LIST, its functions, and SUBSTRING counted from 0 in its mode."""

from __future__ import annotations

import math
from typing import Any, Literal

import duckdb
import pytest

from runtime.compiler import MARKET_RELATIONS, NamedSelect, SqlError, compile_program
from runtime.plan import Reevaluated

Mode = Literal["sql", "dbtoaster"]


def answer(sql: str, mode: Mode = "dbtoaster") -> list[tuple[Any, ...]]:
    """What a re-evaluated view over one trade gives."""
    (view,) = compile_program([NamedSelect("v", sql)], MARKET_RELATIONS, mode=mode).views
    assert isinstance(view.body, Reevaluated)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE trades AS SELECT 'ACME' AS symbol, 3::BIGINT AS price, 4::BIGINT AS volume")
        return connection.execute(view.body.query).fetchall()


@pytest.mark.parametrize(
    ("call", "mode", "expected"),
    [
        ("SUBSTRING(symbol, 0, 2)", "dbtoaster", "AC"),
        ("SUBSTRING(symbol, 0, 2)", "sql", "A"),
        ("SUBSTR(symbol, price - 1, 1)", "dbtoaster", "M"),
        ("REGEXP_MATCH('^AC.*', symbol)", "sql", 1),
        ("REGEXP_MATCH('^BC.*', symbol)", "sql", 0),
        ("VEC_LENGTH(price, volume, 12)", "sql", 13.0),
        ("VECTOR_ANGLE(1, 0, 0, 0, price, 0)", "sql", math.pi / 2),
        ("DIHEDRAL_ANGLE(1, 0, 0, 0, 0, 0, 0, price, 0, 0, price, 1)", "sql", -math.pi / 2),
        ("CAST_STRING(price)", "sql", "3"),
    ],
)
def test_functions_give_what_dbtoaster_gives(call: str, mode: Mode, expected: object) -> None:
    """The functions of its standard library, over one row."""
    ((found,),) = answer(f"SELECT {call} AS x FROM trades", mode)
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("CAST_STRING(SUBSTRING(symbol, 0, 2))", "AC"),
        ("REGEXP_MATCH('^C$', SUBSTRING(CAST_STRING(symbol), 1, 1))", 1),
        ("SUBSTRING(symbol, LISTMAX(0, LISTMIN(price, 1)), 1)", "C"),
        (
            "VEC_LENGTH(CAST_FLOAT('2'), LISTMAX(1, price), CAST_FLOAT(SUBSTRING(CAST_STRING(10 * price + 6), 1, 1)))",
            7.0,
        ),
        ("CAST_FLOAT(CAST_STRING(LISTMAX(1, price)))", 3.0),
    ],
)
def test_functions_are_arguments_of_functions(call: str, expected: object) -> None:
    """Each means the same inside another one."""
    assert answer(f"SELECT {call} AS x FROM trades", "dbtoaster") == [(expected,)]


@pytest.mark.parametrize("mode", ["sql", "dbtoaster"])
def test_in_list_and_listmax_are_incremental(mode: Mode) -> None:
    """They are IN and GREATEST; a string that contains the words is left as it is."""
    sql = "SELECT SUM(price) / LISTMAX(1, COUNT(*)) AS x FROM bids WHERE id IN LIST (1, 2) AND symbol <> 'IN LIST ('"
    (view,) = compile_program([NamedSelect("v", sql)], MARKET_RELATIONS, mode=mode).views
    assert view.view_class == "linear"
    assert view.sql == sql


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("VEC_LENGTH(1)", "v:1:8: expected VEC_LENGTH (x, y, z), was 1 values"),
        ("LISTMIN()", "v:1:8: expected values in LISTMIN (…)"),
    ],
)
def test_calls_with_other_values_are_refused(call: str, reason: str) -> None:
    """The error names the parameters."""
    with pytest.raises(SqlError, match=r"expected") as caught:
        compile_program([NamedSelect("v", f"SELECT {call} AS x FROM bids")], MARKET_RELATIONS)
    assert str(caught.value) == reason
