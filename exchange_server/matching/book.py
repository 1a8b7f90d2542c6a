"""The book of one symbol, and the fast way through it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exchange_server.matching.expiry import will_expire
from exchange_server.matching.floor import Floor
from exchange_server.matching.inputs import PhaseName
from exchange_server.matching.levels import NOTHING, Levels, ranks_of
from exchange_server.matching.order import CLOSING, EXPIRES, HALTED_ONLY, HIDDEN, ICEBERG, OPENING, STOP, Order, Side
from exchange_server.matching.outputs import FeedEncoder
from exchange_server.matching.stops import Stops
from exchange_server.matching.taking import enter_specially

__all__ = ["Book"]

_OUTSIDE: Final = STOP | OPENING | CLOSING | HALTED_ONLY
_UNUSUAL: Final = HIDDEN | ICEBERG

_PACK_EVERY: Final = 1024 - 1
"""A queue is a dict, and a dict steps over its removed entries to find its first one. So a queue is made anew when an
order leaves it whose id is a multiple of 1024: that costs next to nothing and bounds the steps."""


class Book:
    """Orders of one symbol in price-time priority.

    By itself it is a matching engine for limit orders (`enter` with an id that is new, `cancel`); the market adds
    everything else. An order without flags costs the look at the other side's best price and three dict entries; a
    match one walk over the level for all that one order executes there. Memory is bounded by the live orders.

    >>> from exchange_server.matching.silence import Silence
    >>> book = Book(1, "ACME", Silence())
    >>> book.enter(Order(1, 1, 1, "B", 100, 5, 7))
    >>> book.enter(Order(2, 2, 1, "S", 100, 3, 8))
    >>> list(book.levels("B")), book.best("S")
    ([(100, 2, 1)], None)
    """

    __slots__ = (
        "_accounts",
        "_added",
        "_deleted",
        "_executed",
        "_live",
        "_tellers",
        "ask_edge",
        "asks",
        "bid_edge",
        "bids",
        "feed",
        "floor",
        "hidden_asks",
        "hidden_bids",
        "is_followed",
        "is_special",
        "last_trade_ticks",
        "locate",
        "orders",
        "phase",
        "reference_ticks",
        "replacing",
        "stops",
        "symbol",
        "unusual",
        "waiting",
    )

    def __init__(
        self, locate: int, symbol: str, feed: FeedEncoder, floor: Floor | None = None, reference_ticks: int = 0
    ) -> None:
        self.locate = locate
        self.symbol = symbol
        self.feed = feed
        self.floor = floor = Floor(feed) if floor is None else floor
        self.reference_ticks = reference_ticks
        """Stands for the last trade's price before there is one."""
        self.bids = Levels(1)
        self.asks = Levels(-1)
        self.hidden_bids = Levels(1)
        self.hidden_asks = Levels(-1)
        self.orders: dict[int, Order] = {}
        """By id: all that rest or wait."""
        self.waiting: dict[int, Order] = {}
        """Stops and orders for an auction, in order of arrival."""
        self.stops = Stops()
        self.bid_edge = NOTHING
        """The highest price bid, hidden ones included."""
        self.ask_edge = -NOTHING
        """The lowest price offered, hidden ones included."""
        self.phase: PhaseName = "continuous"
        self.is_special = False
        """Whether not even a limit order without flags is simply matched: another phase, or a recording is followed."""
        self.is_followed = False
        """Whether the book follows a recording, and is not matched."""
        self.unusual = 0
        """How many things in the book the fast match knows nothing of: hidden orders, icebergs, stops, a collar."""
        self.last_trade_ticks = 0
        """0 before the first trade."""
        self.replacing: Order | None = None
        """A displayed order that ended for a replacement which is being entered; the feed has not been told."""
        self._added, self._executed, self._deleted = feed.added, feed.executed, feed.deleted
        self._live, self._accounts, self._tellers = floor.live, floor.accounts, floor.tellers

    def __len__(self) -> int:
        return len(self.orders)

    # --- the fast way -----------------------------------------------------------------------------------------------

    def enter(self, order: Order) -> None:
        """Match an order that has its ids, and rest what is left of it."""
        if order.flags or self.is_special:
            enter_specially(self, order)
            return
        price = order.price_ticks
        is_buy = order.side == "B"
        if price >= self.ask_edge if is_buy else price <= self.bid_edge:
            if self.unusual:
                enter_specially(self, order)
                return
            if is_buy:
                self.execute(order, self.asks, -price)
            else:
                self.execute(order, self.bids, price)
            if not order.volume:
                return
        levels = self.bids if is_buy else self.asks
        level = levels.get(price)
        if level is None:
            level = self._open(levels, price)
        order_id = order.order_id
        level[order_id] = self.orders[order_id] = self._live[order_id] = order
        if order.account:
            self._accounts[order.account].orders[order.ref] = order_id
        self._added(order)

    def execute(self, order: Order, levels: Levels, bound: int) -> None:
        """Execute against plain orders as far as `bound`, its limit's rank; `order.volume` becomes what is left."""
        executed, tellers, accounts = self._executed, self._tellers, self._accounts
        floor, mine, ranks = self.floor, order.account, levels.ranks
        volume, match_id, price = order.volume, floor.next_match_id, 0
        taken = volume
        while volume and ranks and ranks[-1] >= bound:
            price = ranks[-1] * levels.sign
            level = levels[price]
            gone: list[Order] = []
            for resting in level.values():
                had = resting.volume
                if volume < had:
                    done, volume = volume, 0
                    resting.volume = had - done
                    resting.executed += done
                else:
                    done = had
                    volume -= had
                    resting.volume = 0
                    gone.append(resting)
                executed(resting, done, price, match_id)
                if resting.account:
                    account = accounts[resting.account]
                    if account.open_notional:
                        account.open_notional -= done * price
                    tellers[resting.account].executed(resting, done, price, "A", match_id)
                if mine:
                    order.volume = volume
                    tellers[mine].executed(order, done, price, "R", match_id)
                match_id += 1
                if not volume:
                    break
            if gone:
                self._forget(gone, levels, level, price)
        order.volume = volume
        order.executed += taken - volume
        self.last_trade_ticks = price
        floor.next_match_id = match_id

    def _forget(self, gone: list[Order], levels: Levels, level: dict[int, Order], price: int) -> None:
        """Executed orders leave one level."""
        orders, live, accounts = self.orders, self._live, self._accounts
        for order in gone:
            order_id = order.order_id
            del level[order_id], orders[order_id], live[order_id]
            if order.account:
                del accounts[order.account].orders[order.ref]
            if not order_id & _PACK_EVERY:
                level = levels[price] = dict(level)
        if not level:
            self._close(levels, price)

    def cancel(self, order_id: int) -> int:
        """End an order, whatever it is, for everybody but its owner, who is told by the market; the lots that it had.

        Raises `KeyError` if there is none of this id.
        """
        order = self.orders[order_id]
        if order.flags & (_OUTSIDE | _UNUSUAL):
            return self._withdraw(order)
        price = order.price_ticks
        levels = self.bids if order.side == "B" else self.asks
        level = levels[price]
        del level[order_id], self.orders[order_id], self._live[order_id]
        if not level:
            self._close(levels, price)
        elif not order_id & _PACK_EVERY:
            levels[price] = dict(level)
        volume = order.volume
        if order.account:
            account = self._accounts[order.account]
            del account.orders[order.ref]
            if account.open_notional:
                account.open_notional -= volume * price
        order.volume = 0
        self._deleted(order, volume)
        return volume

    def _open(self, levels: Levels, price: int) -> dict[int, Order]:
        if levels.sign > 0:
            self.bid_edge = max(self.bid_edge, price)
        else:
            self.ask_edge = min(self.ask_edge, price)
        return levels.open(price)

    def _close(self, levels: Levels, price: int) -> None:
        levels.close(price)
        if levels.sign > 0:
            if price == self.bid_edge:
                self.bid_edge = max(self.bids.top(), self.hidden_bids.top())
        elif price == self.ask_edge:
            self.ask_edge = -max(self.asks.top(), self.hidden_asks.top())

    # --- everything else --------------------------------------------------------------------------------------------

    def levels_of(self, order: Order) -> Levels:
        """Where an order belongs."""
        if order.flags & HIDDEN:
            return self.hidden_bids if order.side == "B" else self.hidden_asks
        return self.bids if order.side == "B" else self.asks

    def place(self, order: Order) -> None:
        """Queue an order behind all others of its price and kind; nobody is told."""
        levels, price = self.levels_of(order), order.price_ticks
        level = levels.get(price)
        if level is None:
            level = self._open(levels, price)
        level[order.order_id] = order
        if order.flags & _UNUSUAL:
            self.unusual += 1

    def rest(self, order: Order) -> None:
        """Queue what is left of an order, as much of it on display as it wants, and say so."""
        flags = order.flags
        if flags & ICEBERG:
            order.reserve = max(0, order.volume - order.display)
            order.volume -= order.reserve
        self.register(order)
        self.place(order)
        if flags & HIDDEN:
            self.settle_replaced()
        elif self.replacing is not None:
            old, self.replacing = self.replacing, None
            self.feed.replaced(old, order)
            old.volume = 0
        else:
            self._added(order)

    def wait(self, order: Order) -> None:
        """Keep a stop or an order for an auction outside the book."""
        self.register(order)
        self.waiting[order.order_id] = order
        if order.flags & STOP:
            self.stops.add(order)
            self.unusual += 1
        self.settle_replaced()

    def register(self, order: Order) -> None:
        """An order is live."""
        order_id = order.order_id
        self.orders[order_id] = self._live[order_id] = order
        if order.account:
            account = self._accounts[order.account]
            account.orders[order.ref] = order_id
            if account.limits.open_notional:
                account.open_notional += (order.volume + order.reserve) * order.price_ticks
        if order.flags & EXPIRES:
            will_expire(self.floor, order)

    def remove(self, order: Order) -> None:
        """Take an order out, resting or waiting, with the volume it still has; nobody is told."""
        order_id, flags = order.order_id, order.flags
        del self.orders[order_id], self._live[order_id]
        if flags & _OUTSIDE:
            del self.waiting[order_id]
            if flags & STOP:
                self.stops.remove(order)
                self.unusual -= 1
        else:
            self.displace(order)
        if order.account:
            account = self._accounts[order.account]
            del account.orders[order.ref]
            if account.limits.open_notional:
                account.open_notional -= (order.volume + order.reserve) * order.price_ticks

    def displace(self, order: Order) -> None:
        """Take an order out of its queue alone."""
        levels, price = self.levels_of(order), order.price_ticks
        level = levels[price]
        del level[order.order_id]
        if not level:
            self._close(levels, price)
        elif not order.order_id & _PACK_EVERY:
            levels[price] = dict(level)
        if order.flags & _UNUSUAL:
            self.unusual -= 1

    def _withdraw(self, order: Order) -> int:
        self.remove(order)
        displayed, volume = order.volume, order.volume + order.reserve
        order.volume = order.reserve = 0
        if not order.flags & (_OUTSIDE | HIDDEN):
            self._deleted(order, displayed)
        return volume

    def reduce(self, order: Order, volume: int) -> None:
        """Take `volume` lots, fewer than it has, off an order, its undisplayed ones first; its owner is not told."""
        if order.account:
            account = self._accounts[order.account]
            if account.open_notional:
                account.open_notional -= volume * order.price_ticks
        kept_back = min(order.reserve, volume)
        if kept_back:
            order.reserve -= kept_back
            volume -= kept_back
        if volume:
            order.volume -= volume
            if not order.flags & (_OUTSIDE | HIDDEN):
                self.feed.reduced(order, volume)

    def settle_replaced(self) -> None:
        """Tell the feed that the order which is being replaced is gone, unless it has been told."""
        old = self.replacing
        if old is not None:
            self.replacing = None
            displayed, old.volume = old.volume, 0
            self._deleted(old, displayed)

    # --- looking at it ----------------------------------------------------------------------------------------------

    def best(self, side: Side) -> int | None:
        """The best displayed price of a side in ticks, None if nothing is displayed."""
        return self.bids.best() if side == "B" else self.asks.best()

    def mid_ticks(self) -> int | None:
        """Half way between the best displayed prices, rounded down; with one side empty the other's best."""
        bid, ask = self.bids.best(), self.asks.best()
        if bid is None or ask is None:
            return ask if bid is None else bid
        return (bid + ask) // 2

    def levels(self, side: Side) -> Iterator[tuple[int, int, int]]:
        """Price, displayed volume and number of displayed orders of each level, best first; for people and tests."""
        levels = self.bids if side == "B" else self.asks
        for price in levels:
            yield price, sum(order.volume for order in levels[price].values()), len(levels[price])

    def reference(self) -> int:
        """The last trade's price, the instrument's own before there is one."""
        return self.last_trade_ticks or self.reference_ticks

    def resting(self) -> Iterator[Order]:
        """All orders in the book: bids best first, then asks best first, in priority, displayed before hidden."""
        for shown, hidden in ((self.bids, self.hidden_bids), (self.asks, self.hidden_asks)):
            for rank in ranks_of(shown, hidden):
                price = rank * shown.sign
                for levels in (shown, hidden):
                    if price in levels:
                        yield from levels[price].values()

    def _check(self, *, crossed: bool = False) -> None:
        """Assert every invariant; `crossed` allows the best bid to reach the best ask."""
        sides = (("B", self.bids), ("S", self.asks), ("B", self.hidden_bids), ("S", self.hidden_asks))
        for side, levels in sides:
            levels._check(f"{self.symbol} {side}", side)
            for order in levels.in_priority():
                assert self.levels_of(order) is levels, f"{self.symbol}: {order} in another kind's queue"
                assert not order.flags & _OUTSIDE, f"{self.symbol}: {order} rests and should wait"
        found = [*self.resting(), *self.waiting.values()]
        assert len(found) == len(self.orders), f"{self.symbol}: the index by id disagrees with the levels"
        assert all(self.orders[order.order_id] is order for order in found), (
            f"{self.symbol}: another order in the index"
        )
        assert all(self._live[order.order_id] is order for order in found), f"{self.symbol}: not among the live ones"
        assert all(order.locate == self.locate for order in found), f"{self.symbol}: an order of another symbol"
        assert self.bid_edge == max(self.bids.top(), self.hidden_bids.top()), f"{self.symbol}: wrong highest bid"
        assert self.ask_edge == -max(self.asks.top(), self.hidden_asks.top()), f"{self.symbol}: wrong lowest ask"
        self.stops._check(self.symbol, self.waiting)
        unusual = sum(1 for order in found if order.flags & (_UNUSUAL | STOP)) + (self.floor.collar_bps > 0)
        assert self.unusual == unusual, f"{self.symbol}: {unusual} unusual things, counted {self.unusual}"
        assert self.replacing is None, f"{self.symbol}: a replacement was left open"
        if not crossed:
            assert self.bid_edge < self.ask_edge, f"{self.symbol}: crossed"
