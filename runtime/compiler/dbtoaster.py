"""Differences of DBToaster's dialect from DuckDB's: IN LIST, more functions, and SUBSTRING counted from 0.

DBToaster's additional functions are accepted in both modes, because DuckDB has no functions with their names.
SUBSTRING is in both dialects, and counts from 0 only in the mode ``dbtoaster``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import sqlglot
from sqlglot import exp

from runtime.compiler.declarations import Text, tokenise

__all__ = ["plain_functions", "plain_words"]

_VEC: Final = "SQRT({0} * {0} + {1} * {1} + {2} * {2})"
_A, _B = ("x1", "y1", "z1"), ("x2", "y2", "z2")
_V: Final = [("(x2 - x1)", "(y2 - y1)", "(z2 - z1)"), ("(x3 - x2)", "(y3 - y2)", "(z3 - z2)"),
             ("(x4 - x3)", "(y4 - y3)", "(z4 - z3)")]  # fmt: skip


def _dot(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    return "(" + " + ".join(f"{a} * {b}" for a, b in zip(left, right, strict=True)) + ")"


def _cross(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    (a, b, c), (d, e, f) = left, right
    return (f"({b} * {f} - {c} * {e})", f"({c} * {d} - {a} * {f})", f"({a} * {e} - {b} * {d})")


_N1, _N2 = _cross(_V[0], _V[1]), _cross(_V[1], _V[2])
_POINTS: Final = [f"{axis}{number}" for number in range(1, 5) for axis in "xyz"]
_MEANINGS: Final[dict[str, tuple[list[str], str]]] = {
    "cast_float": (["value"], "CAST(value AS DOUBLE)"),
    "cast_string": (["value"], "CAST(value AS VARCHAR)"),
    "cast_date": (["value"], "CAST(value AS DATE)"),
    "regexp_match": (["pattern", "text"], "CASE WHEN REGEXP_MATCHES(text, pattern) THEN 1 ELSE 0 END"),
    "vec_length": (["x", "y", "z"], _VEC.format("x", "y", "z")),
    "vector_angle": (_POINTS[:6], f"ACOS({_dot(_A, _B)} / ({_VEC.format(*_A)} * {_VEC.format(*_B)}))"),
    "dihedral_angle": (_POINTS, f"ATAN2({_VEC.format(*_V[1])} * {_dot(_V[0], _N2)}, {_dot(_N1, _N2)})"),
}  # fmt: skip
"""Name of a function → its parameters, and the DuckDB expression that replaces a call."""


def plain_words(text: Text) -> str:
    """Return the SQL with blanks in place of the LIST of ``IN LIST (…)``, so that every offset stays the same."""
    sql, tokens = text.text, tokenise(text)
    for before, word, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if before.is_word("IN") and word.is_word("LIST") and after.is_symbol("("):
            sql = sql[: word.start] + " " * (word.end - word.start) + sql[word.end :]
    return sql


def plain_functions(tree: exp.Query, fail: Callable[[str, exp.Expr], Exception], *, from_zero: bool) -> None:
    """Replace DBToaster's functions by DuckDB's; with ``from_zero`` SUBSTRING counts characters from 0."""
    # Inner calls come first, because some arguments are copied.
    for node in reversed(list(tree.find_all(exp.Anonymous, exp.Substring))):
        if isinstance(node, exp.Substring):
            if from_zero and (start := node.args.get("start")) is not None:
                node.set("start", _next(start))
            continue
        name, given = node.name.lower(), node.expressions
        if name in ("listmin", "listmax"):
            if not given:
                raise fail(f"expected values in {name.upper()} (…)", node)
            made: exp.Expr = (exp.Least if name == "listmin" else exp.Greatest)(this=given[0], expressions=given[1:])
        elif name in _MEANINGS:
            parameters, _ = _MEANINGS[name]
            if len(given) != len(parameters):
                raise fail(f"expected {name.upper()} ({', '.join(parameters)}), was {len(given)} values", node)
            values = dict(zip(parameters, given, strict=True))
            made = _meaning(name).copy()
            for column in list(made.find_all(exp.Column)):
                value = values[column.name]
                column.replace(exp.Paren(this=value.copy()) if isinstance(value, exp.Binary) else value.copy())
        else:
            continue
        node.replace(made)


@cache
def _meaning(name: str) -> exp.Expr:
    return sqlglot.parse_one(_MEANINGS[name][1], read="duckdb")


def _next(number: exp.Expr) -> exp.Expr:
    if isinstance(number, exp.Literal) and number.is_int:
        return exp.Literal.number(int(number.name) + 1)
    return exp.Add(this=exp.Paren(this=number.copy()), expression=exp.Literal.number(1))
