"""Expressions over Arrow columns are exact, three-valued, and round towards zero."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compiler import Call, Col, Expr, Lit
from runtime.engine.operators.evaluate import evaluate, mask, wide_array
from runtime.engine.operators.operator import OperatorError
from tests.generators.programs import evaluate as obvious

A, B, P, Q = Col("a"), Col("b"), Col("p"), Col("q")
EDGES = [0, 1, -1, 2, -7, 7, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63)]


def call(op: Any, *args: Expr) -> Call:
    return Call(op, args)


def values(expr: Expr, rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> list[Any]:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    found = evaluate(expr, columns, len(rows))
    assert len(found) == len(rows)
    return [int(v) if isinstance(v, Decimal) else v for v in found.to_pylist()]


INTEGER = st.sampled_from([A, B, Lit(3), Lit(-2), Lit(0)])
ARITHMETIC = st.recursive(
    INTEGER,
    lambda inner: st.one_of(
        st.builds(call, st.sampled_from(["add", "sub", "mul", "floordiv", "mod"]), inner, inner),
        st.builds(call, st.just("neg"), inner),
    ),
    max_leaves=3,
)
TRUTH = st.recursive(
    st.builds(call, st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), ARITHMETIC, ARITHMETIC)
    | st.sampled_from([P]),
    lambda inner: st.one_of(
        st.builds(call, st.sampled_from(["and", "or"]), inner, inner), st.builds(call, st.just("not"), inner)
    ),
    max_leaves=4,
)
ROWS = st.lists(
    st.fixed_dictionaries({
        "a": st.none() | st.sampled_from(EDGES),
        "b": st.none() | st.sampled_from(EDGES),
        "p": st.sampled_from([True, False, None]),
    }),
    max_size=5,
)  # fmt: skip
TYPES = {"a": pa.int64(), "b": pa.int64(), "p": pa.bool_()}


@given(expr=ARITHMETIC | TRUTH, rows=ROWS)
def test_an_expression_equals_pythons_up_to_127_bits(expr: Expr, rows: list[dict[str, Any]]) -> None:
    expected = [obvious(expr, row) for row in rows]
    try:
        found = values(expr, rows, TYPES)
    except OperatorError:
        assert any(isinstance(v, int) and not -(2**127) <= v < 2**127 for v in expected)
        return
    assert found == expected


@pytest.mark.parametrize("op", ["add", "sub", "mul", "floordiv", "mod", "lt", "eq", "neg"])
def test_wide_columns_are_exact_too(op: str) -> None:
    """Sums past 64 bits come as decimals, whose own arithmetic would change scales and refuse 38 digits."""
    wide, narrow = 10**25 + 7, -3
    args = (A,) if op == "neg" else (A, B)
    expected = obvious(call(op, *args), {"a": wide, "b": narrow})
    found = values(call(op, *args), [{"a": wide, "b": narrow}], {"a": pa.decimal128(38, 0), "b": pa.int64()})
    assert found == [expected]


def test_an_overflow_widens_the_whole_batch_without_a_wrap() -> None:
    rows: list[dict[str, Any]] = [{"a": 2**62, "b": 4}, {"a": 1, "b": 2}, {"a": None, "b": 2}]
    assert values(call("mul", A, B), rows, {"a": pa.int64(), "b": pa.int64()}) == [2**64, 2, None]
    assert values(call("gt", call("mul", A, B), Lit(5)), rows, {"a": pa.int64(), "b": pa.int64()}) == [
        True,
        False,
        None,
    ]


def test_an_integer_that_is_null_in_every_row_stays_one() -> None:
    """The exact path once took a column of nothing but NULL for a truth value."""
    huge = call("mul", call("mul", A, A), Lit(0))
    expr = call("floordiv", huge, Lit(0))
    found = evaluate(expr, {"a": pa.array([2**62])}, 1)
    assert found.to_pylist() == [None]
    assert pa.types.is_decimal(found.type)


@pytest.mark.parametrize(
    ("a", "b", "quotient", "rest"), [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1)]
)
def test_integer_division_rounds_towards_zero(a: int, b: int, quotient: int, rest: int) -> None:
    types = {"a": pa.int64(), "b": pa.int64()}
    assert values(call("floordiv", A, B), [{"a": a, "b": b}], types) == [quotient]
    assert values(call("mod", A, B), [{"a": a, "b": b}], types) == [rest]


@pytest.mark.parametrize("op", ["floordiv", "mod", "div"])
def test_a_division_by_zero_is_null(op: str) -> None:
    assert values(call(op, A, Lit(0)), [{"a": 5}], {"a": pa.int64()}) == [None]


def test_a_literal_past_64_bits_is_exact() -> None:
    assert values(call("add", A, Lit(2**70)), [{"a": 1}], {"a": pa.int64()}) == [2**70 + 1]


def test_a_condition_keeps_only_what_is_true() -> None:
    columns = {"a": pa.array([1, None, 3])}
    chosen = mask(call("gt", A, Lit(1)), columns, 3)
    assert chosen is not None
    assert chosen.to_pylist() == [False, False, True]
    assert mask(None, columns, 3) is None


@pytest.mark.parametrize("condition", [Lit(None), call("and", Lit(None), Lit(True)), call("not", Lit(None))])
def test_a_bare_null_is_a_condition_that_holds_nowhere(condition: Expr) -> None:
    chosen = mask(condition, {"a": pa.array([1, 2])}, 2)
    assert chosen is not None
    assert chosen.to_pylist() == [False, False]


def test_an_unknown_column_is_named_with_those_that_are_there() -> None:
    with pytest.raises(OperatorError, match="expected column c, was a"):
        evaluate(Col("c"), {"a": pa.array([1])}, 1)


@given(st.lists(st.none() | st.integers(-(2**127), 2**127 - 1)))
def test_wide_arrays_hold_every_128_bits(numbers: list[int | None]) -> None:
    found = wide_array(numbers)
    raw = found.buffers()[1].to_pybytes() if len(found) else b""
    held = [int.from_bytes(raw[16 * i : 16 * i + 16], "little", signed=True) for i in range(len(numbers))]
    assert [None if missing else v for v, missing in zip(held, found.is_null().to_pylist(), strict=True)] == numbers


def test_a_number_of_too_many_digits_is_refused() -> None:
    columns = {"a": pa.array([99, None, -99])}
    assert evaluate(Call("digits", (Col("a"), Lit(2))), columns, 3).to_pylist() == [99, None, -99]
    for expr in (Call("digits", (Col("a"), Lit(1))), Call("digits", (Lit(-100), Lit(2)))):
        with pytest.raises(OperatorError, match=r"at most \d digits"):
            evaluate(expr, columns, 3)


def test_one_bit_more_is_refused() -> None:
    with pytest.raises(OperatorError, match="at most 127 bits"):
        wide_array([2**127])


def test_a_quotient_beyond_floats_is_refused() -> None:
    power = Call("mul", (Col("a"),) * 9)
    columns = {"a": wide_array([2**120]), "b": pa.array([3])}
    assert evaluate(Call("div", (power, power)), columns, 1).to_pylist() == [1.0]
    with pytest.raises(OperatorError, match="in the range of DOUBLE, was a larger one of 'div'"):
        evaluate(Call("div", (power, Col("b"))), columns, 1)


@pytest.mark.parametrize("value", [2**53 - 1, 2**53 + 1, 2**62 + 1])
def test_division_of_integers_past_a_float_is_rounded_once(value: int) -> None:
    columns = {"a": pa.array([value, -value, 0]), "b": pa.array([3, 7, 0])}
    result = evaluate(Call("div", (Col("a"), Col("b"))), columns, 3)
    assert result.to_pylist() == [value / 3, -value / 7, None]
