"""Requests of text clients as inputs of the market."""

from __future__ import annotations

from typing import Final

from deltabook.wire.text import PLAIN, OrderOptions, Request
from exchange_server.matching import order
from exchange_server.matching.account import Account
from exchange_server.matching.inputs import AnyInput, Cancel, Enter, MassCancel, Reduce, Replace
from exchange_server.matching.reasons import CancelReason

__all__ = ["input_of"]

_AUCTIONS: Final = {"": 0, "open": order.OPENING, "close": order.CLOSING, "halt": order.HALTED_ONLY}
_USER: Final = int(CancelReason.USER)


def input_of(request: Request, account: Account, time_ns: int) -> AnyInput:
    """Return the input of the market for a request of an account at a time."""
    r, index, action = request, account.index, request.action
    if action in {"B", "S"}:
        if r.options is not PLAIN:
            return _special(r, index, time_ns)
        flags = 0 if r.price else order.MARKET
        return Enter(time_ns, index, r.broker_id, r.client_id, r.symbol, action, r.volume, r.price, flags)
    if action == "D":
        return Cancel(time_ns, index, r.broker_id, r.client_id, r.order_id, r.symbol)
    if action == "X":
        return Reduce(time_ns, index, r.broker_id, r.client_id, r.order_id, r.volume, r.symbol)
    if action == "U":
        return Replace(time_ns, index, r.broker_id, r.client_id, r.order_id, r.volume, r.price, r.symbol)
    return MassCancel(time_ns, index, r.symbol, _USER, r.client_id)


def _special(request: Request, index: int, time_ns: int) -> Enter:
    r, options = request, request.options
    return Enter(
        time_ns,
        index,
        r.broker_id,
        r.client_id,
        r.symbol,
        r.action,
        r.volume,
        r.price,
        _flags(options) | (0 if r.price else order.MARKET),
        display=options.display or 0,
        minimum=options.minimum or 0,
        stop_ticks=options.stop_ticks or 0,
        expire_ns=options.expire_ns or 0,
    )


def _flags(options: OrderOptions) -> int:
    flags = _AUCTIONS[options.auction]
    for is_set, flag in (
        (options.immediate, order.IOC),
        (options.post_only, order.POST_ONLY),
        (options.hidden, order.HIDDEN),
        (options.minimum is not None, order.MINIMUM),
        (options.display is not None, order.ICEBERG),
        (options.stop_ticks is not None, order.STOP),
        (options.expire_ns is not None, order.EXPIRES),
    ):
        if is_set:
            flags |= flag
    return flags
