"""The operations of a program that are no operator of Python's, on plain values.

Each is what `runtime.views.evaluate` does with Arrow; ``None`` is NULL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final

from runtime.compiler.program import Expr, Lit
from runtime.views.tuplewise.errors import UnsupportedError

__all__ = ["FUNCTIONS", "PARTIAL", "like", "plain_float"]

_NAN: Final = float("nan")


def plain_float(value: float | None) -> float | None:
    """Equal floats as one: one zero, and one NaN, which then is equal to itself in a tuple or as a key."""
    if value is None:
        return None
    return value + 0.0 if value == value else _NAN  # noqa: PLR0124  # which NaN is not


def like(pattern: Expr) -> Callable[[str], bool | None]:
    """LIKE with this pattern."""
    if not isinstance(pattern, Lit) or not isinstance(pattern.value, str | None):
        raise UnsupportedError("LIKE with a pattern that is no literal")
    if pattern.value is None:
        return lambda _: None
    parts = (".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern.value)
    matches = re.compile("".join(parts), re.DOTALL).fullmatch
    return lambda text: matches(text) is not None


def _div(left: Any, right: Any) -> float | None:
    return left / right if right else None


def _floordiv(left: int, right: int) -> int | None:
    if not right:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _mod(left: int, right: int) -> int | None:
    if not right:
        return None
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _least(*values: Any) -> Any:
    return min(_numbers(values), default=None)


def _greatest(*values: Any) -> Any:
    return max(_numbers(values), default=None)


def _numbers(values: tuple[Any, ...]) -> list[Any]:
    """What is not NULL, and of that what is not NaN, if anything is."""
    given = [value for value in values if value is not None]
    return [value for value in given if value == value] or given  # noqa: PLR0124  # which NaN is not


def _sqrt(value: float) -> float:
    return math.sqrt(value) if value >= 0 else _NAN


def _part(name: str) -> Callable[[date], int]:
    return lambda moment: getattr(moment, name, 0)  # a date is its midnight


def _date(value: str | date) -> date:
    if isinstance(value, datetime):
        return value.date()
    return date.fromisoformat(value) if isinstance(value, str) else value


def _timestamp(value: str | date) -> datetime:
    if isinstance(value, datetime):
        return value
    return datetime.fromisoformat(value) if isinstance(value, str) else datetime(value.year, value.month, value.day)  # noqa: DTZ001  # SQL's TIMESTAMP has none


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "div": _div,
    "floordiv": _floordiv,
    "mod": _mod,
    "sqrt": _sqrt,
    "year": _part("year"),
    "month": _part("month"),
    "day": _part("day"),
    "hour": _part("hour"),
    "minute": _part("minute"),
    "second": _part("second"),
    "date": _date,
    "timestamp": _timestamp,
}
"""NULL of NULL."""

PARTIAL: Final[dict[str, Callable[..., Any]]] = {"coalesce": _coalesce, "least": _least, "greatest": _greatest}
"""NULL only if all arguments are."""
