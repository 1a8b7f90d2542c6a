"""Common parts of both versions of OUCH: execution of requests, private streams, units, and codes of reasons.

Prices and shares of OUCH are ticks and lots of the market.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from deltabook.wire import ouch5, ouch42
from deltabook.wire.symbols import Instrument
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.order import Account, CancelReason, Order, RefuseReason, Side
from exchange_server.matching.outputs import Now, Teller, Touched
from exchange_server.matching.requests import has_tokens
from exchange_server.nasdaq.listing import list_instruments

__all__ = [
    "BROKEN",
    "CANCELED_5",
    "CANCELED_42",
    "DAY_NS",
    "HEAD_BYTES",
    "LARGEST_QUANTITY",
    "LIQUIDITY",
    "LIVE",
    "MARKET_UNITS",
    "REJECTED_5",
    "REJECTED_42",
    "SIDES",
    "ListedScales",
    "OuchProtocol",
    "OuchTeller",
    "Refusal",
    "Rejection",
]

MARKET_UNITS: Final = 2_000_000_000
"""Smallest price that marks a market order: $200,000."""
LARGEST_QUANTITY: Final = 999_999
NO_SCALE: Final = (0, 1, 1)
"""Scale of a symbol that is not listed; never used in a message."""


class ListedScales:
    """Scales of the listed instruments: by the eight bytes of their name, and by their locate."""

    __slots__ = ("by_locate", "by_stock")

    def __init__(self, instruments: Iterable[Instrument]) -> None:
        listed, unlisted = list_instruments(instruments)
        self.by_stock: dict[bytes, tuple[int, int, int]] = {}
        """Padded name → locate, ten-thousandths of the currency in a tick, shares in a lot."""
        self.by_locate: list[tuple[int, int, int]] = [NO_SCALE] * (len(listed) + len(unlisted) + 1)
        """Locate, ten-thousandths in a tick and shares in a lot, by locate."""
        for listing in listed.values():
            scale = (listing.locate, listing.tick_units, listing.lot_shares)
            self.by_stock[listing.symbol.encode("ascii").ljust(8)] = scale
            self.by_locate[listing.locate] = scale


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """Rejection of a request from which no order could be made, as passed to the account's teller."""

    code: int | None
    """Code of the protocol: a number in 5.0, the ASCII code of a letter in 4.2; None for the code of the market's
    reason.
    """
    echo: bytes
    """Bytes of the request, as in `Order.echo`."""


class Refusal(Exception):
    """Raised for a request from which no order can be made; the message is the detail of the refusal."""

    def __init__(self, reason: RefuseReason, code: int | str, detail: str) -> None:
        """Create a refusal with ``reason``, the nearest reason of the market, and ``code``, the protocol's own code."""
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
    CancelReason.CLOSED: (_C5.CLOSED, _C42.CLOSED),
    CancelReason.POST_ONLY: (_C5.POST_ONLY_CONTRA, _C42.SYSTEM),
    CancelReason.CROSS: (_C5.SYSTEM, _C42.CROSS),
    CancelReason.DISCONNECT: (_C5.SYSTEM, _C42.SYSTEM),
    CancelReason.MINIMUM: (_C5.IMMEDIATE, _C42.IMMEDIATE),
}

REJECTED_5: Final = {reason: int(codes[0]) for reason, codes in _REJECTED.items()}
"""The market's reason → two-byte code of message J in 5.0."""
REJECTED_42: Final = {reason: ord(codes[1]) for reason, codes in _REJECTED.items()}
"""The market's reason → letter of message J in 4.2."""
CANCELED_5: Final = {reason: ord(codes[0]) for reason, codes in _CANCELED.items()}
"""The market's reason → letter of message C in 5.0."""
CANCELED_42: Final = {reason: ord(codes[1]) for reason, codes in _CANCELED.items()}
"""The market's reason → letter of message C in 4.2."""


DAY_NS: Final = 86_400 * 10**9
"""Nanoseconds of a day: timestamps are market time modulo this, nanoseconds since midnight UTC."""
BROKEN: Final = b"S"
"""Reason of a broken trade: the exchange's operator declared it void."""
LIVE: Final = ord("L")
"""State of a live order."""
DEAD: Final = ord("D")
"""State of a dead order, about which no further message follows."""
LIQUIDITY: Final = {flag: ord(flag) for flag in "AJROCH"}
"""Liquidity flag of an execution → its byte in message E; see `Teller.executed`."""


class OuchTeller(Teller):
    """Buffers the sequenced packets of one account, each as one `bytes` object, until they are taken.

    A message costs some tenths of a microsecond: one call packs the order's numbers and `Order.echo`, which contains
    the fields of the request in the layout of the answer.
    """

    __slots__ = ("_midnight_ns", "_now", "_packets", "_scales", "_touched", "account")

    def __init__(self, account: Account, now: Now, touched: Touched, scales: ListedScales) -> None:
        self.account = account
        self._now = now
        self._touched = touched
        self._scales = scales.by_locate
        self._midnight_ns = 0
        self._packets: list[bytes] = []

    def _new_day(self) -> int:
        """Return the timestamp of the present time after the day has changed, and set the new midnight."""
        stamp = self._now.time_ns % DAY_NS
        self._midnight_ns = self._now.time_ns - stamp
        return stamp

    def _write(self, packet: bytes) -> None:
        packets = self._packets
        if not packets:
            self._touched.append(self)
        packets.append(packet)

    def take(self) -> tuple[bytes, int]:
        """Return the packets since the last call, and their number."""
        packets = self._packets
        count = len(packets)
        data = b"".join(packets)
        packets.clear()
        return data, count

    def triggered(self, order: Order) -> None:
        """Do nothing: OUCH has no stop orders."""

    def _accepted_dead(self, order: Order) -> bool:
        """Change the last packet into the acceptance of a dead order; False if that packet accepts another."""
        packets = self._packets
        if not packets or not self._takes(packets[-1], order):
            return False
        packet = packets[-1]
        state = self._state_at(packet)
        packets[-1] = packet[:state] + bytes((DEAD,)) + packet[state + 1 :]
        return True

    @staticmethod
    @abstractmethod
    def _takes(packet: bytes, order: Order) -> bool:
        """Return True if a packet reports that an order was accepted or is a replacement."""

    @staticmethod
    @abstractmethod
    def _state_at(packet: bytes) -> int:
        """Return the offset of the order's state in an acceptance or replacement packet."""


HEAD_BYTES: Final = 3
"""Number of bytes of a packet before its message: length and type."""
SIDES: Final[Mapping[bytes, Side]] = {b"B": "B", b"S": "S", b"T": "S", b"E": "S"}
"""Market side by OUCH side; short sales are sales."""


class OuchProtocol(AccountProtocol):
    """Decodes requests of OUCH and carries them out.

    * A quantity counts the whole chain of replacements. In a replacement it includes earlier executions; in a cancel or
      a modification it is the total that may be executed.
    * These requests are ignored: repetitions, requests for an order that is not live, and cancels and modifications
      that would enlarge the order or not change it.
    * A replacement with impossible details ends the old order (C) and does not use up its own reference.
    * A new order that the market does not support is rejected (J), and uses up its reference.
    * Bytes that are not a message end the session.
    """

    side_at: int
    """Offset of the side in `Order.echo`."""

    def __init__(self, rules: MarketRules) -> None:
        self._scales = ListedScales(rules.instruments)

    def _lot_of(self, order: Order) -> int:
        return self._scales.by_locate[order.locate][2]

    def _surplus(self, order: Order, quantity: int) -> int:
        """Return by how many lots the open part of an order exceeds the part that a total of ``quantity`` shares
        leaves.
        """
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
        """Refuse an invalid order; like a valid one, it counts towards the request rate."""
        reason, rejection = refusal.reason, Rejection(refusal.code, echo)
        if not has_tokens(account, market.now.time_ns):
            reason, rejection = RefuseReason.RATE, Rejection(None, echo)
        elif account.killed:
            reason, rejection = RefuseReason.KILLED, Rejection(None, echo)
        market.shared.turn_down(account.index, ref, reason, str(refusal), rejection)
