"""Evaluation of expressions over Arrow columns.

Integers are computed with overflow checks on int64, a batch at a time. If a result overflows, the batch is computed
again with Python integers, which is slow but exact, and rarely needed. In comparisons a NaN is equal to itself and
greater than every other float, as in DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from runtime.engine.operators.keys import float_codes
from runtime.engine.operators.operator import OperatorError
from runtime.plan import Call, Col, Expr, Lit, exact_result
from runtime.state import decimals_of_integers

__all__ = ["evaluate", "mask", "wide_array"]

_TYPED: Final[dict[str, Callable[..., pa.Array]]] = {
    "add": pc.add_checked,
    "sub": pc.subtract_checked,
    "mul": pc.multiply_checked,
    "neg": pc.negate_checked,
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
}

_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "floordiv", "mod"})
_COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_TRUTHS: Final = _COMPARISONS | {"and", "or", "not"}


def evaluate(expr: Expr, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Return the value of an expression for each row.

    The result is an Arrow array of ``rows`` values; integers that exceed int64 are decimal128(38, 0). Raises
    `OperatorError` for a missing column, for a value past 127 bits, and for a result beyond DOUBLE.
    """
    try:
        value = _typed(expr, columns, rows)
    except OverflowError:
        return _exact(expr, columns, rows)
    except pa.ArrowException as error:
        if "overflow" not in str(error):
            raise OperatorError(f"expected to evaluate {expr}, was {error}") from None
        return _exact(expr, columns, rows)
    return _spread(value, rows)


def mask(where: Expr | None, columns: Mapping[str, pa.Array], rows: int) -> pa.Array | None:
    """Return a flag for each row, true where a condition is true (not false, not NULL); None without a condition."""
    if where is None:
        return None
    return pc.fill_null(evaluate(where, columns, rows).cast(pa.bool_()), False)


def _spread(value: pa.Array | pa.Scalar, rows: int) -> pa.Array:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _typed(expr: Expr, columns: Mapping[str, pa.Array], rows: int) -> pa.Array | pa.Scalar:
    if isinstance(expr, Lit):
        return pa.scalar(expr.value, _literal_type(expr.value))
    if isinstance(expr, Col):
        return _column(expr, columns)
    function = _FUNCTIONS.get(expr.op)
    if function is not None:
        return function(*(_operand(argument, columns, rows) for argument in expr.args))
    args = [_typed(argument, columns, rows) for argument in expr.args]
    if expr.op == "add" and pa.types.is_timestamp(args[0].type):
        return _moved(*args)
    if expr.op in _ARITHMETIC and any(pa.types.is_decimal(a.type) for a in args):
        raise OverflowError  # Arrow changes the scale of decimals, and refuses 38 digits
    if expr.op in ("floordiv", "mod"):
        return _divide(expr, args)
    if expr.op in ("and", "or", "not"):
        args = [a.cast(pa.bool_()) for a in args]  # a bare NULL has no type
    if expr.op == "div":
        if any(not _fits_float(a) for a in args):
            raise OverflowError  # Python divides integers of any size and rounds once
        numerator, denominator = (pc.cast(_spread(a, rows), pa.float64()) for a in args)
        zero = pc.equal(denominator, 0.0)
        return pc.divide(numerator, pc.if_else(zero, pa.scalar(None, pa.float64()), denominator))
    if expr.op in _COMPARISONS and any(_has_nan(a) for a in args):
        args = [_float_codes(a) for a in args]
    if len(args) > 2:
        value = args[0]
        for argument in args[1:]:
            value = _TYPED[expr.op](value, argument)
        return value
    return _TYPED[expr.op](*args)


def _moved(moment: pa.Array | pa.Scalar, microseconds: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Return a timestamp plus an interval; raise `OperatorError` for a result of more than 64 bits."""
    try:
        return pc.add_checked(moment, pc.cast(microseconds, pa.duration("us")))
    except pa.ArrowInvalid as error:
        raise OperatorError(f"expected a timestamp of 64 bits plus an interval, was {error}") from None


def _has_nan(value: pa.Array | pa.Scalar) -> bool:
    return pa.types.is_float64(value.type) and bool(pc.any(pc.is_nan(_spread(value, 1))).as_py())


def _float_codes(value: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Return floats as integers in the same order, and a bare NULL unchanged."""
    if not pa.types.is_float64(value.type):
        return value
    return float_codes(_spread(value, 1))[0] if isinstance(value, pa.Scalar) else float_codes(value)


def _fits_float(value: pa.Array | pa.Scalar) -> bool:
    """Return True if a float64 can represent every number of the column exactly."""
    if pa.types.is_decimal(value.type):
        return False
    if not pa.types.is_integer(value.type):
        return True
    bounds = pc.min_max(_spread(value, 1))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is None or (low >= -_FLOAT_EXACT and high <= _FLOAT_EXACT)


def _literal_type(value: object) -> pa.DataType | None:
    return pa.int64() if isinstance(value, int) and not isinstance(value, bool) else None


def _column(expr: Col, columns: Mapping[str, pa.Array]) -> pa.Array:
    try:
        return columns[expr.name]
    except KeyError:
        raise OperatorError(f"expected column {expr.name}, was {', '.join(columns)}") from None


def _divide(expr: Call, args: list[Any]) -> pa.Array:
    """Return SQL's integer division: rounded towards zero, NULL when dividing by 0."""
    left, right = args
    divisor = pc.if_else(pc.equal(right, 0), pa.scalar(None, pa.int64()), right)
    quotient = pc.divide_checked(left, divisor)
    return quotient if expr.op == "floordiv" else pc.subtract_checked(left, pc.multiply_checked(quotient, divisor))


def _operand(expr: Expr, columns: Mapping[str, pa.Array], rows: int) -> pa.Array | pa.Scalar:
    """Return an argument of a function, computed separately, so that only arguments that overflow are slow."""
    return _typed(expr, columns, rows) if isinstance(expr, Lit) else evaluate(expr, columns, rows)


def _alike(args: tuple[Any, ...]) -> list[Any]:
    """Return the values in one type: integers as wide as the widest, a bare NULL with the type of the others."""
    kinds = [a.type for a in args if not pa.types.is_null(a.type)]
    if not kinds:
        return list(args)
    target = next((kind for kind in kinds if pa.types.is_decimal(kind)), kinds[0])
    return [a if a.type.equals(target) else pc.cast(a, target) for a in args]


def _coalesce(*args: Any) -> Any:
    return pc.coalesce(*_alike(args))


def _case(*args: Any) -> Any:
    """Return the value of CASE: later branches are applied first, so that earlier ones override them."""
    *values, result = _alike((*args[1::2], args[-1]))
    for condition, value in zip(reversed(args[:-1:2]), reversed(values), strict=True):
        result = pc.if_else(pc.fill_null(pc.cast(condition, pa.bool_()), False), value, result)
    return result


def _least(*args: Any) -> Any:
    return pc.min_element_wise(*_alike(args), skip_nulls=True)


def _greatest(*args: Any) -> Any:
    values = _alike(args)
    greatest = pc.max_element_wise(*values, skip_nulls=True)  # this function treats NaN as missing
    for value in values:
        if pa.types.is_floating(value.type):
            greatest = pc.if_else(pc.fill_null(pc.is_nan(value), False), value, greatest)
    return greatest


def _like(text: Any, pattern: Any) -> Any:
    """Return SQL's LIKE; Arrow's own match_like treats a backslash as an escape, which SQL does not."""
    pattern_text = pattern.as_py()
    if pattern_text is None:
        return pc.cast(pc.if_else(pc.is_null(text), None, None), pa.bool_())
    parts = (".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern_text)
    return pc.match_substring_regex(pc.cast(text, pa.string()), rf"\A(?s:{''.join(parts)})\z")


def _with_digits(value: Any, most: Any) -> Any:
    """Return the integers unchanged; raise `OperatorError` if one has more than ``most`` decimal digits."""
    limits = pc.min_max(pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else value)
    for limit in (limits["min"].as_py(), limits["max"].as_py()):
        if limit is not None and abs(limit) >= 10 ** most.as_py():
            raise OperatorError(f"expected a number of at most {most} digits, was {limit}")
    return value


def _part(part: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes a part of a timestamp; a date counts as its midnight."""
    return lambda moment: pc.cast(part(pc.cast(moment, pa.timestamp("us"))), pa.int64())


def _in(value: Any, *items: Any) -> Any:
    """Return SQL's IN, which is NULL where the value is NULL; Arrow's own is_in returns False there."""
    flags = pc.is_in(value, value_set=pa.array([item.as_py() for item in items], value.type))
    return pc.if_else(pc.is_valid(value), flags, pa.scalar(None, pa.bool_()))


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "is_null": pc.is_null,
    "coalesce": _coalesce,
    "case": _case,
    "least": _least,
    "greatest": _greatest,
    "in": _in,
    "like": _like,
    "sqrt": lambda value: pc.sqrt(pc.cast(value, pa.float64())),
    "digits": _with_digits,
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "date": lambda value: pc.cast(value, pa.date32()),
    "timestamp": lambda value: pc.cast(value, pa.timestamp("us")),
}

_FLOAT_EXACT: Final = 2**53


def _exact(expr: Expr, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Return the value of the expression, computed with Python integers, row by row."""
    values = _exact_list(expr, dict.fromkeys(columns), columns, rows)
    if isinstance(expr, Call) and expr.op in _TRUTHS:
        return pa.array(values, pa.bool_())
    if (isinstance(expr, Call) and expr.op == "div") or any(isinstance(v, float) for v in values):
        return pa.array(values, pa.float64())
    return wide_array(values)


def wide_array(values: Sequence[int | None]) -> pa.Array:
    """Return Python integers as decimal128(38, 0), up to 127 bits; raise `OperatorError` for larger integers."""
    try:
        return decimals_of_integers(values)
    except OverflowError:
        far = max(values, key=lambda value: abs(value or 0))
        raise OperatorError(f"expected a value of at most 127 bits, was {far}") from None


def _exact_list(
    expr: Expr, cache: dict[str, list[Any] | None], columns: Mapping[str, pa.Array], rows: int
) -> list[Any]:
    if isinstance(expr, Lit):
        return [expr.value] * rows
    if isinstance(expr, Col):
        values = cache.get(expr.name)
        if values is None:
            values = cache[expr.name] = _plain(_column(expr, columns))
        return values
    if expr.op in _FUNCTIONS:
        return _plain(evaluate(expr, columns, rows))
    args = [_exact_list(argument, cache, columns, rows) for argument in expr.args]
    try:
        return [exact_result(expr.op, row) for row in zip(*args, strict=True)]
    except OverflowError:
        raise OperatorError(f"expected a result in the range of DOUBLE, was a larger one of {expr.op!r}") from None


def _plain(column: pa.Array) -> list[Any]:
    """Return a column's values as Python objects; integers may have any size."""
    values: list[Any] = column.to_pylist()
    return [None if v is None else int(v) for v in values] if pa.types.is_decimal(column.type) else values
