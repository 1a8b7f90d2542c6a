"""The text protocol inside the market: the feed as lines, requests as inputs, and the private streams of brokers."""

from __future__ import annotations

from typing import Final, cast

from deltabook.wire.text import PLAIN, OrderOptions, Request, reason_field
from exchange_server.matching import order
from exchange_server.matching.inputs import (
    AnyInput,
    Cancel,
    Enter,
    MarketRules,
    MassCancel,
    Party,
    Reduce,
    Replace,
    Wire,
)
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.market_state import INT64_MAX
from exchange_server.matching.order import Account, CancelReason, Order, RefuseReason, SelfTrade
from exchange_server.matching.outputs import Now, Silence, Teller, Touched

__all__ = ["PROTOCOL", "TextEncoder", "TextProtocol", "TextTeller", "account_name", "input_of"]


class TextEncoder(Silence):
    """Writes the lines that docs/wire.md describes, one for each message, numbered from 1.

    The lines contain displayed quantity and trades; a symbol's state, the imbalance of an auction and a void trade have
    no line. A cross is one trade without orders; the lines before it have reduced or ended its orders.
    """

    __slots__ = ("_append", "_lines", "_now", "_tails", "_taken", "next_sequence")

    def __init__(self, rules: MarketRules, now: Now) -> None:
        self._now = now
        self._tails = ("", *(f"{instrument.symbol}\n" for instrument in rules.instruments))
        self._lines: list[str] = []
        self._append = self._lines.append
        self._taken = 1
        self.next_sequence = 1
        """Number of the next line."""

    # Each line is one f-string, without shared functions: a call would add a third to the time of a line.

    def added(self, order: Order) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},{order.feed_id},{order.broker_id},{order.side},{order.volume},"
            f"{order.price_ticks},{self._tails[order.locate]}"
        )

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},{order.feed_id},{order.broker_id},{'E' if order.volume else 'F'},{volume},"
            f"{price_ticks},{self._tails[order.locate]}"
        )

    def reduced(self, order: Order, volume: int) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},{order.feed_id},{order.broker_id},X,{volume},"
            f"{order.price_ticks},{self._tails[order.locate]}"
        )

    def deleted(self, order: Order, volume: int) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},{order.feed_id},{order.broker_id},D,{volume},"
            f"{order.price_ticks},{self._tails[order.locate]}"
        )

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        if order.volume:
            self.reduced(order, volume)
        else:
            self.deleted(order, volume)

    def replaced(self, old: Order, order: Order) -> None:
        self.deleted(old, old.volume)
        self.added(order)

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        """Publish the trade of all orders together; a line's volume is limited to an int64."""
        self._trade(locate, 0, min(volume, INT64_MAX), price_ticks)

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self._trade(order.locate, 0, volume, price_ticks)

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        self._trade(locate, broker_id, volume, price_ticks)

    def _trade(self, locate: int, broker_id: int, volume: int, price_ticks: int) -> None:
        number = self.next_sequence
        self.next_sequence = number + 1
        self._append(
            f"{number},{self._now.time_ns},0,{broker_id},T,{volume},{price_ticks},{self._tails[locate]}",
        )

    def take(self) -> tuple[bytes, int]:
        """Return the lines since the last call, and their number."""
        data, count = "".join(self._lines).encode("ascii"), self.next_sequence - self._taken
        self._lines.clear()
        self._taken = self.next_sequence
        return data, count

    def state(self) -> object:
        """Return the number of the next line; all earlier lines must have been taken."""
        return self.next_sequence

    def restore(self, state: object) -> None:
        """Continue from a `state`."""
        self.next_sequence = self._taken = cast(int, state)
        self._lines.clear()


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


PROTOCOL: Final = "text"

_LIQUIDITY: Final = {"A": "maker", "J": "maker", "R": "taker", "O": "cross", "C": "cross", "H": "cross"}
_CANCELED: Final = {reason: reason.name.lower().replace("_", "-") for reason in CancelReason}


def account_name(broker_id: int) -> str:
    """Return the name of a broker's account in the market."""
    return f"text:{broker_id}"


class TextTeller(Teller):
    """Writes the lines of one broker's private stream, numbered by its account."""

    __slots__ = ("_broker_id", "_lines", "_now", "_symbols", "_touched", "account")

    def __init__(self, account: Account, symbols: tuple[str, ...], now: Now, touched: Touched) -> None:
        """Create a teller; ``symbols`` are indexed by locate."""
        self.account = account
        self._broker_id = account.broker_id
        self._symbols = symbols
        self._now = now
        self._touched = touched
        self._lines: list[str] = []

    # The lines of most orders are formatted in place, all others by `_write_order`.

    def accepted(self, order: Order) -> None:
        account, lines = self.account, self._lines
        number = account.next_message
        account.next_message = number + 1
        if not lines:
            self._touched.append(self)
        lines.append(
            f"{number},{self._now.time_ns},{order.order_id},{self._broker_id},A,{order.volume + order.reserve},"
            f"{order.price_ticks},{self._symbols[order.locate]},{order.ref!s},{order.side}\n"
        )

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None:
        account, lines = self.account, self._lines
        number = account.next_message
        account.next_message = number + 1
        if not lines:
            self._touched.append(self)
        lines.append(
            f"{number},{self._now.time_ns},{order.order_id},{self._broker_id},"
            f"{'E' if order.volume or order.reserve else 'F'},{volume},{price_ticks},{self._symbols[order.locate]},"
            f"{order.ref!s},{_LIQUIDITY[liquidity]}\n"
        )

    def busted(self, party: Party, match_id: int) -> None:
        self._write(
            f"{party.order_id},{self._broker_id},B,{party.volume},{party.price_ticks},{self._symbols[party.locate]},"
            f"{party.ref!s},{match_id}\n"
        )

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
        """Append D for an order that has ended, X for a reduced one, U for an unchanged one (0 lots)."""
        if not order.volume + order.reserve:
            self._write_order(order, "D", volume, order.price_ticks, order.ref, _CANCELED[reason])
        elif volume:
            self._write_order(order, "X", volume, order.price_ticks, ref, _CANCELED[reason])
        else:
            self._write_order(order, "U", order.volume + order.reserve, order.price_ticks, ref, order.order_id)

    def prevented(  # noqa: PLR0917 - the fields of the message
        self, order: Order, volume: int, prevented: int, price_ticks: int, liquidity: str, policy: SelfTrade
    ) -> None:
        self.canceled(order, volume, CancelReason.SELF_TRADE, order.ref)

    def replaced(self, old: Order, order: Order) -> None:
        self._write_order(order, "U", order.volume + order.reserve, order.price_ticks, order.ref, old.order_id)

    def modified(self, order: Order) -> None:
        self._write_order(order, "U", order.volume + order.reserve, order.price_ticks, order.ref, order.order_id)

    def refreshed(self, order: Order) -> None:
        self._write_order(order, "N", order.volume, order.price_ticks, order.ref, order.feed_id)

    def triggered(self, order: Order) -> None:
        self._write_order(order, "T", order.volume + order.reserve, order.price_ticks, order.ref, order.stop_ticks)

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """Append R with the request's own figures, as far as it has any, and the reason in words."""
        del reason
        words = reason_field(detail)
        order_id, volume = getattr(item, "order_id", 0), getattr(item, "volume", 0)
        price, symbol = getattr(item, "price_ticks", 0), getattr(item, "symbol", "")
        self._write(f"{order_id},{self._broker_id},R,{volume},{price},{symbol},{ref!s},{words}\n")

    def system(self, code: str) -> None:
        """Do nothing: brokers learn the state from the lines that they get."""

    def _write_order(  # noqa: PLR0917 - the fields of the line, in its order
        self, order: Order, action: str, volume: int, price: int, ref: int | bytes, detail: str | int
    ) -> None:
        account = self.account
        number = account.next_message
        account.next_message = number + 1
        lines = self._lines
        if not lines:
            self._touched.append(self)
        lines.append(
            f"{number},{self._now.time_ns},{order.order_id},{self._broker_id},{action},{volume},{price},"
            f"{self._symbols[order.locate]},{ref!s},{detail}\n"
        )

    def _write(self, fields: str) -> None:
        account = self.account
        if not self._lines:
            self._touched.append(self)
        self._lines.append(f"{account.next_message},{self._now.time_ns},{fields}")
        account.next_message += 1

    def take(self) -> tuple[bytes, int]:
        """Return the lines since the last call, and their number."""
        lines = self._lines
        data, count = "".join(lines).encode("ascii", "replace"), len(lines)
        lines.clear()
        return data, count


class TextProtocol(AccountProtocol):
    """Protocol of the accounts ``text:BROKER``, whose requests are inputs of their own instead of bytes."""

    name = PROTOCOL

    def __init__(self, rules: MarketRules) -> None:
        self._symbols = ("", *(instrument.symbol for instrument in rules.instruments))

    def teller(self, account: Account, now: Now, touched: Touched) -> TextTeller:
        """Return a teller for a broker."""
        return TextTeller(account, self._symbols, now, touched)

    def apply(self, market: Market, account: Account, item: Wire) -> str:
        """Return a refusal: no text session sends packets."""
        return f"expected no packets of {account.name}, was {len(item.data)} bytes"
