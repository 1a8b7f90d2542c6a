"""Order books of a backtest as flat arrays for the compiled kernel, and an adapter with the interface of `Book`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from deltabook.backtest.deltas import Delta, DeltaEncoder
from deltabook.backtest.flow import FILE_SHIFT
from exchange_server.matching import Market
from exchange_server.matching.book import Book
from exchange_server.matching.levels import NOTHING, Levels
from exchange_server.matching.order import IOC, MARKET, CancelReason, Order, Side
from exchange_server.matching.special_orders import end
from runtime.native.library import matching as m
from runtime.native.plain import mix
from runtime.native.structures import Batch, Structure
from runtime.views.feeds import ColumnBatch
from runtime.views.graph import DrivenGraph

__all__ = ["Books"]

Words = npt.NDArray[np.int64]

_ROOM: Final = 1024
"""Initial capacity of the arrays of orders, of levels, of matches and of retained trades."""
_INT64_MAX: Final = 2**63 - 1
_LEAST_RANK: Final = -(2**63)
_RELATIONS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("bids", ("t", "id", "broker_id", "volume", "price", "symbol")),
    ("asks", ("t", "id", "broker_id", "volume", "price", "symbol")),
    ("trades", ("t", "match_id", "symbol", "price", "volume", "side", "resting_id", "aggressor_id", "broker_id")),
    ("epoch_time", ("t", "at")),
)
"""The relations and their columns in the order in which the kernel numbers them."""
_NULLABLE: Final = ("side", "resting_id", "aggressor_id", "broker_id")
_COUNTERS: Final = {
    "gone_orders": m.GONE,
    "ignored_records": m.IGNORED,
    "refused_adds": m.REFUSED,
    "empty_executions": m.EMPTY,
    "without_effect": m.WITHOUT_EFFECT,
    "dropped_prices": m.DROPPED,
}
"""Place of each counter in the kernel's numbers, by its name in `Market.replay_counts`."""


class Books(Structure):
    """Arrays that the kernel `runtime.native.library.matching` works on: orders, levels, retained trades, numbers.

    While the kernel is used, the books of the market are `NativeBook`s over these arrays. `hand_over` replaces them by
    ordinary books with the same orders in the same queues.
    """

    def __init__(
        self,
        market: Market,
        encoder: DeltaEncoder,
        graph: DrivenGraph,
        kernel: Callable[[Any], int],
        *,
        is_compiled: bool,
    ) -> None:
        """``market`` must be empty; ``graph`` maintains the views and gets each row that a record or a request
        changes."""
        super().__init__(13)
        self._market, self._encoder, self._graph = market, encoder, graph
        self.put(m.NUMBERS, np.zeros(m.NUMBERS_SIZE, np.int64))
        self.numbers: Any = self.views[m.NUMBERS]
        """The kernel's scalar state (counters, capacities, arguments), indexed by the constants of the kernel's
        module."""
        self._run, self._argument = kernel, self.address if is_compiled else self.views
        self._make_arrays(len(market.rules.instruments) + 1)
        self._make_relations()
        n, retention = self.numbers, encoder.retention
        n[m.KEEP_ROWS], n[m.KEEP_NS] = retention.rows, retention.time_ns
        factor = market.rules.outlier_factor
        n[m.FACTOR], n[m.MID_LIMIT] = factor, _INT64_MAX // factor if factor else 0
        shared = market.shared
        n[m.NEXT_ORDER], n[m.NEXT_MATCH], n[m.OTHER_IDS] = shared.next_order_id, shared.next_match_id, shared.other_ids
        self._counted = 0
        self._is_id_stale = False
        n[m.BUY], n[m.SELL], n[m.EPOCH] = graph.number("B"), graph.number("S"), -1
        symbols = self.array(m.BOOKS)
        self._books: list[NativeBook] = []
        for locate, instrument in enumerate(market.rules.instruments, 1):
            symbols[locate * m.B_STRIDE + m.B_SYMBOL] = graph.number(instrument.symbol)
            book = NativeBook(self, market, locate, instrument.reference_price_ticks)
            self._books.append(book)
            market.install(cast("Book", book))
        graph.refresh()
        self.link(m.LOOP, graph.loop)

    # ---- arrays ------------------------------------------------------------------------------------------------------

    def _make_arrays(self, books: int) -> None:
        n = self.numbers
        sizes = (
            (m.ORDERS, m.STRIDE, m.ORDER_ROOM),
            (m.LEVELS, m.L_STRIDE, m.LEVEL_ROOM),
            (m.MATCHES, m.M_STRIDE, m.MATCH_ROOM),
        )
        for place, stride, number in sizes:
            self.put(place, np.zeros(_ROOM * stride, np.int64))
            n[number] = _ROOM
        self._sides = Structure(2 * books)
        self.put(m.COUNTS, np.zeros(4 * books, np.int64))
        for side in range(2 * books):
            self._sides.put(side, np.zeros(2 * _ROOM, np.int64))
            self.views[m.COUNTS][2 * side + 1] = _ROOM
        self.link(m.SIDES, self._sides)
        self.put(m.INDEX, np.zeros(4 * _ROOM, np.int64))
        n[m.MASK] = 4 * _ROOM - 1
        self.put(m.TRADES, np.zeros(_ROOM * m.T_STRIDE, np.int64))
        n[m.TRADE_MASK] = _ROOM - 1
        self.put(m.BOOKS, np.zeros(books * m.B_STRIDE, np.int64))
        self._columns = Structure(11)
        self.link(m.COLUMNS, self._columns)

    def _make_relations(self) -> None:
        places = np.full(len(_RELATIONS) * m.PLACES_STRIDE, m.NO_PLACE, np.int64)
        self._batches: list[Batch] = []
        batches = Structure(len(_RELATIONS))
        for number, (name, columns) in enumerate(_RELATIONS):
            batch: Batch = self._graph.relations.get(name) or Batch(())
            first = number * m.PLACES_STRIDE
            places[first] = isinstance(batch, ColumnBatch)
            if isinstance(batch, ColumnBatch):
                batch.reserve(_ROOM)
                for place, column in enumerate(columns, first + 1):
                    if column in batch.read:
                        places[place] = batch.place(column)
                        if name == "trades" and column in _NULLABLE:
                            places[first + m.FLAGS + _NULLABLE.index(column)] = batch.place(column) + 1
            self._batches.append(batch)
            batches.link(number, batch)
        self.put(m.PLACES, places)
        self.link(m.BATCHES, batches)

    def _make_room(self) -> None:
        """Double each array that is full, and make room for the matches that the interrupted operation needs."""
        n = self.numbers
        need = n[m.NEED]
        if n[m.ORDER_FREE] == 0 and n[m.ORDER_USED] == n[m.ORDER_ROOM]:
            n[m.ORDER_ROOM] *= 2
            self.extend(m.ORDERS, n[m.ORDER_ROOM] * m.STRIDE)
        if n[m.LEVEL_FREE] == 0 and n[m.LEVEL_USED] == n[m.LEVEL_ROOM]:
            n[m.LEVEL_ROOM] *= 2
            self.extend(m.LEVELS, n[m.LEVEL_ROOM] * m.L_STRIDE)
        if n[m.MATCHED] + need > n[m.MATCH_ROOM]:
            n[m.MATCH_ROOM] = 2 * (n[m.MATCHED] + need)
            self.extend(m.MATCHES, n[m.MATCH_ROOM] * m.M_STRIDE)
        counts = self.array(m.COUNTS)
        for side in np.flatnonzero(counts[::2] == counts[1::2]).tolist():
            counts[2 * side + 1] *= 2
            self._sides.extend(side, 2 * int(counts[2 * side + 1]))
        if 2 * (n[m.MAPPED] + 1) > n[m.MASK]:
            self._widen_index()
        if n[m.KEPT] + need > n[m.TRADE_MASK]:
            self._widen_trades(n[m.KEPT] + need)
        for batch in self._batches:
            room = batch.rows + n[m.KEPT] + 2 * need + 4
            if room > batch.room:
                if isinstance(batch, ColumnBatch):
                    batch.reserve(2 * room)
                else:
                    batch.grow(2 * room)

    def _widen_index(self) -> None:
        n = self.numbers
        orders = self._live()
        orders = orders[orders[:, m.O_FILE] >= 0]
        slots = [int(slot) for slot in self._live_slots if self.array(m.ORDERS)[slot * m.STRIDE + m.O_FILE] >= 0]
        n[m.MASK] = 2 * (n[m.MASK] + 1) - 1
        index = np.zeros(n[m.MASK] + 1, np.int64)
        self.put(m.INDEX, index)
        cells = self.views[m.INDEX]
        for slot, order in zip(slots, orders.tolist(), strict=True):
            at = mix(mix(0, order[m.O_RECORDED]), order[m.O_FILE]) & n[m.MASK]
            while cells[at]:
                at = (at + 1) & n[m.MASK]
            cells[at] = slot + 1

    def _widen_trades(self, trades: int) -> None:
        n = self.numbers
        kept = self._trades()
        room = 1 << (2 * trades).bit_length()
        ring = np.zeros(room * m.T_STRIDE, np.int64)
        ring[: kept.size] = kept.reshape(-1)
        self.put(m.TRADES, ring)
        n[m.FIRST_TRADE], n[m.TRADE_MASK] = 0, room - 1

    @property
    def _live_slots(self) -> Words:
        used = self.numbers[m.ORDER_USED]
        return np.flatnonzero(self.array(m.ORDERS)[: used * m.STRIDE].reshape(-1, m.STRIDE)[:, m.O_ID])

    def _live(self) -> Words:
        """Return the live orders, a row each."""
        return self.array(m.ORDERS).reshape(-1, m.STRIDE)[self._live_slots]

    def _trades(self) -> Words:
        """Return the retained trades, a row each, oldest first."""
        n = self.numbers
        places: Words = (n[m.FIRST_TRADE] + np.arange(n[m.KEPT])) & n[m.TRADE_MASK]
        trades: Words = self.array(m.TRADES).reshape(-1, m.T_STRIDE)[places]
        return trades

    # ---- operations --------------------------------------------------------------------------------------------------

    def set_records(self, columns: list[Words]) -> None:
        """Set the records, as columns, that `play` reads next."""
        self.update_market()
        for place, words in enumerate(columns):
            self._columns.put(place, words)
        self.numbers[m.RECORD] = self._counted = 0

    def play(self, last: int, next_ns: int, last_ns: int) -> int:
        """Play records until there is something for Python to do; return the kernel's status.

        Playing stops before record number ``last``, and before a record at or after ``next_ns``. ``last_ns`` is the
        market time of the latest input.
        """
        n = self.numbers
        n[m.LAST], n[m.NEXT_NS], n[m.TIME] = last, next_ns, last_ns
        if self._is_id_stale:
            n[m.NEXT_ORDER], self._is_id_stale = self._market.next_order_id, False
        return self._operate(m.PLAY)

    def update_market(self) -> None:
        """Copy the kernel's ids, counts and time to the market."""
        n, shared = self.numbers, self._market.shared
        if not self._is_id_stale:
            shared.next_order_id = n[m.NEXT_ORDER]
        shared.next_match_id, shared.other_ids = n[m.NEXT_MATCH], n[m.OTHER_IDS]
        shared.replay_position = n[m.POSITION] or shared.replay_position
        shared.inputs += n[m.RECORD] - self._counted
        self._counted = n[m.RECORD]
        shared.now.time_ns = max(shared.now.time_ns, n[m.TIME])

    def run_graph(self) -> int:
        """Run the graph of the views over its pending rows; return the kernel's status."""
        self.numbers[m.TIME] = self._market.now.time_ns
        return self._operate(m.VIEWS)

    def note_request(self) -> None:
        """Note that the market has assigned an id to a strategy's order: the kernel's next id is stale."""
        self._is_id_stale = True

    def request(self, operation: int, side: int, slot: int = 0, volume: int = 0) -> None:
        """Carry out an operation of the kernel on the order in a slot; `ENTER` makes a new order instead."""
        n = self.numbers
        n[m.SIDE], n[m.SLOT], n[m.VOLUME] = side, slot, volume
        n[m.TIME] = self._market.now.time_ns
        self._operate(operation)

    def _operate(self, operation: int) -> int:
        self.numbers[m.OP] = operation
        while (status := self._run(self._argument)) == m.ROOM:
            self._make_room()
        return status

    def matches(self) -> list[tuple[int, int, int, int]]:
        """Return the matches of the strategies' orders since the last call, as (resting order's id, volume, price,
        match id).

        The resting order's id is 0 if that order belongs to the recording.
        """
        n = self.numbers
        cells = self.array(m.MATCHES)[: n[m.MATCHED] * m.M_STRIDE].tolist()
        n[m.MATCHED] = 0
        return list(zip(*[iter(cells)] * m.M_STRIDE, strict=True))

    def report_executions(self) -> None:
        """Notify the strategies' accounts of the executions of their resting orders by recorded orders."""
        self.update_market()
        for order_id, volume, price, match_id in self.matches():
            book = next(book for book in self._books if dict.__contains__(book.orders, order_id))
            book.executed(book.orders[order_id], volume, price, match_id)

    def counters(self) -> None:
        """Copy the kernel's counters to the market and to the encoder."""
        self.update_market()
        n, encoder = self.numbers, self._encoder
        encoder.messages, encoder.trades = n[m.MESSAGES], n[m.TRADED]
        self._market.shared.replay_counts.update({name: n[place] for name, place in _COUNTERS.items() if n[place]})

    # ---- state -------------------------------------------------------------------------------------------------------

    def order_in_slot(self, slot: int) -> Order:
        """Return the recorded order in a slot."""
        cells = self.array(m.ORDERS)[slot * m.STRIDE : (slot + 1) * m.STRIDE].tolist()
        side: Side = "S" if cells[m.O_SIDE] & 1 else "B"
        number = cells[m.O_ID]
        return Order(
            number, number, cells[m.O_SIDE] >> 1, side, cells[m.O_PRICE], cells[m.O_VOLUME], cells[m.O_BROKER],
            executed=cells[m.O_EXECUTED],
        )  # fmt: skip

    def slot_of(self, order_id: int, locate: int) -> int:
        """Return the slot of an order of a book by its id, or -1; the search is linear in the number of orders."""
        orders = self.array(m.ORDERS).reshape(-1, m.STRIDE)
        slots = np.flatnonzero((orders[:, m.O_ID] == order_id) & (orders[:, m.O_SIDE] >> 1 == locate))
        return int(slots[0]) if len(slots) else -1

    def live_orders(self, locate: int) -> int:
        """Return the number of live orders of a book."""
        return int(np.count_nonzero(self._live()[:, m.O_SIDE] >> 1 == locate))

    def last_price(self, locate: int) -> int:
        """Return the price of a book's last trade, 0 before the first."""
        return int(self.views[m.BOOKS][locate * m.B_STRIDE + m.B_LAST])

    def best(self, side: int) -> int | None:
        """Return the best rank of a side (the price of a bid, the negative price of an ask); None if the side is
        empty."""
        count = self.views[m.COUNTS][2 * side]
        return self._sides.views[side][2 * count - 2] if count else None

    def _queues(self, side: int) -> Iterator[int]:
        """Yield the slots of a side's orders: the worst price first, and at one price the oldest order first."""
        levels, orders, cells = self.views[m.LEVELS], self.views[m.ORDERS], self._sides.views[side]
        for place in range(self.views[m.COUNTS][2 * side]):
            slot = levels[cells[2 * place + 1] * m.L_STRIDE + m.L_HEAD]
            while slot >= 0:
                yield slot
                slot = orders[slot * m.STRIDE + m.O_NEXT]

    def hand_over(self) -> None:
        """Return matching to the Python market: set the states of the market and of the encoder to what they would be
        without the kernel.
        """
        assert not self.numbers[m.PENDING], "expected no pending rows"
        market, orders = self._market, self.views[m.ORDERS]
        for native in self._books:
            book = market.empty_book(native.locate)
            book.last_trade_ticks = native.last_trade_ticks
            for side in (2 * native.locate, 2 * native.locate + 1):
                for slot in self._queues(side):
                    cells = slot * m.STRIDE
                    own = orders[cells + m.O_OWNER]
                    order = native.orders[own] if own else self.order_in_slot(slot)
                    book.orders[order.order_id] = order
                    book.place(order)
                    if orders[cells + m.O_FILE] >= 0:
                        recorded = orders[cells + m.O_RECORDED] + (orders[cells + m.O_FILE] << FILE_SHIFT)
                        market.shared.recorded_ids[recorded] = order.order_id, orders[cells + m.O_REMAINS]
            market.install(book)
        self.counters()
        epoch_ns = self.numbers[m.EPOCH]
        self._encoder.resume(self.rows(), epoch_ns if epoch_ns >= 0 else None)

    def rows(self) -> list[Delta]:
        """Return the rows of BIDS, ASKS and TRADES: all live orders in order of id, then the retained trades, oldest
        first."""
        symbols = ["", *(instrument.symbol for instrument in self._market.rules.instruments)]
        live = self._live()
        deltas: list[Delta] = []
        for order in live[np.argsort(live[:, m.O_ID], kind="stable")].tolist():
            row = (
                order[m.O_TIME], order[m.O_ID], order[m.O_BROKER], order[m.O_VOLUME], order[m.O_PRICE],
                symbols[order[m.O_SIDE] >> 1],
            )  # fmt: skip
            deltas.append(("asks" if order[m.O_SIDE] & 1 else "bids", row, 1))
        for time_ns, number, locate, price, volume, side, resting, broker in self._trades().tolist():
            aggressor = "S" if side else "B"
            trade = (time_ns, number, symbols[locate], price, volume, aggressor, resting, None, broker)
            deltas.append(("trades", trade, 1))
        return deltas


class _LiveOrders(dict[int, Order]):
    """Orders of a book by id. The strategies' orders are stored; a recorded order is built from the arrays on each
    access.
    """

    def __init__(self, books: Books, locate: int) -> None:
        super().__init__()
        self._books, self._locate = books, locate

    def __contains__(self, order_id: object) -> bool:
        if super().__contains__(order_id):
            return True
        return isinstance(order_id, int) and order_id > 0 and self._books.slot_of(order_id, self._locate) >= 0

    def __missing__(self, order_id: int) -> Order:
        slot = self._books.slot_of(order_id, self._locate)
        if slot < 0:
            raise KeyError(order_id)
        return self._books.order_in_slot(slot)

    def __len__(self) -> int:
        return self._books.live_orders(self._locate)

    def __bool__(self) -> bool:
        return True


class NativeBook:
    """Adapter with the interface of `exchange_server.matching.book.Book` over one book of `Books`.

    The market applies the strategies' requests to it: limit, market and immediate orders, reductions, cancellations and
    replacements. The adapter supports no stops, auctions, collars or other special orders: before a request for one of
    these, `NativeLoop` calls `Books.hand_over`.
    """

    is_special = is_followed = False
    unusual = 0
    phase = "continuous"
    stops = ()
    waiting: Mapping[int, Order] = {}

    def __init__(self, books: Books, market: Market, locate: int, reference_ticks: int) -> None:
        self._books, self.shared, self.locate = books, market.shared, locate
        self.symbol = market.rules.instruments[locate - 1].symbol
        self.reference_ticks = reference_ticks
        self.orders = _LiveOrders(books, locate)
        self.replacing: Order | None = None
        self.bids, self.asks = Levels(1), Levels(-1)
        self._slots: dict[int, int] = {}

    # ---- properties that the market reads ----------------------------------------------------------------------------

    @property
    def last_trade_ticks(self) -> int:
        """Price of the last trade, 0 before the first trade."""
        return self._books.last_price(self.locate)

    @property
    def bid_edge(self) -> int:
        """Highest bid; `NOTHING` without bids."""
        best = self._books.best(2 * self.locate)
        return NOTHING if best is None else best

    @property
    def ask_edge(self) -> int:
        """Lowest ask; minus `NOTHING` without asks."""
        best = self._books.best(2 * self.locate + 1)
        return -NOTHING if best is None else -best

    def reference(self) -> int:
        """Return the last trade's price, or the instrument's reference price before the first trade."""
        return self.last_trade_ticks or self.reference_ticks

    def levels_of(self, order: Order) -> Levels:
        """Return an empty `Levels` of the order's side: the market reads only its sign."""
        return self.bids if order.side == "B" else self.asks

    # ---- requests ----------------------------------------------------------------------------------------------------

    def enter(self, order: Order) -> None:
        """Match an order whose ids are assigned; the remainder rests in the book."""
        self._match(order, rests=True)

    def enter_special(self, order: Order) -> None:
        """Match a market or immediate order, whose remainder is cancelled, or an order that replaces another."""
        # The old order must be removed before the replacement executes. If the replacement does not execute, nothing
        # happens between the removal and the entry, so removing the old order first is right in both cases.
        self.settle_replaced()
        flags = order.flags
        self._match(order, rests=not flags & (MARKET | IOC))
        if order.volume and flags & (MARKET | IOC):
            reason = CancelReason.MARKET if flags & MARKET else CancelReason.IMMEDIATE
            end(cast("Book", self), order, reason)

    def cancel(self, order_id: int) -> int:
        """Remove an order from the book and the feed, and return its open lots; the caller notifies the owner."""
        order = self.orders[order_id]
        self._books.request(m.DELETE, self._side(order), self._slots[order_id])
        self._forget(order)
        return order.volume

    def reduce(self, order: Order, volume: int) -> None:
        """Remove ``volume`` lots, fewer than all, from an order."""
        self._books.request(m.REDUCE, self._side(order), self._slots[order.order_id], volume)
        account = self.shared.accounts[order.account]
        if account.open_notional:
            account.open_notional -= volume * order.price_ticks
        order.volume -= volume

    def remove(self, order: Order) -> None:
        """Unlink an order that is about to be replaced; `settle_replaced` notifies the feed later."""
        slot = self._slots[order.order_id]
        self._books.request(m.UNLINK, self._side(order), slot)
        self._forget(order)
        self._slots[order.order_id] = slot

    def settle_replaced(self) -> None:
        """Notify the feed of the end of the order that is being replaced, if there is one."""
        old = self.replacing
        if old is not None:
            self.replacing = None
            self._books.request(m.WITHDRAW, self._side(old), self._slots.pop(old.order_id))
            old.volume = 0

    def executed(self, order: Order, volume: int, price: int, match_id: int) -> None:
        """Apply an execution to a strategy's resting order, and notify its account."""
        order.volume -= volume
        order.executed += volume
        account = self.shared.accounts[order.account]
        if account.open_notional:
            account.open_notional -= volume * price
        self.shared.tellers[order.account].executed(order, volume, price, "A", match_id)
        if not order.volume:
            self._forget(order)

    def _match(self, order: Order, *, rests: bool) -> None:
        books = self._books
        n, is_sell = books.numbers, order.side == "S"
        n[m.PRICE], n[m.BROKER], n[m.OWNER] = order.price_ticks, order.broker_id, order.order_id
        n[m.BOUND] = _LEAST_RANK if order.flags & MARKET else order.price_ticks if is_sell else -order.price_ticks
        n[m.RESTS] = rests
        books.note_request()
        books.request(m.ENTER, self._side(order), volume=order.volume)
        slot, self.shared.next_match_id = n[m.SLOT], n[m.NEXT_MATCH]
        teller = self.shared.tellers[order.account]
        for resting, volume, price, match_id in books.matches():
            if resting:
                self.executed(self.orders[resting], volume, price, match_id)
            order.volume -= volume
            order.executed += volume
            teller.executed(order, volume, price, "R", match_id)
        if slot >= 0:
            self._slots[order.order_id] = slot
            self.orders[order.order_id] = order
            account = self.shared.accounts[order.account]
            account.orders[order.ref] = order
            if account.limits.open_notional:
                account.open_notional += order.volume * order.price_ticks

    def _side(self, order: Order) -> int:
        return 2 * self.locate + (order.side == "S")

    def _forget(self, order: Order) -> None:
        """Remove a strategy's order from its account, and its remaining volume from the account's open notional."""
        del self.orders[order.order_id], self._slots[order.order_id]
        account = self.shared.accounts[order.account]
        del account.orders[order.ref]
        if account.open_notional:
            account.open_notional -= order.volume * order.price_ticks
