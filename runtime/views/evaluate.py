"""Evaluates a program's expressions over Arrow columns.

Integers are computed with overflow checks on int64, a batch at a time. Where that overflows, the batch is computed
again with Python integers: slow, exact, and rare enough not to matter.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Call, Col, Expr, Lit
from runtime.views.errors import ViewError

__all__ = ["evaluate", "mask"]

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
_TRUTHS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"})


def evaluate(expr: Expr, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """The value of an expression for each row.

    Gives an Arrow array of ``rows`` values; integers that pass int64 come as decimal128(38, 0). Raises `ViewError` for
    a column that is not there and for a value past 127 bits.
    """
    try:
        value = _typed(expr, columns, rows)
    except OverflowError:
        return _exact(expr, columns, rows)
    except pa.ArrowException as error:
        if "overflow" not in str(error):
            raise ViewError(f"expected to evaluate {expr}, was {error}") from None
        return _exact(expr, columns, rows)
    return _spread(value, rows)


def mask(where: Expr | None, columns: Mapping[str, pa.Array], rows: int) -> pa.Array | None:
    """The rows for which a condition is true (not false, not NULL); None for all."""
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
    args = [_typed(argument, columns, rows) for argument in expr.args]
    if expr.op in _ARITHMETIC and any(pa.types.is_decimal(a.type) for a in args):
        raise OverflowError  # Arrow's decimals change their scale and are refused at 38 digits
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
    if len(args) > 2:
        value = args[0]
        for argument in args[1:]:
            value = _TYPED[expr.op](value, argument)
        return value
    return _TYPED[expr.op](*args)


def _fits_float(value: pa.Array | pa.Scalar) -> bool:
    """Whether every number of it is a float64 exactly."""
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
        raise ViewError(f"expected column {expr.name}, was {', '.join(columns)}") from None


def _divide(expr: Call, args: list[Any]) -> pa.Array:
    """SQL's integer division: towards zero, NULL when dividing by 0."""
    left, right = args
    divisor = pc.if_else(pc.equal(right, 0), pa.scalar(None, pa.int64()), right)
    quotient = pc.divide_checked(left, divisor)
    return quotient if expr.op == "floordiv" else pc.subtract_checked(left, pc.multiply_checked(quotient, divisor))


_FLOAT_EXACT: Final = 2**53
_EXACT: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _exact(expr: Expr, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """The same with Python integers, row by row."""
    values = _exact_list(expr, dict.fromkeys(columns), columns, rows)
    if isinstance(expr, Call) and expr.op in _TRUTHS:
        return pa.array(values, pa.bool_())
    if any(isinstance(v, float) for v in values):
        return pa.array(values, pa.float64())
    return wide_array(values)


def wide_array(values: list[int | None]) -> pa.Array:
    """Python integers as decimal128(38, 0), all 128 bits of it; raises `ViewError` past them."""
    raw = bytearray()
    for value in values:
        try:
            raw += (value or 0).to_bytes(16, "little", signed=True)
        except OverflowError:
            raise ViewError(f"expected a value of at most 127 bits, was {value}") from None
    valid = pa.array([v is not None for v in values], pa.bool_())
    buffers = [None, pa.py_buffer(bytes(raw))]
    array = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), buffers)
    return pc.if_else(valid, array, pa.scalar(None, array.type)) if None in values else array


def _exact_list(
    expr: Expr, cache: dict[str, list[Any] | None], columns: Mapping[str, pa.Array], rows: int
) -> list[Any]:
    if isinstance(expr, Lit):
        return [expr.value] * rows
    if isinstance(expr, Col):
        held = cache.get(expr.name)
        if held is None:
            column = _column(expr, columns)
            held = column.to_pylist()
            if pa.types.is_decimal(column.type):
                held = [None if v is None else int(v) for v in held]
            cache[expr.name] = held
        return held
    args = [_exact_list(argument, cache, columns, rows) for argument in expr.args]
    return [_exact_value(expr.op, row) for row in zip(*args, strict=True)]


def _exact_value(op: str, args: tuple[Any, ...]) -> Any:
    if op == "and":
        return False if False in args else None if None in args else True
    if op == "or":
        return True if True in args else None if None in args else False
    if None in args:
        return None
    if op == "not":
        return not args[0]
    if op == "neg":
        return -args[0]
    if op in ("floordiv", "mod", "div"):
        return _exact_quotient(op, args[0], args[1])
    value = args[0]
    for argument in args[1:]:
        value = _EXACT[op](value, argument)
    return value


def _exact_quotient(op: str, left: int, right: int) -> int | float | None:
    if right == 0:
        return None
    if op == "div":
        return left / right
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if op == "floordiv" else left - right * quotient
