"""Dense layout of an ordered index: a cell for every key of a window, for every group.

Cell ``group × window + key − base`` is the entry of a key. A block is the sum of 64 cells, and a top is the sum of 64
blocks, or of the whole window if that is smaller. A prefix sum reads tops, and at most 64 blocks and 64 cells. The
window is a power of 2, at least 64.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library import hashing
from runtime.native.library.entries import (
    BASE,
    BEYOND,
    BLOCKS,
    CELLS,
    DEFERRED,
    GROUPS,
    LARGE,
    LARGE_SHIFT,
    META,
    PREFIX,
    SUMS,
    TOP_SHIFT,
    TOPS,
    VALUES,
    WANTED,
    WANTED_KEY,
    WANTED_WINDOW,
    WINDOW,
    accumulate,
    add_values_at,
    bits,
    check_limits,
    clear,
    count_signs,
    is_in_use,
    is_zero,
    magnitude,
    queue_empty,
    remove_group,
    sum_up,
)
from runtime.native.plain import (
    array,
    constant,
    copy_words,
    jit,
    jit_apart,
    jit_inline,
    load_wide,
    narrow,
    store_wide,
    table,
    wide,
)

BLOCK_SHIFT = 6
BLOCK = 64
"""Number of cells of a block."""
DEFERRED_BLOCKS = 2
"""Value of ``DEFERRED`` with which `add` leaves blocks and tops to `finish`; with 1 it leaves only tops."""
TOP_SHIFT_MOST = 12
"""Greatest log2 of the number of cells of a top."""


@jit_inline
def add(t: Any, group: int, key: int, sums: int) -> int:
    """Add the scratch values to the entry of a key; return -1 if the key is outside the window."""
    meta, values, cells, blocks = array(t, META), array(t, VALUES), array(t, CELLS), array(t, BLOCKS)
    width = 1 + 2 * sums
    offset = key - meta[BASE]
    # The window is a power of 2, and the base is far enough from 2^63 that a wrapped difference is outside it too.
    if offset & meta[BEYOND]:
        meta[WANTED], meta[WANTED_KEY] = WANTED_WINDOW, key
        return -1
    cell = group * meta[WINDOW] + offset
    place = cell * width
    before = after = cells[place]
    weight = values[0]
    after = narrow(wide(after) + wide(weight))
    cells[place] = after
    longest = after ^ (after >> 63)
    for word in range(1, width, 2):
        value = load_wide(values, word)
        before |= cells[place + word + 1]
        store_wide(cells, place + word, load_wide(cells, place + word) + value)
        high = cells[place + word + 1]
        after |= high
        longest |= high ^ (high >> 63)
    if meta[DEFERRED] < DEFERRED_BLOCKS:
        add_values_at(blocks, (cell >> BLOCK_SHIFT) * width, values, 0, sums)
    if meta[DEFERRED] == 0:
        top = (cell >> meta[TOP_SHIFT]) * width
        add_values_at(array(t, TOPS), top, values, 0, sums)
        if bits(array(t, TOPS), top, sums) == 0:
            queue_empty(t, group)
    if (before | after) < 0:
        count_signs(t, cells, place)
    if (longest >> LARGE_SHIFT) | meta[LARGE]:
        check_added(t, cell)
    return 0


@jit_apart
def note_added(t: Any, cell: int) -> None:
    """Complete `add` for a cell that has or had a negative or a large number."""
    meta, cells = array(t, META), array(t, CELLS)
    place = cell * (1 + 2 * meta[SUMS])
    count_signs(t, cells, place)
    if magnitude(cells, place, meta[SUMS]) >> LARGE_SHIFT:
        check_added(t, cell)


@jit_apart
def check_added(t: Any, cell: int) -> None:
    """Check the limits after an addition to a cell."""
    meta = array(t, META)
    width = 1 + 2 * meta[SUMS]
    check_limits(meta, array(t, CELLS), cell * width)
    if meta[DEFERRED] < DEFERRED_BLOCKS:
        check_limits(meta, array(t, BLOCKS), (cell >> BLOCK_SHIFT) * width)
    if meta[DEFERRED] == 0:
        check_limits(meta, array(t, TOPS), (cell >> meta[TOP_SHIFT]) * width)


@jit
def below(t: Any, group: int, key: int, inclusive: bool, sums: int) -> None:
    """Write the sums of a group's entries below a key to ``PREFIX``."""
    sums = constant(sums)
    meta, prefix = array(t, META), array(t, PREFIX)
    base, window, shift = meta[BASE], meta[WINDOW], meta[TOP_SHIFT]
    if key < base:
        offset = 0
    elif key > base + (window - 1):
        offset = window
    else:
        offset = key - base + int(inclusive)
    start = group * window
    end = start + offset
    top, block = end >> shift, end >> BLOCK_SHIFT
    first_top, first_block, first = start >> shift, top << (shift - BLOCK_SHIFT), block << BLOCK_SHIFT
    tops, blocks, cells = array(t, TOPS), array(t, BLOCKS), array(t, CELLS)
    width = 1 + 2 * sums
    clear(prefix, 0, sums)
    if meta[LARGE]:
        accumulate(meta, prefix, 0, tops, first_top * width, top - first_top, sums)
        accumulate(meta, prefix, 0, blocks, first_block * width, block - first_block, sums)
        accumulate(meta, prefix, 0, cells, first * width, end - first, sums)
        return
    # The cells of a block and the blocks of a top are read either before or after the place, whichever are fewer.
    is_far, size = end - first > BLOCK >> 1, 1 << (shift - BLOCK_SHIFT)
    if is_far:
        deduct(prefix, cells, end * width, first + BLOCK - end, sums)
        block += 1
    else:
        accumulate(meta, prefix, 0, cells, first * width, end - first, sums)
    if block - first_block > size >> 1:
        deduct(prefix, blocks, block * width, first_block + size - block, sums)
        top += 1
    else:
        accumulate(meta, prefix, 0, blocks, first_block * width, block - first_block, sums)
    accumulate(meta, prefix, 0, tops, first_top * width, top - first_top, sums)


@jit
def between(t: Any, group: int, low: int, high: int, sums: int) -> None:
    """Write the sums of a group's entries between two keys, both included, to ``PREFIX``; no entry may be large.

    The function takes half the time of two prefix sums if the window has one top.
    """
    sums = constant(sums)
    meta, prefix, cells, blocks = array(t, META), array(t, PREFIX), array(t, CELLS), array(t, BLOCKS)
    base, window, width = meta[BASE], meta[WINDOW], 1 + 2 * sums
    clear(prefix, 0, sums)
    if low > base + (window - 1) or high < base or low > high:
        return
    start = group * window + (low - base if low > base else 0)
    end = group * window + (high - base + 1 if high < base + (window - 1) else window)
    first, last = start >> BLOCK_SHIFT, end >> BLOCK_SHIFT
    if first == last:
        accumulate(meta, prefix, 0, cells, start * width, end - start, sums)
        return
    # In each of the two blocks that an end of the interval cuts, the cells inside or those outside are read, whichever
    # are fewer.
    before, behind = start & (BLOCK - 1), end & (BLOCK - 1)
    if before < BLOCK >> 1:
        deduct(prefix, cells, (start - before) * width, before, sums)
    else:
        accumulate(meta, prefix, 0, cells, start * width, BLOCK - before, sums)
        first += 1
    if behind > BLOCK >> 1:
        deduct(prefix, cells, end * width, BLOCK - behind, sums)
        last += 1
    else:
        accumulate(meta, prefix, 0, cells, (end - behind) * width, behind, sums)
    accumulate(meta, prefix, 0, blocks, first * width, last - first, sums)


@jit_inline
def deduct(target: Any, cells: Any, place: int, count: int, sums: int) -> None:
    """Subtract ``count`` consecutive entries from the first entry of ``target``; none of them may be large."""
    width = 1 + 2 * sums
    weight = target[0]
    for entry in range(count):
        weight -= cells[place + entry * width]
    target[0] = weight
    for word in range(1, width, 2):
        total = load_wide(target, word)
        for entry in range(count):
            total -= load_wide(cells, place + entry * width + word)
        store_wide(target, word, total)


@jit
def total(t: Any, group: int, sums: int) -> None:
    """Write the sums of a group's entries to ``PREFIX``."""
    sums = constant(sums)
    meta, prefix = array(t, META), array(t, PREFIX)
    tops = meta[WINDOW] >> meta[TOP_SHIFT]
    clear(prefix, 0, sums)
    accumulate(meta, prefix, 0, array(t, TOPS), group * tops * (1 + 2 * sums), tops, sums)


@jit
def begin(t: Any, rows: int) -> None:
    """Decide whether it is faster for a batch of ``rows`` rows if `add` leaves tops, or also blocks, to `finish`."""
    meta = array(t, META)
    cells = array(table(t, GROUPS), hashing.META)[hashing.USED] * meta[WINDOW]
    meta[DEFERRED] = int(rows > cells >> BLOCK_SHIFT) + int(rows > cells >> 1)


@jit_apart
def finish(t: Any) -> None:
    """Recompute the tops and blocks that `add` has left to this function."""
    meta, blocks, tops = array(t, META), array(t, BLOCKS), array(t, TOPS)
    if meta[DEFERRED] == 0:
        return
    width, count = 1 + 2 * meta[SUMS], meta[WINDOW] >> meta[TOP_SHIFT]
    if meta[DEFERRED] == DEFERRED_BLOCKS:
        for block in range(array(table(t, GROUPS), hashing.META)[hashing.USED] * (meta[WINDOW] >> BLOCK_SHIFT)):
            sum_up(meta, blocks, block * width, array(t, CELLS), block * BLOCK * width, BLOCK)
    meta[DEFERRED] = 0
    size = 1 << (meta[TOP_SHIFT] - BLOCK_SHIFT)
    for group in range(array(table(t, GROUPS), hashing.META)[hashing.USED]):
        for top in range(group * count, (group + 1) * count):
            sum_up(meta, tops, top * width, blocks, top * size * width, size)
        if is_zero(tops, group * count * width, count * width) and is_in_use(t, group):
            queue_empty(t, group)


@jit_apart
def is_empty(t: Any, group: int) -> bool:
    """Return whether a group has no entry."""
    meta, blocks, cells = array(t, META), array(t, BLOCKS), array(t, CELLS)
    words = meta[WINDOW] * (1 + 2 * meta[SUMS])
    sums = words >> BLOCK_SHIFT
    return is_zero(blocks, group * sums, sums) and is_zero(cells, group * words, words)


@jit_apart
def drop_if_empty(t: Any, group: int) -> None:
    """Remove a group if it has no entry."""
    if is_empty(t, group):
        remove_group(t, group)


# ---- positions: offsets in the window -------------------------------------------------------------------------------


@jit
def place_of(t: Any, group: int, key: int) -> int:
    """Return the first position whose key is not less than a key; -1 if there is none."""
    meta = array(t, META)
    if key <= meta[BASE]:
        return 0
    if key > meta[BASE] + (meta[WINDOW] - 1):
        return -1
    return key - meta[BASE]


@jit_inline
def next_position(t: Any, group: int, position: int) -> int:
    """Return the next position; -1 if there is none."""
    return position + 1 if position + 1 < array(t, META)[WINDOW] else -1


@jit_inline
def key_at(t: Any, group: int, position: int) -> int:
    """Return the key of a position."""
    return array(t, META)[BASE] + position


@jit_inline
def values_at(t: Any, group: int, position: int, sums: int) -> None:
    """Write the entry at a position to ``PREFIX``."""
    cell = group * array(t, META)[WINDOW] + position
    copy_words(array(t, PREFIX), 0, array(t, CELLS), cell * (1 + 2 * sums), 1 + 2 * sums)
