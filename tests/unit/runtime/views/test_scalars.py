"""An expression over one row gives what it gives over a column."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from runtime.compiler import Call, Col, Expr, Lit
from runtime.views.evaluate import evaluate
from runtime.views.scalars import scalar

ROWS: list[dict[str, Any]] = [
    {"a": 7, "b": -2, "s": "abc", "d": date(2024, 2, 29)},
    {"a": None, "b": 3, "s": "xbz", "d": date(1999, 12, 31)},
    {"a": -7, "b": 0, "s": None, "d": None},
    {"a": 2**62, "b": 2**62, "s": "", "d": date(1, 1, 1)},
]
A, B, S, D = Col("a"), Col("b"), Col("s"), Col("d")


@pytest.mark.parametrize(
    "expr",
    [
        Call("case", (Call("gt", (A, B)), A, Call("is_null", (A,)), Lit(5), Lit(None))),
        Call("coalesce", (A, B)),
        Call("least", (A, B)),
        Call("greatest", (A, B)),
        Call("add", (A, B)),
        Call("floordiv", (A, B)),
        Call("mod", (A, Lit(4))),
        Call("div", (A, B)),
        Call("neg", (A,)),
        Call("and", (Call("gt", (A, Lit(0))), Call("lt", (B, Lit(0))))),
        Call("like", (S, Lit("_b%"))),
        Call("month", (D,)),
        Call("sqrt", (Call("div", (Call("mul", (B, B)), Lit(1))),)),
    ],
)
def test_one_row_is_as_a_column(expr: Expr) -> None:
    types = {"a": pa.int64(), "b": pa.int64(), "s": pa.string(), "d": pa.date32()}
    columns = {name: pa.array([row[name] for row in ROWS], kind) for name, kind in types.items()}
    assert [scalar(expr)(row) for row in ROWS] == evaluate(expr, columns, len(ROWS)).to_pylist()
