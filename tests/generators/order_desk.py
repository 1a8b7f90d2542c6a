"""Market with a few accounts, and its events as short words."""

from __future__ import annotations

from typing import Any

from deltabook.wire.symbols import Instrument
from exchange_server.matching import (
    AnyInput,
    Cancel,
    Enter,
    Kill,
    Market,
    MarketRules,
    MassCancel,
    Now,
    OpenAccount,
    Phase,
    PhaseName,
    Reduce,
    Replace,
    Tick,
)
from exchange_server.matching.order import EXPIRES, ICEBERG, MINIMUM, STOP
from tests.model.said import SaidFeed, SaidProtocol

__all__ = ["AGENT", "OrderDesk"]

AGENT = ""
"""Agent without an account or notifications; its broker is 99."""


class OrderDesk:
    """Applies requests one at a time; `feed` and `told` return the events since their last call.

    Words of the feed: ``added 1 B 5@100``, ``executed 1 3@100``, ``traded B 3@100``, ``reduced 1 2``, ``deleted 1 5``,
    ``replaced 1 2 5@101``, ``crossed 1 3@100``, ``cross 3@100 O``, ``trading T``, ``system O``, ``imbalance …``; ids
    are feed ids.

    Words to an account: ``accepted 1``, ``executed 1 3@100 A left 2``, ``canceled 1 5 USER left 0``, ``refused
    BAD_VOLUME``, ``prevented 1 5 of 3``, ``replaced 1 2``, ``refreshed 1 as 4 2+8``, ``triggered 1``.
    """

    def __init__(self, symbols: tuple[str, ...] = ("ACME",), **rules: Any) -> None:
        instruments = tuple(Instrument(symbol, reference_price_ticks=100) for symbol in symbols)
        now, self.protocol = Now(), SaidProtocol()
        self._feed = SaidFeed(now)
        self.market = Market(MarketRules(instruments=instruments, **rules), [self._feed], [self.protocol], now)
        self.time_ns = 1_000
        self._refs: dict[str, int] = {}
        self._brokers = {AGENT: 99}
        self.apply(Tick(0))
        self.feed()

    def open(self, *names: str, **settings: Any) -> None:
        """Open accounts, each of a separate broker, counted from 1, unless `broker_id` is given."""
        for name in names:
            broker_id = self._brokers.get(name) or settings.get("broker_id") or len(self._brokers)
            values = {key: value for key, value in settings.items() if key != "broker_id"}
            self._brokers[name] = broker_id
            self.apply(OpenAccount(0, name, "said", broker_id, **values))
            self.told(name)

    def apply(self, item: AnyInput) -> int | str:
        """Apply an input, a nanosecond after the previous one."""
        self.time_ns += 1
        values = {name: getattr(item, name) for name in item.__struct_fields__}
        result = self.market.apply(type(item)(**(values | {"time_ns": self.time_ns})))
        self.market._check()
        return result

    def enter(
        self, who: str, side: str, volume: int, price: int = 0, flags: int = 0, *, symbol: str = "ACME",
        show: int = 0, minimum: int = 0, stop: int = 0, until: int = 0,
    ) -> int:  # fmt: skip
        """Enter a new order; return its id if it stays live."""
        flags |= ICEBERG * (show > 0) | MINIMUM * (minimum > 0) | STOP * (stop > 0) | EXPIRES * (until > 0)
        item = Enter(
            0, self._index(who), self._brokers[who], self._ref(who), symbol, side, volume, price, flags, show, minimum,
            stop, until,
        )  # fmt: skip
        return int(self.apply(item))

    def cancel(self, who: str, order_id: int) -> None:
        """Cancel an order."""
        self.apply(Cancel(0, self._index(who), self._brokers[who], self._ref(who), order_id))

    def reduce(self, who: str, order_id: int, volume: int) -> None:
        """Reduce an order by ``volume`` lots."""
        self.apply(Reduce(0, self._index(who), self._brokers[who], self._ref(who), order_id, volume))

    def replace(self, who: str, order_id: int, volume: int, price: int) -> int:
        """Replace an order by one of ``volume`` lots at this price; return the id of the live order."""
        item = Replace(0, self._index(who), self._brokers[who], self._ref(who), order_id, volume, price)
        return int(self.apply(item))

    def mass_cancel(self, who: str = AGENT, symbol: str = "") -> None:
        """Cancel all orders of one account, or of all."""
        self.apply(MassCancel(0, self._index(who), symbol))

    def kill(self, who: str, *, killed: bool = True) -> None:
        """Stop an account, or permit it to trade again."""
        self.apply(Kill(0, self._index(who), killed))

    def phase(self, phase: PhaseName, symbol: str = "ACME", reason: str = "") -> None:
        """Move a symbol to a phase."""
        self.apply(Phase(0, symbol, phase, reason))

    def feed(self) -> list[str]:
        """Return the feed's events since the last call."""
        said, self._feed.said = self._feed.said, []
        return [_feed_words(str(name), *fields) for name, _, *fields in said]

    def told(self, who: str) -> list[str]:
        """Return an account's events since the last call."""
        teller = self.protocol.tellers[who]
        said, teller.said = teller.said, []
        return [_teller_words(str(name), *fields) for name, _, *fields in said]

    def resting(self, symbol: str = "ACME") -> list[tuple[int, str, int, int]]:
        """Return id, side, displayed lots and price of the orders in the book, in priority."""
        orders = self.market.books[symbol].resting()
        return [(order.order_id, order.side, order.volume, order.price_ticks) for order in orders]

    def _index(self, who: str) -> int:
        account = self.market.account_named(who)
        return 0 if account is None else account.index

    def _ref(self, who: str) -> int:
        if who == AGENT:
            return 0
        self._refs[who] = self._refs.get(who, 0) + 1
        return self._refs[who]


def _feed_words(name: str, *fields: Any) -> str:
    if name == "added":
        feed_id, _, side, price, volume, _ = fields
        return f"added {feed_id} {side} {volume}@{price}"
    if name in {"executed", "crossed"}:
        feed_id, _, _, volume, price, _ = fields
        return f"{name} {feed_id} {volume}@{price}"
    if name == "traded":
        _, side, volume, price, _ = fields
        return f"traded {side} {volume}@{price}"
    if name == "cross":
        _, volume, price, _, kind = fields
        return f"cross {volume}@{price} {kind}"
    if name == "printed":
        _, broker, volume, price, _ = fields
        return f"printed {broker} {volume}@{price}"
    if name in {"reduced", "deleted"}:
        return f"{name} {fields[0]} {fields[3]}"
    if name == "replaced":
        old, _, new, _, price, volume = fields
        return f"replaced {old} {new} {volume}@{price}"
    if name == "trading":
        return " ".join(("trading", *fields[1:])).strip()
    return " ".join((name, *map(str, fields[0 if name == "system" else 1 :])))


def _teller_words(name: str, *fields: Any) -> str:
    if name == "executed":
        order_id, _, left, volume, price, liquidity, _ = fields
        return f"executed {order_id} {volume}@{price} {liquidity} left {left}"
    if name == "canceled":
        order_id, _, left, volume, reason, _ = fields
        return f"canceled {order_id} {volume} {reason} left {left}"
    if name == "prevented":
        order_id, _, left, volume, prevented, *_ = fields
        return f"prevented {order_id} {volume} of {prevented} left {left}"
    if name == "refused":
        return f"refused {fields[1]}"
    if name == "replaced":
        return f"replaced {fields[0]} {fields[2]}"
    if name == "refreshed":
        order_id, feed_id, volume, reserve = fields
        return f"refreshed {order_id} as {feed_id} {volume}+{reserve}"
    return f"{name} {fields[0]}"
