"""Price-time matching of plain limit orders over flat arrays, with a step of a graph after each record.

This is the kernel side of `deltabook.backtest.native_loop`. `play` applies recorded orders to the books, appends the
rows that each one changes in BIDS, ASKS and TRADES to the batches of a graph, and runs the graph's nodes. It returns to
Python when a record is due after the next timer, when an order of a strategy was executed, when a watched view has
changed, or when an array is full.

An order is a record of `STRIDE` cells, addressed by slot. A price level is a doubly linked list of orders in the order
of their arrival. A side of a book is an array of (rank, level) pairs, ascending: the best price is the last pair. A
rank is the price of a bid and the negative price of an ask, so that one comparison serves both sides. Side ``2 *
locate`` is the bids of an instrument and ``2 * locate + 1`` its asks.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library.steps import GRAPH, results, run_nodes
from runtime.native.plain import array, copy_words, jit, jit_inline, mix, table

NUMBERS, ORDERS, LEVELS, SIDES, COUNTS, INDEX, TRADES, MATCHES, PLACES, BATCHES, BOOKS, COLUMNS, LOOP = range(13)
"""Places: numbers (below); orders; price levels; the sides' arrays of (rank, level); levels and capacity of each
side; index of recorded ids; ring of retained trades; matches to report; the place of each column of a relation in
its batch; the batches of the three relations; numbers of each book; columns of the records; the loop of `steps`.
"""

OP, RECORD, LAST, NEXT_NS, TIME, NEXT_ORDER, NEXT_MATCH, OTHER_IDS, MESSAGES, TRADED = range(10)
"""Numbers: the operation; next record and number of records; time of the next timer; time of the last input; the next
ids of an order and of a match; ids given to recorded executions; feed messages and trades so far."""
ORDER_USED, ORDER_ROOM, ORDER_FREE, LIVE, LEVEL_USED, LEVEL_ROOM, LEVEL_FREE, MASK, MAPPED = range(10, 19)
"""Numbers of the arrays: slots used, capacity, first free slot + 1, live orders; the same of levels; size of the index
- 1, recorded ids in it."""
FIRST_TRADE, KEPT, TRADE_MASK, KEEP_ROWS, KEEP_NS, MATCHED, MATCH_ROOM, NEED = range(19, 27)
"""Numbers of the ring: its first trade, number of trades, capacity - 1, and retention in rows and nanoseconds;
matches to report and their capacity; number of matches that the stopped operation may make.
"""
FACTOR, MID_LIMIT, BUY, SELL, POSITION, EPOCH, PENDING = range(27, 34)
"""Numbers: the outlier factor, and the price from which on its product exceeds 64 bits; the strings of a trade's
side; position of the last record; the time in `EPOCH_TIME` (-1: no row); whether relations have changed since the
graph ran.
"""
SIDE, PRICE, VOLUME, BROKER, OWNER, BOUND, RESTS, SLOT = range(34, 42)
"""Arguments and result of the other operations: side, price, volume, broker and handle of an order, the least rank
at which it executes, whether it rests, and its slot; the volume is replaced by the volume that was not executed.
"""
GONE, IGNORED, REFUSED, EMPTY, WITHOUT_EFFECT, DROPPED = range(42, 48)
"""Counters of records without effect, by reason."""
NUMBERS_SIZE = 48

PLAY, VIEWS, ENTER, REDUCE, DELETE, UNLINK, WITHDRAW = range(7)
"""Operations: play records; run the graph over the pending rows; match an order and rest what remains; reduce the
volume of an order; end an order; remove an order from its queue without ending it; end an order that is in no queue.
"""
DONE, STOPPED, CHANGED, DUE, MATCHED_OWN, ROOM = 0, 1, 2, 3, 4, 5
"""Statuses: all records are played, or the operation is done; a node has stopped; a watched view has changed; a timer
is due before the next record; orders with a handle were executed and the graph has not run; an array is full and
nothing was changed."""

O_VOLUME, O_PRICE, O_PREVIOUS, O_NEXT, O_LEVEL, O_ID, O_BROKER, O_TIME, O_SIDE, O_OWNER = range(10)
O_EXECUTED, O_RECORDED, O_FILE, O_REMAINS = range(10, 14)
STRIDE = 14
"""Cells of an order. ``O_OWNER`` is the handle of a strategy's order, 0 for a recorded one.

``O_FILE`` and ``O_RECORDED`` are the recorded id, -1 where there is none; ``O_REMAINS`` is its remaining volume
according to the recording.
"""
L_PRICE, L_HEAD, L_TAIL, L_COUNT, L_STRIDE = range(5)
"""Cells of a level: price, first and last order, number of orders."""
T_TIME, T_NUMBER, T_LOCATE, T_PRICE, T_VOLUME, T_SIDE, T_RESTING, T_BROKER, T_STRIDE = range(9)
"""Cells of a retained trade."""
M_OWNER, M_VOLUME, M_PRICE, M_MATCH, M_STRIDE = range(5)
"""Cells of a match to report: handle of the resting order (0: recorded), volume, price, number of the match."""
B_SYMBOL, B_LAST, B_STRIDE = range(3)
"""Cells of a book: number of its symbol's string, price of its last trade."""

C_TIME, C_POSITION, C_FILE, C_ORDER, C_BROKER, C_ACTION, C_VOLUME, C_PRICE, C_LOCATE, C_NEW_FILE, C_NEW = range(11)
"""Columns of the records."""
ADD_BUY, ADD_SELL, EXECUTE, FILL, DROP, TAKE_OFF, REPLACE, REMAIN, OTHER = range(9)
"""Actions of records: B S E F D X U V, and all others, which change nothing."""

BIDS_ROWS, ASKS_ROWS, TRADES_ROWS, TIME_ROWS = range(4)
PLACES_STRIDE = 16
"""Cells of a relation in `PLACES`: whether the graph reads it, then for each column the place of its values or -1,
and from 10 on the places of the NULL flags of the nullable columns of trades, or -1.
"""
FLAGS = 10
NO_PLACE = -1


# ---- rows of relations -----------------------------------------------------------------------------------------------


@jit_inline
def put_cell(batch: Any, place: int, row: int, value: int) -> None:
    """Write a value of a row into a column; no kernel reads a column without a place."""
    if place >= 0:
        array(batch, place)[row] = value


@jit
def put_order(p: Any, slot: int, weight: int) -> None:
    """Append the row of an order to its relation."""
    orders, places = array(p, ORDERS), array(p, PLACES)
    array(p, NUMBERS)[PENDING] = 1
    at = slot * STRIDE
    relation = orders[at + O_SIDE] & 1
    first = relation * PLACES_STRIDE
    if places[first] == 0:
        return
    batch = table(table(p, BATCHES), relation)
    meta = array(batch, 0)
    row = meta[0]
    array(batch, 1)[row] = weight
    put_cell(batch, places[first + 1], row, orders[at + O_TIME])
    put_cell(batch, places[first + 2], row, orders[at + O_ID])
    put_cell(batch, places[first + 3], row, orders[at + O_BROKER])
    put_cell(batch, places[first + 4], row, orders[at + O_VOLUME])
    put_cell(batch, places[first + 5], row, orders[at + O_PRICE])
    put_cell(batch, places[first + 6], row, array(p, BOOKS)[(orders[at + O_SIDE] >> 1) * B_STRIDE + B_SYMBOL])
    meta[0] = row + 1


@jit
def put_trade(p: Any, place: int, weight: int) -> None:
    """Append the row of a retained trade to TRADES."""
    n, trades, places = array(p, NUMBERS), array(p, TRADES), array(p, PLACES)
    first = TRADES_ROWS * PLACES_STRIDE
    if places[first] == 0:
        return
    at = (place & n[TRADE_MASK]) * T_STRIDE
    batch = table(table(p, BATCHES), TRADES_ROWS)
    meta = array(batch, 0)
    row = meta[0]
    array(batch, 1)[row] = weight
    put_cell(batch, places[first + 1], row, trades[at + T_TIME])
    put_cell(batch, places[first + 2], row, trades[at + T_NUMBER])
    put_cell(batch, places[first + 3], row, array(p, BOOKS)[trades[at + T_LOCATE] * B_STRIDE + B_SYMBOL])
    put_cell(batch, places[first + 4], row, trades[at + T_PRICE])
    put_cell(batch, places[first + 5], row, trades[at + T_VOLUME])
    put_cell(batch, places[first + 6], row, n[BUY] if trades[at + T_SIDE] == 0 else n[SELL])
    put_cell(batch, places[first + FLAGS], row, 0)
    put_cell(batch, places[first + 7], row, trades[at + T_RESTING])
    put_cell(batch, places[first + FLAGS + 1], row, 0)
    put_cell(batch, places[first + 8], row, 0)
    put_cell(batch, places[first + FLAGS + 2], row, 1)
    put_cell(batch, places[first + 9], row, trades[at + T_BROKER])
    put_cell(batch, places[first + FLAGS + 3], row, 0)
    meta[0] = row + 1


@jit
def retain_trade(p: Any, slot: int, volume: int, price: int) -> None:
    """Add a trade with a resting order, and retire trades that are beyond the retention."""
    n, trades, orders = array(p, NUMBERS), array(p, TRADES), array(p, ORDERS)
    n[TRADED] += 1
    place, order = n[FIRST_TRADE] + n[KEPT], slot * STRIDE
    at = (place & n[TRADE_MASK]) * T_STRIDE
    trades[at + T_TIME], trades[at + T_NUMBER] = n[TIME], n[MESSAGES]
    trades[at + T_LOCATE] = orders[order + O_SIDE] >> 1
    trades[at + T_PRICE], trades[at + T_VOLUME] = price, volume
    trades[at + T_SIDE] = 1 - (orders[order + O_SIDE] & 1)
    trades[at + T_RESTING], trades[at + T_BROKER] = orders[order + O_ID], orders[order + O_BROKER]
    put_trade(p, place, 1)
    n[KEPT] += 1
    oldest = n[TIME] - n[KEEP_NS]
    while n[KEPT] > n[KEEP_ROWS] or trades[(n[FIRST_TRADE] & n[TRADE_MASK]) * T_STRIDE + T_TIME] < oldest:
        put_trade(p, n[FIRST_TRADE], -1)
        n[FIRST_TRADE] += 1
        n[KEPT] -= 1


# ---- recorded ids ----------------------------------------------------------------------------------------------------


@jit
def find_recorded(p: Any, file: int, number: int) -> int:
    """Return the slot of the live order with a recorded id, or -1."""
    index, orders, mask = array(p, INDEX), array(p, ORDERS), array(p, NUMBERS)[MASK]
    at = mix(mix(0, number), file) & mask
    while index[at] != 0:
        order = (index[at] - 1) * STRIDE
        if orders[order + O_RECORDED] == number and orders[order + O_FILE] == file:
            return index[at] - 1
        at = (at + 1) & mask
    return -1


@jit
def map_recorded(p: Any, slot: int, file: int, number: int) -> None:
    """Enter an order into the index under a recorded id that no order has."""
    n, index, orders = array(p, NUMBERS), array(p, INDEX), array(p, ORDERS)
    at = mix(mix(0, number), file) & n[MASK]
    while index[at] != 0:
        at = (at + 1) & n[MASK]
    index[at] = slot + 1
    orders[slot * STRIDE + O_FILE], orders[slot * STRIDE + O_RECORDED] = file, number
    n[MAPPED] += 1


@jit
def unmap_recorded(p: Any, slot: int) -> None:
    """Remove the recorded id of an order from the index."""
    n, index, orders = array(p, NUMBERS), array(p, INDEX), array(p, ORDERS)
    order, mask = slot * STRIDE, n[MASK]
    at = mix(mix(0, orders[order + O_RECORDED]), orders[order + O_FILE]) & mask
    while index[at] != slot + 1:
        at = (at + 1) & mask
    after = (at + 1) & mask
    while index[after] != 0:
        other = (index[after] - 1) * STRIDE
        home = mix(mix(0, orders[other + O_RECORDED]), orders[other + O_FILE]) & mask
        if ((after - home) & mask) >= ((after - at) & mask):
            index[at] = index[after]
            at = after
        after = (after + 1) & mask
    index[at] = 0
    orders[order + O_FILE] = -1
    n[MAPPED] -= 1


# ---- books -----------------------------------------------------------------------------------------------------------


@jit
def rank_of(side: int, price: int) -> int:
    """Return the rank of a price on a side."""
    return price if side & 1 == 0 else -price


@jit
def place_of_rank(p: Any, side: int, rank: int) -> int:
    """Return the place of a rank among the levels of a side, or the place where it belongs."""
    cells, low, high = array(table(p, SIDES), side), 0, array(p, COUNTS)[2 * side]
    # Most orders are near the touch.
    if high > 8 and cells[2 * (high - 8)] < rank:
        low = high - 7
    while low < high:
        middle = (low + high) >> 1
        if cells[2 * middle] < rank:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def append_order(p: Any, slot: int) -> None:
    """Append an order to the queue of its price."""
    n, orders, levels, counts = array(p, NUMBERS), array(p, ORDERS), array(p, LEVELS), array(p, COUNTS)
    order = slot * STRIDE
    side = orders[order + O_SIDE]
    cells, rank, count = array(table(p, SIDES), side), rank_of(side, orders[order + O_PRICE]), counts[2 * side]
    place = place_of_rank(p, side, rank)
    if place < count and cells[2 * place] == rank:
        level = cells[2 * place + 1]
        tail = levels[level * L_STRIDE + L_TAIL]
        orders[tail * STRIDE + O_NEXT] = slot
        orders[order + O_PREVIOUS] = tail
    else:
        level = n[LEVEL_FREE] - 1
        if level >= 0:
            n[LEVEL_FREE] = levels[level * L_STRIDE + L_HEAD]
        else:
            level = n[LEVEL_USED]
            n[LEVEL_USED] = level + 1
        copy_words(cells, 2 * (place + 1), cells, 2 * place, 2 * (count - place))
        cells[2 * place], cells[2 * place + 1] = rank, level
        counts[2 * side] = count + 1
        levels[level * L_STRIDE + L_PRICE], levels[level * L_STRIDE + L_COUNT] = orders[order + O_PRICE], 0
        levels[level * L_STRIDE + L_HEAD] = slot
        orders[order + O_PREVIOUS] = -1
    orders[order + O_NEXT], orders[order + O_LEVEL] = -1, level
    levels[level * L_STRIDE + L_TAIL] = slot
    levels[level * L_STRIDE + L_COUNT] += 1


@jit
def unlink_order(p: Any, slot: int) -> None:
    """Remove an order from its queue, and its price from the book if no order is left there."""
    n, orders, levels, counts = array(p, NUMBERS), array(p, ORDERS), array(p, LEVELS), array(p, COUNTS)
    order = slot * STRIDE
    level = orders[order + O_LEVEL] * L_STRIDE
    before, after = orders[order + O_PREVIOUS], orders[order + O_NEXT]
    if before >= 0:
        orders[before * STRIDE + O_NEXT] = after
    else:
        levels[level + L_HEAD] = after
    if after >= 0:
        orders[after * STRIDE + O_PREVIOUS] = before
    else:
        levels[level + L_TAIL] = before
    levels[level + L_COUNT] -= 1
    if levels[level + L_COUNT] == 0:
        side = orders[order + O_SIDE]
        cells, count = array(table(p, SIDES), side), counts[2 * side]
        place = place_of_rank(p, side, rank_of(side, orders[order + O_PRICE]))
        copy_words(cells, 2 * place, cells, 2 * (place + 1), 2 * (count - place - 1))
        counts[2 * side] = count - 1
        levels[level + L_HEAD] = n[LEVEL_FREE]
        n[LEVEL_FREE] = orders[order + O_LEVEL] + 1


@jit
def free_order(p: Any, slot: int) -> None:
    """Free the slot of an order that is in no queue."""
    n, orders = array(p, NUMBERS), array(p, ORDERS)
    if orders[slot * STRIDE + O_FILE] >= 0:
        unmap_recorded(p, slot)
    orders[slot * STRIDE + O_ID] = 0
    orders[slot * STRIDE + O_NEXT] = n[ORDER_FREE]
    n[ORDER_FREE] = slot + 1
    n[LIVE] -= 1


@jit
def rest_order(p: Any, side: int, price: int, volume: int, broker: int, number: int, owner: int) -> int:
    """Put an order into the book; return its slot."""
    n, orders = array(p, NUMBERS), array(p, ORDERS)
    slot = n[ORDER_FREE] - 1
    if slot >= 0:
        n[ORDER_FREE] = orders[slot * STRIDE + O_NEXT]
    else:
        slot = n[ORDER_USED]
        n[ORDER_USED] = slot + 1
    order = slot * STRIDE
    orders[order + O_VOLUME], orders[order + O_PRICE], orders[order + O_ID] = volume, price, number
    orders[order + O_BROKER], orders[order + O_TIME], orders[order + O_SIDE] = broker, n[TIME], side
    orders[order + O_OWNER], orders[order + O_EXECUTED], orders[order + O_FILE] = owner, 0, -1
    n[LIVE] += 1
    append_order(p, slot)
    n[MESSAGES] += 1
    put_order(p, slot, 1)
    return slot


@jit
def reduce_order(p: Any, slot: int, volume: int) -> None:
    """Reduce an order by some lots, fewer than it has."""
    put_order(p, slot, -1)
    array(p, ORDERS)[slot * STRIDE + O_VOLUME] -= volume
    array(p, NUMBERS)[MESSAGES] += 1
    put_order(p, slot, 1)


@jit
def withdraw_order(p: Any, slot: int) -> None:
    """End an order that was removed from its queue."""
    array(p, NUMBERS)[MESSAGES] += 1
    put_order(p, slot, -1)
    free_order(p, slot)


@jit
def delete_order(p: Any, slot: int) -> None:
    """End an order."""
    unlink_order(p, slot)
    withdraw_order(p, slot)


@jit
def matches_within(p: Any, side: int, bound: int, volume: int) -> int:
    """Return the number of orders of a side with which an order of this volume would execute, down to a rank."""
    orders, levels, cells = array(p, ORDERS), array(p, LEVELS), array(table(p, SIDES), side)
    place, count = array(p, COUNTS)[2 * side] - 1, 0
    while volume > 0 and place >= 0 and cells[2 * place] >= bound:
        slot = levels[cells[2 * place + 1] * L_STRIDE + L_HEAD]
        while volume > 0 and slot >= 0:
            volume -= min(volume, orders[slot * STRIDE + O_VOLUME])
            count += 1
            slot = orders[slot * STRIDE + O_NEXT]
        place -= 1
    return count


@jit
def execute(p: Any, side: int, bound: int, volume: int, is_own: int) -> int:
    """Execute against the orders of a side down to a rank; return the remaining volume."""
    n, orders, levels, counts = array(p, NUMBERS), array(p, ORDERS), array(p, LEVELS), array(p, COUNTS)
    cells, matches = array(table(p, SIDES), side), array(p, MATCHES)
    while volume > 0 and counts[2 * side] > 0 and cells[2 * (counts[2 * side] - 1)] >= bound:
        level = cells[2 * (counts[2 * side] - 1) + 1] * L_STRIDE
        price, slot = levels[level + L_PRICE], levels[level + L_HEAD]
        order = slot * STRIDE
        done = min(volume, orders[order + O_VOLUME])
        volume -= done
        n[MESSAGES] += 1
        retain_trade(p, slot, done, price)
        put_order(p, slot, -1)
        orders[order + O_VOLUME] -= done
        orders[order + O_EXECUTED] += done
        if is_own != 0 or orders[order + O_OWNER] != 0:
            at = n[MATCHED] * M_STRIDE
            matches[at + M_OWNER], matches[at + M_VOLUME] = orders[order + O_OWNER], done
            matches[at + M_PRICE], matches[at + M_MATCH] = price, n[NEXT_MATCH]
            n[MATCHED] += 1
        n[NEXT_MATCH] += 1
        array(p, BOOKS)[(side >> 1) * B_STRIDE + B_LAST] = price
        if orders[order + O_VOLUME] > 0:
            put_order(p, slot, 1)
        else:
            unlink_order(p, slot)
            free_order(p, slot)
    return volume


@jit
def best_rank(p: Any, side: int) -> int:
    """Return the best rank of a side that has orders."""
    return array(table(p, SIDES), side)[2 * (array(p, COUNTS)[2 * side] - 1)]


# ---- room ------------------------------------------------------------------------------------------------------------


@jit
def has_room(p: Any, side: int, matches: int) -> bool:
    """Return whether there is room for an order on a side and for this many matches; if not, set `NEED` to them."""
    n, counts = array(p, NUMBERS), array(p, COUNTS)
    n[NEED] = matches
    if (n[ORDER_FREE] == 0 and n[ORDER_USED] == n[ORDER_ROOM]) or 2 * (n[MAPPED] + 1) > n[MASK]:
        return False
    if (n[LEVEL_FREE] == 0 and n[LEVEL_USED] == n[LEVEL_ROOM]) or counts[2 * side] == counts[2 * side + 1]:
        return False
    if n[KEPT] + matches > n[TRADE_MASK] or n[MATCHED] + matches > n[MATCH_ROOM]:
        return False
    batches = table(p, BATCHES)
    for relation in range(TRADES_ROWS):
        meta = array(table(batches, relation), 0)
        if meta[0] + 2 * matches + 4 > meta[1]:
            return False
    meta = array(table(batches, TRADES_ROWS), 0)
    return meta[0] + n[KEPT] + 2 * matches + 1 <= meta[1]


# ---- records ---------------------------------------------------------------------------------------------------------


@jit
def is_sane(p: Any, locate: int, price: int) -> bool:
    """Return whether a recorded price is plausible: at most ``FACTOR`` times the middle of the book (0: any price)."""
    n, counts = array(p, NUMBERS), array(p, COUNTS)
    if n[FACTOR] == 0:
        return True
    if price <= 0:
        return False
    bids, asks = counts[4 * locate], counts[4 * locate + 2]
    if bids == 0 and asks == 0:
        return True
    bid = best_rank(p, 2 * locate) if bids > 0 else 0
    ask = -best_rank(p, 2 * locate + 1) if asks > 0 else bid
    if bids == 0:
        bid = ask
    middle = bid + ((ask - bid) >> 1)
    return middle > n[MID_LIMIT] or price <= n[FACTOR] * middle


@jit
def live_recorded(p: Any, locate: int, file: int, number: int) -> int:
    """Return the slot of a recorded id's order in a book, or -1; an order in another book loses the id."""
    slot = find_recorded(p, file, number)
    if slot >= 0 and array(p, ORDERS)[slot * STRIDE + O_SIDE] >> 1 != locate:
        unmap_recorded(p, slot)
        return -1
    return slot


@jit
def leave(p: Any, slot: int, volume: int) -> None:
    """Reduce an order to a volume, unless the order has no more than that."""
    resting = array(p, ORDERS)[slot * STRIDE + O_VOLUME]
    if volume >= resting:
        array(p, NUMBERS)[WITHOUT_EFFECT] += 1
    elif volume <= 0:
        delete_order(p, slot)
    else:
        reduce_order(p, slot, resting - volume)


@jit
def has_room_to_add(p: Any, side: int, price: int, volume: int) -> bool:
    """Return whether there is room for a limit order and all matches that it would make."""
    other, bound = side ^ 1, -rank_of(side, price)
    if array(p, COUNTS)[2 * other] > 0 and best_rank(p, other) >= bound:
        return has_room(p, side, matches_within(p, other, bound, volume))
    return has_room(p, side, 0)


@jit
def add_recorded(p: Any, side: int, file: int, number: int, volume: int, price: int, broker: int) -> None:
    """Enter a recorded order, for which there must be room."""
    n = array(p, NUMBERS)
    if volume <= 0 or price <= 0 or live_recorded(p, side >> 1, file, number) >= 0:
        n[REFUSED] += 1
        return
    other, bound, left = side ^ 1, -rank_of(side, price), volume
    order_id = n[NEXT_ORDER]
    n[NEXT_ORDER] = order_id + 1
    if array(p, COUNTS)[2 * other] > 0 and best_rank(p, other) >= bound:
        left = execute(p, other, bound, volume, 0)
    # `live_recorded` has taken the id from an order of another book, even if this order is executed completely.
    if left > 0:
        slot = rest_order(p, side, price, left, broker, order_id, 0)
        map_recorded(p, slot, file, number)
        array(p, ORDERS)[slot * STRIDE + O_REMAINS] = volume


@jit
def execute_recorded(p: Any, slot: int, volume: int) -> bool:
    """Apply a recorded execution as an immediate order on the other side; return False if an array is full."""
    n, orders = array(p, NUMBERS), array(p, ORDERS)
    order = slot * STRIDE
    remains, side = orders[order + O_REMAINS], orders[order + O_SIDE]
    volume = min(volume, remains)
    if volume <= 0:
        n[EMPTY] += 1
        return True
    bound = rank_of(side, orders[order + O_PRICE])
    if not has_room(p, side, matches_within(p, side, bound, volume)):
        return False
    number = orders[order + O_ID]
    orders[order + O_REMAINS] = remains - volume
    n[NEXT_ORDER] += 1
    n[OTHER_IDS] += 1
    execute(p, side, bound, volume, 0)
    if orders[order + O_ID] == number and orders[order + O_VOLUME] > remains - volume:
        leave(p, slot, remains - volume)
    return True


@jit
def change_recorded(p: Any, slot: int, row: int) -> bool:
    """Apply a record to the live order that it names; return False, with nothing changed, if an array is full."""
    n, orders, columns = array(p, NUMBERS), array(p, ORDERS), table(p, COLUMNS)
    action, volume, order = array(columns, C_ACTION)[row], array(columns, C_VOLUME)[row], slot * STRIDE
    if action == EXECUTE:
        return execute_recorded(p, slot, volume)
    if action == FILL:
        return execute_recorded(p, slot, orders[order + O_REMAINS])
    side = orders[order + O_SIDE]
    if action == REPLACE:
        price, broker = array(columns, C_PRICE)[row], orders[order + O_BROKER]
        if not has_room_to_add(p, side, price, volume):
            return False
        delete_order(p, slot)
        add_recorded(p, side, array(columns, C_NEW_FILE)[row], array(columns, C_NEW)[row], volume, price, broker)
        return True
    if not has_room(p, side, 0):
        return False
    if action == DROP:
        delete_order(p, slot)
    elif action == OTHER:
        n[IGNORED] += 1
    else:
        remains = volume if action == REMAIN else orders[order + O_REMAINS] - volume
        orders[order + O_REMAINS] = remains
        leave(p, slot, remains)
    return True


@jit
def apply_record(p: Any, row: int) -> bool:
    """Apply a record; return False, with nothing changed, if an array is full."""
    n, columns = array(p, NUMBERS), table(p, COLUMNS)
    action, locate, price = (
        array(columns, C_ACTION)[row],
        array(columns, C_LOCATE)[row],
        array(columns, C_PRICE)[row],
    )
    file, number = array(columns, C_FILE)[row], array(columns, C_ORDER)[row]
    is_add = 0 <= action <= ADD_SELL
    is_priced = is_add or action == REPLACE
    if is_priced and not is_sane(p, locate, price):
        n[DROPPED] += 1
        return True
    if is_add:
        side, volume = 2 * locate + action, array(columns, C_VOLUME)[row]
        if not has_room_to_add(p, side, price, volume):
            return False
        add_recorded(p, side, file, number, volume, price, array(columns, C_BROKER)[row])
        return True
    slot = live_recorded(p, locate, file, number)
    if slot >= 0:
        return change_recorded(p, slot, row)
    n[IGNORED if action == OTHER else GONE] += 1
    return True


# ---- operations ------------------------------------------------------------------------------------------------------


@jit
def put_time(p: Any) -> None:
    """Append the change of `EPOCH_TIME` to its batch if the graph reads this relation."""
    n, places = array(p, NUMBERS), array(p, PLACES)
    first = TIME_ROWS * PLACES_STRIDE
    if places[first] == 0 or n[EPOCH] == n[TIME]:
        return
    batch = table(table(p, BATCHES), TIME_ROWS)
    meta = array(batch, 0)
    for step in range(2):
        if step == 1 or n[EPOCH] >= 0:
            row = meta[0]
            array(batch, 1)[row] = 2 * step - 1
            if places[first + 1] >= 0:
                array(batch, places[first + 1])[row] = n[EPOCH]
            if places[first + 2] >= 0:
                array(batch, places[first + 2])[row] = n[EPOCH] // 1000
            meta[0] = row + 1
        n[EPOCH] = n[TIME]


@jit
def run_graph(p: Any) -> int:
    """Run the graph over the pending rows, and empty their batches unless Python has to read the changes."""
    n, loop = array(p, NUMBERS), table(p, LOOP)
    if n[PENDING] == 1:
        put_time(p)
        n[PENDING] = 2
    if n[PENDING] == 0:
        return DONE
    if run_nodes(table(loop, GRAPH)) != 0:
        return STOPPED
    n[PENDING] = 0
    if results(loop) != 0:
        return CHANGED
    batches = table(p, BATCHES)
    for relation in range(TIME_ROWS + 1):
        array(table(batches, relation), 0)[0] = 0
    return DONE


@jit
def play(p: Any) -> int:
    """Play records from the cursor on, with a step of the graph after each; return the status."""
    n, columns = array(p, NUMBERS), table(p, COLUMNS)
    times, positions = array(columns, C_TIME), array(columns, C_POSITION)
    while True:
        if n[PENDING] != 0:
            status = run_graph(p)
            if status != DONE:
                return status
        row = n[RECORD]
        if row >= n[LAST]:
            return DONE
        time = times[row]
        if time >= n[NEXT_NS]:
            return DUE
        before = n[TIME]
        n[TIME] = time if time > before else before + 1
        if not apply_record(p, row):
            n[TIME] = before
            return ROOM
        n[POSITION] = positions[row]
        n[RECORD] = row + 1
        if n[MATCHED] > 0:
            return MATCHED_OWN


@jit
def enter_own(p: Any) -> int:
    """Match an order of a strategy, and rest the remaining volume if it may rest."""
    n = array(p, NUMBERS)
    side, other = n[SIDE], n[SIDE] ^ 1
    if not has_room(p, side, matches_within(p, other, n[BOUND], n[VOLUME])):
        return ROOM
    n[VOLUME] = execute(p, other, n[BOUND], n[VOLUME], 1)
    n[SLOT] = -1
    if n[VOLUME] > 0 and n[RESTS] != 0:
        n[SLOT] = rest_order(p, side, n[PRICE], n[VOLUME], n[BROKER], n[OWNER], n[OWNER])
    return DONE


@jit
def operate(p: Any) -> int:
    """Run the operation in `OP`; return its status."""
    n = array(p, NUMBERS)
    operation, slot = n[OP], n[SLOT]
    if operation == PLAY:
        return play(p)
    if operation == VIEWS:
        return run_graph(p)
    if operation == ENTER:
        return enter_own(p)
    if not has_room(p, n[SIDE], 0):
        return ROOM
    if operation == REDUCE:
        reduce_order(p, slot, n[VOLUME])
    elif operation == DELETE:
        delete_order(p, slot)
    elif operation == UNLINK:
        unlink_order(p, slot)
    else:
        withdraw_order(p, slot)
    return DONE
