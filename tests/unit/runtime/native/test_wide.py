"""Long division and floats of 128 bits, as kernel source, have the answers of Python's integers in both tiers."""

from __future__ import annotations

import random
from array import array

import pytest

from runtime.native import plain
from runtime.native.library import wide
from runtime.native.machine_code import compile_source
from runtime.native.object_code import link, pack

LIMIT = 2**126
EDGES = (0, 1, 2, 3, 7, 10, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63,
         2**64 - 1, 2**64, 2**64 + 1, 2**64 + 2**11, 2**64 + 2**11 + 1, 2**64 + 3 * 2**11,
         2**117 + 1, LIMIT - 1, LIMIT)  # fmt: skip
SOURCE = """
from runtime.native.plain import *
from runtime.native.library.arithmetic import quotient, remainder

@jit
def step(p):
    cells = array(root(p), 0)
    a, b = load_wide(cells, 0), load_wide(cells, 2)
    cells[4] = bits_of(wide_float(a))
    if b != wide(0):
        cells[5] = bits_of(float_quotient(a, b))
        store_wide(cells, 6, quotient(a, b))
        store_wide(cells, 8, remainder(a, b))
    return 0
"""


def pairs() -> list[tuple[int, int]]:
    """Edges with each other, and values of all lengths."""
    chance = random.Random(7)
    drawn = [tuple(chance.randrange(-LIMIT, LIMIT + 1) >> chance.randrange(127) for _ in range(2)) for _ in range(3000)]
    signed = [sign * edge for edge in EDGES for sign in (1, -1)]
    near = [(value * by + chance.randrange(-1, 2), by) for value in EDGES for by in EDGES if value * by < LIMIT // 2]
    return [*((a, b) for a in signed for b in signed), *near, *drawn]  # type: ignore[list-item]


def toward_zero(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


@pytest.mark.parametrize("is_compiled", [False, True])
def test_quotients_and_floats_are_exact(is_compiled: bool) -> None:
    kernel = link(pack(compile_source(SOURCE))) if is_compiled else None
    for a, b in pairs():
        if kernel is None:
            assert wide.wide_float(a) == float(a), a
            if b != 0:
                assert wide.float_quotient(a, b) == a / b, (a, b)
                assert wide.divide_wide(abs(a), abs(b)) == divmod(abs(a), abs(b)), (a, b)
            continue
        cells = array("q", [0] * 10)
        plain.store_wide(cells, 0, a)
        plain.store_wide(cells, 2, b)
        table = array("q", [cells.buffer_info()[0]])
        kernel(table.buffer_info()[0])
        assert plain.float_of(cells[4]) == float(a), a
        if b != 0:
            assert plain.float_of(cells[5]) == a / b, (a, b)
            assert plain.load_wide(cells, 6) == toward_zero(a, b), (a, b)
            assert plain.load_wide(cells, 8) == a - toward_zero(a, b) * b, (a, b)
