"""Whether a request is taken: what is looked at before an order meets the book."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from exchange_server.matching.floor import INT64_MAX
from exchange_server.matching.order import (
    AUCTIONS,
    CLOSING,
    EXPIRES,
    HALTED_ONLY,
    HIDDEN,
    ICEBERG,
    IOC,
    MARKET,
    MINIMUM,
    OPENING,
    POST_ONLY,
    STOP,
    Order,
)
from exchange_server.matching.reasons import RefuseReason

if TYPE_CHECKING:
    from exchange_server.matching.account import Account
    from exchange_server.matching.book import Book
    from exchange_server.matching.market import Market

__all__ = ["MOST_PARTS", "Refusal", "has_tokens", "refusal_of"]

Refusal = tuple[RefuseReason, str]
"""Why, and the same in words."""

MOST_PARTS: Final = 1_000
"""An iceberg displays at least so small a part of its volume: one order that executes it all is that many matches."""

_BILLION: Final = 1_000_000_000
_EXCLUDING: Final = (
    (MARKET, POST_ONLY | HIDDEN | ICEBERG | EXPIRES),
    (IOC, POST_ONLY | HIDDEN | ICEBERG | EXPIRES),
    (POST_ONLY, HIDDEN),
    (HIDDEN, ICEBERG),
    (STOP, POST_ONLY | MINIMUM | AUCTIONS),
    (OPENING, ~(OPENING | MARKET)),
    (CLOSING, ~(CLOSING | MARKET)),
    (HALTED_ONLY, ~(HALTED_ONLY | MARKET)),
)
"""Attributes, and those that none of them goes with."""


def refusal_of(market: Market, order: Order, old: Order | None = None) -> Refusal | None:
    """Why an order is not taken, None if it is; `old` is the one that it is to replace.

    The account's request rate is used up by this.
    """
    account = market.accounts[order.account]
    if not has_tokens(account, market.now.time_ns):
        return RefuseReason.RATE, f"expected at most {account.limits.requests_per_s} requests in a second"
    if account.killed:
        return RefuseReason.KILLED, "the account is stopped"
    book = market.book_at[order.locate] if 0 < order.locate < len(market.book_at) else None
    if book is None:
        return RefuseReason.UNKNOWN_SYMBOL, "unknown symbol"
    if book.is_followed:
        return RefuseReason.REPLAYED, "replayed"
    return _phase(book, order) or _attributes(market, order) or _limits(market, book, account, order, old)


def has_tokens(account: Account, time_ns: int) -> bool:
    """Whether an account may make one more request at a time; it has made it then."""
    rate = account.limits.requests_per_s
    if not rate:
        return True
    account.bucket = min(rate * _BILLION, account.bucket + (time_ns - account.bucket_ns) * rate)
    account.bucket_ns = time_ns
    if account.bucket < _BILLION:
        return False
    account.bucket -= _BILLION
    return True


def _phase(book: Book, order: Order) -> Refusal | None:
    phase = book.phase
    if phase == "continuous":
        return None
    if phase == "closed":
        return RefuseReason.CLOSED, "closed"
    if phase == "halted":
        return RefuseReason.HALTED, "halted"
    if order.flags & (MARKET | IOC) and not order.flags & (STOP | AUCTIONS):
        return RefuseReason.HALTED, f"no execution now: {phase}"
    return None


def _attributes(market: Market, order: Order) -> Refusal | None:
    flags, volume = order.flags, order.volume
    if order.side not in {"B", "S"}:
        return RefuseReason.BAD_SIDE, f"expected a side B or S was {order.side}"
    if not 0 < volume <= INT64_MAX:
        return RefuseReason.BAD_VOLUME, f"expected a volume of 1 or more was {volume}"
    if not 0 <= order.price_ticks <= INT64_MAX:
        return RefuseReason.BAD_PRICE, f"expected a price of 0 or more was {order.price_ticks}"
    if flags & STOP and not 0 < order.stop_ticks <= INT64_MAX:
        return RefuseReason.BAD_PRICE, f"expected a stop price of 1 or more was {order.stop_ticks}"
    if flags & MINIMUM and not (flags & IOC and 0 < order.minimum <= volume):
        return (
            RefuseReason.BAD_MINIMUM,
            f"expected an immediate order and a minimum of 1 to {volume} was {order.minimum}",
        )
    if flags & ICEBERG and not (0 < order.display <= INT64_MAX and order.display * MOST_PARTS >= volume):
        least = -(-volume // MOST_PARTS)
        return RefuseReason.BAD_DISPLAY, f"expected a displayed volume of {least} or more was {order.display}"
    if flags & EXPIRES and not market.now.time_ns < order.expire_ns <= INT64_MAX:
        return RefuseReason.BAD_TIME, f"expected a time to come was {order.expire_ns}"
    for attributes, excluded in _EXCLUDING:
        if flags & attributes and flags & excluded:
            return RefuseReason.BAD_COMBINATION, "attributes that exclude each other"
    return None


def _limits(market: Market, book: Book, account: Account, order: Order, old: Order | None) -> Refusal | None:
    limits = account.limits
    if limits.open_orders and old is None and len(account.orders) >= limits.open_orders:
        return RefuseReason.OPEN_ORDERS, f"the account has {len(account.orders)} live orders and may have no more"
    worth = (order.price_ticks or book.reference()) * order.volume
    if limits.order_notional and worth > limits.order_notional:
        return RefuseReason.NOTIONAL, f"expected an order worth {limits.order_notional} or less was {worth}"
    if limits.open_notional:
        held = account.open_notional
        if old is not None:
            held -= old.price_ticks * (old.volume + old.reserve)
        if held + worth > limits.open_notional:
            return (
                RefuseReason.NOTIONAL,
                f"expected open orders worth {limits.open_notional} or less were {held + worth}",
            )
    if old is None and not market.has_room():
        return RefuseReason.MARKET_FULL, f"the market holds {market.live_orders} live orders and takes no more"
    return None
