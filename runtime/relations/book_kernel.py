"""What a batch of feed messages does to live orders: the kernel of `runtime.relations.orderbook`.

One pass over the messages, in feed order: every order that a message touches is changed in place, and what it was
before the batch is kept (`library.hashing.touch`). Then the net effect of the batch on each touched order is written
out. The text of this module is the kernel's source.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library.hashing import CELLS, CHANGED, KEY, META, OLD, TOUCHED, find, locate, settle, touch
from runtime.native.plain import array, jit, jit_inline, root, table

NUMBERS, ACTIONS, MESSAGES, ORDERS, EDITS, BOOK, MATCHES = 0, 1, 2, 3, 4, 5, 6
"""Places: numbers; what each action does, by ASCII code; messages; live orders; what of them changed since
the last save; deltas of the book; matches."""

COUNT, BIDS, ASKS, BOOK_ROOM, MATCH_COUNT = 0, 1, 2, 3, 4
"""Numbers of the batch: messages; rows of the book, bids from its beginning and asks back from its end; rows that it
has room for; matches."""
MESSAGES_SEEN, UNKNOWN, DUPLICATES, BAD_VOLUMES, UNKNOWN_REPLACES = 5, 6, 7, 8, 9
"""Numbers that only grow: what was seen so far."""

NOTHING, ADD, REDUCE, KILL, REPLACE, MATCH = 0, 1, 2, 3, 4, 8
"""What an action does; `MATCH` is added to it where it is a match as well."""

M_T, M_ORDER, M_BROKER, M_ACTION, M_VOLUME, M_PRICE, M_SYMBOL, M_NUMBER, M_NEW_ORDER = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Columns of messages, one behind the other in one array."""
M_COLUMNS = 9

T, BROKER, VOLUME, PRICE, SYMBOL, SIDE = 1, 2, 3, 4, 5, 6
"""Words of an order behind its number. `SIDE` is the action letter that added it; an order with volume is live."""
WORDS = 7
"""Words of an order, its number included."""

MARKS, EDITED, GONE, COUNTS = 0, 1, 2, 3
"""Places of what changed since the last save: marks by slot, slots that changed, orders that were saved and are gone,
and how many there are of both."""
LISTED, STORED = 1, 2
"""Marks: the slot is among those that changed; what was saved has its order, or may have it."""
EDITED_COUNT, GONE_COUNT = 0, 1

B_T, B_ORDER, B_BROKER, B_VOLUME, B_PRICE, B_SYMBOL, B_WEIGHT = 0, 1, 2, 3, 4, 5, 6
"""Columns of the book's deltas, each with room for `BOOK_ROOM` rows in one array."""
B_COLUMNS = 7
K_T, K_NUMBER, K_SYMBOL, K_PRICE, K_VOLUME, K_ORDER, K_BROKER, K_SIDE = 0, 1, 2, 3, 4, 5, 6, 7
"""Columns of matches, each with room for as many rows as messages. `K_SIDE` is that of the resting order, 0 for a match
that names no live order."""
K_COLUMNS = 8

BID = 66
"""The letter B."""
LARGEST_VOLUME = 1 << 62


@jit_inline
def field(p: Any, column: int, row: int) -> int:
    """A value of a message."""
    return array(p, MESSAGES)[column * array(p, NUMBERS)[COUNT] + row]


@jit
def add_order(p: Any, row: int, order_id: int, symbol: int, broker: int, side: int) -> None:
    """Add an order with time, volume and price of a message, unless it is live."""
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
def change_order(p: Any, row: int, kind: int, is_match: bool) -> None:
    """Reduce, end or replace the order of a message, if it is live."""
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
    touch(orders, slot)
    if left > 0:
        cells[place + VOLUME] = left
    else:
        for word in range(1, WORDS):
            cells[place + word] = 0
    if kind == REPLACE:
        numbers[MESSAGES_SEEN] += 1
        add_order(p, row, field(p, M_NEW_ORDER, row), symbol, broker, side)


@jit_inline
def note_edit(p: Any, slot: int) -> None:
    """Note for the next save that an order has changed, and that it is gone if it was saved."""
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
    """Write a row of the book: an order whose words behind its number begin at a place."""
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
    """Write the net effect of the batch, and note it for the next save."""
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
def step(address: Any) -> int:
    """Apply the batch. There is room for as many orders as messages, as many matches and twice as many rows."""
    p = root(address)
    numbers, actions = array(p, NUMBERS), array(p, ACTIONS)
    numbers[MESSAGES_SEEN] += numbers[COUNT]
    for row in range(numbers[COUNT]):
        action, volume = field(p, M_ACTION, row), field(p, M_VOLUME, row)
        does = actions[action]
        kind = does & (MATCH - 1)
        if kind == ADD:
            add_order(p, row, field(p, M_ORDER, row), field(p, M_SYMBOL, row), field(p, M_BROKER, row), action)
        elif kind == REDUCE and (volume < 0 or volume > LARGEST_VOLUME):
            numbers[BAD_VOLUMES] += 1
        elif kind != NOTHING:
            change_order(p, row, kind, does & MATCH != 0)
        elif does == MATCH and volume <= 0:
            numbers[BAD_VOLUMES] += 1
        elif does == MATCH:
            append_match(p, row, field(p, M_SYMBOL, row), field(p, M_PRICE, row), 0, 0)
    append_changes(p)
    settle(table(p, ORDERS))
    return 0
