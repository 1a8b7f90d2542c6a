"""Adds changes to a view's full result: the kernel of `runtime.views.materialised`.

The result is a hash table with one record for each row of the view: the words of the row, then its multiplicity. One
pass adds the weights of all changes; then the net change of every touched row is written out and noted for the next
save. The text of this module is the kernel's source.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library.hashing import CELLS, CHANGED, KEY, META, OLD, TOUCHED, WIDTH, locate, settle, touch
from runtime.native.plain import array, copy_words, jit, jit_inline, root, table

NUMBERS, WORDS, WEIGHTS, ROWS, EDITS, NET, NET_WEIGHTS = 0, 1, 2, 3, 4, 5, 6
"""Entries of the kernel's argument, by index: numbers; words of the changes; their weights; the result; edits since the
last save; words of the net changes; their weights.
"""

COUNT, NET_COUNT, SHOWN, TOTAL, IS_SAVED, IS_SET = 0, 1, 2, 3, 4, 5
"""Items of the entry `NUMBERS`, by index: number of changes; number of net changes; number of distinct rows with a
multiplicity above 0; the sum of these multiplicities; 1 if the result is saved by its edits; 1 if the weights are
multiplicities to be set, 0 if they are to be added.
"""

MARKS, EDITED, GONE, COUNTS = 0, 1, 2, 3
"""Items of the entry `EDITS`, by index: marks by slot; list of the slots that changed; list of the words of saved rows
that were removed; the lengths of both lists.
"""
LISTED, STORED = 1, 2
"""Bits of a mark: the slot is in the list of changed slots; the saved state contains the row, or may contain it."""
EDITED_COUNT, GONE_COUNT = 0, 1


@jit_inline
def note_edit(p: Any, slot: int) -> None:
    """Record for the next save that a row has changed, or that it was removed if it was saved."""
    edits, rows = table(p, EDITS), table(p, ROWS)
    marks, counts, cells, width = (
        array(edits, MARKS),
        array(edits, COUNTS),
        array(rows, CELLS),
        array(rows, META)[WIDTH],
    )
    mark, place = marks[slot], slot * (width + 1)
    if not mark & LISTED:
        array(edits, EDITED)[counts[EDITED_COUNT]] = slot
        counts[EDITED_COUNT] += 1
        mark |= LISTED
    if cells[place + width] == 0 and mark & STORED:
        copy_words(array(edits, GONE), counts[GONE_COUNT] * width, cells, place, width)
        counts[GONE_COUNT] += 1
        mark = LISTED
    marks[slot] = mark


@jit_inline
def append_net(p: Any, place: int, width: int, weight: int) -> None:
    """Write the net change of the row whose words begin at a place."""
    numbers = array(p, NUMBERS)
    at = numbers[NET_COUNT]
    copy_words(array(p, NET), at * width, array(table(p, ROWS), CELLS), place, width)
    array(p, NET_WEIGHTS)[at] = weight
    numbers[NET_COUNT] = at + 1


@jit
def append_changes(p: Any) -> None:
    """Write the net changes, count the shown rows, and record the edits for the next save."""
    numbers, rows = array(p, NUMBERS), table(p, ROWS)
    cells, touched, old, width = array(rows, CELLS), array(rows, TOUCHED), array(rows, OLD), array(rows, META)[WIDTH]
    for number in range(array(rows, META)[CHANGED]):
        slot = touched[number]
        place = slot * (width + 1)
        before, after = old[number], cells[place + width]
        if before != after:
            append_net(p, place, width, after - before)
            if before > 0:
                numbers[SHOWN] -= 1
                numbers[TOTAL] -= before
            if after > 0:
                numbers[SHOWN] += 1
                numbers[TOTAL] += after
            if numbers[IS_SAVED]:
                note_edit(p, slot)


@jit
def step(address: Any) -> int:
    """Add the changes; there must be room for as many rows and net changes as there are changes."""
    p = root(address)
    numbers, words, weights, rows = array(p, NUMBERS), array(p, WORDS), array(p, WEIGHTS), table(p, ROWS)
    key, width = array(rows, KEY), array(rows, META)[WIDTH]
    numbers[NET_COUNT] = 0
    for row in range(numbers[COUNT]):
        copy_words(key, 0, words, row * width, width)
        slot = locate(rows)
        touch(rows, slot)
        cells, place = array(rows, CELLS), slot * (width + 1) + width
        cells[place] = weights[row] if numbers[IS_SET] else cells[place] + weights[row]
    append_changes(p)
    settle(rows)
    return 0
