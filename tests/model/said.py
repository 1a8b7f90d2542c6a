"""Events of a market as tuples, of the real market and of the model alike."""

from __future__ import annotations

from typing import Any

import msgspec

from exchange_server.matching.inputs import Party, Wire
from exchange_server.matching.market import AccountProtocol
from exchange_server.matching.order import Account, CancelReason, Order, RefuseReason, SelfTrade, Side
from exchange_server.matching.outputs import FeedEncoder, Imbalance, Now, Teller, Touched

__all__ = ["Said", "SaidFeed", "SaidProtocol", "SaidTeller", "WireRequest"]

Said = tuple[object, ...]
"""Name of a call, its market time, and its arguments."""


class WireRequest(msgspec.Struct, array_like=True):
    """Request in the bytes of an account of `SaidProtocol`."""

    what: str
    """Kind of the request: enter, replace, cancel or modify."""
    of: int | bytes = 0
    """Owner's reference of the order to change."""
    ref: int | bytes = 0
    """Reference of the new order."""
    locate: int = 1
    side: Side = "B"
    volume: int = 0
    """Number of lots; for a cancel and a modification the lots to take off."""
    price_ticks: int = 0
    flags: int = 0
    display: int = 0
    minimum: int = 0
    stop_ticks: int = 0
    expire_ns: int = 0


class SaidFeed(FeedEncoder):
    """Feed as tuples. An order is represented by the fields that the call is about."""

    __slots__ = ("_now", "said")

    def __init__(self, now: Now) -> None:
        self._now = now
        self.said: list[Said] = []

    def _say(self, name: str, *fields: object) -> None:
        self.said.append((name, self._now.time_ns, *fields))

    def system(self, code: str) -> None:
        self._say("system", code)

    def listed(self, locate: int) -> None:
        self._say("listed", locate)

    def trading(self, locate: int, state: str, reason: str) -> None:
        self._say("trading", locate, state, reason)

    def added(self, order: Order) -> None:
        self._say("added", order.feed_id, order.locate, order.side, order.price_ticks, order.volume, order.broker_id)

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self._say("executed", order.feed_id, order.locate, order.volume, volume, price_ticks, match_id)

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self._say("crossed", order.feed_id, order.locate, order.volume, volume, price_ticks, match_id)

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        self._say("cross", locate, volume, price_ticks, match_id, kind)

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self._say("traded", order.locate, order.side, volume, price_ticks, match_id)

    def reduced(self, order: Order, volume: int) -> None:
        self._say("reduced", order.feed_id, order.locate, order.volume, volume)

    def deleted(self, order: Order, volume: int) -> None:
        self._say("deleted", order.feed_id, order.locate, order.price_ticks, volume)

    def replaced(self, old: Order, order: Order) -> None:
        self._say("replaced", old.feed_id, old.volume, order.feed_id, order.locate, order.price_ticks, order.volume)

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        self._say("printed", locate, broker_id, volume, price_ticks, match_id)

    def imbalance(self, found: Imbalance) -> None:
        self._say("imbalance", *found)

    def busted(self, locate: int, match_id: int) -> None:
        self._say("busted", locate, match_id)

    def take(self) -> tuple[bytes, int]:
        """Return nothing: readers of the tuples use `said`."""
        return b"", 0

    def state(self) -> object:
        return None

    def restore(self, state: object) -> None:
        assert state is None


class SaidTeller(Teller):
    """Private stream of one account as tuples."""

    __slots__ = ("_now", "account", "said")

    def __init__(self, account: Account, now: Now) -> None:
        self.account = account
        self._now = now
        self.said: list[Said] = []

    def _say(self, name: str, *fields: object) -> None:
        self.said.append((name, self._now.time_ns, *fields))

    def accepted(self, order: Order) -> None:
        self._say("accepted", *_whole(order))

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        assert isinstance(detail, str)
        self._say("refused", ref, RefuseReason(reason).name)

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None:
        self._say("executed", order.order_id, order.ref, _left(order), volume, price_ticks, liquidity, match_id)

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
        self._say("canceled", order.order_id, order.ref, _left(order), volume, CancelReason(reason).name, ref)

    def prevented(
        self, order: Order, volume: int, prevented: int, price_ticks: int, liquidity: str, policy: SelfTrade
    ) -> None:
        self._say(
            "prevented", order.order_id, order.ref, _left(order), volume, prevented, price_ticks, liquidity, policy
        )

    def replaced(self, old: Order, order: Order) -> None:
        self._say("replaced", old.order_id, old.ref, *_whole(order))

    def modified(self, order: Order) -> None:
        self._say("modified", order.order_id, order.ref, _left(order))

    def refreshed(self, order: Order) -> None:
        self._say("refreshed", order.order_id, order.feed_id, order.volume, order.reserve)

    def busted(self, party: Party, match_id: int) -> None:
        self._say("busted", party.order_id, party.ref, party.volume, party.price_ticks, match_id)

    def triggered(self, order: Order) -> None:
        self._say("triggered", order.order_id, order.ref, _left(order))

    def system(self, code: str) -> None:
        self._say("system", code)

    def take(self) -> tuple[bytes, int]:
        """Return nothing: readers of the tuples use `said`."""
        return b"", 0


def _left(order: Order) -> int:
    return order.volume + order.reserve


def _whole(order: Order) -> Said:
    attributes = (order.flags, order.display, order.minimum, order.stop_ticks, order.expire_ns, order.executed)
    return (order.order_id, order.ref, order.locate, order.side, order.price_ticks, _left(order), *attributes)


class SaidProtocol(AccountProtocol):
    """Accounts whose tellers write tuples, and whose bytes are a list of `WireRequest` in msgpack.

    It calls the methods of a market like the protocols of sessions, for the real market and the model.
    """

    name = "said"

    def __init__(self) -> None:
        self.tellers: dict[str, SaidTeller] = {}
        """Tellers by the account's name."""

    def teller(self, account: Account, now: Now, touched: Touched) -> SaidTeller:
        teller = self.tellers[account.name] = SaidTeller(account, now)
        return teller

    def apply(self, market: Any, account: Account, item: Wire) -> str:
        """Carry out each request at a time of its own; an invalid one ends the session."""
        for number, request in enumerate(msgspec.msgpack.decode(item.data, type=list[WireRequest])):
            market.now.time_ns = item.time_ns + number
            if request.what not in {"enter", "replace", "cancel", "modify"}:
                return f"expected a request, was {request.what}"
            self._carry_out(market, account, request)
        return ""

    @staticmethod
    def _carry_out(market: Any, account: Account, request: WireRequest) -> None:
        old = None if request.what == "enter" else market.order_of(account, request.of)
        if request.what == "enter" or (request.what == "replace" and old is not None):
            order = Order(
                0, 0, old.locate if old else request.locate, old.side if old else request.side, request.price_ticks,
                request.volume, account.broker_id, account.index, request.ref, request.flags, 0, request.display,
                request.minimum, request.stop_ticks, request.expire_ns,
            )  # fmt: skip
            if old is None:
                market.enter(order)
            else:
                market.replace(old, order)
        elif old is not None:
            change = market.cancel if request.what == "cancel" else market.modify
            change(old, request.volume)
