"""A market as bytes, and back."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from exchange_server.matching.account import Account
from exchange_server.matching.expiry import restore_expiries
from exchange_server.matching.floor import Execution
from exchange_server.matching.inputs import PhaseName
from exchange_server.matching.order import EXPIRES, HIDDEN, STOP, Order

if TYPE_CHECKING:
    from exchange_server.matching.book import Book
    from exchange_server.matching.market import Market

__all__ = ["check", "decode", "encode", "fingerprint"]

_VERSION: Final = 1


class _BookState(msgspec.Struct, array_like=True):
    phase: PhaseName
    last_trade_ticks: int
    resting: list[Order]
    """In priority: within a price and kind first come first."""
    waiting: list[Order]
    """In order of arrival."""


class _MarketState(msgspec.Struct, array_like=True):
    version: int
    time_ns: int
    inputs: int
    orders: int
    next_order_id: int
    next_match_id: int
    session: tuple[bool, bool, bool]
    """Whether it has begun, opened, ended."""
    accounts: list[Account]
    books: list[_BookState]
    replay_position: int
    replay_counts: dict[str, int]
    recorded_ids: dict[int, tuple[int, int]]


class _KeptState(_MarketState, array_like=True):
    """What a snapshot keeps: the state, and what is remembered beside it."""

    executions: list[Execution] = []
    """None in snapshots of versions before 0.2."""


_DECODER: Final = msgspec.msgpack.Decoder(_KeptState)


def encode(market: Market) -> bytes:
    """All that the market is, its encoders apart."""
    state = _taken(market, [_taken_account(account) for account in market.accounts[1:]])
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return msgspec.msgpack.encode(_KeptState(**fields, executions=list(market.executions)))


def _taken_account(account: Account, **values: int) -> Account:
    """What its orders do not say; what they are worth may be more than a number of the state holds."""
    return msgspec.structs.replace(account, orders={}, open_notional=0, **values)


def fingerprint(market: Market) -> str:
    """Blake2b, 32 bytes as hex, over what `encode` writes; how much each account was told does not count,
    nor which executions are remembered."""
    accounts = [_taken_account(account, next_message=1) for account in market.accounts[1:]]
    return blake2b(msgspec.msgpack.encode(_taken(market, accounts)), digest_size=32).hexdigest()


def decode(market: Market, data: bytes) -> None:
    """Bring a market that is new into the state that `encode` was given.

    Raises `ValueError` for bytes that are no state of these rules.
    """
    state = _DECODER.decode(data)
    if state.version != _VERSION or len(state.books) != len(market.books):
        raise ValueError(
            f"expected a market's state of version {_VERSION} with {len(market.books)} symbols, was version "
            f"{state.version} with {len(state.books)}"
        )
    market.now.time_ns = state.time_ns
    market.inputs = state.inputs
    market.next_order_id, market.next_match_id = state.next_order_id, state.next_match_id
    market.other_ids = state.next_order_id - market.rules.first_order_id - state.orders
    market.has_begun, market.has_opened, market.has_ended = state.session
    market.replay_position, market.replay_counts = state.replay_position, state.replay_counts
    market.recorded_ids = state.recorded_ids
    market.executions.extend(state.executions)
    for account in state.accounts:
        market.add_account(account)
        market.look_at(account)
    for book, kept in zip(market.books.values(), state.books, strict=True):
        _restore_book(market, book, kept)
    for account in market.accounts:
        account.open_notional = account.worth()
    restore_expiries(market)
    market.full_at = 0


def _taken(market: Market, accounts: list[Account]) -> _MarketState:
    return _MarketState(
        _VERSION,
        market.now.time_ns,
        market.inputs,
        market.orders,
        market.next_order_id,
        market.next_match_id,
        (market.has_begun, market.has_opened, market.has_ended),
        accounts,
        [
            _BookState(book.phase, book.last_trade_ticks, list(book.resting()), list(book.waiting.values()))
            for book in market.books.values()
        ],
        market.replay_position,
        market.replay_counts,
        market.recorded_ids,
    )


def _restore_book(market: Market, book: Book, kept: _BookState) -> None:
    book.phase, book.last_trade_ticks = kept.phase, kept.last_trade_ticks
    book.is_special = book.is_followed or kept.phase != "continuous"
    for order in kept.resting:
        _restore_order(market, book, order)
        book.place(order)
    for order in kept.waiting:
        _restore_order(market, book, order)
        book.waiting[order.order_id] = order
        if order.flags & STOP:
            book.stops.add(order)
            book.unusual += 1


def _restore_order(market: Market, book: Book, order: Order) -> None:
    book.orders[order.order_id] = order
    if order.account:
        market.accounts[order.account].orders[order.ref] = order


def check(market: Market) -> None:
    """Assert every invariant of a market and its books."""
    for book in market.books.values():
        book._check(crossed=book.is_special)
        assert book.is_special == (book.is_followed or book.phase != "continuous"), f"{book.symbol}: wrong way in"
    live = {order_id: order for book in market.books.values() for order_id, order in book.orders.items()}
    assert len(live) == market.live_orders, "an id twice"
    # What a file records is taken however many orders there are.
    assert market.rules.replay_symbols or len(live) <= market.rules.max_live_orders, "too many orders"
    expiring = {order_id for _, order_id, _ in market.expiries}
    owned: dict[int, dict[int | bytes, Order]] = {account.index: {} for account in market.accounts}
    worth = dict.fromkeys(owned, 0)
    for order_id, order in live.items():
        assert order_id == order.order_id < market.next_order_id, f"{order} has an id that was not given"
        if order.flags & EXPIRES:
            assert order_id in expiring, f"{order} will not expire"
            assert order.expire_ns >= market.next_due_ns, f"{order} expires unnoticed"
        assert order.flags & HIDDEN == 0 or order.reserve == 0, f"{order} is hidden and an iceberg"
        if order.account:
            owned[order.account][order.ref] = order
            worth[order.account] += (order.volume + order.reserve) * order.price_ticks
    for account in market.accounts:
        assert account.orders == owned[account.index], f"account {account.name}: its orders are not those of the books"
        tracked = worth[account.index] if account.limits.open_notional else 0
        assert account.open_notional == tracked, (
            f"account {account.name}: {tracked} open, counted {account.open_notional}"
        )
