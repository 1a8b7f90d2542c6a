"""Simple interpreter of view programs without optimisation, and rows for it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb

from runtime.plan import (
    Call,
    Col,
    Expr,
    Flow,
    Joined,
    Linear,
    Lit,
    Map,
    Program,
    Reevaluated,
    Relation,
    Selected,
    View,
)
from tests.generators.database import kept

Row = tuple[Any, ...]
PARTS = ("year", "month", "day", "hour", "minute", "second")
TYPES = {"int64": "BIGINT", "int128": "HUGEINT", "float64": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN",
         "date": "DATE", "timestamp": "TIMESTAMP"}  # fmt: skip


def evaluate(expr: Expr, row: Mapping[str, Any]) -> Any:
    """Return the expression's value, NULL as None, integers of any size."""
    if isinstance(expr, Col):
        return row[expr.name]
    if isinstance(expr, Lit):
        return expr.value
    assert isinstance(expr, Call)
    values = [evaluate(arg, row) for arg in expr.args]
    if expr.op == "and":
        return False if False in values else None if None in values else True
    if expr.op == "or":
        return True if True in values else None if None in values else False
    if expr.op == "is_null":
        return values[0] is None
    if expr.op == "case":
        tests = zip(values[:-1:2], values[1::2], strict=True)
        return next((value for test, value in tests if test is True), values[-1])
    if expr.op in ("coalesce", "least", "greatest"):
        present = [value for value in values if value is not None]
        choices = {"coalesce": lambda: present[0], "least": lambda: min(present), "greatest": lambda: max(present)}
        return choices[expr.op]() if present else None
    if None in values:
        return None
    return operate(expr.op, *values)


def operate(op: str, left: Any, right: Any = None) -> Any:
    """Return the result of one operation on values that are not NULL."""
    if op in ("div", "floordiv", "mod"):
        if right == 0:
            return None
        if op == "div":
            return left / right
        quotient = abs(left) // abs(right)
        quotient = quotient if (left < 0) == (right < 0) else -quotient
        return quotient if op == "floordiv" else left - quotient * right
    if op in PARTS:
        return getattr(left, op, 0)
    table: dict[str, Callable[[], Any]] = {
        "add": lambda: left + right, "sub": lambda: left - right, "mul": lambda: left * right, "neg": lambda: -left,
        "eq": lambda: left == right, "ne": lambda: left != right, "lt": lambda: left < right,
        "le": lambda: left <= right, "gt": lambda: left > right, "ge": lambda: left >= right, "not": lambda: not left,
        "sqrt": lambda: math.sqrt(left), "like": lambda: re.fullmatch(pattern(right), left, re.DOTALL) is not None,
        "date": lambda: date.fromisoformat(left) if isinstance(left, str) else left.date(),
        "timestamp": lambda: as_timestamp(left),
    }  # fmt: skip
    return table[op]()


def pattern(like: str) -> str:
    """Return the regular expression of a LIKE pattern."""
    return "".join(".*" if char == "%" else "." if char == "_" else re.escape(char) for char in like)


def as_timestamp(value: Any) -> datetime:
    """Return the time of a literal, or a date's midnight."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return datetime.fromisoformat(value.isoformat())


def groups(part: Map, relation: Relation, rows: Sequence[Row]) -> dict[Row, dict[str, Any]]:
    """Return the groups of a map: keys → sums, weight and again the keys, by name."""
    found: dict[Row, dict[str, Any]] = {}
    names = [column.name for column in relation.columns]
    for values in rows:
        row = dict(zip(names, values, strict=True))
        if part.where is not None and evaluate(part.where, row) is not True:
            continue
        key = tuple(evaluate(one.expr, row) for one in part.keys)
        group = found.setdefault(key, {"weight": 0, **{one.name: 0 for one in part.sums}})
        group.update({one.name: value for one, value in zip(part.keys, key, strict=True)})
        group["weight"] += 1
        for one in part.sums:
            group[one.name] += evaluate(one.expr, row)
    return found


def run_view(program: Program, view: View, data: Mapping[str, Sequence[Row]]) -> Counter[Row]:
    """Return the view's rows with their multiplicities."""
    relations = {relation.name: relation for relation in program.relations}

    def map_groups(number: int) -> dict[Row, dict[str, Any]]:
        part = program.maps[number]
        return groups(part, relations[part.relation], data[part.relation])

    if isinstance(view.body, Linear):
        return _run_linear(view.body, map_groups)
    if isinstance(view.body, (Joined, Selected)):
        from tests.generators.factored import FactoredState

        state = FactoredState(program, view)
        state.step({name: [(row, 1) for row in rows] for name, rows in data.items()})
        return state.rows()
    if isinstance(view.body, Flow):
        from tests.unit.runtime.compiler._flow_interpreter import run_flow

        found = run_flow(view.body, program.maps, relations, data)
        return Counter(normal(row) for row in found.elements())
    assert isinstance(view.body, Reevaluated)
    connection = views_connection()
    for table in view.body.inputs:
        rows = [key for key, group in map_groups(table.map).items() for _ in range(group["weight"])]
        columns = [(key.name, TYPES[key.type]) for key in program.maps[table.map].keys]
        fill(connection, table.table, columns, rows)
    return Counter(normal(row) for row in connection.execute(view.body.query).fetchall())


@kept
def views_connection() -> duckdb.DuckDBPyConnection:
    """Return one DuckDB connection for all re-evaluated views: opening one takes longer than any of their queries."""
    return duckdb.connect(config={"threads": 1})


def _run_linear(body: Linear, map_groups: Any) -> Counter[Row]:
    result: Counter[Row] = Counter()
    for branch in body.branches:
        found = map_groups(branch.map)
        for group in found.values():
            if branch.having is not None and evaluate(branch.having, group) is not True:
                continue
            row = normal(evaluate(output, group) for output in branch.outputs)
            result[row] += group["weight"] if branch.bag else 1
        if not found and branch.empty is not None:
            result[normal(branch.empty)] += 1
    return result


def fill(
    connection: duckdb.DuckDBPyConnection, name: str, columns: Sequence[tuple[str, str]], rows: Sequence[Row]
) -> None:
    """Make a table with these rows, in place of any of that name."""
    body = ", ".join(f'"{column}" {kind}' for column, kind in columns)
    connection.execute(f'CREATE OR REPLACE TABLE "{name}" ({body})')
    if rows:
        marks = ", ".join("?" for _ in columns)
        connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', [list(row) for row in rows])


def normal(row: Any) -> Row:
    """Return a row in comparable form: integers as int, floats to 12 digits."""
    return tuple(_normal(value) for value in row)


def _normal(value: Any) -> Any:
    if isinstance(value, Decimal):
        assert value == value.to_integral_value(), f"expected a whole number, was {value}"
        return int(value)
    if isinstance(value, float):
        return float(f"{value:.12g}") + 0.0
    return value
