"""Oracle: DuckDB computes the same SQL over the live rows, with integers as HUGEINT and decimals as DECIMAL(24,4).

All decimals have four fractional digits, as many as the values, their halves and their products need. From a sum and a
number with more fractional digits, DuckDB would compute a DECIMAL(38) rounded to the digits of the sum.
"""

from __future__ import annotations

import atexit
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from runtime.compiler import Column, Relation
from runtime.state import ARROW_TYPES
from tests.conformance.schema import Row

__all__ = ["FLOAT_BOUND", "Oracle", "OracleLimit", "at_time", "difference", "oracle_sql"]

FLOAT_BOUND: Final = 1e-9
"""Largest difference of two floats that count as equal, relative to the larger one, or to 1 if both are smaller."""

_KINDS: Final = {"float64": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP"}
_LIMITS: Final = (duckdb.OutOfRangeException, duckdb.ConversionException)


class OracleLimit(Exception):
    """A number is too large for DuckDB, so that it has no answer."""


class Oracle:
    """DuckDB database with the relations as tables."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._relations = {relation.name: relation for relation in relations}
        self._connection = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
        atexit.register(self._connection.close)
        self._connection.execute("SET error_on_division_by_zero = false")
        for relation in relations:
            self.fill(relation.name, {})
            columns = ", ".join(f'CAST("{c.name}" AS {_kind(c)}) AS "{c.name}"' for c in relation.columns)
            self._connection.execute(
                f'CREATE TEMP VIEW "{relation.name}" AS SELECT {columns} FROM "{relation.name}_rows"'
            )

    def fill(self, name: str, rows: Mapping[Row, int]) -> None:
        """Replace the rows of a relation by these, each with its multiplicity."""
        relation = self._relations[name]
        listed = [row for row, times in rows.items() for _ in range(times)]
        values = list(zip(*listed, strict=True)) or [()] * len(relation.columns)
        arrays = [_array(column, given) for column, given in zip(relation.columns, values, strict=True)]
        table = pa.table(arrays, names=[column.name for column in relation.columns])
        self._connection.register(f"{name}_rows", table)

    def ask(self, sql: str) -> tuple[list[str], Counter[Row]]:
        """Return the types and the rows of a query's result; raise `OracleLimit` if DuckDB has no answer."""
        try:
            found = self._connection.execute(sql)
            types = [str(column[1]) for column in found.description or ()]
            return types, Counter(found.fetchall())
        except _LIMITS as error:
            raise OracleLimit(str(error).splitlines()[0]) from None


def _kind(column: Column) -> str:
    if column.type in ("int64", "int128"):
        return "DECIMAL(24,4)" if column.scale else "HUGEINT"
    return _KINDS[column.type]


def _array(column: Column, values: Iterable[Any]) -> pa.Array:
    if column.scale:
        scaled = [None if value is None else Decimal(value).scaleb(-column.scale) for value in values]
        return pa.array(scaled, pa.decimal128(24, 4))
    return pa.array(values, ARROW_TYPES[column.type])


def oracle_sql(sql: str, mode: str) -> str:
    """Return a query for DuckDB: a quotient by 0 is NULL, and in the mode ``dbtoaster`` SUM over no rows is 0."""
    if mode == "sql" and "/" not in sql.replace("//", ""):
        return sql
    tree = sqlglot.parse_one(sql, read="duckdb")
    for quotient in list(tree.find_all(exp.Div)):
        divisor = quotient.expression.copy()
        quotient.set("expression", exp.Nullif(this=divisor, expression=exp.Literal.number(0)))
    for node in list(tree.find_all(exp.Sum)) if mode == "dbtoaster" else ():
        outer: exp.Expr = node
        while isinstance(outer.parent, (exp.Filter, exp.Window)) and outer.arg_key == "this":
            outer = outer.parent
        around = exp.Coalesce(this=outer.copy(), expressions=[exp.Literal.number(0)])
        is_column = isinstance(outer.parent, exp.Select) and outer.arg_key == "expressions"
        outer.replace(exp.alias_(around, "sum") if is_column else around)
    return tree.sql("duckdb")


def at_time(sql: str, now: Row | None) -> str:
    """Return a query with the epoch's time, a row of `EPOCH_TIME`, in place of now() and CURRENT_TIMESTAMP.

    Queries use now() and intervals in nanoseconds with columns of nanoseconds, and CURRENT_TIMESTAMP with others.
    """
    if "now()" not in sql and "CURRENT_TIMESTAMP" not in sql:
        return sql
    nanoseconds, moment = (
        ("NULL::HUGEINT", "NULL::TIMESTAMP") if now is None else (f"({now[0]})", f"TIMESTAMP '{now[1]}'")
    )
    sql = re.sub(r"INTERVAL '(\d+)' NANOSECOND", r"\1", sql)
    return sql.replace("now()", nanoseconds).replace("CURRENT_TIMESTAMP", moment)


def difference(found: Counter[Row], expected: Counter[Row]) -> str:
    """Return the unexpected and the missing rows as text; empty if the two results agree."""
    if found == expected:
        return ""
    extra, missing = list((found - expected).elements()), list((expected - found).elements())
    if len(extra) == len(missing) and _pair_up(extra, missing):
        return ""
    return f"  expected, not found: {_shown(missing)}\n  found, not expected: {_shown(extra)}"


def _pair_up(extra: list[Row], missing: list[Row]) -> bool:
    """Return True if the rows are equal except for the rounding of floats."""
    left = list(missing)
    for row in extra:
        match = next((at for at, other in enumerate(left) if _near(row, other)), None)
        if match is None:
            return False
        left.pop(match)
    return True


def _near(row: Row, other: Row) -> bool:
    for one, two in zip(row, other, strict=True):
        if isinstance(one, float) and isinstance(two, (float, int, Decimal)):
            bound = FLOAT_BOUND * max(1.0, abs(one), abs(float(two)))
            if not (abs(one - float(two)) <= bound or (math.isnan(one) and math.isnan(two))):
                return False
        elif one != two:
            return False
    return True


def _shown(rows: list[Row]) -> str:
    return f"{rows[:6]}{f' and {len(rows) - 6} more' if len(rows) > 6 else ''}"
