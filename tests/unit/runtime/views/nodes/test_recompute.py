"""A view that DuckDB evaluates is a function of the rows: not of the order in which they came, nor of a restart."""

from __future__ import annotations

import random
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program
from runtime.plan import Reevaluated
from runtime.state import ARROW_TYPES
from runtime.views import ShardState

COLUMNS = (
    Column("id", "int64"),
    Column("k", "int64"),
    Column("s", "string", True),
    Column("x", "float64", True),
    Column("p", "bool", True),
    Column("d", "date", True),
    Column("t", "timestamp", True),
)
VALUES: tuple[list[Any], ...] = (
    list(range(9)),
    [1, 2],
    [None, "a", "b", "c"],
    [None, 0.1, 0.2, 0.3, 1e16, -1e16, float("nan")],
    [None, True, False],
    [None, date(1969, 12, 31), date(2024, 2, 29)],
    [None, datetime(2024, 2, 29, 1, 2, 3, 4)],  # noqa: DTZ001
)
QUERIES = (
    "SELECT id, NTILE(3) OVER (ORDER BY k) AS n FROM r",
    "SELECT id, NTH_VALUE(s, 2) OVER (ORDER BY k) AS n FROM r",
    "SELECT STRING_AGG(s ORDER BY k) AS l FROM r",
    "SELECT k, STRING_AGG(s ORDER BY x) AS l FROM r GROUP BY k",
    "SELECT MODE(s) AS m FROM r",
    "SELECT k, MODE(s) AS m FROM r GROUP BY k",
    "SELECT FIRST(s ORDER BY k) AS f, LAST(d ORDER BY k) AS g FROM r",
    "SELECT SUM(x) AS n FROM r WHERE x < 1e17",
    "SELECT p, d, FIRST(t ORDER BY k) AS f, STRING_AGG(s ORDER BY k) AS l FROM r GROUP BY p, d",
)


def compiled(sql: str) -> Program:
    """The program of one view, which DuckDB evaluates."""
    program = compile_program([NamedSelect("v", sql)], [Relation("r", COLUMNS)])
    assert isinstance(program.views[0].body, Reevaluated)
    return program


def step(state: ShardState, rows: list[tuple[Any, ...]]) -> list[str]:
    """What changes when rows (values, weight) are added, sorted."""
    types = [*(ARROW_TYPES[column.type] for column in COLUMNS), pa.int64()]
    arrays = [pa.array(values, type_) for values, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    names = [*(column.name for column in COLUMNS), "weight"]
    found = state.step_tables({"r": pa.table(dict(zip(names, arrays, strict=True)))})
    assert not found.failed
    return sorted(map(repr, found.changes["v"].to_pylist())) if "v" in found.changes else []


@pytest.mark.parametrize("sql", QUERIES)
def test_the_order_of_rows_and_a_restart_change_no_answer(sql: str) -> None:
    program, chance = compiled(sql), random.Random(sql)
    one, other = (ShardState(program, inputs="relations") for _ in range(2))
    for _ in range(8):
        rows = [(*(chance.choice(values) for values in VALUES), chance.choice([1, 1, 2])) for _ in range(6)]
        expected = step(one, rows)
        chance.shuffle(rows)
        assert step(other, rows) == expected
        run, other = other.save_all(), ShardState(program, inputs="relations")
        other.apply_run(run)


def test_one_nan_in_place_of_another_is_no_change() -> None:
    """DuckDB's functions return NaNs of either sign, which are one value."""
    state = ShardState(compiled("SELECT k, ACOSH(x) AS y FROM r"), inputs="relations")
    rest = (None, None, None)
    assert len(step(state, [(1, 1, None, float("nan"), *rest, 1)])) == 1
    assert step(state, [(1, 1, None, float("nan"), *rest, -1), (1, 1, None, 0.1, *rest, 1)]) == []
    assert step(state, [(1, 1, None, 0.1, *rest, -1), (1, 1, None, -1e16, *rest, 1)]) == []
