"""Compiled kernel source gives the answers of the interpreter, with as few versions of its functions as it needs."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from runtime.native import machine, plain
from runtime.native.library import btree, dense, entries, hashing
from runtime.native.machine_code import compile_source, literal_places
from runtime.native.object_code import link, pack
from runtime.native.tiers import KernelSourceError, plain_kernel

HEADER = """
from math import sqrt
from runtime.native.library.arithmetic import civil, quotient, remainder
from runtime.native.library.hashing import find
from runtime.native.plain import *

@jit
def step(p):
    cells = array(root(p), 0)
    a, b, c = cells[0], cells[1], cells[2]
"""
EXPRESSIONS = (
    "a + b * c - (-a)",
    "(a & b) | (a ^ c)",
    "~a",
    "a // 7 + a // -3 + a // 8",
    "a % 7 + a % -3 + a % 8",
    "a // c if c != 0 else 5",
    "a % c if c != 0 else 5",
    "(a >> 3) + (1 << (b & 15))",
    "1 if a < b <= c else 2",
    "1 if a == b or (b != c and not a > c) else 0",
    "1 if a and b else 2",
    "(a < b) + (b < c)",
    "min(a, b) + max(b, c)",
    "int(a >= b)",
    "bits_of(float(a) / float(b)) if b != 0 else bits_of(-float(c))",
    "bits_of(sqrt(float(b))) if b > 0 else 0",
    "bits_of(wide_float(wide(a & 65535) * wide(b & 65535) - wide(c & 65535)))",
    "narrow(quotient(wide(a) * wide(b), wide(c))) if c != 0 else 0",
    "narrow(remainder(wide(a) * wide(b), wide(c))) if c != 0 else 0",
    "1 if wide(a) * wide(b) < wide(c) else 0",
    "int(fits(wide(a) * wide(b))) + 2 * int(outside(wide(a) * wide(b) * wide(4)))",
    "mix(mix(a, b), c << 20)",
    "civil(a & 65535, 0) * 10000 + civil(a & 65535, 1) * 100 + civil(a & 65535, 2)",
    "rank(cells, 3, 4, b)",
    "bits_of(float_quotient(wide(a), wide(c))) if c != 0 else 0",
)
STATEMENTS = (
    """
    n = 0
    for i in range(3, 7):
        if cells[i] > b:
            continue
        n += cells[i]
    return n + i""",
    """
    n = 0
    for i in range(6, 2, -2):
        n = 10 * n + i
    return n""",
    """
    n = c & 7
    while True:
        n += 1
        if n % 5 == 0:
            break
    return n""",
    """
    bad = False
    bad |= a > b
    bad |= c < 0
    cells[7] = bad
    return bad""",
    """
    cells[7] += a
    cells[8] = cells[9] = b
    copy_words(cells, 8, cells, 3, 2)
    return cells[7] ^ cells[9]""",
    """
    x, is_far = mul_wide(wide(a) * wide(b), wide(c))
    store_wide(cells, 7, wide(0) if is_far else x)
    return 1 if is_far else a""",
    """
    n = a > b
    if c > 0:
        n = 3
    elif c < -2:
        n = n + 1
    else:
        pass
    return n""",
    """
    a, b = b, a
    copy_words(cells, 7, cells, 0, 2)
    return a - b""",
)
ROWS = ([5, 9, 20], [-7, 3, -2], [2**62, -(2**61), 2**40], [0, 0, 0], [-1, 2**31, 7], [1000003, -1000, 1])


def answers(source: str, rows: tuple[list[int], ...]) -> list[list[tuple[int, list[int]]]]:
    """Return status and cells of both tiers for each row, which is followed by some ascending cells."""
    compiled, interpreted = link(pack(compile_source(source))), plain_kernel(source)
    found: list[list[tuple[int, list[int]]]] = [[], []]
    for row in rows:
        values = [*row, -5, 2, 3, 11, 0, 0, 0]
        cells, same = array("q", values), array("q", values)
        table = array("q", [cells.buffer_info()[0]])
        found[0].append((compiled(table.buffer_info()[0]), cells.tolist()))
        found[1].append((wrapped(interpreted([memoryview(same)])), same.tolist()))
    return found


def wrapped(status: int) -> int:
    return (status + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_have_the_interpreters_values(expression: str) -> None:
    compiled, interpreted = answers(f"{HEADER}    return {expression}\n", ROWS)
    assert compiled == interpreted


@pytest.mark.parametrize("statements", STATEMENTS)
def test_statements_do_as_the_interpreter(statements: str) -> None:
    small = tuple(row for row in ROWS if max(map(abs, row)) < 2**40)
    compiled, interpreted = answers(f"{HEADER}{statements}\n", small)
    assert compiled == interpreted


@pytest.mark.parametrize(
    "statements",
    [
        "return unknown",
        "return cells",
        "n = 0\n    n = wide(a)\n    return n",
        "return wide(a) + b",
        "return [a]",
        "return sum(cells)",
        "with cells:\n        return 0",
        "for i in cells:\n        return 0",
        "return find(cells, 1)",
        "return 9223372036854775808",
        "return step(p)",
        "del a\n    return 0",
    ],
)
def test_other_source_is_refused(statements: str) -> None:
    with pytest.raises(KernelSourceError, match="expected"):
        compile_source(f"{HEADER}    {statements}\n")


@pytest.mark.parametrize("left", [-9, -5, 9, -(2**62), 3])
def test_products_that_wrap_are_outside(left: int) -> None:
    """A small negative factor has few bits as a number, and many as a word of 128 bits."""
    source = f"{HEADER}    x, is_far = mul_wide(wide(a), load_wide(cells, 7))\n    return is_far\n"
    kernel = link(pack(compile_source(source)))
    for limit in (2**126 - 1, -(2**126)):
        cells = array("q", [left, 0, 0, 0, 0, 0, 0, 0, 0])
        plain.store_wide(cells, 7, limit)
        table = array("q", [cells.buffer_info()[0]])
        assert kernel(table.buffer_info()[0]) == plain.outside(left * limit)


def test_all_primitives_have_code() -> None:
    marks: set[Any] = {"jit", "jit_apart", "jit_inline", "constant"}
    written = {"divide_wide", "float_quotient", "rank", "wide_float"}  # as kernel source
    assert set(machine.PRIMITIVES) == set(plain.__all__) - marks - written
    assert all(callable(getattr(machine, name)) for name in written)


def test_only_constants_are_literals() -> None:
    """Every other literal in a call would have a version of the function made for it."""
    assert literal_places(dense.below) == {4}
    assert literal_places(btree.add) == {3}
    assert literal_places(entries.clear) == set()
    assert literal_places(hashing.find) == set()
