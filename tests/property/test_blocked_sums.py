"""Blocked sums are a sorted dictionary with sums over intervals, whatever comes and goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.views.tuplewise import blocked
from runtime.views.tuplewise.blocked import BlockedSums

KEYS = st.integers(-20, 20)
STEPS = st.lists(st.tuples(KEYS, st.sampled_from([(1, 5), (-1, -5), (0, 0), (1, -5), (2, 2**70), (-2, -(2**70))])))


@pytest.fixture(autouse=True, scope="module")
def short_blocks() -> Iterator[None]:
    """Blocks of a few keys, so that a few keys split and join them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocked, "_LOAD", 3)
        patch.setattr(blocked, "_SHIFT", 1)
        yield


def filled(steps: list[tuple[int, tuple[int, int]]]) -> tuple[BlockedSums, dict[int, tuple[int, int]]]:
    held, expected = BlockedSums(2), dict[int, tuple[int, int]]()
    for key, deltas in steps:
        old = expected.pop(key, None)
        new = deltas if old is None else (old[0] + deltas[0], old[1] + deltas[1])
        if any(new):
            expected[key] = new
        assert held.add(key, deltas) == (key in expected) - (old is not None)
        held._check()
    return held, dict(sorted(expected.items()))


@settings(deadline=None)
@given(STEPS, KEYS)
def test_prefixes_are_sums_over_what_is_less(steps: list[tuple[int, tuple[int, int]]], key: int) -> None:
    held, expected = filled(steps)
    assert list(held) == list(expected)
    assert len(held) == len(expected)
    assert bool(held) == bool(expected)
    for column in (0, 1):
        assert held.prefix(held.below(key), column) == sum(v[column] for k, v in expected.items() if k < key)
        assert held.prefix(held.upto(key), column) == sum(v[column] for k, v in expected.items() if k <= key)
        assert held.prefix(held.end, column) == held.totals[column] == sum(v[column] for v in expected.values())
    for position, less in ((held.below(key), key - 1), (held.upto(key), key)):
        assert held.key_before(position) == max((k for k in expected if k <= less), default=None)
    if expected:
        assert (held.least, held.greatest) == (min(expected), max(expected))


@settings(deadline=None)
@given(STEPS, KEYS, st.none() | KEYS)
def test_the_first_key_for_which_a_test_is_true_is_found_from_anywhere(
    steps: list[tuple[int, tuple[int, int]]], bound: int, near: int | None
) -> None:
    held, expected = filled(steps)
    assert held.first(lambda key: bool(key >= bound), near) == min((k for k in expected if k >= bound), default=None)


def test_what_is_emptied_holds_nothing_and_can_be_filled_again() -> None:
    steps = [(key, (1, key)) for key in range(200)]
    held, _ = filled([*steps, *((key, (-1, -number)) for key, (_, number) in reversed(steps))])
    assert not held
    assert held.totals == [0, 0]
    assert held.first(lambda _: True) is None
    assert held.add(7, (1, 7)) == 1
    held._check()


def test_blocks_that_have_become_short_are_joined() -> None:
    held, _ = filled([(key, (1, key)) for key in range(300)])
    for key in range(300):
        if key % 30:
            held.add(key, (-1, -key))
    held._check()
    assert len(held._last) <= 10
