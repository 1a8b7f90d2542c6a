"""The book of one symbol: the place of each live order, and the matching of limit orders without attributes.

```
        price   queue: order id → order, first come first
 asks    103    ▸ 7 ▸ 9                    Book.orders: every live order by its id
         102    ▸ 4                        Book.waiting: stops and orders for an auction, outside both sides
 ───────────── ask_edge 102, bid_edge 100 ─────────────
 bids    100    ▸ 1 ▸ 5                    hidden orders have two sides of their own,
          99    ▸ 2                        behind the displayed ones of their price
```

An order that has attributes, or that is entered outside continuous trading, is processed by the module
`special_orders`, which changes the same books. The package's docstring shows the path of an order; docs/matching.md has
the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from exchange_server.matching.inputs import PhaseName
from exchange_server.matching.levels import NOTHING, SHORT, Levels, ranks_of
from exchange_server.matching.market_state import MarketState
from exchange_server.matching.order import EXPIRES, HIDDEN, ICEBERG, OUTSIDE, STOP, Order, Side
from exchange_server.matching.outputs import FeedEncoder
from exchange_server.matching.triggers import Stops

__all__ = ["Book", "SpecialEntry"]

_UNUSUAL: Final = HIDDEN | ICEBERG
_APART: Final = OUTSIDE | HIDDEN | ICEBERG

SpecialEntry = Callable[["Book", Order], None]
"""Function that processes an order, whatever its attributes: it matches, rests or ends the order, or keeps it outside
the book. A market uses `special_orders.enter_special`.
"""


def _plain_only(book: Book, order: Order) -> None:
    raise ValueError(f"expected an order without attributes for the book of {book.symbol} by itself, was {order}")


class Book:
    """Orders of one symbol in price-time priority.

    Without a market, a book is a matching engine for limit orders (`enter`, with a new id for each order, and
    `cancel`). A market adds the rules of special orders. Memory is bounded by the live orders. Prices are in ticks,
    volumes in lots.

    ```
    a whole request                enter (which matches by execute), enter_special, cancel, reduce
    its steps, for special orders  rest, wait, remove, settle_replaced
    parts of these steps           register (the indexes of live orders), place and displace (the queues)
    reading                        best, mid_ticks, levels, reference, resting; len: live orders
    ```

    >>> from functools import partial
    >>> from exchange_server.matching.outputs import Silence
    >>> book = Book(1, "ACME", Silence())
    >>> acme = partial(Order, locate=book.locate, broker_id=7)
    >>> book.enter(acme(order_id=1, feed_id=1, side="B", price_ticks=100, volume=5))
    >>> book.enter(acme(order_id=2, feed_id=2, side="B", price_ticks=101, volume=1))
    >>> book.enter(acme(order_id=3, feed_id=3, side="S", price_ticks=100, volume=3))
    >>> list(book.levels("B")), book.best("S"), book.last_trade_ticks
    ([(100, 3, 1)], None, 100)
    >>> book.cancel(1)
    3
    """

    __slots__ = (
        "_accounts",
        "_added",
        "_ask_queues",
        "_bid_queues",
        "_deleted",
        "_enter_special",
        "_executed",
        "_tellers",
        "ask_edge",
        "asks",
        "bid_edge",
        "bids",
        "feed",
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
        "shared",
        "stops",
        "symbol",
        "unusual",
        "waiting",
    )

    def __init__(
        self,
        locate: int,
        symbol: str,
        feed: FeedEncoder,
        shared: MarketState | None = None,
        *,
        reference_ticks: int = 0,
        special: SpecialEntry = _plain_only,
    ) -> None:
        """Create an empty book.

        ``locate`` is the instrument's number; ``feed`` receives each event of a displayed order, and each trade.
        ``shared`` is the state of the book's market; by default the book has a state of its own. ``special`` receives
        orders with attributes; by default it raises `ValueError`.
        """
        self.locate = locate
        self.symbol = symbol
        self.feed = feed
        self.reference_ticks = reference_ticks
        """Reference price before the first trade, in ticks."""
        self.bids = Levels(1)
        self.asks = Levels(-1)
        self.hidden_bids = Levels(1)
        self.hidden_asks = Levels(-1)
        self.orders: dict[int, Order] = {}
        """All orders that rest or wait, by id."""
        if shared is None:
            shared = MarketState(feed)
            shared.register_orders(locate, self.orders)
        self.shared = shared
        self.waiting: dict[int, Order] = {}
        """Stops and orders for an auction, in order of arrival."""
        self.stops = Stops()
        self.bid_edge = NOTHING
        """Highest bid price in ticks, hidden orders included; `NOTHING` for none."""
        self.ask_edge = -NOTHING
        """Lowest ask price in ticks, hidden orders included; -`NOTHING` for none."""
        self.phase: PhaseName = "continuous"
        self.is_special = False
        """True if plain matching does not apply: the phase is not continuous, or the book follows a recording."""
        self.is_followed = False
        """True if the book follows a recording, and does not match."""
        self.unusual = 0
        """Number of features in the book that plain matching does not handle: hidden orders, icebergs, stops, a collar.
        """
        self.last_trade_ticks = 0
        """Price of the last trade in ticks, 0 before the first."""
        self.replacing: Order | None = None
        """Displayed order whose replacement is being entered: the order has ended, but the feed has not yet announced
        its end.
        """
        # These methods and dicts are bound once, to save a look-up for each order and each match.
        self._added, self._executed, self._deleted = feed.added, feed.executed, feed.deleted
        self._accounts, self._tellers = shared.accounts, shared.tellers
        self._bid_queues, self._ask_queues = self.bids.queues, self.asks.queues
        self._enter_special = special

    # --- matching ---------------------------------------------------------------------------------------------------

    def enter(self, order: Order) -> None:
        """Match an order whose ids are set, and rest the remaining lots.

        An order without flags costs a comparison with the best price of the other side, three dict entries, and a walk
        over each level against which it executes. The caller guarantees that the order's id is new, and that volume and
        price are at least 1.
        """
        if order.flags or self.is_special:
            self._enter_special(self, order)
            return
        price = order.price_ticks
        is_buy = order.side == "B"
        if price >= self.ask_edge if is_buy else price <= self.bid_edge:
            if self.unusual:
                self._enter_special(self, order)
                return
            if is_buy:
                self.execute(order, self.asks, -price)
            else:
                self.execute(order, self.bids, price)
            if not order.volume:
                return
        level = (self._bid_queues if is_buy else self._ask_queues).get(price)
        if level is None:
            level = self._open(self.bids if is_buy else self.asks, price)
        order_id = order.order_id
        level[order_id] = self.orders[order_id] = order
        if order.account:
            self._accounts[order.account].orders[order.ref] = order
        self._added(order)

    def enter_special(self, order: Order) -> None:
        """Process an order, whatever its attributes: match, rest or end it, or keep it outside the book."""
        self._enter_special(self, order)

    def execute(self, order: Order, levels: Levels, bound: int) -> None:  # noqa: PLR0912 - 10 % slower if it is split
        """Execute an order against plain orders, best price first, down to `bound`; leave the rest in `order.volume`.

        ``levels`` is the other side of the book. ``bound`` is the order's limit as a *rank* of that side: the price
        times the sign of the side, so that a higher rank is a better price for the order (`Levels.ranks`). The caller
        has checked that there is at least one match. For each match the feed is notified first, then the resting
        order's owner, then the owner of the entering order.
        """
        shared, ranks, mine = self.shared, levels.ranks, order.account
        remember = shared.executions.append
        volume = order.volume
        entered, match_id, price = volume, shared.next_match_id, 0
        while ranks and ranks[-1] >= bound:
            price = ranks[-1] * levels.sign
            level = levels.queues[price]
            if len(level) > SHORT:
                level = levels.walk(price)
            gone: list[Order] = []
            for resting in level.values():
                done = resting.volume
                if volume < done:
                    resting.volume = done - volume
                    resting.executed += volume
                    done, volume = volume, 0
                else:
                    volume -= done
                    resting.volume = 0
                    gone.append(resting)
                self._executed(resting, done, price, match_id)
                if resting.account:
                    account = self._accounts[resting.account]
                    if account.open_notional:
                        account.open_notional -= done * price
                    remember((match_id, resting, done, price))
                    self._tellers[resting.account].executed(resting, done, price, "A", match_id)
                if mine:
                    order.volume = volume
                    remember((match_id, order, done, price))
                    self._tellers[mine].executed(order, done, price, "R", match_id)
                match_id += 1
                if not volume:
                    break
            for resting in gone:
                del level[resting.order_id], self.orders[resting.order_id]
                if resting.account:
                    del self._accounts[resting.account].orders[resting.ref]
            if not level:
                self._close(levels, price)
            if not volume:
                break
        order.volume = volume
        if volume:
            order.executed += entered - volume
        self.last_trade_ticks = price
        shared.next_match_id = match_id

    def cancel(self, order_id: int) -> int:
        """End an order and return its open lots; its owner is not notified.

        The caller sets the order's `volume` to 0 before it notifies the owner. Raise `KeyError` for an unknown id.
        """
        order = self.orders.pop(order_id)
        if order.flags & _APART:
            return self._withdraw(order)
        price = order.price_ticks
        queues = self._bid_queues if order.side == "B" else self._ask_queues
        level = queues[price]
        del level[order_id]
        left = len(level)
        if not left:
            self._close(self.bids if order.side == "B" else self.asks, price)
        elif left == SHORT:
            queues[price] = dict(level)
        volume = order.volume
        if order.account:
            account = self._accounts[order.account]
            del account.orders[order.ref]
            if account.open_notional:
                account.open_notional -= volume * price
        self._deleted(order, volume)
        return volume

    def _withdraw(self, order: Order) -> int:
        self.orders[order.order_id] = order
        self.remove(order)
        displayed, volume = order.volume, order.volume + order.reserve
        order.volume = order.reserve = 0
        if not order.flags & (OUTSIDE | HIDDEN):
            self._deleted(order, displayed)
        return volume

    # --- places of orders -------------------------------------------------------------------------------------------

    def levels_of(self, order: Order) -> Levels:
        """Return the side, displayed or hidden, that an order rests on."""
        if order.flags & HIDDEN:
            return self.hidden_bids if order.side == "B" else self.hidden_asks
        return self.bids if order.side == "B" else self.asks

    def place(self, order: Order) -> None:
        """Queue an order behind all others of its price and kind, without notification."""
        levels, price = self.levels_of(order), order.price_ticks
        level = levels.queues.get(price)
        if level is None:
            level = self._open(levels, price)
        level[order.order_id] = order
        if order.flags & _UNUSUAL:
            self.unusual += 1

    def rest(self, order: Order) -> None:
        """Queue the remaining lots of an order, and publish the lots that are displayed.

        An iceberg displays at most `Order.display` lots.
        """
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
        """Add an order to the indexes of live orders."""
        order_id = order.order_id
        self.orders[order_id] = order
        if order.account:
            account = self._accounts[order.account]
            account.orders[order.ref] = order
            if account.limits.open_notional:
                account.open_notional += (order.volume + order.reserve) * order.price_ticks
        if order.flags & EXPIRES:
            self.shared.expiries.add(order)

    def remove(self, order: Order) -> None:
        """Remove a resting or waiting order, and subtract it from its account's open notional, without notification."""
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
        """Remove an order from its queue only."""
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
        """Remove `volume` lots of an order, undisplayed lots first; `volume` is less than the order's open lots.

        Its owner is not notified.
        """
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
        """Publish the end of the order that is being replaced, unless it was published already."""
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

    # --- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.orders)

    def best(self, side: Side) -> int | None:
        """Return the best displayed price of a side in ticks, None if nothing is displayed."""
        return self.bids.best() if side == "B" else self.asks.best()

    def mid_ticks(self) -> int | None:
        """Return the mid of the best displayed prices, rounded down.

        If only one side displays a price, return that price; if neither side does, return None.
        """
        bid, ask = self.bids.best(), self.asks.best()
        if bid is None or ask is None:
            return ask if bid is None else bid
        return (bid + ask) // 2

    def levels(self, side: Side) -> Iterator[tuple[int, int, int]]:
        """Yield price, displayed volume and number of displayed orders of each level, best first; not for hot code."""
        levels = self.bids if side == "B" else self.asks
        for price in levels:
            yield price, sum(order.volume for order in levels[price].values()), len(levels[price])

    def reference(self) -> int:
        """Return the price of the last trade; before the first trade, return the instrument's reference price."""
        return self.last_trade_ticks or self.reference_ticks

    def resting(self) -> Iterator[Order]:
        """Yield all orders in the book: bids, then asks, each by priority; at a price, displayed orders come first."""
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
        orders = [*self.resting(), *self.waiting.values()]
        assert len(orders) == len(self.orders), f"{self.symbol}: the index by id disagrees with the levels"
        assert all(self.orders[order.order_id] is order for order in orders), (
            f"{self.symbol}: another order in the index"
        )
        assert all(order.locate == self.locate for order in orders), f"{self.symbol}: an order of another symbol"
        assert self.bid_edge == max(self.bids.top(), self.hidden_bids.top()), f"{self.symbol}: wrong highest bid"
        assert self.ask_edge == -max(self.asks.top(), self.hidden_asks.top()), f"{self.symbol}: wrong lowest ask"
        self.stops._check(self.symbol, self.waiting)
        unusual = sum(1 for order in orders if order.flags & (_UNUSUAL | STOP)) + (self.shared.collar_bps > 0)
        assert self.unusual == unusual, f"{self.symbol}: {unusual} unusual things, counted {self.unusual}"
        assert self.replacing is None, f"{self.symbol}: a replacement was left open"
        if not crossed:
            assert self.bid_edge < self.ask_edge, f"{self.symbol}: crossed"
