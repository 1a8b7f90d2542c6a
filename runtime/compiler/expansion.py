"""Bound on calls that expand values: DuckDB counts what tables take, not what one call makes of a value.

``repeat``, ``lpad``, ``range`` and their like make a value as long as an argument says. DuckDB makes it in one piece,
which its memory limit does not count and an interrupt does not end. So the counts of all such calls of a query,
multiplied, may be at most `MOST_EXPANDED`. They must be constants; but for ``repeat``, ``lpad`` and ``rpad``, whose
count is `MOST_COUNT` at most wherever it comes from: `GUARDS` make functions of these names that look at it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["GUARDS", "MOST_COUNT", "MOST_EXPANDED", "expansion", "is_expanding"]

MOST_EXPANDED: Final = 100_000
"""Greatest number of characters or elements that all calls of a query together may make out of one."""
MOST_COUNT: Final = 1_000
"""Largest count of ``repeat``, ``lpad`` and ``rpad``."""
_GUARDED: Final = {"repeat": "value, count", "lpad": "value, count, fill", "rpad": "value, count, fill"}
GUARDS: Final = tuple(
    f"CREATE MACRO {name}({parameters}) AS system.main.{name}("
    + parameters.replace(
        "count",
        f"CASE WHEN count > {MOST_COUNT} THEN CAST(error('expected a count of at most {MOST_COUNT} in {name}(), was '"
        " || count) AS INTEGER) ELSE count END",
    )
    + ")"
    for name, parameters in _GUARDED.items()
)
"""Statements that define functions in place of DuckDB's own of these names."""
_NUMBERS: Final = re.compile(r"\d+")

Argument = int | str | None
"""Argument of a call: a constant, or None for anything else."""


def _second(arguments: Sequence[Argument]) -> Argument:
    return arguments[1] if len(arguments) > 1 else None


def _fourth(arguments: Sequence[Argument]) -> Argument:
    return arguments[3] if len(arguments) > 3 else 80


def _steps(arguments: Sequence[Argument]) -> Argument:
    numbers = [argument for argument in arguments if isinstance(argument, int)]
    if len(numbers) < len(arguments) or not 1 <= len(numbers) <= 3:
        return None
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    return abs(end - start) // max(abs(step), 1) + 1


def _widest(arguments: Sequence[Argument]) -> Argument:
    form = arguments[0] if arguments else None
    if not isinstance(form, str) or "*" in form or re.search(r"\{[^{}]*\{", form.replace("{{", "")):
        return None
    return max([1, *(int(digits[:20]) for digits in _NUMBERS.findall(form))])


_COUNTS: Final[dict[str, Callable[[Sequence[Argument]], Argument]]] = {
    **dict.fromkeys(("repeat", "lpad", "rpad", "bitstring", "list_resize", "array_resize"), _second),
    **dict.fromkeys(("range", "generate_series"), _steps),
    **dict.fromkeys(("printf", "format"), _widest),
    "bar": _fourth,
}


def is_expanding(function: str) -> bool:
    """Return True if a function of DuckDB, in lower case, expands a value to a length given by an argument."""
    return function in _COUNTS


def expansion(function: str, arguments: Sequence[Argument], before: int) -> int:
    """Return the elements that a query makes out of one with one call more; ``before`` is the number without it.

    Raise `ValueError` for too many, and for a count that must be a constant and is none.
    """
    count = _COUNTS[function](arguments)
    if function in _GUARDED and not isinstance(count, int):
        count = MOST_COUNT
    if not isinstance(count, int):
        raise ValueError(f"expected constants as the counts and formats of {function}(), which bound its result")
    total = before * max(count, 1)
    if total > MOST_EXPANDED:
        raise ValueError(
            f"expected a query that makes at most {MOST_EXPANDED} characters or elements out of one, "
            f"was {total} with {function}()"
        )
    return total
