"""What each input does to the market."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from exchange_server.matching import changing, phases
from exchange_server.matching.account import Account
from exchange_server.matching.inputs import (
    Bust,
    Cancel,
    Enter,
    Kill,
    MassCancel,
    OpenAccount,
    Phase,
    Recorded,
    Reduce,
    Replace,
    Tick,
    Wire,
)
from exchange_server.matching.order import MARKET, Order, Side
from exchange_server.matching.reasons import CancelReason, RefuseReason
from exchange_server.matching.recording import apply_recorded

if TYPE_CHECKING:
    from exchange_server.matching.market import Market

__all__ = ["VERBS"]

_SIDES: Final = frozenset({"B", "S"})


def _open_account(market: Market, item: OpenAccount) -> int:
    account = market.named.get(item.name)
    if account is None:
        account = Account(len(market.accounts), item.name, item.protocol, item.broker_id)
        market.add_account(account)
        market.tellers[account.index].system("S")
    rate = account.limits.requests_per_s
    account.broker_id, account.limits = item.broker_id, item.limits
    account.self_trade, account.cancel_on_disconnect = item.self_trade, item.cancel_on_disconnect
    account.open_notional = account.worth()
    if account.limits.requests_per_s != rate:
        # And only then: a client may ask for its settings again and again.
        account.bucket, account.bucket_ns = account.limits.requests_per_s * 10**9, item.time_ns
    market.look_at(account)
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
    elif not item.account or market.is_new(item.account, item.ref):
        market.enter_carefully(order, item)
    return order.order_id if order.order_id and order.volume > 0 else 0


def _reduce(market: Market, item: Reduce) -> int:
    order = _order_to_change(market, item)
    if order is None:
        return 0
    if item.volume <= 0:
        detail = f"expected a volume of 1 or more was {item.volume}"
        market.turn_down(item.account, item.ref, RefuseReason.BAD_VOLUME, detail, item)
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
    return 0 if order is None else changing.replace_or_reduce(market, order, item)


def _order_to_change(market: Market, item: Reduce | Cancel | Replace) -> Order | None:
    """The order of a request, None if it is refused or a retransmission."""
    account = item.account
    if account and not market.is_new(account, item.ref):
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
    market.turn_down(account, item.ref, reason, detail, item)
    return None


def _mass_cancel(market: Market, item: MassCancel) -> int:
    if item.account and item.ref and not market.is_new(item.account, item.ref):
        return 0
    if item.symbol and item.symbol not in market.books:
        if item.ref:
            detail = f"unknown symbol {item.symbol}"
            market.turn_down(item.account, item.ref, RefuseReason.UNKNOWN_SYMBOL, detail, item)
        return 0
    market.mass_cancel(item.account, item.symbol, CancelReason(item.reason), item.ref)
    return 0


def _kill(market: Market, item: Kill) -> int:
    if not 0 < item.account < len(market.accounts):
        return 0
    account = market.accounts[item.account]
    account.killed = item.killed
    market.look_at(account)
    if item.killed:
        market.mass_cancel(item.account, "", CancelReason.SUPERVISORY)
    return 0


def _phase(market: Market, item: Phase) -> int:
    phases.change(market, item)
    return 0


def _tick(market: Market, item: Tick) -> int:
    phases.tick(market)
    return 0


def _bust(market: Market, item: Bust) -> int:
    book = market.books.get(item.symbol)
    if book is not None:
        market.feed.busted(book.locate, item.match_id)
        for party in item.parties:
            market.tellers[party.account].busted(party, item.match_id)
    return 0


def _recorded(market: Market, item: Recorded) -> int:
    apply_recorded(market, item)
    return 0


def _wire(market: Market, item: Wire) -> str:
    account = market.accounts[item.account]
    protocol = market.protocols.get(account.protocol)
    if protocol is None:
        return f"nobody here speaks {account.protocol}"
    return protocol.apply(market, account, item)


VERBS: Final[Mapping[type, Callable[[Market, Any], int | str]]] = {
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
"""By the kind of input; what they return is what `Market.apply` returns."""
