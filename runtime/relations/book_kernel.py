"""Effect of a batch of feed messages on live orders: the kernel of `runtime.relations.orderbook`.

The kernel makes one pass over the messages, in feed order. It changes orders in place; before the first change of an
order in the batch, it saves the words of the order (`library.hashing.touch`). Then it writes the net effect of the
batch on each changed order.

If touches are wanted, the total volume at each price is maintained as well (`library.levels`). A message writes a row
if it changes the best price of a side, or the volume at this price. The text of this module is the kernel's source.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library import levels
from runtime.native.library.hashing import CELLS, CHANGED, KEY, META, OLD, TOUCHED, find, locate, settle, touch
from runtime.native.plain import array, constant, jit, jit_inline, root, table

NUMBERS, ACTIONS, MESSAGES, ORDERS, EDITS, BOOK = 0, 1, 2, 3, 4, 5
"""Places in the table with which the kernel is called.

They have, in this order: numbers of the batch and counters; the effect of each action, by ASCII code; messages; live
orders; edits of orders since the last save; deltas of the book.
"""
MATCHES, LEVELS, BEST, TOUCHES, UNITS = 6, 7, 8, 9, 10
"""Further places, in this order: matches; levels; the best level of each group of levels; rows of touches; the units of
each symbol. All except matches are used only if touches are wanted.
"""

COUNT, BIDS, ASKS, BOOK_ROOM, MATCH_COUNT = 0, 1, 2, 3, 4
"""Numbers of the batch: messages; rows of bids and of asks in the book; capacity of the book in rows; matches.

Bids are written from the beginning of the book, asks backwards from its end.
"""
MESSAGES_SEEN, UNKNOWN, DUPLICATES, BAD_VOLUMES, UNKNOWN_REPLACES = 5, 6, 7, 8, 9
"""Counters of all batches so far: messages; for each reason, messages that had no effect."""
TOUCH_COUNT, WITH_TOUCHES, HAS_UNITS, LARGE_TOUCHES = 10, 11, 12, 13
"""Number of touches of the batch; whether touches are wanted; whether each symbol has units for the prices and volumes
of its levels; number of volumes in touches so far that did not fit into 64 bits.
"""
NUMBER_COUNT = 14

NOTHING, ADD, REDUCE, KILL, REPLACE, MATCH = 0, 1, 2, 3, 4, 8
"""Effects of an action; `MATCH` is added if the action is also a match."""

M_T, M_ORDER, M_BROKER, M_ACTION, M_VOLUME, M_PRICE, M_SYMBOL, M_NUMBER, M_NEW_ORDER = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Columns of messages, which are one after the other in one array."""
M_COLUMNS = 9

T, BROKER, VOLUME, PRICE, SYMBOL, SIDE = 1, 2, 3, 4, 5, 6
"""Words of an order after its number.

`SIDE` is the letter of the action that added the order. An order is live if its volume is positive.
"""
WORDS = 7
"""Number of words of an order, including its number."""

MARKS, EDITED, GONE, COUNTS = 0, 1, 2, 3
"""Places of the edits since the last save: marks by slot, slots that changed, numbers of saved orders that were
removed, and the lengths of both lists.
"""
LISTED, STORED = 1, 2
"""Marks of a slot: it is in the list of changed slots; the saved state has, or may have, the order of the slot."""
EDITED_COUNT, GONE_COUNT = 0, 1

B_T, B_ORDER, B_BROKER, B_VOLUME, B_PRICE, B_SYMBOL, B_WEIGHT = 0, 1, 2, 3, 4, 5, 6
"""Columns of the book's deltas in one array; each column has room for `BOOK_ROOM` rows."""
B_COLUMNS = 7
K_T, K_NUMBER, K_SYMBOL, K_PRICE, K_VOLUME, K_ORDER, K_BROKER, K_SIDE = 0, 1, 2, 3, 4, 5, 6, 7
"""Columns of matches; each column has room for as many rows as there are messages.

`K_SIDE` is the side of the resting order, 0 for a match that names no live order.
"""
K_COLUMNS = 8
X_T, X_SYMBOL, X_BID_PRICE, X_BID_VOLUME, X_ASK_PRICE, X_ASK_VOLUME = 0, 1, 2, 3, 4, 5
"""Columns of touches; each column has room for as many rows as there are messages.

A volume is 0 if the side is empty, and -1 if it does not fit into 64 bits.
"""
X_COLUMNS = 6
BEST_WORDS = 3
"""Words of the best level of a group: its key, and its total in two words."""

BID = 66
"""ASCII code of the letter B."""
LARGEST_VOLUME = 1 << 62


@jit_inline
def field(p: Any, column: int, row: int) -> int:
    """Return a value of a message."""
    return array(p, MESSAGES)[column * array(p, NUMBERS)[COUNT] + row]


@jit_inline
def group_of(symbol: int, side: int) -> int:
    """Return the group that has the levels of a side of a symbol; ``symbol`` is -1 for messages without a symbol."""
    return 2 * (symbol + 1) + (side != BID)


@jit_inline
def change_level(p: Any, symbol: int, side: int, price: int, before: int, after: int) -> None:
    """Update the level of an order whose volume has changed."""
    if array(p, NUMBERS)[HAS_UNITS]:
        units, at = array(p, UNITS), 2 * (symbol + 1)
        price, before, after = price // units[at], before // units[at + 1], after // units[at + 1]
    if before != after:
        # The best level has the least key.
        key = ~price if side == BID else price
        levels.add(table(p, LEVELS), group_of(symbol, side), key, after - before)


@jit_inline
def volume_of(p: Any, at: int) -> int:
    """Return the volume of a best level; -1 if it does not fit into 64 bits."""
    best = array(p, BEST)
    if best[at + 2] == 0 and best[at + 1] >= 0:
        return best[at + 1]
    array(p, NUMBERS)[LARGE_TOUCHES] += 1
    return -1


@jit
def append_touch(p: Any, row: int, symbol: int, side: int) -> None:
    """Write the touch of a symbol if a message has changed this side of the touch."""
    best, group = array(p, BEST), group_of(symbol, side)
    node, at = levels.least(table(p, LEVELS), group), BEST_WORDS * group
    key, low, high = 0, 0, 0
    if node > 0:
        cells, place = array(table(table(p, LEVELS), levels.RECORDS), CELLS), levels.place_of(node)
        key, low, high = cells[place + levels.KEY], cells[place + levels.TOTAL], cells[place + levels.TOTAL + 1]
    if key == best[at] and low == best[at + 1] and high == best[at + 2]:
        return
    best[at], best[at + 1], best[at + 2] = key, low, high
    numbers, rows = array(p, NUMBERS), array(p, TOUCHES)
    room, place = numbers[COUNT], numbers[TOUCH_COUNT]
    bid, ask = BEST_WORDS * group_of(symbol, BID), BEST_WORDS * group_of(symbol, 0)
    rows[X_T * room + place] = field(p, M_T, row)
    rows[X_SYMBOL * room + place] = symbol
    rows[X_BID_PRICE * room + place] = ~best[bid]
    rows[X_BID_VOLUME * room + place] = volume_of(p, bid)
    rows[X_ASK_PRICE * room + place] = best[ask]
    rows[X_ASK_VOLUME * room + place] = volume_of(p, ask)
    numbers[TOUCH_COUNT] = place + 1


@jit
def add_order(p: Any, row: int, order_id: int, symbol: int, broker: int, side: int, with_touches: int) -> None:
    """Add an order with the time, volume and price of a message, unless the order is live."""
    with_touches = constant(with_touches)
    numbers, orders, volume = array(p, NUMBERS), table(p, ORDERS), field(p, M_VOLUME, row)
    if volume <= 0 or volume > LARGEST_VOLUME:
        numbers[BAD_VOLUMES] += 1
        return
    array(orders, KEY)[0] = order_id
    slot = locate(orders)
    cells, place = array(orders, CELLS), slot * WORDS
    if cells[place + VOLUME] > 0:
        numbers[DUPLICATES] += 1
        return
    touch(orders, slot)
    cells[place + T] = field(p, M_T, row)
    cells[place + BROKER] = broker
    cells[place + VOLUME] = volume
    cells[place + PRICE] = field(p, M_PRICE, row)
    cells[place + SYMBOL] = symbol
    cells[place + SIDE] = side
    if with_touches:
        change_level(p, symbol, side, field(p, M_PRICE, row), 0, volume)


@jit_inline
def append_match(p: Any, row: int, symbol: int, price: int, broker: int, side: int) -> None:
    """Write the match of a message."""
    numbers, matches = array(p, NUMBERS), array(p, MATCHES)
    room, at = numbers[COUNT], numbers[MATCH_COUNT]
    matches[K_T * room + at] = field(p, M_T, row)
    matches[K_NUMBER * room + at] = field(p, M_NUMBER, row)
    matches[K_SYMBOL * room + at] = symbol
    matches[K_PRICE * room + at] = price
    matches[K_VOLUME * room + at] = field(p, M_VOLUME, row)
    matches[K_ORDER * room + at] = field(p, M_ORDER, row)
    matches[K_BROKER * room + at] = broker
    matches[K_SIDE * room + at] = side
    numbers[MATCH_COUNT] = at + 1


@jit_inline
def change_order(p: Any, row: int, kind: int, is_match: bool, with_touches: int) -> None:
    """Reduce, end or replace the order of a message if the order is live."""
    with_touches = constant(with_touches)
    numbers, orders = array(p, NUMBERS), table(p, ORDERS)
    array(orders, KEY)[0] = field(p, M_ORDER, row)
    slot = find(orders)
    cells, place = array(orders, CELLS), slot * WORDS
    if slot < 0 or cells[place + VOLUME] == 0:
        numbers[UNKNOWN] += 1
        if kind == REPLACE:
            numbers[UNKNOWN_REPLACES] += 1
        return
    symbol, broker, side = cells[place + SYMBOL], cells[place + BROKER], cells[place + SIDE]
    if is_match:
        price = field(p, M_PRICE, row)
        append_match(p, row, symbol, price if price != 0 else cells[place + PRICE], broker, side)
    left = cells[place + VOLUME] - field(p, M_VOLUME, row) if kind == REDUCE else 0
    if with_touches:
        change_level(p, symbol, side, cells[place + PRICE], cells[place + VOLUME], max(left, 0))
    touch(orders, slot)
    if left > 0:
        cells[place + VOLUME] = left
    else:
        for word in range(1, WORDS):
            cells[place + word] = 0
    if kind == REPLACE:
        numbers[MESSAGES_SEEN] += 1
        add_order(p, row, field(p, M_NEW_ORDER, row), symbol, broker, side, with_touches)
    if with_touches:
        append_touch(p, row, symbol, side)


@jit_inline
def note_edit(p: Any, slot: int) -> None:
    """Record for the next save that an order has changed, or that a saved order was removed."""
    edits, cells = table(p, EDITS), array(table(p, ORDERS), CELLS)
    marks, counts = array(edits, MARKS), array(edits, COUNTS)
    mark = marks[slot]
    if not mark & LISTED:
        array(edits, EDITED)[counts[EDITED_COUNT]] = slot
        counts[EDITED_COUNT] += 1
        mark |= LISTED
    if cells[slot * WORDS + VOLUME] == 0 and mark & STORED:
        array(edits, GONE)[counts[GONE_COUNT]] = cells[slot * WORDS]
        counts[GONE_COUNT] += 1
        mark = LISTED
    marks[slot] = mark


@jit_inline
def append_row(p: Any, order_id: int, cells: Any, place: int, weight: int) -> None:
    """Write a row of the book; the order's words after its number begin at a place."""
    numbers, book = array(p, NUMBERS), array(p, BOOK)
    room, at = numbers[BOOK_ROOM], numbers[BIDS]
    if cells[place + SIDE - 1] == BID:
        numbers[BIDS] += 1
    else:
        numbers[ASKS] += 1
        at = room - numbers[ASKS]
    book[B_T * room + at] = cells[place + T - 1]
    book[B_ORDER * room + at] = order_id
    book[B_BROKER * room + at] = cells[place + BROKER - 1]
    book[B_VOLUME * room + at] = cells[place + VOLUME - 1]
    book[B_PRICE * room + at] = cells[place + PRICE - 1]
    book[B_SYMBOL * room + at] = cells[place + SYMBOL - 1]
    book[B_WEIGHT * room + at] = weight


@jit
def append_changes(p: Any) -> None:
    """Write the net effect of the batch, and record the changed orders for the next save."""
    orders = table(p, ORDERS)
    cells, touched, old = array(orders, CELLS), array(orders, TOUCHED), array(orders, OLD)
    for number in range(array(orders, META)[CHANGED]):
        place, before = touched[number] * WORDS, number * (WORDS - 1)
        differs = 0
        for word in range(1, WORDS):
            differs |= cells[place + word] ^ old[before + word - 1]
        if differs != 0:
            note_edit(p, touched[number])
            if old[before + VOLUME - 1] > 0:
                append_row(p, cells[place], old, before, -1)
            if cells[place + VOLUME] > 0:
                append_row(p, cells[place], cells, place + 1, 1)


@jit
def apply_messages(p: Any, with_touches: int) -> None:
    """Apply the messages of the batch in order."""
    with_touches = constant(with_touches)
    numbers, actions = array(p, NUMBERS), array(p, ACTIONS)
    for row in range(numbers[COUNT]):
        action, volume = field(p, M_ACTION, row), field(p, M_VOLUME, row)
        does = actions[action]
        kind = does & (MATCH - 1)
        if kind == ADD:
            symbol = field(p, M_SYMBOL, row)
            add_order(p, row, field(p, M_ORDER, row), symbol, field(p, M_BROKER, row), action, with_touches)
            if with_touches:
                append_touch(p, row, symbol, action)
        elif kind == REDUCE and (volume < 0 or volume > LARGEST_VOLUME):
            numbers[BAD_VOLUMES] += 1
        elif kind != NOTHING:
            change_order(p, row, kind, does & MATCH != 0, with_touches)
        elif does == MATCH and volume <= 0:
            numbers[BAD_VOLUMES] += 1
        elif does == MATCH:
            append_match(p, row, field(p, M_SYMBOL, row), field(p, M_PRICE, row), 0, 0)


@jit
def step(address: Any) -> int:
    """Apply the batch and return 0.

    If the batch has n messages, there must be room for n orders, levels, matches and touches, and for 2 n rows of the
    book.
    """
    p = root(address)
    numbers = array(p, NUMBERS)
    numbers[MESSAGES_SEEN] += numbers[COUNT]
    if numbers[WITH_TOUCHES]:
        apply_messages(p, 1)
    else:
        apply_messages(p, 0)
    append_changes(p)
    settle(table(p, ORDERS))
    return 0
