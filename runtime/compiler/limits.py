"""Refusal of queries that are too large, have parts that the compiler does not read, or expand values too far.

Sizes are checked before any other function walks the tree. A part of a query that the compiler does not read is
refused, as it would otherwise be ignored.

``repeat``, ``lpad``, ``range`` and similar functions make a value whose length is an argument. DuckDB makes the value
in one piece, outside its memory limit and without checking for interrupts. So the product of the counts of all these
calls in a query may be at most `MOST_EXPANDED`. The counts must be constants. The exceptions are ``repeat``, ``lpad``
and ``rpad``: `GUARDS` defines functions of these names that accept a count of at most `MOST_COUNT`.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sqlglot import exp

from runtime.compiler.declarations import Text, tokenise
from runtime.plan import Relation

__all__ = [
    "GUARDS",
    "balance_chains",
    "check_depth",
    "check_tokens",
    "deep_recursion",
    "expansion",
    "is_expanding",
    "unread_part",
]

_QUERY: Final = frozenset({"with_", "order", "limit", "offset"})
_BINARY: Final = frozenset({"this", "expression"})
_READ: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Select: _QUERY
    | {"expressions", "from_", "joins", "where", "group", "having", "qualify", "distinct", "windows"},
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _QUERY | _BINARY | {"distinct", "by_name", "side", "kind"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.With: frozenset({"expressions", "recursive"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins"}),
    exp.Join: frozenset({"this", "on", "side", "kind", "using", "method"}),
    exp.Where: frozenset({"this"}),
    exp.Having: frozenset({"this"}),
    exp.Qualify: frozenset({"this"}),
    exp.Group: frozenset({"expressions", "all", "grouping_sets", "rollup", "cube"}),
    exp.Order: frozenset({"this", "expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"this", "expression", "expressions", "limit_options"}),
    exp.Offset: frozenset({"this", "expression", "expressions"}),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.Distinct: frozenset({"expressions", "on"}),
    exp.Star: frozenset({"except_", "replace", "rename"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over", "first"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
    exp.Filter: _BINARY,
    exp.WithinGroup: _BINARY,
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions", "query"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.TryCast: frozenset({"this", "to"}),
    **dict.fromkeys((exp.Sum, exp.Avg, exp.Min, exp.Max, exp.CountIf, exp.First, exp.Last), frozenset({"this"})),
    exp.Count: frozenset({"this", "expressions"}),
    **dict.fromkeys((exp.ArgMin, exp.ArgMax), _BINARY),
}
"""Class of a node → parts of the node that the compiler reads. DuckDB gets functions without an entry unchanged."""
_FLAGS: Final = frozenset({"big_int", "safe", "is_string", "typed", "requires_string", "distinct"})
"""Arguments with which sqlglot describes a dialect; they are not part of the query."""
_OF_ROWS: Final = (
    exp.CumeDist, exp.DenseRank, exp.FirstValue, exp.Lag, exp.LastValue, exp.Lead, exp.NthValue, exp.Ntile,
    exp.PercentRank, exp.Rank, exp.RowNumber,
)  # fmt: skip
"""Functions that have a value only under OVER."""
_WORDS: Final = {
    "limit_options": "PERCENT or WITH TIES",
    "sample": "SAMPLE",
    "pivots": "PIVOT",
    "locks": "FOR UPDATE",
    "when": "AT (…)",
    "only": "ONLY",
    "ordinality": "WITH ORDINALITY",
    "with_fill": "WITH FILL",
    "count": "a number of rows",
    "symmetric": "SYMMETRIC",
    "exclude": "EXCLUDE",
}


def unread_part(tree: exp.Expr) -> tuple[str, exp.Expr] | None:
    """Return a description of the first part that the compiler does not read, and the node that has this part."""
    for node in tree.walk():
        if isinstance(node, exp.Order) and isinstance(node.parent, _OF_ROWS):
            return f"ORDER BY in the arguments of {node.parent.sql_name()}", node
        read = _READ.get(type(node))
        if read is None:
            continue
        for name, part in node.args.items():
            if part and name not in read and name not in _FLAGS:
                word = _WORDS.get(name) or (part.key.upper() if isinstance(part, exp.Expr) else name.upper())
                return f"{word} in {node.key.upper()}", node
        options = node.args.get("limit_options")
        if isinstance(options, exp.Expr) and any(options.args.get(name) for name in ("percent", "with_ties")):
            return f"{_WORDS['limit_options']} in {node.key.upper()}", node
    return None


MOST_EXPANDED: Final = 100_000
"""Greatest number of characters or elements that all calls of a query together may make from a single one."""
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
"""Statements that define functions of the names in `_GUARDED`; each checks the count and calls DuckDB's function."""
_NO_TEXT: Final = re.compile(r"[\ud800-\udfff]")
"""Surrogates, which are halves of characters: a JSON string may contain them, but UTF-8 cannot encode them."""
_NUMBERS: Final = re.compile(r"\d+")

Argument = int | str | None
"""Argument of a call: a constant, or None for anything else."""


def _second(arguments: Sequence[Argument]) -> Argument:
    """Return the second argument."""
    return arguments[1] if len(arguments) > 1 else None


def _fourth(arguments: Sequence[Argument]) -> Argument:
    """Return the fourth argument, or DuckDB's default for the width of a ``bar``."""
    return arguments[3] if len(arguments) > 3 else 80


def _steps(arguments: Sequence[Argument]) -> Argument:
    """Return a bound on the number of elements of a ``range``; None if an argument is not a constant."""
    numbers = [argument for argument in arguments if isinstance(argument, int)]
    if len(numbers) < len(arguments) or not 1 <= len(numbers) <= 3:
        return None
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    return abs(end - start) // max(abs(step), 1) + 1


def _widest(arguments: Sequence[Argument]) -> Argument:
    """Return the largest number in a format, which may be a width; None if an argument determines a width."""
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
"""Name of a function that expands a value → computation of a call's count from the call's arguments."""


def is_expanding(function: str) -> bool:
    """Return True if a function of DuckDB, in lower case, expands a value to a length given by an argument."""
    return function in _COUNTS


def expansion(function: str, arguments: Sequence[Argument], before: int) -> int:
    """Return how many elements a query may make from one element; ``before`` is the number without this call.

    Raise `ValueError` if the number is too large, or if a count is not a constant and must be one.
    """
    count = _COUNTS[function](arguments)
    if function in _GUARDED and not isinstance(count, int):
        count = MOST_COUNT
    if not isinstance(count, int):
        raise ValueError(f"expected constants as the counts and formats of {function}(), which bound its result")
    total = before * max(count, 1)
    if total > MOST_EXPANDED:
        raise ValueError(
            f"expected a query whose calls together make at most {MOST_EXPANDED} characters or elements from a single "
            f"one, was {total} with {function}()"
        )
    return total


MOST_CHARACTERS: Final = 1 << 20
"""Greatest length of a query's text."""
MOST_DIGITS: Final = 400
"""Greatest number of characters of a number: enough for every float, which has up to 309 digits before its point."""
MOST_NESTED: Final = 100
"""Greatest depth of brackets and CASE, and greatest number of signs and NOTs in a row."""
MOST_DEEP: Final = 250
"""Greatest depth of a syntax tree, so that Spark's workers can decode a program within Python's recursion limit."""
_CHAIN: Final = 16
"""Chains of at most this many terms are not changed."""
_RECURSION: Final = 20_000
"""Recursion limit while a query is compiled. The parser makes about 30 nested calls for each level of brackets, so
`MOST_NESTED` levels need more than Python's default limit.
"""
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_PREFIXES: Final = frozenset("-+~")
_EXACT_CALLS: Final = (exp.Sum, exp.Count, exp.Min, exp.Max, exp.Coalesce, exp.Abs, exp.Case, exp.If, exp.Cast)

Fail = Callable[[str, int], Exception]
"""Maker of the error for an offset of the query's text."""

_lock = threading.Lock()
_users = 0
_usual = 0


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise Python's recursion limit to `_RECURSION`, until the last context of this kind ends."""
    global _users, _usual  # noqa: PLW0603  # the limit is the interpreter's
    with _lock:
        if not _users:
            _usual = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual, _RECURSION))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                sys.setrecursionlimit(_usual)


def check_tokens(text: Text, fail: Fail) -> None:
    """Raise the error that ``fail`` makes if the text is too long, or nested too deeply for a recursive parser.

    Surrogates and numbers of too many digits are errors, too.
    """
    if len(text.text) > MOST_CHARACTERS:
        raise fail(f"expected a query of at most {MOST_CHARACTERS} characters, was {len(text.text)}", 0)
    if (match := _NO_TEXT.search(text.text)) is not None:
        raise fail(f"expected characters of Unicode, was the surrogate {match[0]!r}", match.start())
    depth = run = 0
    for token in tokenise(text):
        if token.kind == "number" and token.end - token.start > MOST_DIGITS:
            raise fail(f"expected a number of at most {MOST_DIGITS} digits, was a longer one", token.start)
        if (token.kind == "symbol" and token.text in _OPENING) or token.is_word("CASE"):
            depth += 1
        elif (token.kind == "symbol" and token.text in _CLOSING) or token.is_word("END"):
            depth = max(depth - 1, 0)
        is_prefix = (token.kind == "symbol" and token.text in _PREFIXES) or token.is_word("NOT")
        run = run + 1 if is_prefix else 0
        if max(depth, run) > MOST_NESTED:
            what = "signs or NOTs in a row" if run > depth else "levels of brackets and CASE"
            raise fail(f"expected at most {MOST_NESTED} {what}, was one more", token.start)


def check_depth(tree: exp.Expr, fail: Callable[[str, exp.Expr], Exception]) -> None:
    """Raise the error that ``fail`` makes if the tree is deeper than `MOST_DEEP`, as a long chain of operators is."""
    level: list[exp.Expr] = [tree]
    for _ in range(MOST_DEEP):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    raise fail(
        f"expected a query of at most {MOST_DEEP} operators or set operations inside each other, was a longer chain: "
        f"group its terms with brackets, or write IN for OR",
        level[0],
    )


def balance_chains(tree: exp.Expr, relations: Iterable[Relation]) -> None:
    """Write long chains of AND, OR, ``||`` and exact ``+`` as trees whose depth is the logarithm of their length.

    These operators are associative, so the answer is the same. Addition of floats is not associative, so a chain of
    ``+`` in which a float may occur is not changed.
    """
    has_floats = any(column.type == "float64" for relation in relations for column in relation.columns)
    for node in list(tree.find_all(exp.And, exp.Or, exp.DPipe, exp.Add)):
        kind = type(node)
        if isinstance(node.parent, kind) and node.arg_key == "this":
            continue  # not the top of its chain
        terms: list[exp.Expr] = []
        below: exp.Expr = node
        while type(below) is kind:
            terms.append(below.expression)
            below = below.this
        terms.append(below)
        if len(terms) <= _CHAIN or (kind is exp.Add and (has_floats or not all(map(_is_exact, terms)))):
            continue
        top = _balanced(kind, terms[::-1])
        if node.parent is None:
            continue  # a query is never an operator
        node.replace(top)


def _balanced(kind: type[exp.Binary], terms: list[exp.Expr]) -> exp.Expr:
    while len(terms) > 1:
        pairs: list[exp.Expr] = []
        for place in range(0, len(terms) - 1, 2):
            left, right = terms[place], terms[place + 1]
            joined = kind(this=left, expression=exp.Paren(this=right) if isinstance(right, exp.Binary) else right)
            pairs.append(joined)
        terms = [*pairs, *terms[len(pairs) * 2 :]]
    return terms[0]


def _is_exact(term: exp.Expr) -> bool:
    """Return True if a term contains no float: no division, no function that may return one, no constant like 1e3."""
    for node in term.walk():
        if isinstance(node, exp.Literal) and not node.is_string and "e" in node.name.lower():
            return False
        if isinstance(node, exp.Cast) and node.to.this.name in ("DOUBLE", "FLOAT"):
            return False
        if isinstance(node, (exp.Div, exp.Window)) or (isinstance(node, exp.Func) and not _keeps_integers(node)):
            return False
    return True


def _keeps_integers(node: exp.Func) -> bool:
    return isinstance(node, (*_EXACT_CALLS, exp.And, exp.Or))
