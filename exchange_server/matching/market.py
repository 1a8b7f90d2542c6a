"""The market: applies inputs to the books and says what became of them.

A pure function of its rules and inputs: no clock, no randomness, no I/O. It speaks to encoders of the feed and to the
tellers of its accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exchange_server.matching import changing, phases, state
from exchange_server.matching.account import Account
from exchange_server.matching.applying import VERBS
from exchange_server.matching.book import Book
from exchange_server.matching.entering import refusal_of
from exchange_server.matching.expiry import next_expired
from exchange_server.matching.fan import feed_of
from exchange_server.matching.floor import INT64_MAX, Floor
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules
from exchange_server.matching.order import Order
from exchange_server.matching.outputs import AccountProtocol, FeedEncoder, Now, Touched
from exchange_server.matching.reasons import CancelReason, RefuseReason
from exchange_server.matching.silence import SilentTeller

__all__ = ["Market"]


class Market(Floor):
    """Books of several symbols, the accounts that trade in them, and what all of them are told.

    `apply` is for inputs as the journal keeps them. A protocol that reads its own bytes (see `AccountProtocol.apply`)
    calls `enter`, `replace`, `cancel`, `modify` with the market's time set to that of each request.

    >>> from deltabook.wire.symbols import Instrument
    >>> market = Market(MarketRules(instruments=(Instrument("ACME"),)))
    >>> market.apply(Enter(1, 0, 7, 0, "ACME", "B", 5, 100))
    1
    >>> market.apply(Enter(2, 0, 8, 0, "ACME", "S", 9, 100))
    2
    >>> list(market.books["ACME"].levels("S")), market.trades
    ([(100, 4, 1)], 1)
    """

    def __init__(
        self,
        rules: MarketRules,
        encoders: Sequence[FeedEncoder] = (),
        protocols: Sequence[AccountProtocol] = (),
        now: Now | None = None,
    ) -> None:
        super().__init__(feed_of(encoders), now)
        self.rules = rules
        self.encoders = tuple(encoders)
        self.protocols = {protocol.name: protocol for protocol in protocols}
        self.touched = Touched()
        """Tellers with something to hand out; whoever hands it out clears it."""
        self.collar_bps = rules.collar_bps
        self.next_order_id = rules.first_order_id
        self.books: dict[str, Book] = {}
        for locate in range(1, len(rules.instruments) + 1):
            book = self.empty_book(locate)
            self.book_at.append(book)
            self.books[book.symbol] = book
        self.inputs = 0
        self.full_at = self.next_order_id + rules.max_live_orders
        """From this id on the live orders are counted before one more is taken, see `has_room`."""
        self.has_begun = False
        """Whether the session's beginning was said: before the first input is applied."""
        self.has_opened = False
        """Whether market hours were said to have begun."""
        self.has_ended = False
        """Whether every symbol is closed."""
        self.refused: dict[RefuseReason, int] = {}
        """Requests that had no effect, since this object was made: a figure, no part of the state."""
        self.replay_position = 0
        self.replay_counts: dict[str, int] = {}
        self.recorded_ids: dict[int, tuple[int, int]] = {}
        """As orders: id in the file → the market's order id and the volume that the file says remains."""
        self._is_plain: list[bool] = [True]
        """By index of the account: nothing is to be looked at before its orders are matched."""
        self.named: dict[str, Account] = {}

    def empty_book(self, locate: int) -> Book:
        """Return the book of an instrument (1 is the first one) as it is before any order."""
        rules = self.rules
        instrument = rules.instruments[locate - 1]
        book = Book(locate, instrument.symbol, self.feed, self, instrument.reference_price_ticks)
        book.unusual = int(rules.collar_bps > 0)
        book.is_followed = instrument.symbol in rules.replay_symbols and rules.replay_mode == "as-recorded"
        book.phase = "auction-open" if rules.opens_with_auction and not book.is_followed else "continuous"
        book.is_special = book.is_followed or book.phase != "continuous"
        return book

    def apply(self, item: AnyInput) -> int | str:
        """Apply one input; the id of the order that it left in the book or waiting, 0 if none.

        Of a `Wire` the answer is why its session must be closed, empty if it need not be.
        """
        self.inputs += 1
        self.now.time_ns = item.time_ns
        if not self.has_begun:
            phases.begin(self)
        if item.time_ns >= self.next_due_ns:
            self.expire()
        return VERBS[item.__class__](self, item)

    @property
    def orders(self) -> int:
        """Orders taken so far."""
        return self.next_order_id - self.rules.first_order_id - self.other_ids

    @property
    def last_time_ns(self) -> int:
        """Time of the newest request."""
        return self.now.time_ns

    def account_named(self, name: str) -> Account | None:
        """The account of this name."""
        return self.named.get(name)

    def add_account(self, account: Account) -> None:
        """Know an account, the next by index, and have a teller for it."""
        protocol = self.protocols.get(account.protocol)
        teller = SilentTeller(account) if protocol is None else protocol.teller(account, self.now, self.touched)
        self.accounts.append(account)
        self.tellers.append(teller)
        self.named[account.name] = account
        self._is_plain.append(True)

    def look_at(self, account: Account) -> None:
        """Whether an account's orders must be looked at, after its settings have changed."""
        limits = account.limits
        is_limited = limits.requests_per_s or limits.open_orders or limits.order_notional or limits.open_notional
        self._is_plain[account.index] = not (is_limited or account.killed or account.self_trade != "allow")

    def is_new(self, index: int, ref: int | bytes) -> bool:
        """Whether a request is none that was carried out before; its reference is used up."""
        account = self.accounts[index]
        if not isinstance(ref, int):
            return ref not in account.orders
        if ref <= account.last_ref:
            return False
        account.last_ref = ref
        return True

    def repeated(self, index: int, ref: int | bytes, item: object) -> None:
        """Say nothing of a request whose reference was used, unless its account has none left and waits for an answer.

        An account that has used the largest reference of its protocol is told so for each request that is not about a
        live order.
        """
        account = self.accounts[index]
        protocol = self.protocols.get(account.protocol)
        if protocol is not None and account.last_ref >= protocol.last_ref and ref not in account.orders:
            self.turn_down(index, ref, RefuseReason.EXHAUSTED, "the account has used its last reference", item)

    def order_by_id(self, order_id: int, symbol: str) -> Order | None:
        """A live order, whatever its symbol is; `symbol` is where it most likely is."""
        likely = self.books.get(symbol)
        if likely is not None and order_id in likely.orders:
            return likely.orders[order_id]
        for book in self.books.values():
            if order_id in book.orders:
                return book.orders[order_id]
        return None

    # --- requests ---------------------------------------------------------------------------------------------------

    def enter(self, order: Order, item: object = None) -> None:
        """Take or refuse a new order, match it and rest what is left.

        `order` has no ids yet, its side is B or S and all its lots are in `volume`; `item` is the request if it is more
        than the order.
        """
        if self.now.time_ns >= self.next_due_ns:
            self.expire()
        index = order.account
        if index:
            account, ref = self.accounts[index], order.ref
            if isinstance(ref, int):
                if ref <= account.last_ref:
                    self.repeated(index, ref, order)
                    return
                account.last_ref = ref
            elif ref in account.orders:
                return
        book, order_id = self.book_at[order.locate], self.next_order_id
        if (
            book is None
            or order.flags
            or book.is_special
            or not 0 < order.volume <= INT64_MAX
            or not 0 < order.price_ticks <= INT64_MAX
            or order_id >= self.full_at
            or not self._is_plain[index]
        ):
            self.enter_carefully(order, item)
            return
        order.order_id = order.feed_id = order_id
        self.next_order_id = order_id + 1
        if index:
            self.tellers[index].accepted(order)
        book.enter(order)
        if book.unusual and book.stops:
            self.trigger(book)

    def enter_run(self, account: Account, locate: int, orders: Iterable[Order], time_ns: int) -> None:
        """`enter` for each of many orders of one account for one symbol, a nanosecond apart.

        They have no flags, references that are numbers, and volumes and prices that can be: whoever calls this has seen
        to that. What is the same for all of them is looked up once.
        """
        now, book, accepted = self.now, self.book_at[locate], self.tellers[account.index].accepted
        assert book is not None
        match, is_plain = book.enter, self._is_plain[account.index] and not book.is_special
        for order in orders:
            now.time_ns = time_ns
            if time_ns >= self.next_due_ns:
                self.expire()
            time_ns += 1
            ref = order.ref
            if ref <= account.last_ref:  # type: ignore[operator] # a number, see above; a cast costs a call
                self.repeated(account.index, ref, order)
                continue
            account.last_ref = ref  # type: ignore[assignment]
            order_id = self.next_order_id
            if not is_plain or order_id >= self.full_at:
                self.enter_carefully(order, None)
                continue
            order.order_id = order.feed_id = order_id
            self.next_order_id = order_id + 1
            accepted(order)
            match(order)
            if book.unusual and book.stops:
                self.trigger(book)

    def enter_carefully(self, order: Order, item: object) -> None:
        """What `enter` does with an order that anything may be the matter with; its reference is used up."""
        refusal = refusal_of(self, order)
        if refusal is not None:
            reason, detail = refusal
            if reason == RefuseReason.UNKNOWN_SYMBOL and isinstance(item, Enter):
                detail = f"unknown symbol {item.symbol}"
            self.refuse(order, reason, detail, item)
            return
        self.number(order)
        self.tellers[order.account].accepted(order)
        book = self.book_at[order.locate]
        assert book is not None
        book.enter_specially(order)
        if book.unusual and book.stops:
            self.trigger(book)

    def number(self, order: Order) -> None:
        """Give an order its ids."""
        order.order_id = order.feed_id = self.next_order_id
        self.next_order_id += 1

    def has_room(self) -> bool:
        """Whether one more order may be live. They are counted only when as many were taken as there was room for."""
        if self.next_order_id >= self.full_at:
            self.full_at = self.next_order_id + max(0, self.rules.max_live_orders - self.live_orders)
        return self.next_order_id < self.full_at

    def refuse(self, order: Order, reason: RefuseReason, detail: str, item: object = None) -> None:
        """Tell an order's owner that it is not taken; `item` is the request, if it is more than the order."""
        self.turn_down(order.account, order.ref, reason, detail, order if item is None else item)

    def turn_down(self, account: int, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """Tell an account that its request has no effect, and count it."""
        self.refused[reason] = self.refused.get(reason, 0) + 1
        self.tellers[account].refused(ref, reason, detail, item)

    def replace(self, old: Order, new: Order, item: object = None) -> None:
        """`old` ends and `new` (its ids not given, its volume the lots still open) takes its place behind all others.

        A refusal leaves `old` as it is.
        """
        if self.now.time_ns >= self.next_due_ns:
            self.expire()
        if new.account and not self.is_new(new.account, new.ref):
            return
        changing.replace(self, old, new, item)

    def cancel(
        self, order: Order, volume_off: int, reason: CancelReason = CancelReason.USER, ref: int | bytes = 0
    ) -> None:
        """Take lots off a live order, which keeps its place; as many as it has or more end it."""
        book = self.book_at[order.locate]
        assert book is not None
        if volume_off >= order.volume + order.reserve:
            volume_off = book.cancel(order.order_id)
            order.volume = 0
        elif volume_off > 0:
            book.reduce(order, volume_off)
        else:
            return
        if order.account:
            self.tellers[order.account].canceled(order, volume_off, reason, ref or order.ref)

    def modify(self, order: Order, volume_off: int) -> None:
        """Make an order smaller as `cancel` does, and tell its owner in the words of a modification."""
        book = self.book_at[order.locate]
        assert book is not None
        if volume_off >= order.volume + order.reserve:
            self.cancel(order, volume_off)
            return
        if volume_off > 0:
            book.reduce(order, volume_off)
        self.tellers[order.account].modified(order)

    def order_of(self, account: Account, ref: int | bytes) -> Order | None:
        """An account's live order by its reference."""
        if self.now.time_ns >= self.next_due_ns:
            self.expire()
        return account.orders.get(ref)

    def mass_cancel(self, account: int, symbol: str, reason: CancelReason, ref: int = 0) -> None:
        """End all orders of an account (0: of everybody), of one symbol or (empty) of all."""
        for order in changing.in_order(self, account, symbol):
            self.cancel(order, order.volume + order.reserve, reason, ref)

    def expire(self) -> None:
        """End the orders whose time has come."""
        while (order := next_expired(self, self.now.time_ns)) is not None:
            self.cancel(order, order.volume + order.reserve, CancelReason.TIMEOUT)

    def trigger(self, book: Book) -> None:
        """Enter the stops that trades have reached, and those that these reach in turn."""
        if book.phase != "continuous":
            return
        while reached := book.stops.reached():
            for order_id in reached:
                changing.trigger(self, book, book.orders[order_id])

    # --- state ------------------------------------------------------------------------------------------------------

    def state(self) -> bytes:
        """All that the market is, its encoders apart, to go on from with `restore`."""
        return state.encode(self)

    @staticmethod
    def restore(
        rules: MarketRules,
        data: bytes,
        encoders: Sequence[FeedEncoder] = (),
        protocols: Sequence[AccountProtocol] = (),
        now: Now | None = None,
    ) -> Market:
        """The market whose `state` was taken; encoders are restored by whoever keeps their states."""
        market = Market(rules, encoders, protocols, now)
        state.decode(market, data)
        return market

    def state_hash(self) -> str:
        """A fingerprint of books, accounts, counters and phases; equal for equal markets, whoever listens to them."""
        return state.fingerprint(self)

    def _check(self) -> None:
        """Assert every invariant of the market and its books."""
        state.check(self)
