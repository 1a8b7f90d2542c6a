"""What the market says: to everybody (a feed) and to an order's owner (a teller), whoever writes it down and how.

The market calls these for each thing that happens, in the order in which it happens. Implementations append bytes to a
buffer and do nothing else: no I/O, no clock. What they say is a function of these calls (and of their own state, which
is part of the market's snapshot), so that the same journal gives the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from exchange_server.matching.order import Order
from exchange_server.matching.reasons import CancelReason, RefuseReason

if TYPE_CHECKING:
    from exchange_server.matching.account import Account
    from exchange_server.matching.inputs import Party, Wire
    from exchange_server.matching.market import Market

__all__ = ["AccountProtocol", "FeedEncoder", "Imbalance", "Now", "Teller", "Touched"]


class Now:
    """Market time of what is being said; shared by the market (which sets it) and all that write."""

    __slots__ = ("time_ns",)

    def __init__(self) -> None:
        self.time_ns = 0


class Imbalance(NamedTuple):
    """How an auction would end now; the fields are those of ITCH's message, in its order."""

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
    """One form of the feed: displayed orders and trades only. `take` gives what was said since the last call."""

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
        """A trade that a recording tells of, and no order of this market took part in."""

    @abstractmethod
    def imbalance(self, found: Imbalance) -> None:
        """How an auction would end now."""

    @abstractmethod
    def busted(self, locate: int, match_id: int) -> None:
        """A trade is void."""

    @abstractmethod
    def take(self) -> tuple[bytes, int]:
        """The records since the last call, and how many they are."""

    @abstractmethod
    def state(self) -> object:
        """What a snapshot keeps of it: plain data that msgpack takes."""

    @abstractmethod
    def restore(self, state: object) -> None:
        """Go on where `state` was taken."""


class Touched(list["Teller"]):
    """Tellers that have something to hand out since somebody last looked; each enters itself once."""


class Teller(ABC):
    """What one account is told. `take` gives what was said since the last call."""

    __slots__ = ()

    account: Account

    @abstractmethod
    def accepted(self, order: Order) -> None:
        """An order was taken; its `order_id` is given. If it ends at once, what ends it follows."""

    @abstractmethod
    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """A request has no effect. `detail` says so in words; `item` is the request, for what else is said of it."""

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
        """`volume` lots of an order are no more; what is left is `order.volume` + `order.reserve`, 0: it is gone. `ref`
        is the request's that asked for it, or the order's own."""

    @abstractmethod
    def prevented(self, order: Order, volume: int, prevented: int, price_ticks: int) -> None:
        """The same, in place of a trade of `prevented` lots at a price with an order of the same broker."""

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
        """The records since the last call, and how many they are."""


class AccountProtocol(ABC):
    """How accounts of one protocol are told, and how their bytes are read."""

    name: str
    """``text``, ``ouch5``, ``ouch42``."""
    last_ref: int = 2**63 - 1
    """Largest reference that an order may have, where references are numbers."""

    @abstractmethod
    def teller(self, account: Account, now: Now, touched: Touched) -> Teller:
        """Writes for an account. Whenever its buffer becomes non-empty it enters itself in `touched`."""

    @abstractmethod
    def apply(self, market: Market, account: Account, item: Wire) -> str:
        """Carry out the messages of `item` in their order, each at its own time (set `market.now.time_ns`).

        Returns why the session must be closed, empty if it need not be; what came before the offending message has
        been carried out, what comes behind it has not. Never raises for what a client can send.
        """
