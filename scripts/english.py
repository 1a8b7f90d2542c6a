"""``english.py [PACKAGE…]``: find English in production code that docs/glossary.md advises against.

Reads docstrings, comments, bound names and names of tests; prints each finding, and fails if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
ROOTS: Final = ("algo_engine", "deltabook", "exchange_server", "queries", "runtime")
TESTS: Final = "tests"
LONGEST_TEST_NAME: Final = 59
"""Largest number of characters in the name of a test, which is a claim: details belong in the docstring."""
_TEST: Final = re.compile(r" *(?:async )?def (test_\w+)")

NAMES: Final = frozenset({"told", "one", "found", "held", "said"})
"""Participles and numerals that do not name the object: use the noun (`row`, `match`, `order`, `result`)."""

ALLOWED: Final = {
    # Fields of JSON records, whose names clients use: the lines of views, and `deltabook doctor --json`.
    ("deltabook/wire/service.py", "held"),
    ("deltabook/cli/doctor.py", "found"),
}
"""Files and names that are allowed; the comment has the reason."""

BEFORE_WHO: Final = (
    *("and", "are", "as", "but", "by", "for", "from", "is", "not", "of", "or", "say", "says", "tell", "tells", "than"),
    *("that", "to", "what", "whether", "with"),
)
"""Words after which "who" refers to no noun."""

PROSE: Final = (
    (re.compile(r"\AOf\b"), 'a docstring or comment begins with "Of": name the thing first'),
    (re.compile(r"(?<=[.;] )Of (?:the|those|that|these|its|all)\b[^.;]{0,60}:"), '"Of the …:" is a fragment'),
    (re.compile(r"\ABehind\b|\bBehind (?:each|every)\b"), '"Behind": write after, below or beside, and of what'),
    (re.compile(r"\bSee the module\b"), '"See the module": say it, or name the thing to read'),
    (re.compile(r"\b[Ww]hom?ever\b"), '"whoever": name the caller, owner or subscriber'),
    (
        re.compile(rf"(?:\A|[.;:(] |\b(?:{'|'.join(BEFORE_WHO)}) )[Ww]ho\b(?!')"),
        '"who" without a noun: name the caller, owner or subscriber',
    ),
    (
        re.compile(r"\b(?:anew|afresh)\b|\bbrings? along\b"),
        "an idiom: write again, recompute, or have views of its own",
    ),
    (re.compile(r"\bfor good\b"), '"for good": write permanently'),
    (re.compile(r"\b(?:is|are|was|were) gone\b"), '"gone": write that it has ended, was removed, or no longer exists'),
    (
        re.compile(r"\blies? (?:in|on|across)\b|\bstands? (?:in|at|on|under|there|behind|beside)\b"),
        "a thing neither lies nor stands: write is",
    ),
    (
        re.compile(r"\b(?:that|which|it|and) (?:is|are) no (?!longer\b|more\b|faster\b|slower\b)[a-z]"),
        '"that is no X": write "that is not an X"',
    ),
    (
        re.compile(r"(?:\A|[.;] )[Rr]aises? `[\w.]+`(?:,? (?:(?:and|or) )?`[\w.]+`)*(?=[.;](?: |\Z))"),
        "an error without its condition: write when it is raised",
    ),
    (re.compile(r"\bsays? what (?:was|is) expected\b"), "write that the message has the expected and the actual value"),
)
"""Patterns in docstrings and comments, and the reason against each."""


class Finding(NamedTuple):
    """Place that breaks a rule."""

    path: str
    """Path of the module, relative to the root."""
    line: int
    """Number of the line, from 1."""
    text: str
    """Rule that the line breaks."""


def findings(path: str, source: str) -> Iterator[Finding]:
    """Yield the places in a module that break a rule.

    >>> [finding.text for finding in findings("a/b.py", 'held = 1  # for who must wait')]
    ['name `held`: take the noun of what it is', '"who" without a noun: name the caller, owner or subscriber']
    """
    tree = ast.parse(source)
    for line, name in _names(tree):
        if name.strip("_") in NAMES and (path, name) not in ALLOWED:
            yield Finding(path, line, f"name `{name}`: take the noun of what it is")
    for line, prose in _prose(tree, source):
        for pattern, what in PROSE:
            for _ in pattern.finditer(prose):
                yield Finding(path, line, what)


def long_names(path: str, source: str) -> Iterator[Finding]:
    """Yield the tests of a module whose names are too long.

    >>> [finding.text for finding in long_names("tests/test_a.py", f"def test_{'x' * 55}(): ...")]
    ['name of 60 characters: expected at most 59']
    """
    for number, line in enumerate(source.splitlines(), 1):
        match = _TEST.match(line)
        if match and len(match[1]) > LONGEST_TEST_NAME:
            text = f"name of {len(match[1])} characters: expected at most {LONGEST_TEST_NAME}"
            yield Finding(path, number, text)


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module binds: variables, attributes, parameters, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def _prose(tree: ast.Module, source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings (of attributes too) and blocks of comments, each as one line of text with single spaces."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split())
    block: list[str] = []
    begin = last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("# ")
        if line != last + 1:
            if block:
                yield begin, " ".join(block)
            block, begin = [], line
        block.append(text)
        last = line
    if block:
        yield begin, " ".join(block)


def main(arguments: list[str]) -> int:
    """Check these packages, or the whole tree; return 1 if there is a finding."""
    count = 0
    for root in (*ROOTS, TESTS):
        check = long_names if root == TESTS else findings
        for path in sorted((ROOT / root).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if arguments and not name.startswith(tuple(arguments)):
                continue
            for finding in check(name, path.read_text(encoding="utf-8")):
                count += 1
                sys.stdout.write(f"{finding.path}:{finding.line}: {finding.text}\n")
    sys.stdout.write(f"english: {count} findings\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
