"""Listeners of the market: encoders of the public feed, and tellers that notify one account each.

The market calls them for each event, in the order of the events. Implementations append bytes to a buffer and do
nothing else: no I/O, no clock. Their output is a function of these calls (and of their own state, which is part of the
market's snapshot), so that the same journal gives the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from exchange_server.matching.inputs import Party
from exchange_server.matching.order import Account, CancelReason, Order, RefuseReason

__all__ = ["FeedEncoder", "FeedFan", "Imbalance", "Now", "Silence", "SilentTeller", "Teller", "Touched", "feed_of"]


class Now:
    """Market time of the event that is being published; the market sets it, all listeners share it."""

    __slots__ = ("time_ns",)

    def __init__(self) -> None:
        self.time_ns = 0


class Imbalance(NamedTuple):
    """Result of an auction if it ended now; the fields are those of ITCH's message, in its order."""

    locate: int
    """The instrument."""
    paired: int
    """Lots that pair off at the reference price."""
    volume: int
    """Lots that do not."""
    direction: str
    """On which side those are: B, S, N there are none, O too few orders to say."""
    far_ticks: int
    """The cross price of the auction's own orders alone, 0 for none."""
    near_ticks: int
    """The cross price of all orders, 0 for none."""
    reference_ticks: int
    """The reference price."""
    kind: str
    """As in `FeedEncoder.cross`."""


class FeedEncoder(ABC):
    """One form of the public feed: displayed orders and trades only."""

    __slots__ = ()

    @abstractmethod
    def system(self, code: str) -> None:
        """The session's state changed: O S Q M E C, as in ITCH."""

    @abstractmethod
    def listed(self, locate: int) -> None:
        """An instrument is traded here."""

    @abstractmethod
    def trading(self, locate: int, state: str, reason: str) -> None:
        """An instrument's state changed: T traded, H halted, P paused, Q orders are collected for an auction."""

    @abstractmethod
    def added(self, order: Order) -> None:
        """`order.volume` lots are displayed, behind all others of the price."""

    @abstractmethod
    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """`volume` lots of a displayed order were executed at its limit (another price: a recording). `order.volume` is
        what is left on display: 0 means that it is gone."""

    @abstractmethod
    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """The same, as a part of an auction's cross, which is a trade of its own (see `cross`)."""

    @abstractmethod
    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        """An auction's trade as a whole: O opening, C closing, H after a halt. Comes behind its `crossed`."""

    @abstractmethod
    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """`volume` lots of an order that is not displayed were executed."""

    @abstractmethod
    def reduced(self, order: Order, volume: int) -> None:
        """`volume` lots were taken off a displayed order, which keeps its place; `order.volume` is what is left."""

    @abstractmethod
    def deleted(self, order: Order, volume: int) -> None:
        """A displayed order is gone; `volume` is what was displayed of it."""

    @abstractmethod
    def replaced(self, old: Order, order: Order) -> None:
        """A displayed order became another, of the same side and broker, behind all others of its price. `old.volume`
        is what was displayed of it."""

    @abstractmethod
    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        """A recording has a trade in which no order of this market took part."""

    @abstractmethod
    def imbalance(self, imbalance: Imbalance) -> None:
        """An auction would end like this now."""

    @abstractmethod
    def busted(self, locate: int, match_id: int) -> None:
        """A trade is void."""

    @abstractmethod
    def take(self) -> tuple[bytes, int]:
        """Return the records since the last call, and their number."""

    @abstractmethod
    def state(self) -> object:
        """Return the encoder's part of a snapshot: plain data for msgpack."""

    @abstractmethod
    def restore(self, state: object) -> None:
        """Continue from a `state`."""


class Touched(list["Teller"]):
    """Tellers whose buffers are not empty; each enters itself once, and the caller that drains them clears the list."""


class Teller(ABC):
    """Private stream of one account: what becomes of its orders and requests."""

    __slots__ = ()

    account: Account

    @abstractmethod
    def accepted(self, order: Order) -> None:
        """An order was accepted and has its `order_id`. If it ends at once, the event that ends it follows."""

    @abstractmethod
    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """A request has no effect.

        `detail` is the reason in words; `item` is the request, for further fields of the answer.
        """

    @abstractmethod
    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None:
        """`volume` lots were executed; `order.volume` + `order.reserve` is what is left.

        Liquidity: A it was resting, J the same and not displayed, R it took, O C H in that auction.
        """

    @abstractmethod
    def busted(self, party: Party, match_id: int) -> None:
        """A trade of the account is void; its order stays as the trade has left it."""

    @abstractmethod
    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
        """`volume` lots of an order were cancelled; `order.volume` + `order.reserve` is left, 0 if it has ended. `ref`
        is that of the request, or the order's own."""

    @abstractmethod
    def prevented(self, order: Order, volume: int, prevented: int, price_ticks: int) -> None:
        """`volume` lots were cancelled in place of a trade of `prevented` lots with an order of the same broker."""

    @abstractmethod
    def replaced(self, old: Order, order: Order) -> None:
        """An order became another, which now has its own id."""

    @abstractmethod
    def modified(self, order: Order) -> None:
        """An order was made smaller or changed its kind of sale by its owner's modification; it keeps its place."""

    @abstractmethod
    def refreshed(self, order: Order) -> None:
        """An iceberg displays its next part, behind all others of its price, as `order.feed_id`."""

    @abstractmethod
    def triggered(self, order: Order) -> None:
        """A stop order was reached by a trade, and enters the book."""

    @abstractmethod
    def system(self, code: str) -> None:
        """The session's state changed: S start of the day, E its end."""

    @abstractmethod
    def take(self) -> tuple[bytes, int]:
        """Return the records since the last call, and their number."""


class Silence(FeedEncoder):
    """Feed without listeners: for a book by itself, and for backtests that look at the books."""

    __slots__ = ()

    def system(self, code: str) -> None: ...

    def listed(self, locate: int) -> None: ...

    def trading(self, locate: int, state: str, reason: str) -> None: ...

    def added(self, order: Order) -> None: ...

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None: ...

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None: ...

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None: ...

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None: ...

    def reduced(self, order: Order, volume: int) -> None: ...

    def deleted(self, order: Order, volume: int) -> None: ...

    def replaced(self, old: Order, order: Order) -> None: ...

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None: ...

    def imbalance(self, imbalance: Imbalance) -> None: ...

    def busted(self, locate: int, match_id: int) -> None: ...

    def take(self) -> tuple[bytes, int]:
        return b"", 0

    def state(self) -> object:
        return None

    def restore(self, state: object) -> None: ...


class SilentTeller(Teller):
    """Teller that drops everything: for accounts of an unknown protocol and, as number 0, for agents and recordings."""

    __slots__ = ("account",)

    def __init__(self, account: Account) -> None:
        self.account = account

    def accepted(self, order: Order) -> None: ...

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None: ...

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None: ...

    def busted(self, party: Party, match_id: int) -> None: ...

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None: ...

    def prevented(self, order: Order, volume: int, prevented: int, price_ticks: int) -> None: ...

    def replaced(self, old: Order, order: Order) -> None: ...

    def modified(self, order: Order) -> None: ...

    def refreshed(self, order: Order) -> None: ...

    def triggered(self, order: Order) -> None: ...

    def system(self, code: str) -> None: ...

    def take(self) -> tuple[bytes, int]:
        return b"", 0


class FeedFan(FeedEncoder):
    """Feed that passes every event to several encoders; their output is taken from the encoders themselves."""

    __slots__ = ("_encoders",)

    def __init__(self, encoders: Sequence[FeedEncoder]) -> None:
        self._encoders = tuple(encoders)

    def system(self, code: str) -> None:
        for encoder in self._encoders:
            encoder.system(code)

    def listed(self, locate: int) -> None:
        for encoder in self._encoders:
            encoder.listed(locate)

    def trading(self, locate: int, state: str, reason: str) -> None:
        for encoder in self._encoders:
            encoder.trading(locate, state, reason)

    def added(self, order: Order) -> None:
        for encoder in self._encoders:
            encoder.added(order)

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.executed(order, volume, price_ticks, match_id)

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.crossed(order, volume, price_ticks, match_id)

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        for encoder in self._encoders:
            encoder.cross(locate, volume, price_ticks, match_id, kind)

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.traded(order, volume, price_ticks, match_id)

    def reduced(self, order: Order, volume: int) -> None:
        for encoder in self._encoders:
            encoder.reduced(order, volume)

    def deleted(self, order: Order, volume: int) -> None:
        for encoder in self._encoders:
            encoder.deleted(order, volume)

    def replaced(self, old: Order, order: Order) -> None:
        for encoder in self._encoders:
            encoder.replaced(old, order)

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.printed(locate, broker_id, volume, price_ticks, match_id)

    def imbalance(self, imbalance: Imbalance) -> None:
        for encoder in self._encoders:
            encoder.imbalance(imbalance)

    def busted(self, locate: int, match_id: int) -> None:
        for encoder in self._encoders:
            encoder.busted(locate, match_id)

    def take(self) -> tuple[bytes, int]:
        return b"", 0

    def state(self) -> object:
        return None

    def restore(self, state: object) -> None: ...


def feed_of(encoders: Sequence[FeedEncoder]) -> FeedEncoder:
    """Return the feed of a market: its only encoder, a `FeedFan` of several, or `Silence` without any."""
    if not encoders:
        return Silence()
    return encoders[0] if len(encoders) == 1 else FeedFan(encoders)
