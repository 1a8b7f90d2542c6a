"""Bounds on the size of a query, which is refused beyond them with its place, before anything walks the tree."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from sqlglot import exp

from runtime.compiler.tokens import Text, tokenise
from runtime.plan import Relation

__all__ = ["balance_chains", "check_depth", "check_tokens", "deep_recursion"]

MOST_BYTES: Final = 1 << 20
"""Longest text of a query."""
MOST_NESTED: Final = 100
"""Deepest nesting of brackets and CASE, and longest run of signs and NOTs."""
MOST_DEEP: Final = 250
"""Deepest syntax tree. A program travels as nested records, which Spark's workers decode within Python's own limit."""
_CHAIN: Final = 16
"""Chains of operators up to this depth stay as they were written."""
_RECURSION: Final = 20_000
"""The parser takes some 30 calls for each level of brackets, so that `MOST_NESTED` needs more than Python allows."""
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
    """Let calls nest as deeply as the largest allowed query makes them, in all threads until the last one leaves."""
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
    """Raise what `fail` makes if the text is too long or nested too deeply for a parser that calls itself."""
    if len(text.text) > MOST_BYTES:
        raise fail(f"expected a query of at most {MOST_BYTES} characters, was {len(text.text)}", 0)
    depth = run = 0
    for token in tokenise(text):
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
    """Raise what `fail` makes if the tree is deeper than `MOST_DEEP`, such as a chain of too many operators."""
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

    These operators are associative: the answer is the same. Sums of floats are not, so a chain in which a float may
    stand is left as it is.
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
    """Return True if a term has no float in it: no division, no function that may make one, no constant like 1e3."""
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
