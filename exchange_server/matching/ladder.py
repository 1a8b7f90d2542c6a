"""Both sides of a symbol's book, and what waits beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exchange_server.matching.expiry import will_expire
from exchange_server.matching.floor import Floor
from exchange_server.matching.inputs import PhaseName
from exchange_server.matching.levels import NOTHING, SHORT, Levels, ranks_of
from exchange_server.matching.order import EXPIRES, HIDDEN, ICEBERG, OUTSIDE, STOP, Order, Side
from exchange_server.matching.outputs import FeedEncoder
from exchange_server.matching.stops import Stops

__all__ = ["Ladder"]

_UNUSUAL: Final = HIDDEN | ICEBERG


class Ladder:
    """Where each live order of a symbol is: orders are put in and taken out, and nothing is matched."""

    __slots__ = (
        "_accounts",
        "_added",
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
        self._added = feed.added
        self._accounts, self._tellers = floor.accounts, floor.tellers

    def __len__(self) -> int:
        return len(self.orders)

    def levels_of(self, order: Order) -> Levels:
        """Where an order belongs."""
        if order.flags & HIDDEN:
            return self.hidden_bids if order.side == "B" else self.hidden_asks
        return self.bids if order.side == "B" else self.asks

    def place(self, order: Order) -> None:
        """Queue an order behind all others of its price and kind; nobody is told."""
        levels, price = self.levels_of(order), order.price_ticks
        level = levels.queues.get(price)
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
        self.orders[order_id] = order
        if order.account:
            account = self._accounts[order.account]
            account.orders[order.ref] = order
            if account.limits.open_notional:
                account.open_notional += (order.volume + order.reserve) * order.price_ticks
        if order.flags & EXPIRES:
            will_expire(self.floor, order)

    def remove(self, order: Order) -> None:
        """Take an order out, resting or waiting, with the volume it still has; nobody is told."""
        order_id, flags = order.order_id, order.flags
        del self.orders[order_id]
        if flags & OUTSIDE:
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
        elif len(level) == SHORT:
            levels.queues[price] = dict(level)
        if order.flags & _UNUSUAL:
            self.unusual -= 1

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
            if not order.flags & (OUTSIDE | HIDDEN):
                self.feed.reduced(order, volume)

    def settle_replaced(self) -> None:
        """Tell the feed that the order which is being replaced is gone, unless it has been told."""
        old = self.replacing
        if old is not None:
            self.replacing = None
            displayed, old.volume = old.volume, 0
            self.feed.deleted(old, displayed)

    def _open(self, levels: Levels, price: int) -> dict[int, Order]:
        if levels.sign > 0:
            if price > self.bid_edge:  # noqa: PLR1730 - max() takes five times as long
                self.bid_edge = price
        elif price < self.ask_edge:
            self.ask_edge = price
        return levels.open(price)

    def _close(self, levels: Levels, price: int) -> None:
        levels.close(price)
        if levels.sign > 0:
            if price == self.bid_edge:
                self.bid_edge = max(self.bids.top(), self.hidden_bids.top())
        elif price == self.ask_edge:
            self.ask_edge = -max(self.asks.top(), self.hidden_asks.top())

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
                assert not order.flags & OUTSIDE, f"{self.symbol}: {order} rests and should wait"
        found = [*self.resting(), *self.waiting.values()]
        assert len(found) == len(self.orders), f"{self.symbol}: the index by id disagrees with the levels"
        assert all(self.orders[order.order_id] is order for order in found), (
            f"{self.symbol}: another order in the index"
        )
        assert all(order.locate == self.locate for order in found), f"{self.symbol}: an order of another symbol"
        assert self.bid_edge == max(self.bids.top(), self.hidden_bids.top()), f"{self.symbol}: wrong highest bid"
        assert self.ask_edge == -max(self.asks.top(), self.hidden_asks.top()), f"{self.symbol}: wrong lowest ask"
        self.stops._check(self.symbol, self.waiting)
        unusual = sum(1 for order in found if order.flags & (_UNUSUAL | STOP)) + (self.floor.collar_bps > 0)
        assert self.unusual == unusual, f"{self.symbol}: {unusual} unusual things, counted {self.unusual}"
        assert self.replacing is None, f"{self.symbol}: a replacement was left open"
        if not crossed:
            assert self.bid_edge < self.ask_edge, f"{self.symbol}: crossed"
