"""Market of the model: applies one request after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

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
from exchange_server.matching.market import AccountProtocol
from exchange_server.matching.order import EXPIRES, HIDDEN, MARKET, Account, CancelReason, Order, RefuseReason
from exchange_server.matching.outputs import FeedEncoder, Now, Teller, Touched
from tests.model.book import AUCTIONS, ModelBook, left_of
from tests.model.changing import change_order, in_mass_order, modify, replace, take_off
from tests.model.crossing import say_imbalance, uncross
from tests.model.entering import (
    admit,
    refusal_of_attributes,
    refusal_of_limits,
    refusal_of_phase,
    run_stops,
)
from tests.model.recording import Recording
from tests.model.said import SaidTeller

__all__ = ["ModelMarket"]

_STATES: Final = {"continuous": "T", "paused": "P", "halted": "H", "closed": "H"}
_SECOND_NS: Final = 10**9


class ModelMarket:
    """Makes the same calls of a feed and of tellers as the real market."""

    def __init__(
        self, rules: MarketRules, feed: FeedEncoder, protocols: Mapping[str, AccountProtocol], now: Now
    ) -> None:
        self.rules = rules
        self.feed = feed
        self.now = now
        self.books = [
            ModelBook(locate, instrument, "continuous") for locate, instrument in enumerate(rules.instruments, 1)
        ]
        for book in self.books:
            if rules.opens_with_auction and not self.is_played(book):
                book.phase = "auction-open"
        self.accounts: list[Account] = []
        self.tellers: list[Teller] = []
        self.inputs = 0
        self.trades = 0
        self.next_order_id = rules.first_order_id
        self.next_match_id = 1
        self.recording = Recording(self)
        self._protocols = protocols
        self._nobody = SaidTeller(Account(0, "", "", 0), now)
        self._is_open = self._is_opened = self._is_over = False
        self._requests: dict[type, Callable[..., int | str | None]] = {
            Enter: self._enter,
            Reduce: self._change,
            Cancel: self._change,
            Replace: self._change,
            MassCancel: self._mass_cancel,
            Kill: self._kill,
            OpenAccount: self._open_account,
            Phase: self._phase,
            Tick: self._tick,
            Bust: self._bust,
            Recorded: self.recording.apply,
            Wire: self._wire,
        }

    # -- state

    def live(self) -> Iterator[Order]:
        """Yield every order that rests or waits."""
        for book in self.books:
            yield from book.live()

    def book_at(self, locate: int) -> ModelBook:
        """Return the book of a symbol, by its number from 1."""
        return self.books[locate - 1]

    def book_of(self, symbol: str) -> ModelBook | None:
        """Return the book of a symbol, None if it is not traded here."""
        return next((book for book in self.books if book.instrument.symbol == symbol), None)

    def is_played(self, book: ModelBook) -> bool:
        """Return True if the book follows a recording."""
        return self.rules.replay_mode == "as-recorded" and book.instrument.symbol in self.rules.replay_symbols

    def account(self, index: int) -> Account:
        """Return an account by its number from 1."""
        return self.accounts[index - 1]

    def tell(self, order: Order) -> Teller:
        """Return the teller of an order's owner."""
        return self.tellers[order.account - 1] if order.account else self._nobody

    def take_order_id(self) -> int:
        """Return the next number for an order, or for the next part of an iceberg."""
        self.next_order_id += 1
        return self.next_order_id - 1

    def take_match_id(self) -> int:
        """Return the next number for a trade."""
        self.trades += 1
        self.next_match_id += 1
        return self.next_match_id - 1

    # -- notifications

    def refuse(self, account: int, ref: int | bytes, reason: RefuseReason, item: object) -> int:
        """Refuse a request, and return 0."""
        if account:
            self.tellers[account - 1].refused(ref, reason, "", item)
        return 0

    def end(self, book: ModelBook, order: Order, reason: CancelReason, ref: int | bytes | None = None) -> None:
        """Cancel the rest of an order, resting or waiting."""
        is_displayed = any(other is order for other in book.resting) and not order.flags & HIDDEN
        displayed, total = order.volume, left_of(order)
        book.remove(order)
        order.volume = order.reserve = 0
        if is_displayed:
            self.feed.deleted(order, displayed)
        self.tell(order).canceled(order, total, reason, order.ref if ref is None else ref)

    # -- requests of protocols that decode their own bytes

    def enter(self, order: Order) -> None:
        """Enter a new order."""
        self._expire()
        if not self.is_again(order.account, order.ref):
            self._take(self.book_at(order.locate), order, order)

    def replace(self, old: Order, new: Order) -> None:
        """Replace an order by another, behind all others."""
        self._expire()
        if not self.is_again(new.account, new.ref):
            replace(self, old, new, new)
            run_stops(self, self.book_at(new.locate))

    def cancel(self, order: Order, volume: int) -> None:
        """Take lots off an order."""
        if volume > 0:
            take_off(self, order, volume, CancelReason.USER, order.ref)

    def modify(self, order: Order, volume: int) -> None:
        """Take lots off an order, and notify its owner of a modification."""
        if volume >= left_of(order):
            self.cancel(order, volume)
        else:
            modify(self, order, max(volume, 0))

    def order_of(self, account: Account, ref: int | bytes) -> Order | None:
        """Return a live order by its owner's reference."""
        self._expire()
        return next((o for o in self.live() if o.account == account.index and o.ref == ref), None)

    # -- requests

    def apply(self, item: AnyInput) -> int | str:
        """Apply one request; return the id of the order that it left."""
        self.inputs += 1
        self.now.time_ns = item.time_ns
        if not self._is_open:
            self._open()
        self._expire()
        result = self._requests[type(item)](item)
        return 0 if result is None else result

    def _open(self) -> None:
        self._is_open = True
        self.feed.system("O")
        for book in self.books:
            self.feed.listed(book.locate)
        self.feed.system("S")
        for book in self.books:
            self.feed.trading(book.locate, "Q" if book.phase in AUCTIONS else "T", "")
        self._look_at_session()

    def _look_at_session(self) -> None:
        """Publish the system codes that follow from the phases."""
        phases = {book.phase for book in self.books}
        if not self._is_opened and "auction-open" not in phases:
            self._is_opened = True
            self.feed.system("Q")
        if not self._is_over and phases == {"closed"}:
            self._is_over = True
            for code in "MEC":
                self.feed.system(code)
            for teller in self.tellers:
                teller.system("E")

    def _expire(self) -> None:
        due = [o for o in self.live() if o.flags & EXPIRES and o.expire_ns <= self.now.time_ns]
        for order in sorted(due, key=lambda order: (order.expire_ns, order.order_id)):
            self.end(self.book_at(order.locate), order, CancelReason.TIMEOUT)

    def _wire(self, item: Wire) -> str:
        account = self.account(item.account)
        return self._protocols[account.protocol].apply(self, account, item)  # type: ignore[arg-type]

    def _tick(self, item: Tick) -> None:
        for book in self.books:
            if book.phase in AUCTIONS and not self.is_played(book):
                say_imbalance(self, book)

    def _bust(self, item: Bust) -> None:
        book = self.book_of(item.symbol)
        if book is not None:
            self.feed.busted(book.locate, item.match_id)
            for party in item.parties:
                self.tellers[party.account - 1].busted(party, item.match_id)

    def _open_account(self, item: OpenAccount) -> None:
        full = item.limits.requests_per_s * _SECOND_NS
        known = next((account for account in self.accounts if account.name == item.name), None)
        if known is None:
            account = Account(
                len(self.accounts) + 1, item.name, item.protocol, item.broker_id, item.limits, item.self_trade,
                item.cancel_on_disconnect, bucket=full, bucket_ns=item.time_ns if full else 0,
            )  # fmt: skip
            self.accounts.append(account)
            self.tellers.append(self._protocols[item.protocol].teller(account, self.now, Touched()))
            self.tellers[-1].system("S")
            return
        if known.limits.requests_per_s != item.limits.requests_per_s:
            known.bucket, known.bucket_ns = full, item.time_ns
        known.broker_id = item.broker_id
        known.limits, known.self_trade = item.limits, item.self_trade
        known.cancel_on_disconnect = item.cancel_on_disconnect

    def is_again(self, index: int, ref: int | bytes) -> bool:
        """Return True if a client's request is a repetition; otherwise use up its number."""
        if not index:
            return False
        account = self.account(index)
        if isinstance(ref, bytes):
            return self.order_of(account, ref) is not None
        if ref <= account.last_ref:
            return True
        account.last_ref = ref
        return False

    def _is_too_fast(self, index: int) -> bool:
        if not index or not self.account(index).limits.requests_per_s:
            return False
        account, rate = self.account(index), self.account(index).limits.requests_per_s
        since = self.now.time_ns - account.bucket_ns
        account.bucket = min(account.bucket + rate * since, rate * _SECOND_NS)
        account.bucket_ns = self.now.time_ns
        if account.bucket < _SECOND_NS:
            return True
        account.bucket -= _SECOND_NS
        return False

    def _enter(self, item: Enter) -> int:
        if self.is_again(item.account, item.ref):
            return 0
        book = self.book_of(item.symbol)
        flags = item.flags | (0 if item.price_ticks else MARKET)
        order = Order(
            0, 0, book.locate if book else 0, item.side, item.price_ticks, item.volume, item.broker_id,  # type: ignore[arg-type]
            item.account, item.ref, flags, 0, item.display, item.minimum, item.stop_ticks, item.expire_ns,
        )  # fmt: skip
        return self._take(book, order, item)

    def _take(self, book: ModelBook | None, order: Order, item: object) -> int:
        refusal = self.refusal(book, order, None)
        if refusal is not None:
            return self.refuse(order.account, order.ref, refusal, item)
        assert book is not None
        order.order_id = order.feed_id = self.take_order_id()
        self.tell(order).accepted(order)
        admit(self, book, order)
        return self._finish(book, order.order_id)

    def refusal(self, book: ModelBook | None, order: Order, old: Order | None) -> RefuseReason | None:
        """Return the reason to refuse an order, which replaces ``old``; None if it is accepted."""
        if self._is_too_fast(order.account):
            return RefuseReason.RATE
        if order.account and self.account(order.account).killed:
            return RefuseReason.KILLED
        if book is None:
            return RefuseReason.UNKNOWN_SYMBOL
        if self.is_played(book):
            return RefuseReason.REPLAYED
        return (
            refusal_of_phase(book, order)
            or refusal_of_attributes(order, self.now.time_ns)
            or refusal_of_limits(self, book, order, old)
        )

    def _finish(self, book: ModelBook, order_id: int) -> int:
        """Run the stops after a request; return the order's id if the order is still live."""
        run_stops(self, book)
        return order_id if any(order.order_id == order_id for order in book.live()) else 0

    def _change(self, item: Reduce | Cancel | Replace) -> int:
        if self.is_again(item.account, item.ref):
            return 0
        order_id = change_order(self, item)
        book = next((b for b in self.books if any(o.order_id == order_id for o in b.live())), None)
        for other in self.books:
            run_stops(self, other)
        return self._finish(book, order_id) if book else 0

    def _mass_cancel(self, item: MassCancel) -> None:
        if item.ref and self.is_again(item.account, item.ref):
            return
        if item.symbol and self.book_of(item.symbol) is None:
            if item.ref:
                self.refuse(item.account, item.ref, RefuseReason.UNKNOWN_SYMBOL, item)
            return
        books = [book for book in self.books if item.symbol in {"", book.instrument.symbol}]
        self._end_all(books, item.account, CancelReason(item.reason), item.ref)

    def _end_all(self, books: list[ModelBook], account: int, reason: CancelReason, ref: int = 0) -> None:
        for book in books:
            if not self.is_played(book):
                chosen = [order for order in book.live() if account in {0, order.account}]
                for order in in_mass_order(book, chosen):
                    self.end(book, order, reason, ref or None)

    def _kill(self, item: Kill) -> None:
        if not 1 <= item.account <= len(self.accounts):
            return
        self.account(item.account).killed = item.killed
        if item.killed:
            self._end_all(self.books, item.account, CancelReason.SUPERVISORY)

    def _phase(self, item: Phase) -> None:
        for book in self.books:
            if item.symbol in {"", book.instrument.symbol}:
                self._bring(book, item)
        self._look_at_session()

    def _bring(self, book: ModelBook, item: Phase) -> None:
        if book.phase == "closed":
            return
        leaves_auction = book.phase in AUCTIONS and item.phase in {"continuous", "closed"}
        if not self.is_played(book) and (leaves_auction or (item.phase == "continuous" and book.is_crossed())):
            uncross(self, book)
        book.phase = item.phase
        self.feed.trading(book.locate, _STATES.get(item.phase, "Q"), item.reason)
        if item.phase == "closed":
            book.fresh = []
            self._end_all([book], 0, CancelReason.CLOSED)
        run_stops(self, book)
