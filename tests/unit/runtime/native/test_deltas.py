"""Deltas are sorted by group and key, and are added to an ordered index as if they came one by one."""

from __future__ import annotations

import random
from unittest.mock import patch

import pytest

from runtime.native.library import ahead, deltas, entries, hashing, ordered
from runtime.native.ordered import Deltas, OrderedIndex
from runtime.native.plain import store_wide

SUMS = 1
WIDTH = 1 + 2 * SUMS
GROUPS = 3


def empty(dense_cells: int) -> OrderedIndex:
    """An index with all groups."""
    index = OrderedIndex(1, SUMS, dense_cells=dense_cells)
    for group in range(GROUPS):
        index.groups.views[hashing.KEY][0] = group
        while ordered.locate_group(index.views) < 0:
            index.make_room()
    return index


def added(index: OrderedIndex, held: Deltas, *, is_found: bool) -> list[int]:
    """Add deltas; gives the words that are found around them."""
    held.views[deltas.NUMBERS][deltas.CURSOR] = 1
    while deltas.add_deltas(index.views, held.views, is_found, SUMS) < 0:
        index.make_room()
    found: list[int] = held.array(deltas.FOUND)[: held.views[deltas.NUMBERS][deltas.LENGTH] * 3 * WIDTH].tolist()
    return found


def filled(rng: random.Random, keys: list[int], largest: int, *, is_sorted: bool) -> Deltas:
    """Deltas with these keys, some of them in more than one group."""
    held = Deltas(WIDTH)
    numbers, values = held.views[deltas.NUMBERS], held.views[deltas.VALUE]
    pairs = sorted({(rng.randrange(GROUPS), key) for key in keys})
    if not is_sorted:
        rng.shuffle(pairs)
    numbers[deltas.LENGTH] = len(pairs)
    for place, (group, key) in enumerate(pairs):
        held.views[deltas.GROUP][place], held.views[deltas.KEY][place] = group, key
        values[place * WIDTH] = rng.randint(-2, 2)
        store_wide(values, place * WIDTH + 1, rng.randint(-largest, largest))
    return held


@pytest.mark.parametrize("dense_cells", [1 << 16, 0], ids=["dense", "tree"])
@pytest.mark.parametrize("largest", [9, 2**100], ids=["small", "large"])
@pytest.mark.parametrize("is_found", [True, False], ids=["found", "added"])
@pytest.mark.parametrize("is_sorted", [True, False], ids=["sorted", "unsorted"])
def test_many_at_once_are_as_one_by_one(dense_cells: int, largest: int, is_found: bool, is_sorted: bool) -> None:
    """Leaves are split, squeezed and freed between deltas of one batch, and around each one are the sums before it.

    Small batches are not sorted: the next delta of a leaf's group may belong to a leaf before it.
    """
    rng, width = random.Random(largest), 3 * WIDTH
    at_once, single = empty(dense_cells), empty(dense_cells)
    past: list[Deltas] = []
    with patch.object(ahead, "LARGE_WORDS", 0):
        for size in (700, 3, 500, 1, 900):
            held = filled(rng, [rng.randrange(4000) for _ in range(size)], largest, is_sorted=is_sorted)
            past.append(held)
            for taken, sign in ((held, 1), *((old, -1) for old in past if size == 900)):
                values, length = taken.array(deltas.VALUE), taken.views[deltas.NUMBERS][deltas.LENGTH]
                for place in range(length if sign < 0 else 0):
                    at, low = (
                        place * WIDTH,
                        int.from_bytes(values[place * WIDTH + 1 :][:2].tobytes(), "little", signed=True),
                    )
                    values[at] = -values[at]
                    store_wide(taken.views[deltas.VALUE], at + 1, -low)
                found = added(at_once, taken, is_found=is_found)
                scratch = [0] * width
                for place in range(length):
                    group, key = taken.views[deltas.GROUP][place], taken.views[deltas.KEY][place]
                    deltas.around(single.views, group, key, scratch, 0, SUMS)
                    assert not is_found or found[place * width : (place + 1) * width] == scratch
                    single.views[entries.VALUES][:] = taken.views[deltas.VALUE][place * WIDTH : (place + 1) * WIDTH]
                    while ordered.add(single.views, group, key, SUMS) < 0:
                        single.make_room()
                assert at_once.dump().tolist() == single.dump().tolist()
    for index in (at_once, single):
        assert not len(index.dump())
        ordered.finish(index.views)
        index._check()


@pytest.mark.parametrize("span", [1, 50, 2**20, 2**40, 2**63 - 1])
@pytest.mark.parametrize("rows", [1, 63, 64, 1000])
def test_rows_are_sorted_or_left_in_their_order(span: int, rows: int) -> None:
    """Rows of one group and key stay in the order of the batch."""
    rng, held = random.Random(rows), Deltas(WIDTH)
    given = {}
    for number in range(rows):
        given[2 * number] = pair = (rng.randrange(5), rng.randint(-span, span))
        held.views[deltas.WORDS][number] = 2 * number
        held.views[deltas.ROW_GROUP][2 * number], held.views[deltas.ROW_KEY][2 * number] = pair
    deltas.sort_rows(held.views, rows, True)
    numbers = held.views[deltas.NUMBERS]
    found = [word & numbers[deltas.MASK] for word in held.array(deltas.WORDS)[:rows].tolist()]
    is_sorted = bool(numbers[deltas.SHIFT])
    assert is_sorted == (rows >= 64 and span < 2**41)
    assert found == (sorted(given, key=lambda number: (given[number], number)) if is_sorted else list(given))
