"""The market: applies inputs to the books, and notifies the feed and the accounts.

A pure function of its rules and inputs: no clock, no randomness, no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from exchange_server.matching import auctions, snapshots
from exchange_server.matching.book import Book
from exchange_server.matching.inputs import (
    AnyInput,
    Bust,
    Cancel,
    Enter,
    Kill,
    MarketRules,
    MassCancel,
    OpenAccount,
    Phase,
    Recorded,
    Reduce,
    Replace,
    Tick,
    Wire,
)
from exchange_server.matching.market_state import INT64_MAX, MarketState
from exchange_server.matching.order import MARKET, Account, CancelReason, Order, RefuseReason, Side
from exchange_server.matching.outputs import FeedEncoder, Now, SilentTeller, Teller, Touched, feed_of
from exchange_server.matching.recording import apply_recorded
from exchange_server.matching.requests import (
    cancel_account,
    cancel_all,
    cancel_order,
    refusal_of,
    replace_or_reduce,
    replace_order,
)
from exchange_server.matching.special_orders import enter_special, trigger_stops

__all__ = ["AccountProtocol", "Market"]

_SIDES: Final = frozenset({"B", "S"})


class AccountProtocol(ABC):
    """Plug-in point for a protocol: how its accounts are notified, and how their bytes are read."""

    name: str
    """Name of the protocol: ``text``, ``ouch5`` or ``ouch42``."""
    last_ref: int = 2**63 - 1
    """Largest reference of an order, where references are numbers."""

    @abstractmethod
    def teller(self, account: Account, now: Now, touched: Touched) -> Teller:
        """Return the teller of an account; the teller adds itself to `touched` when its buffer becomes non-empty."""

    @abstractmethod
    def apply(self, market: Market, account: Account, item: Wire) -> str:
        """Carry out the messages of `item` in their order, each at its own time (set `market.now.time_ns`).

        Return why the session must be closed, or an empty string. If it must be closed because of a message, the
        messages before that message have been carried out, and those after it have not. The method never raises for
        bytes that a client can send.
        """


class Market:
    """Books of several symbols, the accounts that trade in them, and the listeners that are notified.

    `apply` is for inputs as the journal has them. A protocol that reads its own bytes (see `AccountProtocol.apply`)
    sets the market's time to that of each request, and calls `enter`, `replace`, `cancel` or `modify`.

    >>> from functools import partial
    >>> from deltabook.wire.symbols import Instrument
    >>> market = Market(MarketRules(instruments=(Instrument("ACME"),)))
    >>> enter = partial(Enter, account=0, ref=0, symbol="ACME")
    >>> market.apply(enter(time_ns=1, broker_id=7, side="B", volume=5, price_ticks=100))
    1
    >>> market.apply(enter(time_ns=2, broker_id=8, side="S", volume=9, price_ticks=100))
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
        self.rules = rules
        self.encoders = tuple(encoders)
        self.protocols = {protocol.name: protocol for protocol in protocols}
        self.touched = Touched()
        """Tellers with pending output; the caller that takes the output clears the list."""
        self.shared = shared = MarketState(feed_of(encoders), rules, now)
        """Identifiers, accounts and counters, shared by the books."""
        # Aliases that save a look-up; the objects are never replaced.
        self.feed, self.now, self._expiries = shared.feed, shared.now, shared.expiries
        self.accounts, self.tellers, self._is_plain = shared.accounts, shared.tellers, shared.is_plain
        self.books: dict[str, Book] = {}
        """Books by symbol, in the order of their locates."""
        self.book_at: list[Book | None] = [None]
        """Books by locate."""
        for locate in range(1, len(rules.instruments) + 1):
            self.book_at.append(None)
            self.install(self.empty_book(locate))

    def empty_book(self, locate: int) -> Book:
        """Return the book of an instrument (1 is the first one) without any orders."""
        rules = self.rules
        instrument = rules.instruments[locate - 1]
        reference_ticks = instrument.reference_price_ticks
        book = Book(
            locate, instrument.symbol, self.feed, self.shared, reference_ticks=reference_ticks, special=enter_special
        )
        book.unusual = int(rules.collar_bps > 0)
        book.is_followed = instrument.symbol in rules.replay_symbols and rules.replay_mode == "as-recorded"
        book.phase = "auction-open" if rules.opens_with_auction and not book.is_followed else "continuous"
        book.is_special = book.is_followed or book.phase != "continuous"
        return book

    def install(self, book: Book) -> None:
        """Use a book as the book of its symbol from now on."""
        self.books[book.symbol] = self.book_at[book.locate] = book
        self.shared.register_orders(book.locate, book.orders)

    def apply(self, item: AnyInput) -> int | str:
        """Apply one input; return the id of the order that it left in the book or waiting, 0 if none.

        For a `Wire`, return why its session must be closed, or an empty string.
        """
        self.shared.inputs += 1
        self.now.time_ns = item.time_ns
        if not self.shared.has_begun:
            auctions.begin_session(self.shared, self.books)
        if item.time_ns >= self._expiries.next_due_ns:
            self.expire()
        return _VERBS[item.__class__](self, item)

    # --- figures ----------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> int:
        """Number of inputs applied so far."""
        return self.shared.inputs

    @property
    def orders(self) -> int:
        """Number of orders accepted so far."""
        return self.shared.orders

    @property
    def live_orders(self) -> int:
        """Number of orders that rest or wait."""
        return self.shared.live_orders

    @property
    def trades(self) -> int:
        """Number of trades so far: matches, crosses, and the trades of a book that follows a recording."""
        return self.shared.trades

    @property
    def refused(self) -> Mapping[RefuseReason, int]:
        """Number of requests refused since this object was made, by reason."""
        return self.shared.refused

    @property
    def replay_counts(self) -> Mapping[str, int]:
        """Number of records of a replayed file that had no effect or a different effect than recorded, by kind."""
        return self.shared.replay_counts

    @property
    def next_order_id(self) -> int:
        """Id of the next order."""
        return self.shared.next_order_id

    @property
    def next_match_id(self) -> int:
        """Number of the next trade."""
        return self.shared.next_match_id

    @property
    def replay_position(self) -> int:
        """Position of the latest record of a replayed file."""
        return self.shared.replay_position

    @property
    def next_due_ns(self) -> int:
        """Market time before which no live order expires."""
        return self._expiries.next_due_ns

    @property
    def last_time_ns(self) -> int:
        """Market time of the latest request."""
        return self.now.time_ns

    # --- accounts ---------------------------------------------------------------------------------------------------

    def account_named(self, name: str) -> Account | None:
        """Return the account with this name, None if there is none."""
        return self.shared.named.get(name)

    def add_account(self, account: Account) -> None:
        """Add the account with the next index, and a teller for it."""
        protocol = self.protocols.get(account.protocol)
        teller: Teller = SilentTeller(account)
        if protocol is not None:
            teller = protocol.teller(account, self.now, self.touched)
        self.shared.add_account(account, teller)

    def order_of(self, account: Account, ref: int | bytes) -> Order | None:
        """Return an account's live order by its reference."""
        if self.now.time_ns >= self._expiries.next_due_ns:
            self.expire()
        return account.orders.get(ref)

    def repeated(self, index: int, ref: int | bytes, item: object) -> None:
        """Ignore a request whose reference was used before; refuse the request if its account has no reference left.

        After an account has used the largest reference of its protocol, each further request that is not about a live
        order is refused: otherwise the client would wait for an answer.
        """
        account = self.accounts[index]
        protocol = self.protocols.get(account.protocol)
        if protocol is not None and account.last_ref >= protocol.last_ref and ref not in account.orders:
            self.shared.turn_down(index, ref, RefuseReason.EXHAUSTED, "the account has used its last reference", item)

    def order_by_id(self, order_id: int, symbol: str) -> Order | None:
        """Return a live order of any symbol; `symbol` is the symbol to search first."""
        likely = self.books.get(symbol)
        if likely is not None and order_id in likely.orders:
            return likely.orders[order_id]
        for book in self.books.values():
            if order_id in book.orders:
                return book.orders[order_id]
        return None

    # --- requests ---------------------------------------------------------------------------------------------------

    def enter(self, order: Order, item: object = None) -> None:
        """Accept or refuse a new order, match it and rest the remaining lots.

        `order` has no ids yet, its side is B or S and all its lots are in `volume`; `item` is the request if it
        contains more than the order.
        """
        if self.now.time_ns >= self._expiries.next_due_ns:
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
        shared, book = self.shared, self.book_at[order.locate]
        order_id = shared.next_order_id
        if (
            book is None
            or order.flags
            or book.is_special
            or not 0 < order.volume <= INT64_MAX
            or not 0 < order.price_ticks <= INT64_MAX
            or order_id >= shared.full_at
            or not self._is_plain[index]
        ):
            self.enter_checked(order, item)
            return
        order.order_id = order.feed_id = order_id
        shared.next_order_id = order_id + 1
        if index:
            self.tellers[index].accepted(order)
        book.enter(order)
        if book.unusual and book.stops:
            trigger_stops(book)

    def enter_run(self, account: Account, locate: int, orders: Iterable[Order], time_ns: int) -> None:
        """Enter many orders of one account for one symbol, a nanosecond apart, as `enter` does.

        The caller guarantees that the orders have no flags, numeric references, and valid volumes and prices. Values
        that are equal for all of the orders are looked up once.
        """
        now, shared, accepted = self.now, self.shared, self.tellers[account.index].accepted
        book, expiries = self.book_at[locate], self._expiries
        assert book is not None
        match, is_plain = book.enter, self._is_plain[account.index] and not book.is_special
        for order in orders:
            now.time_ns = time_ns
            if time_ns >= expiries.next_due_ns:
                self.expire()
            time_ns += 1
            ref = order.ref
            if ref <= account.last_ref:  # type: ignore[operator] # a number, see above; a cast costs a call
                self.repeated(account.index, ref, order)
                continue
            account.last_ref = ref  # type: ignore[assignment]
            order_id = shared.next_order_id
            if not is_plain or order_id >= shared.full_at:
                self.enter_checked(order, None)
                continue
            order.order_id = order.feed_id = order_id
            shared.next_order_id = order_id + 1
            accepted(order)
            match(order)
            if book.unusual and book.stops:
                trigger_stops(book)

    def enter_checked(self, order: Order, item: object) -> None:
        """Check every attribute and limit of an order, then accept or refuse it; either way its reference is used."""
        shared = self.shared
        book = self.book_at[order.locate] if 0 < order.locate < len(self.book_at) else None
        refusal = refusal_of(shared, book, order)
        if refusal is not None:
            reason, detail = refusal
            if reason == RefuseReason.UNKNOWN_SYMBOL and isinstance(item, Enter):
                detail = f"unknown symbol {item.symbol}"
            shared.refuse(order, reason, detail, item)
            return
        assert book is not None
        shared.number(order)
        self.tellers[order.account].accepted(order)
        book.enter_special(order)
        if book.unusual and book.stops:
            trigger_stops(book)

    def replace(self, old: Order, new: Order, item: object = None) -> None:
        """End `old` and enter `new` instead, behind all other orders of its price.

        `new` has no ids yet, and its volume is the number of lots still open. If it is refused, `old` does not change.
        """
        if self.now.time_ns >= self._expiries.next_due_ns:
            self.expire()
        if new.account and not self.shared.is_new(new.account, new.ref):
            return
        book = self.book_at[old.locate]
        assert book is not None
        replace_order(book, old, new, item)

    def cancel(
        self, order: Order, volume_off: int, reason: CancelReason = CancelReason.USER, ref: int | bytes = 0
    ) -> None:
        """Take `volume_off` lots off a live order, which keeps its place; the order ends if it has no more lots."""
        book = self.book_at[order.locate]
        assert book is not None
        cancel_order(book, order, volume_off, reason, ref)

    def modify(self, order: Order, volume_off: int) -> None:
        """Reduce an order as `cancel` does, and notify its owner of a modification."""
        book = self.book_at[order.locate]
        assert book is not None
        if volume_off >= order.volume + order.reserve:
            self.cancel(order, volume_off)
            return
        if volume_off > 0:
            book.reduce(order, volume_off)
        self.tellers[order.account].modified(order)

    def mass_cancel(self, account: int, symbol: str, reason: CancelReason, ref: int = 0) -> None:
        """End all orders of an account (0: of all accounts and agents) in one symbol (empty: in all symbols)."""
        if account:
            locate = self.books[symbol].locate if symbol else 0
            cancel_account(self.book_at, self.accounts[account], locate, reason, ref)
        else:
            books = (self.books[symbol],) if symbol else self.books.values()
            cancel_all(books, reason, ref)

    def expire(self) -> None:
        """End the orders that have expired."""
        while (order := self._expiries.next_expired(self.now.time_ns)) is not None:
            self.cancel(order, order.volume + order.reserve, CancelReason.TIMEOUT)

    # --- state ------------------------------------------------------------------------------------------------------

    def state(self) -> bytes:
        """Return the state of the market, without that of its encoders, for `restore`."""
        return snapshots.encode(self.shared, self.books)

    @staticmethod
    def restore(
        rules: MarketRules,
        data: bytes,
        encoders: Sequence[FeedEncoder] = (),
        protocols: Sequence[AccountProtocol] = (),
        now: Now | None = None,
    ) -> Market:
        """Return the market whose `state` is `data`; the caller restores the encoders."""
        market = Market(rules, encoders, protocols, now)
        snapshots.decode(market.shared, market.books, data, market.add_account)
        return market

    def state_hash(self) -> str:
        """Return a fingerprint of books, accounts, counters and phases; it does not depend on the listeners."""
        return snapshots.fingerprint(self.shared, self.books)

    def _check(self) -> None:
        """Assert every invariant of the market and its books."""
        snapshots.check(self.shared, self.books)


# --- inputs --------------------------------------------------------------------------------------------------------


def _open_account(market: Market, item: OpenAccount) -> int:
    account = market.account_named(item.name)
    if account is None:
        account = Account(len(market.accounts), item.name, item.protocol, item.broker_id)
        market.add_account(account)
        market.tellers[account.index].system("S")
    rate = account.limits.requests_per_s
    account.broker_id, account.limits = item.broker_id, item.limits
    account.self_trade, account.cancel_on_disconnect = item.self_trade, item.cancel_on_disconnect
    account.open_notional = account.worth()
    if account.limits.requests_per_s != rate:
        # Only for changed settings: a client that repeats its settings must not refill its bucket.
        account.bucket, account.bucket_ns = account.limits.requests_per_s * 10**9, item.time_ns
    market.shared.note_settings(account)
    return 0


def _enter(market: Market, item: Enter) -> int:
    book = market.books.get(item.symbol)
    price = item.price_ticks
    order = Order(
        0, 0, 0 if book is None else book.locate, cast("Side", item.side), price, item.volume, item.broker_id,
        item.account, item.ref, item.flags if price else item.flags | MARKET, 0, item.display, item.minimum,
        item.stop_ticks, item.expire_ns,
    )  # fmt: skip
    if item.side in _SIDES:
        market.enter(order, item)
    elif not item.account or market.shared.is_new(item.account, item.ref):
        market.enter_checked(order, item)
    return order.order_id if order.order_id and order.volume > 0 else 0


def _reduce(market: Market, item: Reduce) -> int:
    order = _order_to_change(market, item)
    if order is None:
        return 0
    if item.volume <= 0:
        detail = f"expected a volume of 1 or more was {item.volume}"
        market.shared.turn_down(item.account, item.ref, RefuseReason.BAD_VOLUME, detail, item)
        return 0
    market.cancel(order, item.volume, CancelReason.USER, item.ref)
    return order.order_id if order.volume else 0


def _cancel(market: Market, item: Cancel) -> int:
    order = _order_to_change(market, item)
    if order is not None:
        market.cancel(order, order.volume + order.reserve, CancelReason.USER, item.ref)
    return 0


def _replace(market: Market, item: Replace) -> int:
    order = _order_to_change(market, item)
    if order is None:
        return 0
    book = market.book_at[order.locate]
    assert book is not None
    return replace_or_reduce(book, order, item)


def _order_to_change(market: Market, item: Reduce | Cancel | Replace) -> Order | None:
    """Return the order that a request changes, None if the request is refused or a retransmission."""
    account = item.account
    if account and not market.shared.is_new(account, item.ref):
        return None
    order = market.order_by_id(item.order_id, item.symbol)
    book = market.books.get(item.symbol) if order is None else market.book_at[order.locate]
    if book is not None and book.is_followed:
        reason, detail = RefuseReason.REPLAYED, "replayed"
    elif order is not None:
        if order.account == account and order.broker_id == item.broker_id:
            return order
        reason, detail = RefuseReason.FOREIGN_ORDER, f"order {item.order_id} belongs to another broker"
    elif item.symbol and book is None:
        reason, detail = RefuseReason.UNKNOWN_SYMBOL, f"unknown symbol {item.symbol}"
    else:
        reason, detail = RefuseReason.UNKNOWN_ORDER, f"unknown order {item.order_id}"
    market.shared.turn_down(account, item.ref, reason, detail, item)
    return None


def _mass_cancel(market: Market, item: MassCancel) -> int:
    if item.account and item.ref and not market.shared.is_new(item.account, item.ref):
        return 0
    if item.symbol and item.symbol not in market.books:
        if item.ref:
            detail = f"unknown symbol {item.symbol}"
            market.shared.turn_down(item.account, item.ref, RefuseReason.UNKNOWN_SYMBOL, detail, item)
        return 0
    market.mass_cancel(item.account, item.symbol, CancelReason(item.reason), item.ref)
    return 0


def _kill(market: Market, item: Kill) -> int:
    if not 0 < item.account < len(market.accounts):
        return 0
    account = market.accounts[item.account]
    account.killed = item.killed
    market.shared.note_settings(account)
    if item.killed:
        market.mass_cancel(item.account, "", CancelReason.SUPERVISORY)
    return 0


def _phase(market: Market, item: Phase) -> int:
    auctions.change_phase(market.shared, market.books, item)
    return 0


def _tick(market: Market, item: Tick) -> int:
    auctions.publish_imbalances(market.books)
    return 0


def _bust(market: Market, item: Bust) -> int:
    book = market.books.get(item.symbol)
    if book is not None:
        market.feed.busted(book.locate, item.match_id)
        for party in item.parties:
            market.tellers[party.account].busted(party, item.match_id)
    return 0


def _recorded(market: Market, item: Recorded) -> int:
    apply_recorded(market.books[item.symbol], item)
    return 0


def _wire(market: Market, item: Wire) -> str:
    account = market.accounts[item.account]
    protocol = market.protocols.get(account.protocol)
    if protocol is None:
        return f"the market has no protocol {account.protocol}"
    return protocol.apply(market, account, item)


_VERBS: Final[Mapping[type, Callable[[Market, Any], int | str]]] = {
    OpenAccount: _open_account,
    Enter: _enter,
    Reduce: _reduce,
    Cancel: _cancel,
    Replace: _replace,
    MassCancel: _mass_cancel,
    Kill: _kill,
    Phase: _phase,
    Tick: _tick,
    Bust: _bust,
    Recorded: _recorded,
    Wire: _wire,
}
"""Function that applies each input, by the input's class; `Market.apply` returns its result."""
