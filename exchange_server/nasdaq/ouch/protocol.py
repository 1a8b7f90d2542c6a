"""Base of both versions of OUCH: how their requests are carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exchange_server.matching.account import Account
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.order import Order, Side
from exchange_server.matching.reasons import CancelReason, RefuseReason
from exchange_server.matching.requests import has_tokens
from exchange_server.nasdaq.ouch.reasons import Refusal, Rejection
from exchange_server.nasdaq.ouch.scale import Scales

__all__ = ["HEAD_BYTES", "SIDES", "OuchProtocol"]

HEAD_BYTES: Final = 3
"""Bytes of a packet in front of its message: length and type."""
SIDES: Final[Mapping[bytes, Side]] = {b"B": "B", b"S": "S", b"T": "S", b"E": "S"}
"""Short sales are sales."""


class OuchProtocol(AccountProtocol):
    """Reads requests of OUCH and carries them out.

    * A quantity is the whole chain's: of a replacement with what was executed before it, of a cancel or a modification
      what may be executed in all.
    * Ignored are repetitions, whatever is asked of an order that is not live, and cancels and modifications that would
      change nothing or make the order larger.
    * A replacement whose details cannot be ends the old order (C) and does not use its own name up.
    * What a new order asks for and the market does not have is rejected (J), and uses its name up.
    * Bytes that are no message end the session.
    """

    side_at: int
    """Offset of the side in `Order.echo`."""

    def __init__(self, rules: MarketRules) -> None:
        self._scales = Scales(rules.instruments)

    def _lot_of(self, order: Order) -> int:
        return self._scales.by_locate[order.locate][2]

    def _surplus(self, order: Order, quantity: int) -> int:
        """Open lots of an order beyond those that it may still execute if it is of so many shares in all."""
        may_execute = quantity // self._lot_of(order) - order.executed
        return order.volume + order.reserve - max(may_execute, 0)

    def _cancel(self, market: Market, account: Account, ref: int | bytes, quantity: int) -> None:
        order = market.order_of(account, ref)
        if order is not None:
            off = self._surplus(order, quantity)
            if off > 0:
                market.cancel(order, off, CancelReason.USER)

    def _modify(self, market: Market, account: Account, ref: int | bytes, side: bytes, quantity: int) -> None:
        order = market.order_of(account, ref)
        if order is None or SIDES.get(side) != order.side:
            return
        off, at = self._surplus(order, quantity), self.side_at
        if off < 0 or (off == 0 and side == order.echo[at : at + 1]):
            return
        if off == order.volume + order.reserve:
            market.cancel(order, off, CancelReason.USER)
            return
        order.echo = order.echo[:at] + side + order.echo[at + 1 :]
        market.modify(order, off)

    @staticmethod
    def _end(market: Market, order: Order) -> None:
        """End an order whose replacement is impossible."""
        market.cancel(order, order.volume + order.reserve, CancelReason.USER)

    @staticmethod
    def _refuse(market: Market, account: Account, ref: int | bytes, refusal: Refusal, echo: bytes) -> None:
        """A wrong request counts for the rate as well."""
        reason, rejection = refusal.reason, Rejection(refusal.code, echo)
        if not has_tokens(account, market.now.time_ns):
            reason, rejection = RefuseReason.RATE, Rejection(None, echo)
        market.shared.turn_down(account.index, ref, reason, str(refusal), rejection)
