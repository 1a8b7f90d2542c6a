"""Random requests of every kind to the exchange's market, with few prices and orders, so that orders match.

`RequestFlow` is fast and takes a seed: for long runs. `request_lists` are short, and Hypothesis can shrink them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec
from hypothesis import strategies as st

from deltabook.wire.symbols import Instrument
from exchange_server.matching.inputs import (
    REMAIN,
    AnyInput,
    Bust,
    Cancel,
    Enter,
    Kill,
    MarketRules,
    MassCancel,
    OpenAccount,
    Phase,
    PhaseName,
    Recorded,
    Reduce,
    Replace,
    Tick,
    Wire,
)
from exchange_server.matching.order import (
    CLOSING,
    EXPIRES,
    HALTED_ONLY,
    HIDDEN,
    ICEBERG,
    IOC,
    MINIMUM,
    OPENING,
    POST_ONLY,
    STOP,
    AccountLimits,
    Order,
    Side,
)
from tests.model.said import WireRequest

__all__ = ["START_NS", "RequestFlow", "opening_requests", "random_rules", "request_lists"]

START_NS: Final = 1_700_000_000_000_000_000
_PHASES: Final[tuple[PhaseName, ...]] = (
    "auction-open", "auction-close", "auction-halt", "halted", "paused", "closed", "continuous",
)  # fmt: skip
_AUCTION_FLAGS: Final = (OPENING, CLOSING, HALTED_ONLY)
_SELF_TRADES: Final = ("allow", "newest", "oldest", "both", "decrement")
_KINDS: Final = {
    0: 40, IOC: 8, IOC | MINIMUM: 6, POST_ONLY: 6, HIDDEN: 7, ICEBERG: 9, POST_ONLY | ICEBERG: 1, EXPIRES: 3,
    EXPIRES | HIDDEN: 1, EXPIRES | ICEBERG: 1, STOP: 5, STOP | ICEBERG: 1, STOP | HIDDEN: 1, STOP | IOC: 1,
    STOP | EXPIRES: 1, OPENING: 2, CLOSING: 2, HALTED_ONLY: 2,
}  # fmt: skip
_MARKET_KINDS: Final = {0: 10, IOC: 1, IOC | MINIMUM: 2, STOP: 3, OPENING: 2, CLOSING: 2, HALTED_ONLY: 2}
_ALL_FLAGS: Final = IOC | MINIMUM | POST_ONLY | HIDDEN | ICEBERG | STOP | EXPIRES | OPENING | CLOSING | HALTED_ONLY


_WIDE: Final = (-5, -4, -3, -3, -2, -2, -1, -1, 0, 0, 1, 2, 3)
_NARROW: Final = (-1, 0, 0, 0, 1)
"""Distance of a buyer's bid above 100, and of a seller's offer below 100."""


def _weight(kind: int, kinds: Mapping[int, int], likes_auctions: bool) -> int:
    return kinds[kind] * (5 if likes_auctions and kind & (OPENING | CLOSING | HALTED_ONLY | HIDDEN) else 1)


def random_rules(chance: random.Random, *, plays: bool = True) -> MarketRules:
    """Return the rules of a market of one to three symbols."""
    symbols = ("ACME", "GLOBEX", "INITECH")[: chance.choice((1, 2, 2, 3))]
    replay = symbols[-1] if plays and len(symbols) > 1 and chance.random() < 0.4 else ""
    return MarketRules(
        instruments=tuple(Instrument(symbol, reference_price_ticks=100) for symbol in symbols),
        replay_symbols=(replay,) if replay else (),
        replay_mode=chance.choice(("as-recorded", "as-orders")),
        outlier_factor=chance.choice((0, 3)),
        first_order_id=1_000_000 if replay else chance.choice((1, 1, 500)),
        max_live_orders=chance.choice((1_000_000, 1_000_000, 25)),
        collar_bps=chance.choice((0, 0, 200, 500)),
        opens_with_auction=chance.random() < 0.3,
    )


def _limits(chance: random.Random) -> AccountLimits:
    if chance.random() < 0.6:
        return AccountLimits()
    return AccountLimits(
        requests_per_s=chance.choice((0, 0, 3, 1_000)),
        open_orders=chance.choice((0, 0, 4, 20)),
        order_notional=chance.choice((0, 0, 1_000)),
        open_notional=chance.choice((0, 0, 1_000, 4_000)),
    )


def opening_requests(chance: random.Random, time_ns: int, protocols: Sequence[str] = ("said",)) -> list[OpenAccount]:
    """Return requests that open accounts, some of them of one broker."""
    return [
        OpenAccount(
            time_ns + index, f"text:{index}", chance.choice(protocols), chance.choice((1, 2, 3)), _limits(chance),
            chance.choice(_SELF_TRADES), chance.random() < 0.5,
        )
        for index in range(1, chance.randint(3, 6))
    ]  # fmt: skip


class RequestFlow:
    """Requests one after another; their orders are chosen among the live ones."""

    def __init__(
        self, chance: random.Random, rules: MarketRules, accounts: Sequence[OpenAccount], time_ns: int
    ) -> None:
        self._chance = chance
        self._rules = rules
        self._accounts = list(accounts)
        self.time_ns = time_ns
        self._refs = [0] * (len(accounts) + 1)
        self._symbols = [instrument.symbol for instrument in rules.instruments]
        self._phases: dict[str, PhaseName] = dict.fromkeys(
            self._symbols, "auction-open" if rules.opens_with_auction else "continuous"
        )
        self._recorded = 0
        self._pace_ns = chance.choice((1, 1_000, 10_000_000, 500_000_000))
        self._offsets = chance.choice((_WIDE, _WIDE, _NARROW))
        likes_auctions = chance.random() < 0.3
        weights = {
            self._enter: 550, self._reduce: 80, self._cancel: 120, self._replace: 130, self._mass_cancel: 8,
            self._kill: 9, self._phase: 60 if likes_auctions else 12,
            self._tick: 60 if likes_auctions else 15, self._bust: 3, self._wire: 100, self._account: 4,
            self._record: 200 if rules.replay_symbols else 0,
        }  # fmt: skip
        self._acts = list(weights), list(accumulate(weights.values()))
        self._kinds, self._market_kinds = (
            (list(kinds), list(accumulate(_weight(kind, kinds, likes_auctions) for kind in kinds)))
            for kinds in (_KINDS, _MARKET_KINDS)
        )

    def next(self, live: Sequence[Order]) -> AnyInput:
        """Return one request, given the live orders."""
        chance = self._chance
        self.time_ns += 1 + int(chance.random() * self._pace_ns)
        if live and chance.random() * 120 < len(live) - 40:
            return self._cancel(live)
        if chance.random() < 0.04 and any(phase != "continuous" for phase in self._phases.values()):
            return self._to("continuous", chance.choice([s for s, p in self._phases.items() if p != "continuous"]))
        (act,) = chance.choices(self._acts[0], cum_weights=self._acts[1])
        return act(live)

    def _ref(self, account: int) -> int:
        if not account:
            return 0
        if self._chance.random() < 0.01:
            return max(0, self._refs[account] - self._chance.randrange(3))
        self._refs[account] += 1 if self._chance.random() < 0.98 else 5
        return self._refs[account]

    def _who(self) -> tuple[int, int]:
        account = self._chance.randrange(len(self._accounts) + 1)
        broker = self._accounts[account - 1].broker_id if account else self._chance.choice((1, 2, 9))
        return account, broker

    def _symbol(self) -> str:
        return self._chance.choice(self._symbols) if self._chance.random() < 0.995 else "NOPE"

    def _price(self, side: str) -> int:
        """Return a price near 100: for a buy more often below 100, for a sell above it."""
        return 100 + self._chance.choice(self._offsets) * (1 if side == "B" else -1)

    def _volume(self) -> int:
        return self._chance.choice((1, 1, 2, 2, 3, 4, 5, 7, 10, 15))

    def _enter(self, live: Sequence[Order]) -> AnyInput:
        chance = self._chance
        account, broker = self._who()
        side = chance.choice("BS")
        price, volume, kinds = self._price(side), self._volume(), self._kinds
        if chance.random() < 0.12:
            price, kinds = 0, self._market_kinds
        (flags,) = chance.choices(kinds[0], cum_weights=kinds[1])
        if chance.random() < 0.02:
            flags |= chance.getrandbits(11) & chance.getrandbits(11) & _ALL_FLAGS
        display = minimum = stop = expires = 0
        if flags & ICEBERG:
            display, volume = chance.choice((1, 1, 2, 3)), volume * 2
        if flags & MINIMUM:
            minimum = chance.choice((1, 2, volume, volume))
        if flags & STOP:
            stop = 100 + chance.choice((-1, 0, 1, 1, 2, 3)) * (1 if side == "B" else -1)
        if flags & EXPIRES:
            expires = self.time_ns + int(chance.random() * 30 * self._pace_ns)
        if chance.random() < 0.01:
            volume, price, minimum, display, stop = chance.choice(
                ((0, 100, 1, 1, 1), (-3, 100, 1, 1, 1), (2**63, 100, 1, 1, 1), (5, -1, 1, 1, 1), (5, 100, 6, 0, 0))
            )
        if chance.random() < 0.002:
            side = "T"
        return Enter(
            self.time_ns, account, broker, self._ref(account), self._symbol(), side, volume, price, flags, display,
            minimum, stop, expires,
        )  # fmt: skip

    def _wire(self, live: Sequence[Order]) -> AnyInput:
        """Return up to three requests of one account in one piece; their references are numbers or tokens."""
        chance = self._chance
        account = chance.randint(1, len(self._accounts))
        mine = [order for order in live if order.account == account] or list(live)
        requests = []
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            what = chance.choice(("enter", "enter", "replace", "replace", "cancel", "modify"))
            of: int | bytes = chance.choice(mine).ref if mine and chance.random() < 0.95 else 7
            ref: int | bytes = self._ref(account)
            if chance.random() < 0.3:
                ref = b"T%d" % chance.randrange(40)
            side: Side = chance.choice(("B", "S"))
            flags = chance.choice((0, 0, 0, HIDDEN, ICEBERG, IOC, POST_ONLY, STOP))
            requests.append(
                WireRequest(
                    what, of, ref, chance.randint(1, len(self._symbols)), side, self._volume(), self._price(side),
                    flags, 2, 0, 101 if side == "B" else 99,
                )
            )  # fmt: skip
        start_ns, self.time_ns = self.time_ns, self.time_ns + len(requests)
        return Wire(start_ns, account, msgspec.msgpack.encode(requests))

    def _target(self, live: Sequence[Order]) -> tuple[int, int, int, Order | None]:
        """Return account, broker, order id, and the order, if there is one."""
        chance = self._chance
        if not live or chance.random() < 0.03:
            account, broker = self._who()
            return account, broker, chance.choice((0, 1, 7, self._rules.first_order_id + chance.randrange(50))), None
        order = live[int(chance.random() * len(live))]
        if chance.random() < 0.03:
            return *self._who(), order.order_id, order
        return order.account, order.broker_id, order.order_id, order

    def _reduce(self, live: Sequence[Order]) -> AnyInput:
        account, broker, order_id, _ = self._target(live)
        volume = self._chance.choice((1, 1, 2, 3, 5, 100, 0, -1))
        return Reduce(self.time_ns, account, broker, self._ref(account), order_id, volume, self._symbol())

    def _cancel(self, live: Sequence[Order]) -> AnyInput:
        account, broker, order_id, _ = self._target(live)
        return Cancel(self.time_ns, account, broker, self._ref(account), order_id, self._symbol())

    def _replace(self, live: Sequence[Order]) -> AnyInput:
        chance = self._chance
        account, broker, order_id, order = self._target(live)
        price = self._price(order.side if order else "B")
        volume = self._volume()
        if order is not None and chance.random() < 0.4:
            price = order.price_ticks
            volume = chance.choice((order.volume + order.reserve, volume))
        if chance.random() < 0.03:
            price, volume = chance.choice(((0, 5), (-1, 5), (100, 0), (100, -2)))
        return Replace(self.time_ns, account, broker, self._ref(account), order_id, volume, price, self._symbol())

    def _mass_cancel(self, live: Sequence[Order]) -> AnyInput:
        chance = self._chance
        account, _ = self._who()
        ref = self._ref(account) if chance.random() < 0.5 else 0
        symbol = chance.choice(("", self._symbol()))
        return MassCancel(self.time_ns, account, symbol, chance.choice((1, 5, 12)), ref)

    def _kill(self, live: Sequence[Order]) -> AnyInput:
        account = self._chance.randint(1, len(self._accounts))
        return Kill(self.time_ns, account, self._chance.random() < 0.12)

    def _phase(self, live: Sequence[Order]) -> AnyInput:
        symbol = self._chance.choice((*self._symbols, *self._symbols, "", "NOPE"))
        return self._to(self._chance.choice(_PHASES), symbol)

    def _to(self, phase: PhaseName, symbol: str) -> AnyInput:
        played = self._rules.replay_symbols if self._rules.replay_mode == "as-orders" else ()
        if played and symbol in {"", *played}:
            symbol = "NOPE"
        for name in self._symbols:
            if symbol in {"", name}:
                self._phases[name] = phase
        return Phase(self.time_ns, symbol, phase, self._chance.choice(("", "T1", "LUDP")))

    def _tick(self, live: Sequence[Order]) -> AnyInput:
        return Tick(self.time_ns)

    def _bust(self, live: Sequence[Order]) -> AnyInput:
        return Bust(self.time_ns, self._chance.randint(1, 100), self._symbol())

    def _account(self, live: Sequence[Order]) -> AnyInput:
        chance = self._chance
        index = chance.randrange(len(self._accounts))
        changed = msgspec.structs.replace(
            self._accounts[index], time_ns=self.time_ns, limits=_limits(chance),
            self_trade=chance.choice(_SELF_TRADES),
        )  # fmt: skip
        self._accounts[index] = changed
        return changed

    def _record(self, live: Sequence[Order]) -> AnyInput:
        chance = self._chance
        self._recorded += 1
        action = chance.choice(("B", "S", "B", "S", "B", "S", "E", "F", "D", "X", "U", "U", "T", "C", REMAIN))
        is_new = action in {"B", "S"} and chance.random() < 0.95
        order_id = self._recorded if is_new else max(1, self._recorded - chance.choice((0, 1, 2, 3, 5, 9, 20)))
        price = self._price(action) if chance.random() < 0.9 else chance.choice((0, -1, 1_000))
        volume = self._volume() if chance.random() < 0.97 else 0
        broker, symbol = chance.choice((1, 2, 9)), chance.choice(self._rules.replay_symbols)
        new_id = self._recorded if action == "U" else 0
        return Recorded(self.time_ns, self._recorded, order_id, broker, action, volume, price, symbol, new_id)


Request = tuple[str, int, int, int, int, int, int, int]
"""Kind of request, account, side, volume, price, flags, order, and one more number."""

request_lists: st.SearchStrategy[list[Request]] = st.lists(
    st.tuples(
        st.sampled_from(("enter", "enter", "enter", "enter", "reduce", "cancel", "replace", "mass", "phase", "tick")),
        st.integers(0, 3),
        st.integers(0, 1),
        st.integers(0, 8),
        st.sampled_from((0, 98, 99, 100, 101, 102)),
        st.sampled_from((0, 0, 0, *_KINDS)),
        st.integers(1, 12),
        st.integers(0, 6),
    ),
    max_size=40,
)
"""Requests as small numbers, which `inputs_of` turns into inputs."""


def inputs_of(requests: Sequence[Request], time_ns: int, brokers: Sequence[int]) -> list[AnyInput]:
    """Return the inputs of these requests; ``brokers`` are those of accounts 1, 2, 3."""
    inputs: list[AnyInput] = []
    for ref, (what, account, side, volume, price, kind, order_id, number) in enumerate(requests, 1):
        now_ns = time_ns + ref * 10
        broker = brokers[account - 1] if account else 9
        own = ref if account else 0
        if what == "enter":
            flags = kind if price else kind & ~(POST_ONLY | HIDDEN | ICEBERG | EXPIRES)
            inputs.append(
                Enter(
                    now_ns, account, broker, own, "ACME", "BS"[side], volume, price, flags, number, number,
                    100 + number if side == 0 else 100 - number, now_ns + number * 20,
                )
            )  # fmt: skip
        elif what == "reduce":
            inputs.append(Reduce(now_ns, account, broker, own, order_id, volume))
        elif what == "cancel":
            inputs.append(Cancel(now_ns, account, broker, own, order_id))
        elif what == "replace":
            inputs.append(Replace(now_ns, account, broker, own, order_id, volume, price))
        elif what == "mass":
            inputs.append(MassCancel(now_ns, account, "", 1, own))
        elif what == "phase":
            inputs.append(Phase(now_ns, "", _PHASES[number]))
        else:
            inputs.append(Tick(now_ns))
    return inputs
