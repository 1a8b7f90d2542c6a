"""OUCH's words for why the market refuses and ends orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from deltabook.wire import ouch5, ouch42
from exchange_server.matching.reasons import CancelReason, RefuseReason

__all__ = ["CANCELED_5", "CANCELED_42", "REJECTED_5", "REJECTED_42", "Refusal", "Rejection"]


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """A request that was wrong before it was an order, as its account's teller is told."""

    code: int | None
    """The protocol's own: of 5.0 a number, of 4.2 a letter's; None if there is none beside that for the reason."""
    echo: bytes
    """The request, as `Order.echo` has it."""


class Refusal(Exception):
    """A request makes no order."""

    def __init__(self, reason: RefuseReason, code: int | str, detail: str) -> None:
        """``reason``: the nearest of the market's; ``code``: the protocol's own."""
        super().__init__(detail)
        self.reason = reason
        self.code = ord(code) if isinstance(code, str) else int(code)


_R5: Final = ouch5.RejectReason
_R42: Final = ouch42.RejectReason

_REJECTED: Final[Mapping[RefuseReason, tuple[ouch5.RejectReason, ouch42.RejectReason]]] = {
    RefuseReason.UNKNOWN_SYMBOL: (_R5.INVALID_SYMBOL, _R42.INVALID_STOCK),
    RefuseReason.BAD_SIDE: (_R5.INVALID_SIDE, _R42.OTHER),
    RefuseReason.BAD_VOLUME: (_R5.INVALID_QUANTITY, _R42.SHARES_EXCEED_THRESHOLD),
    RefuseReason.BAD_PRICE: (_R5.INVALID_PRICE, _R42.INVALID_PRICE),
    RefuseReason.BAD_TICK: (_R5.INVALID_PRICE, _R42.INVALID_PRICE),
    RefuseReason.BAD_LOT: (_R5.INVALID_QUANTITY, _R42.ODD_LOT_RESTRICTION),
    RefuseReason.BAD_MINIMUM: (_R5.INVALID_MINIMUM_QUANTITY, _R42.INVALID_MINIMUM_QUANTITY),
    RefuseReason.BAD_DISPLAY: (_R5.INVALID_MAX_FLOOR, _R42.INVALID_DISPLAY),
    RefuseReason.BAD_TIME: (_R5.OTHER, _R42.OTHER),
    RefuseReason.BAD_COMBINATION: (_R5.RISK_ORDER_TYPE, _R42.OTHER),
    RefuseReason.HALTED: (_R5.HALTED, _R42.HALTED),
    RefuseReason.CLOSED: (_R5.DESTINATION_CLOSED, _R42.CLOSED),
    RefuseReason.REPLAYED: (_R5.RISK_RESTRICTED_STOCK, _R42.RESTRICTED_SYMBOL),
    RefuseReason.MARKET_FULL: (_R5.PROCESSING_ERROR, _R42.OTHER),
    RefuseReason.OPEN_ORDERS: (_R5.RISK_EXPOSURE, _R42.EXCEEDED_SHARES),
    RefuseReason.RATE: (_R5.RISK_PORT_RATE, _R42.OTHER),
    RefuseReason.NOTIONAL: (_R5.EXCEEDS_NOTIONAL, _R42.EXCEEDED_VALUE),
    RefuseReason.KILLED: (_R5.FIRM_NOT_AUTHORIZED, _R42.REJECT_ALL),
    RefuseReason.UNKNOWN_ORDER: (_R5.OTHER, _R42.OTHER),
    RefuseReason.FOREIGN_ORDER: (_R5.OTHER, _R42.OTHER),
    RefuseReason.UNKNOWN_ACTION: (_R5.OTHER, _R42.OTHER),
    RefuseReason.LATE: (_R5.INVALID_CROSS_ORDER, _R42.INVALID_CROSS),
    RefuseReason.EXHAUSTED: (_R5.OTHER, _R42.OTHER),
    RefuseReason.OTHER: (_R5.OTHER, _R42.OTHER),
}
_C5: Final = ouch5.CancelReason
_C42: Final = ouch42.CancelReason

_CANCELED: Final[Mapping[CancelReason, tuple[ouch5.CancelReason, ouch42.CancelReason]]] = {
    CancelReason.USER: (_C5.USER, _C42.USER),
    CancelReason.IMMEDIATE: (_C5.IMMEDIATE, _C42.IMMEDIATE),
    CancelReason.MARKET: (_C5.IMMEDIATE, _C42.IMMEDIATE),
    CancelReason.TIMEOUT: (_C5.TIMEOUT, _C42.TIMEOUT),
    CancelReason.SUPERVISORY: (_C5.SUPERVISORY, _C42.SUPERVISORY),
    CancelReason.SELF_TRADE: (_C5.SELF_MATCH, _C42.SELF_MATCH),
    CancelReason.COLLAR: (_C5.COLLARS, _C42.COLLARS),
    CancelReason.HALTED: (_C5.HALTED, _C42.HALTED),
    CancelReason.CLOSED: (_C5.CLOSED, _C42.CLOSED),
    CancelReason.POST_ONLY: (_C5.POST_ONLY_CONTRA, _C42.SYSTEM),
    CancelReason.CROSS: (_C5.SYSTEM, _C42.CROSS),
    CancelReason.DISCONNECT: (_C5.SYSTEM, _C42.SYSTEM),
    CancelReason.MINIMUM: (_C5.IMMEDIATE, _C42.IMMEDIATE),
    CancelReason.REPLACED: (_C5.USER, _C42.USER),
}

REJECTED_5: Final = {reason: int(codes[0]) for reason, codes in _REJECTED.items()}
"""The market's reason → two bytes of J in 5.0."""
REJECTED_42: Final = {reason: ord(codes[1]) for reason, codes in _REJECTED.items()}
"""The market's reason → letter of J in 4.2."""
CANCELED_5: Final = {reason: ord(codes[0]) for reason, codes in _CANCELED.items()}
"""The market's reason → letter of C in 5.0."""
CANCELED_42: Final = {reason: ord(codes[1]) for reason, codes in _CANCELED.items()}
"""The market's reason → letter of C in 4.2."""
