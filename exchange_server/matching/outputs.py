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
from exchange_server.matching.order import Account, CancelReason, Order, RefuseReason, SelfTrade

__all__ = ["FeedEncoder", "FeedFan", "Imbalance", "Now", "Silence", "SilentTeller", "Teller", "Touched", "feed_of"]


class Now:
    """Market time of the event that is being published; the market sets it, and all listeners share it."""

    __slots__ = ("time_ns",)

    def __init__(self) -> None:
        self.time_ns = 0


class Imbalance(NamedTuple):
    """Result of an auction if it ended now; the fields are those of ITCH's message, in the same order."""

    locate: int
    """Number of the instrument."""
    paired: int
    """Number of lots that pair off at the reference price."""
    volume: int
    """Number of lots that do not pair off."""
    direction: str
    """Side of the unpaired lots: B, S, N for none, O for too few orders."""
    far_ticks: int
    """Cross price of the auction's own orders only, in ticks; 0 for none."""
    near_ticks: int
    """Cross price of all orders, in ticks; 0 for none."""
    reference_ticks: int
    """Reference price, in ticks."""
    kind: str
    """Kind of the auction, as in `FeedEncoder.cross`."""


class FeedEncoder(ABC):
    """One form of the public feed: displayed orders and trades only."""

    __slots__ = ()

    @abstractmethod
    def system(self, code: str) -> None:
        """Publish a state of the session: O S Q M E C, as in ITCH."""

    @abstractmethod
    def listed(self, locate: int) -> None:
        """Publish that an instrument is traded here."""

    @abstractmethod
    def trading(self, locate: int, state: str, reason: str) -> None:
        """Publish an instrument's state: T traded, H halted, P paused, Q orders are collected for an auction."""

    @abstractmethod
    def added(self, order: Order) -> None:
        """Publish that `order.volume` lots are displayed, behind all others of the price."""

    @abstractmethod
    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """Publish an execution of a displayed order, at its limit price except in some recordings.

        `order.volume` is the remaining displayed volume: 0 means that the order has ended.
        """

    @abstractmethod
    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """Publish an execution as a part of an auction's cross, which is a trade of its own (see `cross`)."""

    @abstractmethod
    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        """Publish the whole trade of an auction, after the `crossed` events of its orders.

        The kind of the auction is O (opening), C (closing) or H (after a halt).
        """

    @abstractmethod
    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """Publish that `volume` lots of an undisplayed order were executed."""

    @abstractmethod
    def reduced(self, order: Order, volume: int) -> None:
        """Publish that a displayed order lost `volume` lots and keeps its place; `order.volume` is the rest."""

    @abstractmethod
    def deleted(self, order: Order, volume: int) -> None:
        """Publish that a displayed order has ended; `volume` is its last displayed volume."""

    @abstractmethod
    def replaced(self, old: Order, order: Order) -> None:
        """Publish that ``order`` has replaced a displayed order; it has the same side and broker, and is last at its
        price.

        `old.volume` is the displayed volume of the old order.
        """

    @abstractmethod
    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        """Publish a trade of a recording in which no order of this market took part."""

    @abstractmethod
    def imbalance(self, imbalance: Imbalance) -> None:
        """Publish how an auction would end now."""

    @abstractmethod
    def busted(self, locate: int, match_id: int) -> None:
        """Publish that a trade is void."""

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
    """Tellers whose buffers are not empty.

    Each teller adds itself once, and the caller that takes the tellers' output clears the list.
    """


class Teller(ABC):
    """Private stream of one account: events of its orders and requests."""

    __slots__ = ()

    account: Account

    @abstractmethod
    def accepted(self, order: Order) -> None:
        """Publish that an order was accepted and has its `order_id`. If the order ends at once, the event of its end
        follows.
        """

    @abstractmethod
    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """Publish that a request has no effect.

        `detail` is the reason in words; `item` is the request, for further fields of the answer.
        """

    @abstractmethod
    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None:
        """Publish that `volume` lots were executed; `order.volume` + `order.reserve` is the rest.

        ``liquidity`` is A for a resting order, J for a resting undisplayed order, R for an order that takes liquidity,
        and O, C or H for an execution in that kind of auction.
        """

    @abstractmethod
    def busted(self, party: Party, match_id: int) -> None:
        """Publish that a trade of the account is void; its order stays as the trade left it."""

    @abstractmethod
    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
        """Publish that `volume` lots were cancelled; `order.volume` + `order.reserve` is the rest, 0 if the order has
        ended.

        `ref` is the reference of the request, or the order's own.
        """

    @abstractmethod
    def prevented(  # noqa: PLR0917 - the fields of the message
        self, order: Order, volume: int, prevented: int, price_ticks: int, liquidity: str, policy: SelfTrade
    ) -> None:
        """Publish that `volume` lots were cancelled in place of a trade of `prevented` lots with the same broker.

        ``liquidity`` is A for the resting order and R for the entering one; ``policy`` is that of the entering order's
        account.
        """

    @abstractmethod
    def replaced(self, old: Order, order: Order) -> None:
        """Publish that ``order``, which has its own id by now, has replaced ``old``."""

    @abstractmethod
    def modified(self, order: Order) -> None:
        """Publish that the owner of an order reduced it or changed its kind of sale; the order keeps its place."""

    @abstractmethod
    def refreshed(self, order: Order) -> None:
        """Publish that an iceberg displays its next part, with the new id `order.feed_id`, last at its price."""

    @abstractmethod
    def triggered(self, order: Order) -> None:
        """Publish that a trade reached a stop order, which enters the book."""

    @abstractmethod
    def system(self, code: str) -> None:
        """Publish a state of the session: S start of the day, E its end."""

    @abstractmethod
    def take(self) -> tuple[bytes, int]:
        """Return the records since the last call, and their number."""


class Silence(FeedEncoder):
    """Feed without listeners: for a single book, and for backtests that read the books."""

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
    """Teller that drops everything: for accounts of an unknown protocol, and for account 0 (agents and recordings)."""

    __slots__ = ("account",)

    def __init__(self, account: Account) -> None:
        self.account = account

    def accepted(self, order: Order) -> None: ...

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None: ...

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None: ...

    def busted(self, party: Party, match_id: int) -> None: ...

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None: ...

    def prevented(  # noqa: PLR0917 - the fields of the message
        self, order: Order, volume: int, prevented: int, price_ticks: int, liquidity: str, policy: SelfTrade
    ) -> None: ...

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
