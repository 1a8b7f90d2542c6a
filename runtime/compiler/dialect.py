"""SQL dialect of queries: DuckDB's, in which no argument of a call is lost.

sqlglot reads the calls of many databases and writes them as DuckDB's. For some numbers of arguments it ignores the last
ones, or takes the call for one of another database, as in ``DATE_TRUNC('day', t, 'UTC')``. The parser of this dialect
leaves such a call as it is written, so that DuckDB answers or refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["QueryDialect", "QueryParser"]

_MOST_TRIED: Final = 20
"""Calls of more arguments are like those of so many: sqlglot loses an argument at a fixed place, or none."""
_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


class QueryParser(DuckDBParser):
    """Parser that leaves a call as it is written if sqlglot would lose one of its arguments."""

    _counted: Sequence[Token] | None = None
    """Tokens to which `_counts` belongs."""
    _counts: dict[int, int]
    """Place of an opening bracket → number of arguments in the brackets, without those after ORDER BY."""

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        if self._curr and self._next and self._next.token_type == TokenType.L_PAREN:
            if self._counted is not self._tokens:
                self._counted, self._counts = self._tokens, _argument_counts(self._tokens)
            count = self._counts.get(self._index + 1, 0)
            anonymous = anonymous or _loses_argument(self._curr.text.upper(), min(count, _MOST_TRIED))
        return super()._parse_function_call(functions, anonymous, optional_parens, any_token)


class QueryDialect(DuckDB):
    """SQL dialect of queries."""

    Parser = QueryParser


def _argument_counts(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the number of arguments in each pair of brackets, by the place of the opening one."""
    counts: dict[int, int] = {}
    open_: list[int] = []
    ordered: set[int] = set()
    for place, token in enumerate(tokens):
        if open_ and token.token_type not in _CLOSING:
            counts.setdefault(open_[-1], 1)
        if token.token_type in _OPENING:
            open_.append(place)
        elif token.token_type in _CLOSING:
            del open_[-1:]
        elif token.token_type == TokenType.ORDER_BY:
            ordered.update(open_[-1:])
        elif token.token_type == TokenType.COMMA and open_ and open_[-1] not in ordered:
            counts[open_[-1]] += 1
    return counts


@lru_cache(maxsize=4096)
def _loses_argument(function: str, count: int) -> bool:
    """Return True if sqlglot's SQL for a call of a function with so many arguments lacks one of the arguments."""
    arguments = [f"argument_{number}_" for number in range(count)]
    if not function.isidentifier() or function == "EXISTS":  # EXISTS (SELECT …) may select several columns
        return False
    try:
        tree = sqlglot.parse_one(f"SELECT {function}({', '.join(arguments)})", read="duckdb")
        written = tree.sql("duckdb", unsupported_level=ErrorLevel.IGNORE).lower()
    except SqlglotError:
        return False
    return any(argument not in written for argument in arguments)
