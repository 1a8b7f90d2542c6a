"""Snapshots: the state of a market as bytes, its fingerprint, and its invariants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from exchange_server.matching.book import Book
from exchange_server.matching.inputs import PhaseName
from exchange_server.matching.market_state import Execution, MarketState
from exchange_server.matching.order import HIDDEN, STOP, Account, Order

__all__ = ["check", "decode", "encode", "fingerprint"]

_VERSION: Final = 1
_LARGEST: Final = 2**64 - 1


class _BookState(msgspec.Struct, array_like=True):
    phase: PhaseName
    last_trade_ticks: int
    resting: list[Order]
    """Resting orders in order of priority; orders of one price and kind are in order of arrival."""
    waiting: list[Order]
    """Stop orders and auction orders, which are outside of the book, in order of arrival."""


class _MarketState(msgspec.Struct, array_like=True):
    version: int
    time_ns: int
    inputs: int
    orders: int
    next_order_id: int
    next_match_id: int
    session: tuple[bool, bool, bool]
    """Flags: the session has begun, opened, ended."""
    accounts: list[Account]
    books: list[_BookState]
    replay_position: int
    replay_counts: dict[str, int]
    recorded_ids: dict[int, tuple[int, int]]


class _Snapshot(_MarketState, array_like=True):
    """State of a market, and the recent executions, which are not part of the fingerprint."""

    executions: list[Execution] = []
    """Empty in snapshots of versions before 0.2."""


_DECODER: Final = msgspec.msgpack.Decoder(_Snapshot)


def encode(shared: MarketState, books: Mapping[str, Book]) -> bytes:
    """Return the state of a market as bytes, without that of its encoders."""
    accounts = [_account_state(account) for account in shared.accounts[1:]]
    state = _market_state(shared, books, accounts)
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return msgspec.msgpack.encode(_Snapshot(**fields, executions=list(shared.executions)))


def _account_state(account: Account, **values: int) -> Account:
    """Return a copy of an account without its orders and open notional, which `decode` computes again from the books.

    Numbers of msgpack have 64 bits, which the open notional may exceed. The content of a token bucket may exceed them
    too, but only if the account's rate is 18 requests or more in a nanosecond; such a rate refuses no request.
    """
    bucket = min(account.bucket, _LARGEST)
    return msgspec.structs.replace(account, orders={}, open_notional=0, bucket=bucket, **values)


def fingerprint(shared: MarketState, books: Mapping[str, Book]) -> str:
    """Return the BLAKE2b hash of the state, 32 bytes as hex; the numbers of private messages are left out."""
    accounts = [_account_state(account, next_message=1) for account in shared.accounts[1:]]
    return blake2b(msgspec.msgpack.encode(_market_state(shared, books, accounts)), digest_size=32).hexdigest()


def decode(shared: MarketState, books: Mapping[str, Book], data: bytes, add_account: Callable[[Account], None]) -> None:
    """Restore a new market to an encoded state.

    `add_account` adds an account and its teller, which writes the account's private stream. Raise `ValueError` for
    bytes that are not a state of a market with these instruments.
    """
    state = _DECODER.decode(data)
    if state.version != _VERSION or len(state.books) != len(books):
        raise ValueError(
            f"expected a market's state of version {_VERSION} with {len(books)} symbols, was version "
            f"{state.version} with {len(state.books)}"
        )
    shared.now.time_ns = state.time_ns
    shared.inputs = state.inputs
    shared.next_order_id, shared.next_match_id = state.next_order_id, state.next_match_id
    shared.other_ids = state.next_order_id - shared.rules.first_order_id - state.orders
    shared.has_begun, shared.has_opened, shared.has_ended = state.session
    shared.replay_position = state.replay_position
    shared.replay_counts.update(state.replay_counts)
    shared.recorded_ids = state.recorded_ids
    shared.executions.extend(state.executions)
    for account in state.accounts:
        add_account(account)
    for book, book_state in zip(books.values(), state.books, strict=True):
        _restore_book(book, book_state)
    for account in shared.accounts:
        account.open_notional = account.worth()
    shared.expiries.restore(order for book in books.values() for order in book.orders.values())
    shared.full_at = 0


def _market_state(shared: MarketState, books: Mapping[str, Book], accounts: list[Account]) -> _MarketState:
    return _MarketState(
        _VERSION,
        shared.now.time_ns,
        shared.inputs,
        shared.orders,
        shared.next_order_id,
        shared.next_match_id,
        (shared.has_begun, shared.has_opened, shared.has_ended),
        accounts,
        [
            _BookState(book.phase, book.last_trade_ticks, list(book.resting()), list(book.waiting.values()))
            for book in books.values()
        ],
        shared.replay_position,
        shared.replay_counts,
        shared.recorded_ids,
    )


def _restore_book(book: Book, state: _BookState) -> None:
    book.phase, book.last_trade_ticks = state.phase, state.last_trade_ticks
    book.is_special = book.is_followed or state.phase != "continuous"
    for order in state.resting:
        _restore_order(book, order)
        book.place(order)
    for order in state.waiting:
        _restore_order(book, order)
        book.waiting[order.order_id] = order
        if order.flags & STOP:
            book.stops.add(order)
            book.unusual += 1


def _restore_order(book: Book, order: Order) -> None:
    book.orders[order.order_id] = order
    if order.account:
        book.shared.accounts[order.account].orders[order.ref] = order


def check(shared: MarketState, books: Mapping[str, Book]) -> None:
    """Assert every invariant of a market and its books."""
    for book in books.values():
        book._check(crossed=book.is_special)
        assert book.is_special == (book.is_followed or book.phase != "continuous"), f"{book.symbol}: wrong is_special"
    live = {order_id: order for book in books.values() for order_id, order in book.orders.items()}
    assert len(live) == shared.live_orders, "an id in two books"
    # Orders of a recording are accepted even above the limit.
    assert shared.rules.replay_symbols or len(live) <= shared.rules.max_live_orders, "too many orders"
    shared.expiries._check(live)
    owned: dict[int, dict[int | bytes, Order]] = {account.index: {} for account in shared.accounts}
    worth = dict.fromkeys(owned, 0)
    for order_id, order in live.items():
        assert order_id == order.order_id < shared.next_order_id, f"{order} has an id that was not given"
        assert order.flags & HIDDEN == 0 or order.reserve == 0, f"{order} is hidden and an iceberg"
        if order.account:
            owned[order.account][order.ref] = order
            worth[order.account] += (order.volume + order.reserve) * order.price_ticks
    for account in shared.accounts:
        assert account.orders == owned[account.index], f"account {account.name}: its orders are not those of the books"
        tracked = worth[account.index] if account.limits.open_notional else 0
        assert account.open_notional == tracked, (
            f"account {account.name}: {tracked} open, counted {account.open_notional}"
        )
